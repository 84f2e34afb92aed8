"""`doctor` and `explain` name what is wrong, for every kind of broken state, and are quiet about the rest."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.clusters import record_of
from tests.fakes import FakeClock, FakeSlurmctld
from topology_plugin.adapters.files import RealFiles
from topology_plugin.adapters.live_files import LiveFiles
from topology_plugin.adapters.probe import SystemProbe, Tried
from topology_plugin.adapters.registry import RegistryDirectory
from topology_plugin.app.doctor import EXAMINATIONS, examine, gather
from topology_plugin.app.explain import Subject, faults
from topology_plugin.app.machine_room import DMI_TAG, MachineRoom
from topology_plugin.app.reconcile import Wish
from topology_plugin.app.support_bundle import collect
from topology_plugin.app.wiring import Wiring
from topology_plugin.core.checkup import Check, Patient, ServiceFacts
from topology_plugin.core.issues import InputError
from topology_plugin.jobs.simulated_cluster import CLUSTER_ARN, SimulatedCluster, mixed


class FakeProbe:
    """`tried`: what a directory answers; `word`: systemd's about every service, None: no systemd."""

    def __init__(self, tried: Tried | None = None, word: str | None = None) -> None:
        self.tried, self.word = tried or Tried("", os.geteuid(), True), word

    def directory(self, path: Path) -> Tried:
        return self.tried

    def service(self, name: str) -> str | None:
        return self.word


class Stage:
    """A controller's root with a fake slurmctld that reads its files; every node has registered, one pass has run."""

    def __init__(self, directory: Path, cluster: SimulatedCluster | None = None, made: bool = False) -> None:
        self.cluster = cluster or mixed(16, (18, 18), 1)
        self.room = MachineRoom(directory, None)
        self.settings: dict[str, Any] = {}
        self.clock = FakeClock()
        if not made:
            self._make()
        self.ctld = FakeSlurmctld(LiveFiles(RealFiles(), str(self.room.conf)))

    def _make(self) -> None:
        self.room.write(self.cluster)
        tag = self.room.controller / DMI_TAG
        tag.parent.mkdir(parents=True)
        tag.write_text(self.cluster.controller.instance_id)
        conf = self.room.conf
        conf.write_text("SlurmctldParameters=enable_configless\n" + conf.read_text())
        registry = RegistryDirectory(self.room.registry, RealFiles(), self.clock)
        for machine in self.cluster.nodes:
            registry.write(record_of(machine))

    @property
    def wiring(self) -> Wiring:
        flags = {"registry": str(self.room.registry), "slurm_conf": str(self.room.conf), "rehearse": "never"}
        plain = Wiring.of(str(self.room.controller), {**flags, **self.settings}, {})
        return replace(plain, clock=self.clock, given_slurm=self.ctld, given_controller=self.ctld)

    def merge(self) -> Stage:
        self.wiring.reconciler().run(Wish())
        return self

    def patient(self, probe: FakeProbe | None = None) -> Patient:
        return gather(self.wiring, ask_aws=False, probe=probe or FakeProbe())

    def checks(self, probe: FakeProbe | None = None) -> dict[str, Check]:
        return {check.id: check for check in examine(self.patient(probe))}

    @property
    def yaml(self) -> Path:
        return self.room.conf.parent / "topology.yaml"

    def edit(self, old: str, new: str, path: Path | None = None) -> None:
        file = path or self.room.conf
        text = file.read_text()
        assert old in text, f"{file.name} has no {old!r}"
        file.write_text(text.replace(old, new))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("template")
    Stage(directory).merge()
    return directory


@pytest.fixture
def stage(tmp_path: Path, template: Path) -> Stage:
    shutil.copytree(template, tmp_path / "room", symlinks=True)
    return Stage(tmp_path / "room", made=True)


def results(checks: dict[str, Check], result: str) -> dict[str, str]:
    return {check.id: check.verdict.reason for check in checks.values() if check.verdict.result == result}


def test_there_are_enough_checks_and_each_has_an_id_of_its_own() -> None:
    ids = [one.id for one in EXAMINATIONS]
    assert len(ids) >= 40 and len(set(ids)) == len(ids)
    assert all(one.title and one.id == one.id.lower() for one in EXAMINATIONS)


