from __future__ import annotations

import json
from typing import Any

import pytest

from tests import cases
from topology_plugin.core import provisioning
from topology_plugin.core.issues import InputError
from topology_plugin.core.provisioning import WorkerGroup

KNOWN = [group["Name"] for group in cases.f0()["InstanceGroups"]]


def read(**changes: Any) -> provisioning.ProvisioningParameters:
    return provisioning.parse(json.dumps({**cases.f0_provisioning(), **changes}))


def entry(group: Any, partition: Any) -> dict[str, Any]:
    return {"instance_group_name": group, "partition_name": partition}


def test_f0_says_which_group_is_what() -> None:
    found = read()
    assert found.issues == ()
    assert (found.controller_group, found.login_group) == ("controller-machine", "login-group")
    assert found.worker_groups == (WorkerGroup("worker-a", ("train",)), WorkerGroup("worker-b", ("train",)))
    assert provisioning.unknown_groups(found, KNOWN) == ()


def test_a_group_may_stand_in_several_entries_and_partitions_may_hold_dots() -> None:
    entries = [entry("worker-a", "ml.p5.48xlarge"), entry("worker-b", "ml.p5.48xlarge"), entry("worker-a", "debug")]
    found = read(worker_groups=[*entries, entry("worker-a", "debug")])
    assert found.issues == ()
    assert found.partitions("worker-a") == ("ml.p5.48xlarge", "debug")
    assert found.partitions("worker-b") == ("ml.p5.48xlarge",)
    assert found.partitions("worker-c") is None


def test_br_02a_a_doubled_comma_is_named_with_file_line_and_column() -> None:
    text = '{"version": "1.0.0",\n "fsx_mountname": "abcd1234",, "slurm_configurations": {}}'
    with pytest.raises(InputError) as caught:
        provisioning.parse(text)
    (issue,) = caught.value.issues
    assert issue.where == "provisioning_parameters.json:2:30"
    assert "abcd1234" in issue.what


def test_br_02b_worker_groups_as_an_object_is_named_and_the_rest_is_read() -> None:
    found = read(worker_groups=entry("worker-a", "train"))
    (issue,) = found.issues
    assert issue.where == "provisioning_parameters.json: worker_groups"
    assert issue.what == "is an object, not a list of groups"
    assert found.worker_groups == ()
    assert found.controller_group == "controller-machine"


@pytest.mark.parametrize(("written", "meant"), [("worker-b ", "worker-b"), ("Worker-B", "worker-b"), ("gpu", None)])
def test_br_02c_an_unknown_group_is_named_with_the_known_ones(written: str, meant: str | None) -> None:
    found = read(worker_groups=[entry("worker-a", "train"), entry(written, "train")])
    (issue,) = provisioning.unknown_groups(found, KNOWN)
    assert issue.where == "provisioning_parameters.json: worker_groups[1].instance_group_name"
    assert repr(written) in issue.what
    assert "controller-machine, login-group, worker-a, worker-b" in issue.what
    assert issue.remedy == (f"write {meant!r}, exactly so" if meant else "")


def test_br_02d_bom_and_crlf_are_read() -> None:
    text = json.dumps(cases.f0_provisioning(), indent=2).replace("\n", "\r\n")
    assert provisioning.parse(b"\xef\xbb\xbf" + text.encode()) == read()
    assert provisioning.parse("\ufeff" + text) == read()


def test_br_02e_an_unquoted_value_is_named_with_its_place() -> None:
    with pytest.raises(InputError) as caught:
        provisioning.parse('{"worker_groups": [\n  {"instance_group_name": "worker-a", "partition_name": train}]}')
    (issue,) = caught.value.issues
    assert issue.where == "provisioning_parameters.json:2:57"
    assert "train" in issue.what


@pytest.mark.parametrize(
    ("changes", "wheres"),
    [
        ({"worker_groups": [7]}, ["worker_groups[0]"]),
        ({"worker_groups": [{}]}, ["worker_groups[0].instance_group_name", "worker_groups[0].partition_name"]),
        ({"worker_groups": [entry("a", "two words")]}, ["worker_groups[0].partition_name"]),
        ({"worker_groups": [entry("a", "x,y")]}, ["worker_groups[0].partition_name"]),
        ({"worker_groups": [entry("a\n", "x")]}, ["worker_groups[0].instance_group_name"]),
        ({"controller_group": ["a"]}, ["controller_group"]),
        ({"workload_manager": "eks"}, ["workload_manager"]),
        ({"topology": []}, ["topology"]),
        ({"login_group": "", "worker_groups": None, "topology": {"mode": "observe"}}, []),
    ],
)
def test_every_fault_is_named_by_its_key(changes: dict[str, Any], wheres: list[str]) -> None:
    assert [issue.where for issue in read(**changes).issues] == [f"provisioning_parameters.json: {w}" for w in wheres]
