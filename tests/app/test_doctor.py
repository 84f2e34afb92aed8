"""doctor: a sound cluster has nothing bad, each verdict says what to do, and nothing is changed."""

from __future__ import annotations

from dataclasses import replace

from tests.app.ward import Ward
from topology_plugin.app.doctor import EXAMINATIONS, examine, gather
from topology_plugin.core.checkup import Check


def results(checks: dict[str, Check], result: str) -> dict[str, str]:
    return {check.id: check.verdict.reason for check in checks.values() if check.verdict.result == result}


def test_there_are_enough_checks_and_each_has_an_id_of_its_own() -> None:
    ids = [one.id for one in EXAMINATIONS]
    assert len(ids) >= 40 and len(set(ids)) == len(ids)
    assert all(one.title and one.id == one.id.lower() for one in EXAMINATIONS)


def test_a_healthy_cluster_has_nothing_bad_and_every_remedy_stands_where_one_is_needed(ward: Ward) -> None:
    checks = ward.checks()
    assert results(checks, "bad") == {}
    assert set(results(checks, "warn")) <= {"registry-owner", "rehearsal"}
    assert checks["who-am-i"].verdict.result == "ok" and "the DMI asset tag" in checks["who-am-i"].verdict.reason
    assert "generation 1" in checks["way-back"].verdict.reason
    for check in checks.values():
        assert check.verdict.reason
        assert check.verdict.remedy or check.verdict.result in ("ok", "unknown"), check.id


def test_a_check_that_fails_itself_hides_no_other(ward: Ward) -> None:
    patient = replace(ward.patient(), documents={})
    found = {check.id: check.verdict for check in examine(patient)}
    assert found["resource-config"].result == "unknown" and "itself failed" in found["resource-config"].reason
    assert found["files-startable"].result == "ok"


def test_a_plain_node_is_asked_only_what_it_can_know(ward: Ward) -> None:
    patient = replace(ward.patient(), role="node")
    ids = {check.id for check in examine(patient)}
    assert "who-am-i" in ids and "registry-writable" in ids and "files-startable" not in ids and "guard" not in ids


def test_what_nobody_has_published_is_shown_as_it_is_here(ward: Ward) -> None:
    told = ward.checks()["unpublished"].verdict.reason
    assert "InstanceLabel is: a map of network-node-layer-1" in told and "ClusterType stands in: the top level" in told
    assert "board_asset_tag holds: an instance id" in told


def test_doctor_changes_nothing(ward: Ward) -> None:
    def everything() -> dict[str, tuple[int, bytes]]:
        files = [p for p in ward.room.directory.rglob("*") if p.is_file() and not p.is_symlink()]
        return {str(p): (p.stat().st_mtime_ns, p.read_bytes()) for p in files}

    before = everything()
    examine(gather(ward.wiring, ask_aws=False))
    assert everything() == before