def test_a_healthy_cluster_has_nothing_bad_and_every_remedy_stands_where_one_is_needed(stage: Stage) -> None:
    checks = stage.checks()
    assert results(checks, "bad") == {}
    assert set(results(checks, "warn")) <= {"registry-owner", "rehearsal"}
    assert checks["who-am-i"].verdict.result == "ok" and "the DMI asset tag" in checks["who-am-i"].verdict.reason
    assert "generation 1" in checks["way-back"].verdict.reason
    for check in checks.values():
        assert check.verdict.reason
        assert check.verdict.remedy or check.verdict.result in ("ok", "unknown"), check.id


def lines(text: str) -> Callable[[Stage], None]:
    return lambda stage: stage.yaml.write_text(text) and None


def conf(old: str, new: str) -> Callable[[Stage], None]:
    return lambda stage: stage.edit(old, new)


def yaml(old: str, new: str) -> Callable[[Stage], None]:
    return lambda stage: stage.edit(old, new, stage.yaml)


FLAT = "- topology: flat\n  cluster_default: true\n  flat: true\n"
TREE = FLAT + "- topology: tree\n  cluster_default: false\n  tree:\n    switches:\n"
BLOCK = (
    "- topology: block\n  cluster_default: false\n  block:\n    block_sizes:\n    - 18\n    blocks:\n"
    "    - block: b\n      nodes: ip-10-2-1-[1-36]\n"
)
LEAF = "    - switch: {}\n      nodes: {}\n"


def uneven(stage: Stage) -> None:
    text = TREE + LEAF.format("a", "ip-10-1-1-[1-8]") + LEAF.format("b", "ip-10-1-1-[9-16]")
    text += "    - switch: m\n      children: b\n    - switch: r\n      children: a,m\n" + BLOCK
    stage.yaml.write_text(text)


def padded(stage: Stage) -> None:
    stage.ctld.version_text = "25.11.4"
    data = stage.yaml.read_bytes()
    stage.yaml.write_bytes(data + b"\n" * (-len(data) % 4096))


# what is done to a cluster in order → (the check that names it, the words it uses)
BROKEN = {
    "empty-list": (lines("[]\n"), "files-startable", "yaml-empty-list"),
    "empty-file": (lines(""), "files-startable", "yaml-empty"),
    "comments-only": (lines("# nothing\n"), "files-startable", "yaml-empty"),
    "broken-yaml": (lines("- topology: [\n"), "files-startable", "yaml-broken"),
    "nodes-as-list": (lines(TREE + "    - switch: a\n      nodes: [n1, n2]\n" + BLOCK), "files-startable", "yaml-type"),
    "no-switches": (lines(TREE.replace("switches:\n", "switches: []\n") + BLOCK), "files-startable", "units-missing"),
    "two-kinds": (
        yaml("  flat: true\n", "  flat: true\n  tree:\n    switches:\n    - switch: x\n      nodes: n1\n"),
        "files-startable",
        "kind-several",
    ),
    "switch-twice": (lines(TREE + LEAF.format("a", "ip-10-1-1-[1-16]") * 2 + BLOCK), "files-startable", "unit-twice"),
    "undefined-child": (
        lines(TREE + "    - switch: r\n      children: a\n" + BLOCK),
        "files-startable",
        "child-undefined",
    ),
    "empty-children": (
        lines(TREE + '    - switch: r\n      children: ""\n' + BLOCK),
        "files-startable",
        "children-empty",
    ),
    "malformed-hostlist": (lines(TREE + LEAF.format("a", "'ip-[1-'") + BLOCK), "files-startable", "hostlist-invalid"),
    "hostlist-function": (
        lines(TREE + LEAF.format("a", "'switch{a}'") + BLOCK),
        "files-startable",
        "hostlist-function",
    ),
    "undefined-word": (conf("Topology=tree", "Topology=treee"), "files-startable", "word-unknown"),
    "empty-word": (conf("Topology=tree", "Topology="), "files-startable", "word-empty"),
    "size-of-4096": (padded, "files-startable", "yaml-4096"),
    "wrong-block-sizes": (yaml("- 18\n", "- 18\n    - 27\n"), "files-startable", "block-sizes"),
    "lost-topology-yaml": (lambda stage: stage.yaml.unlink(), "files-startable", "word-unknown"),
    "unknown-plugin": (
        lambda s: (
            s.yaml.unlink(),
            s.edit("Topology=tree", ""),
            s.edit("Topology=block", ""),
            s.edit("PartitionName=dev", "TopologyPlugin=topology/tee\nPartitionName=dev"),
        ),
        "files-startable",
        "plugin-unknown",
    ),
    "uneven-depth": (uneven, "files-sound", "depth-uneven"),
    "nodes-left-out": (lines(TREE + LEAF.format("a", "ip-10-1-1-[1-4]") + BLOCK), "files-sound", "node-uncovered"),
    "node-twice": (
        lines(
            TREE
            + LEAF.format("a", "ip-10-1-1-[1-16]")
            + LEAF.format("b", "ip-10-1-1-1")
            + "    - switch: r\n      children: a,b\n"
            + BLOCK
        ),
        "files-sound",
        "node-twice",
    ),
    "no-default": (yaml("cluster_default: true", "cluster_default: false"), "files-sound", "default-none"),
    "keep-part-info": (
        conf("PartitionName=dev", "ReconfigFlags=KeepPartInfo\nPartitionName=dev"),
        "keep-part-info",
        "saved",
    ),
    "short-switch-wait": (
        conf("PartitionName=dev", "SchedulerParameters=max_switch_wait=5\nPartitionName=dev"),
        "max-switch-wait",
        "5 s",
    ),
}
WARNED = {"no-default", "keep-part-info", "short-switch-wait"}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_state_on_disk_is_named_by_doctor_with_a_remedy(stage: Stage, name: str) -> None:
    do, check, words = BROKEN[name]
    do(stage)
    verdict = stage.checks()[check].verdict
    assert verdict.result == ("warn" if name in WARNED else "bad"), verdict
    assert words in verdict.reason and verdict.remedy


