"""The hook's cost at boot, from the built bundle, as benchmarks/hook.py measures it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from node_setup.install import install

from benchmarks import hook

BUSY = 1.25  # what other tests beside this one may add: caches are shared, and imports feel it more than nothing does


def test_the_hook_costs_about_twelve_empty_pythons(payload: Path, tmp_path: Path) -> None:
    """Guards against a heavy import. The figure itself, at most 12, is for `python benchmarks/hook.py` on a quiet
    machine."""
    import sys

    root = tmp_path / "node"
    install(payload, root, sys.executable, lambda text: None)
    for runs in (8, 25):
        bare, first, again = hook.measure(root, 108, runs)
        ratio = max(first.cpu, again.cpu) / bare.cpu
        if ratio <= hook.LIMIT * BUSY:
            return
    pytest.fail(f"{ratio:.1f} times an empty Python ({first.cpu * 1000:.0f} ms and {bare.cpu * 1000:.0f} ms)")


def test_with_everything_local_neither_boto3_nor_requests_nor_rich_is_loaded(payload: Path, tmp_path: Path) -> None:
    import subprocess
    import sys

    root = tmp_path / "node"
    target = install(payload, root, sys.executable, lambda text: None)
    hook.describe(root, hook.described(8))
    code = (
        f"import sys, json; sys.path.insert(0, {str(target / 'lib')!r}); sys.argv = ['x', 'register']\n"
        "from topology_plugin.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    code = end.code\n"
        "print(json.dumps([code, sorted({name.split('.')[0] for name in sys.modules})]))"
    )
    environment = {"PATH": os.defpath, "HYPERPOD_TOPOLOGY_ROOT": str(root), "AWS_EC2_METADATA_DISABLED": "true"}
    ended = subprocess.run(
        [sys.executable, "-IS", "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    exit_code, modules = json.loads(ended.stdout.splitlines()[-1])
    assert exit_code == 0, ended.stderr
    assert not {"boto3", "botocore", "requests", "urllib3", "rich", "yaml", "prometheus_client", "socket"} & set(
        modules
    )
