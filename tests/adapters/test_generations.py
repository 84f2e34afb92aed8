"""Generations: whole or not there, in two places, and nothing damaged decides anything."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tests.fakes import Quick
from topology_plugin.adapters.files import FileError, Operations, RealFiles
from topology_plugin.adapters.generations import Generations
from topology_plugin.core.generation import Generation


def generation(
    number: int, word: str = "tree", yaml: bytes = b"- topology: tree\n", arn: str | None = "arn:c1"
) -> Generation:
    return Generation(
        number,
        yaml + f"# {number}\n".encode(),
        words={"train": word, "dev": None},
        facts={"n1": {"instance_id": "i-1"}},
        meta={"cluster_arn": arn, "by": "merge"},
    )


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "fsx").mkdir()
    return tmp_path / "fsx", tmp_path / "state"


def opened(places: tuple[Path, Path], keep: int = 20, operations: Operations | None = None) -> Generations:
    return Generations(RealFiles(operations or Quick()), *places, keep, "arn:c1")


def finish(generations: Generations, *numbers: int) -> None:
    for number in numbers:
        generations.keep(generation(number))
        generations.finish(number, 12.5)


def test_what_was_kept_is_read_again_as_it_was(places: tuple[Path, Path]) -> None:
    opened(places).keep(generation(1))
    again = opened(places)
    assert again.get(1) == generation(1)
    assert again.current() is None and again.begun() is not None
    again.finish(1, 12.5)
    current = opened(places).current()
    assert current is not None and current.finished and not current.facts, "the largest file is not read in passing"
    whole = opened(places).get(1)
    assert whole is not None and whole.finished and whole.facts == {"n1": {"instance_id": "i-1"}}
    assert opened(places).begun() is None
    for place in places:
        assert (place / "generations" / "current").read_text() == "1\n"


def test_the_files_are_the_documented_ones(places: tuple[Path, Path]) -> None:
    finish(opened(places), 1)
    names = sorted(path.name for path in (places[0] / "generations" / "1").iterdir())
    assert names == ["facts.json", "finished", "meta.json", "partitions.json", "topology.yaml"]
    assert (
        places[0] / "generations" / "1" / "partitions.json"
    ).read_text() == '{\n "dev": null,\n "train": "tree"\n}\n'


@pytest.mark.parametrize("lost", [0, 1], ids=["registry", "state_dir"])
def test_br_31_either_place_is_enough(places: tuple[Path, Path], lost: int) -> None:
    import shutil

    finish(opened(places), 1, 2)
    shutil.rmtree(places[lost] / "generations")
    current = opened(places).current()
    whole = opened(places).get(2)
    assert current is not None and current.number == 2 and whole is not None and whole.facts
    assert opened(places).next_number() == 3


@pytest.mark.parametrize("lost", [0, 1], ids=["registry", "state_dir"])
def test_br_31_the_next_pass_gives_the_place_that_lost_everything_its_copy_again(
    places: tuple[Path, Path], lost: int
) -> None:
    """Guard on a re-imaged controller has nothing but state_dir."""
    import shutil

    finish(opened(places), 1, 2)
    shutil.rmtree(places[lost] / "generations")
    opened(places).tidy()
    alone = Generations(RealFiles(Quick()), None, places[lost])
    current, whole = alone.current(), alone.get(2)
    assert current is not None and current.number == 2
    assert whole is not None and whole.facts == {"n1": {"instance_id": "i-1"}}
    assert (places[lost] / "generations" / "current").read_text() == "2\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("topology.yaml", None),
        ("topology.yaml", b"- topology: other\n"),
        ("partitions.json", b"{}"),
        ("meta.json", None),
        ("meta.json", b""),
        ("meta.json", b'{"schema": 99}'),
        ("meta.json", b"\xff\xfe"),
        ("meta.json", b"[" * 100_000),
    ],
)
def test_a_damaged_generation_is_left_out_and_said(places: tuple[Path, Path], name: str, content: bytes | None) -> None:
    generations = opened(places)
    finish(generations, 1, 2)
    for place in places:
        path = place / "generations" / "2" / name
        path.unlink() if content is None else path.write_bytes(content)
    again = opened(places)
    current = again.current()
    assert current is not None and current.number == 1
    assert len([issue for issue in again.issues if "/2" in issue.where]) == 2
    assert again.next_number() == 3


def test_a_damaged_copy_in_one_place_is_no_loss(places: tuple[Path, Path]) -> None:
    finish(opened(places), 1)
    (places[0] / "generations" / "1" / "topology.yaml").write_bytes(b"")
    current = opened(places).current()
    assert current is not None and current.number == 1 and current.topology_yaml == generation(1).topology_yaml


@pytest.mark.parametrize("number", ["7", "x7", "007", "-1", "²"])
def test_only_plain_numbers_are_generations(places: tuple[Path, Path], number: str) -> None:
    finish(opened(places), 1)
    (places[0] / "generations" / number).mkdir()
    generations = opened(places)
    assert [g.number for g in generations.all()] == [1]
    assert generations.next_number() == (8 if number == "7" else 2)


def test_another_clusters_generations_are_left_out(places: tuple[Path, Path]) -> None:
    generations = opened(places)
    generations.keep(generation(1, arn="arn:c2"))
    generations.finish(1, 0)
    assert opened(places).current() is None
    assert "another cluster" in str(generations.issues)


def test_no_registry_means_state_dir_alone(places: tuple[Path, Path]) -> None:
    generations = Generations(RealFiles(Quick()), None, places[1])
    finish(generations, 1)
    assert generations.current() is not None
    assert list(places[0].iterdir()) == []


def test_br_22_a_registry_that_is_not_there_is_not_made_up(tmp_path: Path) -> None:
    registry = tmp_path / "fsx" / "registry"
    generations = opened((registry, tmp_path / "state"))
    generations.keep(generation(1))
    assert not (tmp_path / "fsx").exists()
    registry.mkdir(parents=True)
    generations.finish(1, 0)
    current = generations.current()
    assert current is not None and current.number == 1
    assert list(registry.rglob("*")) == []


def test_of_the_finished_ones_the_newest_stay_and_begun_ones_below_the_current_go(places: tuple[Path, Path]) -> None:
    generations = opened(places, keep=3)
    finish(generations, 1, 2)
    generations.keep(generation(3))
    finish(generations, 4, 5, 6)
    generations.keep(generation(7))
    assert [(g.number, g.finished) for g in opened(places).all()] == [(4, True), (5, True), (6, True), (7, False)]
    generations.finish(7, 0)
    assert [g.number for g in opened(places).all()] == [5, 6, 7]


def test_ours_is_what_any_kept_generation_holds_finished_or_begun(places: tuple[Path, Path]) -> None:
    generations = opened(places)
    finish(generations, 1)
    generations.keep(generation(2, "block"))
    ours = opened(places)
    assert ours.ours_word("train", "tree") and ours.ours_word("train", "block")
    assert (
        not ours.ours_word("train", "flat") and not ours.ours_word("other", "tree") and not ours.ours_word("dev", None)
    )
    assert ours.ours_text(b"- topology: tree\n# 1\n") and ours.ours_text(b"- topology: tree\n# 2\n")
    assert not ours.ours_text(b"- topology: tree\n")


def test_a_finish_that_only_one_place_took_is_raised_and_still_counts(places: tuple[Path, Path]) -> None:
    class RegistryFull(Quick):
        def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
            if flags & os.O_CREAT and "fsx" in path.parts:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().open(path, flags, mode)

    finish(opened(places), 1)
    opened(places).keep(generation(2))
    with pytest.raises(FileError, match="No space left"):
        opened(places, operations=RegistryFull()).finish(2, 0)
    # The registry's copy wins in everything but this: whoever was told it is finished says so.
    current = opened(places).current()
    assert current is not None and current.number == 2


def test_tidy_removes_what_kills_left_and_makes_both_places_say_the_same(places: tuple[Path, Path]) -> None:
    import socket
    import subprocess

    generations = opened(places)
    finish(generations, 1, 2)
    ended = subprocess.Popen(["true"])
    ended.wait()
    tail = f".hpt-{socket.gethostname()}-{ended.pid}-1"
    for place in places:
        (place / f".state.json{tail}").write_text("{")
        (place / "generations" / f".3{tail}").mkdir()
        (place / "generations" / f".3{tail}" / "meta.json").write_text("{")
        (place / "generations" / "2" / f".finished{tail}").write_text("")
    (places[0] / "generations" / "2" / "finished").unlink()
    (places[0] / "generations" / "current").write_text("1\n")
    (places[1] / "generations" / "current").unlink()
    opened(places).tidy()
    for place in places:
        assert (place / "generations" / "current").read_text() == "2\n"
        assert (place / "generations" / "2" / "finished").is_file()
        assert list(place.rglob(".*")) == []
    before = {path: path.stat().st_mtime_ns for place in places for path in place.rglob("*")}
    opened(places).tidy()
    assert {path: path.stat().st_mtime_ns for place in places for path in place.rglob("*")} == before


def test_what_was_begun_and_is_no_longer_wanted_goes(places: tuple[Path, Path]) -> None:
    generations = opened(places)
    finish(generations, 1)
    generations.keep(generation(2))
    generations.keep(generation(3))
    generations.drop_begun()
    assert [g.number for g in opened(places).all()] == [1]


@pytest.mark.parametrize(
    ("why", "made"), [("", True), ("no shared file system is mounted at /fsx (yet)", False)], ids=["mounted", "not"]
)
def test_br_22_a_registry_that_no_node_made_is_made_where_all_see_it_and_only_there(
    tmp_path: Path, why: str, made: bool
) -> None:
    registry, state_dir = tmp_path / "fsx" / "hyperpod-topology" / "c1", tmp_path / "state"
    former = os.umask(0o077)
    try:
        finish(Generations(RealFiles(Quick()), registry, state_dir, 20, "arn:c1", lambda path: why), 1)
    finally:
        os.umask(former)
    assert (state_dir / "generations" / "current").read_text() == "1\n"
    assert registry.parent.exists() == made
    if made:
        assert (registry / "generations" / "current").read_text() == "1\n"
        made_directories = (registry.parent, registry, registry / "generations", registry / "generations" / "1")
        assert {path.stat().st_mode & 0o777 for path in made_directories} == {0o755}, "users read them too"


def test_where_the_registry_cannot_be_made_the_pass_goes_on(tmp_path: Path) -> None:
    (tmp_path / "fsx").write_text("a file is in the way")
    places = tmp_path / "fsx" / "c1", tmp_path / "state"
    finish(Generations(RealFiles(Quick()), *places, 20, "arn:c1", lambda path: ""), 1)
    assert (tmp_path / "state" / "generations" / "current").read_text() == "1\n"
