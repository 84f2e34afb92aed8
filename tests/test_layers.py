"""Imports point downward only: what each layer may know of the others, and of the world."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "topology_plugin"
ALLOWED = {
    "core": {"core"},
    "adapters": {"core", "adapters"},
    "views": {"core", "views"},
    "jobs": {"core", "adapters", "jobs"},
    "app": {"core", "adapters", "jobs", "app"},
    "cli": {"core", "adapters", "jobs", "views", "app", "cli"},
}
# The core is pure: nothing in it can read a file, a clock or a network.
IMPURE = {
    "os",
    "subprocess",
    "time",
    "datetime",
    "socket",
    "random",
    "pathlib",
    "shutil",
    "tempfile",
    "boto3",
    "requests",
}
# Imported only by the function that uses them: `register` must start fast and nodes may lack them.
LAZY = {"boto3", "botocore", "requests", "rich", "prometheus_client"}
VAGUE = {"utils", "util", "helpers", "helper", "common", "misc"}
MODULES = sorted(PACKAGE.rglob("*.py"))


def imports(tree: ast.AST, *, top_level: bool = False) -> Iterator[str]:
    nodes = ast.iter_child_nodes(tree) if top_level else ast.walk(tree)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def layer_of(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if parts[0] == "topology_plugin" and len(parts) > 1 and parts[1] in ALLOWED else None


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_module_imports_only_from_its_own_layer_and_those_below(path: Path) -> None:
    layer = path.relative_to(PACKAGE).parts[0]
    if layer not in ALLOWED:
        return  # __init__ and __main__
    found = {name: layer_of(name) for name in imports(ast.parse(path.read_text()))}
    assert {name for name, other in found.items() if other is not None and other not in ALLOWED[layer]} == set()


@pytest.mark.parametrize("path", sorted((PACKAGE / "core").rglob("*.py")), ids=lambda p: p.name)
def test_the_core_is_pure(path: Path) -> None:
    assert {name for name in imports(ast.parse(path.read_text())) if name.split(".")[0] in IMPURE} == set()


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_heavy_libraries_are_imported_only_where_they_are_used(path: Path) -> None:
    assert {
        name for name in imports(ast.parse(path.read_text()), top_level=True) if name.split(".")[0] in LAZY
    } == set()


def test_modules_are_named_by_nouns_not_by_nothing() -> None:
    assert [p for p in MODULES if p.stem in VAGUE] == []
