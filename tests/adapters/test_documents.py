from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests import cases
from topology_plugin.adapters.documents import Documents
from topology_plugin.core.issues import InputError


@pytest.fixture
def documents(tmp_path: Path) -> Documents:
    (tmp_path / "rc.json").write_text(json.dumps(cases.f0()))
    (tmp_path / "pp.json").write_text(json.dumps(cases.f0_provisioning()))
    (tmp_path / "ca.json").write_text('{"SlurmConfiguration": {"EnableTopology": true}}')
    return Documents(tmp_path / "rc.json", tmp_path / "pp.json", tmp_path / "ca.json")


def test_the_three_files_are_read_at_their_paths(documents: Documents) -> None:
    assert documents.resource_config().cluster_arn == cases.ARN
    parameters, agent = documents.provisioning(), documents.cluster_agent()
    assert parameters is not None
    assert parameters.partitions("worker-b") == ("train",)
    assert agent is not None
    assert agent.enable_topology is True


def test_they_are_read_anew_each_time(documents: Documents, tmp_path: Path) -> None:
    documents.resource_config()
    (tmp_path / "rc.json").write_text('{"InstanceGroups": []}')
    assert documents.resource_config().groups == ()


def test_only_the_resource_config_must_be_there(tmp_path: Path) -> None:
    none = Documents(tmp_path / "a", tmp_path / "b", tmp_path / "c")
    assert (none.provisioning(), none.cluster_agent()) == (None, None)
    with pytest.raises(InputError, match="there is no such file"):
        none.resource_config()


def test_messages_name_the_whole_path(documents: Documents, tmp_path: Path) -> None:
    (tmp_path / "pp.json").write_text('{"a": 1,, "b": 2}')
    with pytest.raises(InputError) as caught:
        documents.provisioning()
    assert caught.value.issues[0].where == f"{tmp_path}/pp.json:1:9"
    document = cases.f0()
    document["InstanceGroups"][2]["Instances"][0]["InstanceId"] = "x"
    (tmp_path / "rc.json").write_text(json.dumps(document))
    (issue,) = documents.resource_config().issues
    assert issue.where == f"{tmp_path}/rc.json: InstanceGroups[2].Instances[0].InstanceId"


def test_what_cannot_be_read_is_refused_with_the_systems_words(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Is a directory"):
        Documents(tmp_path, tmp_path, tmp_path).resource_config()
    if os.geteuid() != 0:
        (tmp_path / "secret").write_text("{}")
        (tmp_path / "secret").chmod(0)
        with pytest.raises(InputError, match=r"Permission denied \(read it as root\)"):
            Documents(tmp_path / "secret", tmp_path, tmp_path).resource_config()
