"""What deploy/ holds is what AWS's own schemas take, and asks for no more than it says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import botocore.session
import pytest
import yaml
from botocore.validate import ParamValidator

from tests.bundle import ROOT
from topology_plugin.core import provisioning
from topology_plugin.core.settings import layered

DEPLOY = ROOT / "deploy"
REQUESTS = sorted(DEPLOY.glob("*-cluster-*.json"))


class Loader(yaml.SafeLoader):
    """CloudFormation's short forms as maps."""


def intrinsic(loader: Loader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    if isinstance(node, yaml.ScalarNode):
        return {suffix: loader.construct_scalar(node)}
    if isinstance(node, yaml.SequenceNode):
        return {suffix: loader.construct_sequence(node, deep=True)}
    assert isinstance(node, yaml.MappingNode)
    return {suffix: loader.construct_mapping(node, deep=True)}


Loader.add_multi_constructor("!", intrinsic)


def template() -> dict[str, Any]:
    return dict(yaml.load((DEPLOY / "cloudformation.yaml").read_text(), Loader))


def request(name: str) -> dict[str, Any]:
    return dict(json.loads((DEPLOY / name).read_text()))


def test_cfn_lint_passes() -> None:
    command = [str(Path(sys.executable).parent / "cfn-lint"), str(DEPLOY / "cloudformation.yaml")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, "")


def test_the_template_has_a_controller_a_login_group_and_both_kinds_of_workers() -> None:
    groups = template()["Resources"]["Cluster"]["Properties"]["InstanceGroups"]
    assert {g["InstanceType"]: g["SlurmConfig"]["NodeType"] for g in groups} == {
        "ml.m5.4xlarge": "Controller",
        "ml.m5.xlarge": "Login",
        "ml.p5.48xlarge": "Compute",
        "ml.p6e-gb200.36xlarge": "Compute",
    }
    assert all(g["LifeCycleConfig"]["OnInitComplete"] == "on_init_complete.sh" for g in groups)


@pytest.mark.parametrize("file", REQUESTS, ids=lambda path: path.stem)
class TestEachRequest:
    def test_it_is_valid_by_the_service_model(self, file: Path) -> None:
        operation = "CreateCluster" if file.name.startswith("create") else "UpdateCluster"
        model = botocore.session.get_session().get_service_model("sagemaker").operation_model(operation)
        assert model.input_shape is not None
        report = ParamValidator().validate(request(file.name), model.input_shape)
        assert report.generate_report() == ""

    def test_its_values_match_the_models_patterns_and_enums(self, file: Path) -> None:
        """What ParamValidator leaves to the service."""
        operation = "CreateCluster" if file.name.startswith("create") else "UpdateCluster"
        model = botocore.session.get_session().get_service_model("sagemaker").operation_model(operation)
        assert list(wrong_values(request(file.name), model.input_shape, file.stem)) == []

    def test_its_entry_script_is_one_that_the_bundle_has(self, file: Path) -> None:
        hooks = [tuple(g["LifeCycleConfig"].items())[1] for g in request(file.name)["InstanceGroups"]]
        assert set(hooks) <= {("OnCreate", "on_create.sh"), ("OnInitComplete", "on_init_complete.sh")}
        assert all((ROOT / "lifecycle_scripts" / name).is_file() for _, name in hooks)


def wrong_values(value: Any, shape: Any, where: str) -> list[str]:
    if shape.type_name == "structure":
        return [w for k, v in value.items() for w in wrong_values(v, shape.members[k], f"{where}.{k}")]
    if shape.type_name == "list":
        limits = shape.metadata.get("min", 0) <= len(value) <= shape.metadata.get("max", 10**9)
        found = [] if limits else [f"{where}: {len(value)} entries"]
        return found + [w for i, v in enumerate(value) for w in wrong_values(v, shape.member, f"{where}[{i}]")]
    if shape.type_name == "string":
        pattern, names = shape.metadata.get("pattern"), getattr(shape, "enum", None)
        # Java's character classes, which Python writes otherwise.
        pattern = re.sub(r"\\p\{[LN]\}", r"\\w", pattern).replace(r"\p{Z}", r"\s") if pattern else None
        if (pattern and not re.fullmatch(pattern, value)) or (names and value not in names):
            return [f"{where}: {value!r}"]
    return []


def test_a_wrong_value_would_be_found() -> None:
    model = botocore.session.get_session().get_service_model("sagemaker").operation_model("CreateCluster")
    wrong = request("create-cluster-api-driven.json")
    wrong["InstanceGroups"][0]["SlurmConfig"]["NodeType"] = "Head"
    wrong["InstanceGroups"][2]["SlurmConfig"]["PartitionNames"] = ["a", "b"]
    found = wrong_values(wrong, model.input_shape, "x")
    assert [line.split(":")[0] for line in found] == [
        "x.InstanceGroups[0].SlurmConfig.NodeType",
        "x.InstanceGroups[2].SlurmConfig.PartitionNames",
    ]


def test_there_is_a_create_and_an_update_for_both_kinds_of_cluster() -> None:
    assert [file.stem for file in REQUESTS] == [
        "create-cluster-api-driven",
        "create-cluster-file-driven",
        "update-cluster-api-driven",
        "update-cluster-file-driven",
    ]
    for file in REQUESTS:
        groups = request(file.name)["InstanceGroups"]
        api = file.stem.endswith("api-driven")
        assert all(("SlurmConfig" in g) == api for g in groups)
        assert request(file.name).get("Orchestrator") == ({"Slurm": {"SlurmConfigStrategy": "Merge"}} if api else None)


def test_the_example_parameters_fit_the_file_driven_request_and_the_settings() -> None:
    parameters = provisioning.parse((ROOT / "provisioning_parameters.json").read_text())
    assert parameters.issues == ()
    layered([("provisioning_parameters.json: topology", parameters.topology)])
    groups = [g["InstanceGroupName"] for g in request("create-cluster-file-driven.json")["InstanceGroups"]]
    assert provisioning.unknown_groups(parameters, groups) == ()


def policies() -> list[dict[str, Any]]:
    """The extra permissions, as the template and as the policy file of the other ways have them."""
    of_template = template()["Resources"]["TopologySources"]["Properties"]["PolicyDocument"]
    return [of_template, json.loads((DEPLOY / "execution-role-policy.json").read_text())]


@pytest.mark.parametrize("number", [0, 1], ids=["template", "policy-file"])
def test_the_role_may_do_exactly_what_the_optional_sources_call(number: int) -> None:
    allowed = set()
    for statement in policies()[number]["Statement"]:
        actions = statement["Action"]
        allowed |= {actions} if isinstance(actions, str) else set(actions)
        assert statement["Condition"], "scoped by resource or by condition"
    called = set()
    for service in ("sagemaker", "ec2"):
        text = (ROOT / "topology_plugin" / "adapters" / f"{service}.py").read_text()
        for name in re.findall(r'"((?:describe|list)_[a-z_]+)"', text):
            called.add(f"{service}:{''.join(word.capitalize() for word in name.split('_'))}")
    assert allowed == called


def test_every_attribute_of_the_terraform_example_is_one_of_the_resources_schema() -> None:
    """The provider is generated from this schema, so an unknown name would be refused by it."""
    from cfnlint.schema import PROVIDER_SCHEMA_MANAGER

    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-west-2", "AWS::SageMaker::Cluster").schema
    known = {snake(name) for name in property_names(schema)} | {"key", "value", "lifecycle", "source", "version"}
    text = (DEPLOY / "terraform-awscc.tf").read_text()
    body = text[text.index("locals {") :]
    used = set(re.findall(r"^\s*([a-z0-9_]+)\s*=", body, re.M)) | set(re.findall(r"[{,]\s*([a-z0-9_]+)\s*=", body))
    assert used - known - {"scripts", "fsx"} == set()
    assert {"instance_groups", "on_init_complete", "slurm_config_strategy"} <= used
    assert "never applied anywhere" in text


def property_names(schema: Any) -> set[str]:
    found: set[str] = set()
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key == "properties" and isinstance(value, dict):
                found |= set(value)
            found |= property_names(value)
    elif isinstance(schema, list):
        for value in schema:
            found |= property_names(value)
    return found


def snake(name: str) -> str:
    """As the provider's generator names attributes: SourceS3Uri → source_s3_uri."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
