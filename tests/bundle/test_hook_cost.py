"""The hook's cost at boot, from the built bundle, as benchmarks/hook.py measures it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from node_setup.install import install

from benchmarks import hook


def test_the_hook_costs_at_most_twelve_empty_pythons(payload: Path, tmp_path: Path) -> None:
    """On a quiet machine about eight. What other tests do beside this one only adds, and adds to some runs more than to
    others: the least of many is measured, of more where a few are not enough."""
    root = tmp_path / "node"
    install(payload, root, sys.executable, lambda text: None)
    measured = []
    for runs in (6, 12, 24):
        measured.append(hook.measure(root, 108, runs))
        bare, first, again = (hook.least(costs) for costs in zip(*measured, strict=True))
        ratio = max(first.cpu, again.cpu) / bare.cpu
        if ratio <= hook.LIMIT:
            return
    pytest.fail(f"{ratio:.1f} times an empty Python ({bare.cpu * 1000:.0f} ms)")


def test_with_everything_local_no_library_is_loaded(payload: Path, tmp_path: Path) -> None:
    root = tmp_path / "node"
    target = install(payload, root, sys.executable, lambda text: None)
    hook.describe(root, hook.described(8))
    code = (
        f"import sys, json; sys.path.insert(0, {str(target / 'lib')!r}); sys.argv = ['x', 'register']\n"
        "from topology_plugin.cli.hook import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    code = end.code\n"
        "print(json.dumps([code, sorted({name.split('.')[0] for name in sys.modules})]))"
    )
    environment = {"PATH": os.defpath, "HYPERPOD_TOPOLOGY_ROOT": str(root), "AWS_EC2_METADATA_DISABLED": "true"}
    ended = subprocess.run(
        [sys.executable, "-IS", "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    exit_code, modules = json.loads(ended.stdout.splitlines()[-1])
    assert exit_code == 0, ended.stderr
    assert not {
        "boto3",
        "botocore",
        "requests",
        "urllib3",
        "rich",
        "click",
        "yaml",
        "prometheus_client",
        "socket",
    } & set(modules)