@pytest.mark.parametrize("name", [name for name in BROKEN if name not in WARNED])
def test_a_broken_state_on_disk_is_named_by_explain_of_the_partition_it_concerns(stage: Stage, name: str) -> None:
    do, _, words = BROKEN[name]
    do(stage)
    told = faults(stage.wiring, Subject("partition", "train"))
    assert any(words in sentence for sentence in told), told


def test_explain_of_a_node_names_the_leaf_that_has_it_twice_but_not_its_neighbour(stage: Stage) -> None:
    BROKEN["node-twice"][0](stage)
    assert any("node-twice" in s for s in faults(stage.wiring, Subject("node", "ip-10-1-1-1")))
    assert faults(stage.wiring, Subject("node", "ip-10-1-1-12")) == ()


def reject_reconfigure(stage: Stage) -> None:
    late = stage.cluster.members("worker-p5")[0]
    stage.room.write(stage.cluster.without([late.name]))
    from topology_plugin.adapters.slurm import Answer

    stage.ctld.answers = [Answer(1, "", "slurm_reconfigure error: no")] * 9
    with pytest.raises(Exception, match=r"."):
        stage.merge()


# states of the cluster around the files
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
        conf("PartitionName=dev", "Include more.conf\nPartitionName=dev"),
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
def test_a_broken_state_around_the_files_is_named(stage: Stage, name: str) -> None:
    do, check, result, words = AROUND[name]
    do(stage)
    checks = stage.checks()
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
def test_what_the_registry_cannot_do_is_named(stage: Stage, tried: Tried, check: str, result: str, words: str) -> None:
    verdict = stage.checks(FakeProbe(tried))[check].verdict
    assert verdict.result == result and words in verdict.reason


def test_locks_and_owner_are_really_tried_and_nothing_is_left_behind(tmp_path: Path) -> None:
    assert SystemProbe().directory(tmp_path) == Tried("", os.geteuid(), True, "")
    assert list(tmp_path.iterdir()) == []
    assert SystemProbe().directory(tmp_path / "gone").write_error == "No such file or directory"


