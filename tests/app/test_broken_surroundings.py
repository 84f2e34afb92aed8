"""What is wrong with a cluster though Slurm's files are sound: `doctor` names it."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.app.ward import FakeProbe, Ward
from topology_plugin.adapters.probe import SystemProbe, Tried
from topology_plugin.adapters.slurm import Answer
from topology_plugin.app.apply import ApplyFailed
from topology_plugin.app.doctor import examine
from topology_plugin.core.checkup import ServiceFacts
from topology_plugin.jobs.simulated_cluster import CLUSTER_ARN


def reject_reconfigure(ward: Ward) -> None:
    late = ward.cluster.members("worker-p5")[0]
    ward.room.write(ward.cluster.without([late.name]))
    ward.ctld.answers = [Answer(1, "", "slurm_reconfigure error: no")] * 9
    with pytest.raises(ApplyFailed):
        ward.merge()


# States of the cluster around the files
AROUND = {
    "slurmctld-down": (lambda s: setattr(s.ctld, "up", False), "slurmctld-answers", "bad", "not running"),
    "plain-D": (lambda s: setattr(s.ctld, "is_foreground", True), "slurmctld-foreground", "bad", "plain -D"),
    "old-slurm": (lambda s: setattr(s.ctld, "version_text", "23.11.1"), "slurm-version", "bad", "too old"),
    "configless-25.05.1": (
        lambda s: setattr(s.ctld, "version_text", "25.05.1"),
        "configless",
        "bad",
        "slurmd then dies",
    ),
    "between-versions": (lambda s: setattr(s.ctld, "version_text", "25.11.4"), "slurm-untested", "unknown", "25.11.4"),
    "missing-include": (
        lambda s: s.edit("PartitionName=dev", "Include more.conf\nPartitionName=dev"),
        "slurm-conf",
        "bad",
        "more.conf",
    ),
    "no-resource-config": (
        lambda s: s.wiring.places.resource_config.write_text("{"),
        "resource-config",
        "bad",
        "resource_config",
    ),
    "no-instances": (
        lambda s: s.wiring.places.resource_config.write_text(
            json.dumps({"ClusterConfig": {"ClusterArn": CLUSTER_ARN}, "InstanceGroups": []})
        ),
        "resource-config",
        "warn",
        "no data",
    ),
    "nested-too-deeply": (
        lambda s: s.wiring.places.resource_config.write_text("[" * 100_000),
        "resource-config",
        "bad",
        "nested too deeply",
    ),
    "state-nested-too-deeply": (
        lambda s: [path.write_text("[" * 100_000) for path in s.room.directory.rglob("state.json")],
        "last-pass",
        "warn",
        "no pass has ended here yet",
    ),
    "broken-parameters": (
        lambda s: s.wiring.places.provisioning_parameters.write_text('{"a": 1,, }'),
        "provisioning-parameters",
        "bad",
        "provisioning_parameters",
    ),
    "other-cluster": (
        lambda s: s.edit("abc123def456", "zzz999", s.wiring.places.resource_config),
        "cluster",
        "bad",
        "zzz999",
    ),
    "forged-records": (lambda s: (s.room.registry / "nodes").chmod(0o777), "registry-owner", "bad", "forged"),
    "broken-record": (
        lambda s: (s.room.registry / "nodes" / "i-0123456789abcdef0.json").write_text("{"),
        "records-usable",
        "warn",
        "i-0123456789abcdef0",
    ),
    "stale-record": (
        lambda s: s.room.write(s.cluster.without([s.cluster.members("worker-cpu")[0].name])),
        "records-stale",
        "warn",
        "instances that are gone",
    ),
    "no-registry": (
        lambda s: (s.room.registry / "nodes").rename(s.room.registry / "away"),
        "registry-mounted",
        "warn",
        "does not exist",
    ),
    "late-label": (
        lambda s: s.room.write(s.cluster.with_changed(s.cluster.members("worker-p5")[3].name, label=None)),
        "placed",
        "ok",
        "every node",
    ),
    "failed-pass": (reject_reconfigure, "last-pass", "bad", "failed"),
    "on-hold": (lambda s: (s.wiring.places.state_dir / "hold.json").write_text("{}"), "hold", "warn", "on hold"),
    "held-by": (
        lambda s: (s.wiring.places.state_dir / "hold.json").write_text('{"by": "rollback", "time": 0}'),
        "hold",
        "warn",
        "since 1970-01-01 00:00:00 UTC by `rollback`",
    ),
    "partition-typo": (
        lambda s: s.settings.update(partitions='{"trian": {"kind": "flat"}}'),
        "partition-settings",
        "warn",
        "did you mean train?",
    ),
    "state-dir-is-a-file": (
        lambda s: (
            s.wiring.places.state_dir.rename(s.wiring.places.state_dir.with_name("x")),
            s.wiring.places.state_dir.write_text(""),
        ),
        "way-back",
        "bad",
        "no directory",
    ),
    "mode-observe": (lambda s: s.settings.update(mode="observe"), "owner", "warn", "mode is observe"),
    "foreign-file": (
        lambda s: s.yaml.write_text(s.yaml.read_text().replace("# Written", "# By me")),
        "owner",
        "warn",
        "not ours",
    ),
}


@pytest.mark.parametrize("name", AROUND)
def test_a_broken_state_around_the_files_is_named(ward: Ward, name: str) -> None:
    do, check, result, words = AROUND[name]
    do(ward)
    checks = ward.checks()
    assert check in checks, "the check did not run"
    assert (checks[check].verdict.result, words in checks[check].verdict.reason) == (result, True), checks[check]


@pytest.mark.parametrize(
    ("tried", "check", "result", "words"),
    [
        (Tried("Read-only file system"), "registry-writable", "bad", "Read-only"),
        (Tried("", 65534, True), "registry-squash", "warn", "root squash"),
        (Tried("", 0, False), "registry-locks", "warn", "second process"),
        (Tried("", 0, None, "Function not implemented"), "registry-locks", "warn", "Function not implemented"),
        (Tried("", 0, True), "registry-locks", "ok", "keeps another out"),
    ],
)
def test_what_the_registry_cannot_do_is_named(ward: Ward, tried: Tried, check: str, result: str, words: str) -> None:
    verdict = ward.checks(FakeProbe(tried))[check].verdict
    assert verdict.result == result and words in verdict.reason


def test_locks_and_owner_are_really_tried_and_nothing_is_left_behind(tmp_path: Path) -> None:
    assert SystemProbe().directory(tmp_path) == Tried("", os.geteuid(), True, "")
    assert list(tmp_path.iterdir()) == []
    assert SystemProbe().directory(tmp_path / "gone").write_error == "No such file or directory"


def test_a_change_that_is_pending_is_named_with_what_differs(ward: Ward) -> None:
    gone = ward.cluster.members("worker-p5")[0]
    ward.room.write(ward.cluster.without([gone.name]))
    for partition, word in (("train", "tree"), ("gb200", "block")):
        ward.edit(f"PartitionName={partition} ", f"PartitionName={partition} Topology={word} ")
    verdict = ward.checks()["drift"].verdict
    assert verdict.result == "warn" and "1 nodes" in verdict.reason and "diff" in verdict.remedy


@pytest.mark.parametrize(
    ("fields", "check", "result", "words"),
    [
        ({"aws": {"ec2": "UnauthorizedOperation", "sagemaker": ""}}, "aws-ec2", "warn", "UnauthorizedOperation"),
        ({"aws": {"ec2": "UnauthorizedOperation", "sagemaker": ""}}, "aws-sagemaker", "ok", "answers"),
        ({"aws": {}}, "aws-ec2", "unknown", "not asked"),
        ({"services": ServiceFacts(None, "inactive", True)}, "guard", "warn", "not installed"),
        ({"services": ServiceFacts("/etc/x.conf", "active", True)}, "guard", "ok", "/etc/x.conf"),
        ({"services": ServiceFacts(None, "failed", True)}, "watch", "warn", "failed"),
        ({"services": ServiceFacts(None, "active", True)}, "watch", "ok", "active"),
        ({"identity": "", "identity_error": "the address is 127.0.0.1"}, "who-am-i", "warn", "127.0.0.1"),
        ({"root_user": False}, "root", "warn", "not running as root"),
    ],
)
def test_what_is_around_a_machine_is_judged(
    ward: Ward, fields: dict[str, Any], check: str, result: str, words: str
) -> None:
    found = {c.id: c.verdict for c in examine(replace(ward.patient(), **fields))}
    assert found[check].result == result and words in found[check].reason