def test_uncovered_nodes_in_force_short_blocks_and_refused_sizes_are_named(tmp_path: Path) -> None:
    stage = Stage(tmp_path, mixed(16, (18, 17, 1), 2)).merge()
    checks = stage.checks()
    assert "us-srv0001 (17 of 18)" in checks["short-blocks"].verdict.reason
    assert "gb200 cannot run 36" in checks["refused-sizes"].verdict.reason
    stage.yaml.write_text(TREE + LEAF.format("a", "ip-10-1-1-[1-4]") + BLOCK)
    assert stage.ctld.load() is None
    verdict = stage.checks()["coverage"].verdict
    assert verdict.result == "bad" and "12 nodes" in verdict.reason and "(train)" in verdict.reason


def test_a_change_that_is_pending_is_named_with_what_differs(stage: Stage) -> None:
    gone = stage.cluster.members("worker-p5")[0]
    stage.room.write(stage.cluster.without([gone.name]))
    for partition, word in (("train", "tree"), ("gb200", "block")):
        stage.edit(f"PartitionName={partition} ", f"PartitionName={partition} Topology={word} ")
    verdict = stage.checks()["drift"].verdict
    assert verdict.result == "warn" and "1 nodes" in verdict.reason and "diff" in verdict.remedy


def test_a_check_that_fails_itself_hides_no_other(stage: Stage) -> None:
    patient = replace(stage.patient(), documents={})
    found = {check.id: check.verdict for check in examine(patient)}
    assert found["resource-config"].result == "unknown" and "itself failed" in found["resource-config"].reason
    assert found["files-startable"].result == "ok"


def test_a_plain_node_is_asked_only_what_it_can_know(stage: Stage) -> None:
    patient = replace(stage.patient(), role="node")
    ids = {check.id for check in examine(patient)}
    assert "who-am-i" in ids and "registry-writable" in ids and "files-startable" not in ids and "guard" not in ids


def test_what_nobody_has_published_is_shown_as_it_is_here(stage: Stage) -> None:
    told = stage.checks()["unpublished"].verdict.reason
    assert "InstanceLabel is: a map of network-node-layer-1" in told and "ClusterType stands in: the top level" in told
    assert "board_asset_tag holds: an instance id" in told


def test_doctor_changes_nothing(stage: Stage) -> None:
    def everything() -> dict[str, tuple[int, bytes]]:
        files = [p for p in stage.room.directory.rglob("*") if p.is_file() and not p.is_symlink()]
        return {str(p): (p.stat().st_mtime_ns, p.read_bytes()) for p in files}

    before = everything()
    examine(gather(stage.wiring, ask_aws=False))
    assert everything() == before


def test_the_bundle_holds_what_support_needs_without_accounts_addresses_and_secrets(
    stage: Stage, tmp_path: Path
) -> None:
    stage.edit("PartitionName=dev", "StoragePass=hunter2\nPartitionName=dev")
    target = tmp_path / "support.tar.gz"
    names = collect(stage.wiring, {"checks": []}, target)
    assert target.stat().st_mode & 0o777 == 0o600
    assert {"doctor.json", "resource_config.json", "slurm/slurm.conf", "slurm/topology.yaml", "state-1.json"} <= set(
        names
    )
    with tarfile.open(target) as archive:
        texts = {m.name.split("/", 1)[1]: archive.extractfile(m).read().decode() for m in archive}  # type: ignore[union-attr]
    everything = "\n".join(texts.values())
    for secret in ("111122223333", "10.1.1.", "10-1-1-", "172.16.", "hunter2"):
        assert secret not in everything, secret
    assert "ip-net" in texts["slurm/topology.yaml"] and "StoragePass=REDACTED" in texts["slurm/slurm.conf"]
    assert json.loads(texts["resource_config.json"])["InstanceGroups"][2]["Instances"][0]["InstanceId"].startswith(
        "i-0"
    )


def test_the_bundle_never_overwrites_a_file(stage: Stage, tmp_path: Path) -> None:
    target = tmp_path / "there.tar.gz"
    target.write_text("mine")
    with pytest.raises(InputError, match="another name"):
        collect(stage.wiring, {}, target)
    assert target.read_text() == "mine"


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
    stage: Stage, fields: dict[str, Any], check: str, result: str, words: str
) -> None:
    found = {c.id: c.verdict for c in examine(replace(stage.patient(), **fields))}
    assert found[check].result == result and words in found[check].reason
