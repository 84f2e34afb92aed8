"""Which slurmctld is ours, how it was started, and what it said."""

from __future__ import annotations

from pathlib import Path

import pytest

from topology_plugin.adapters.controller import SlurmctldProcess


def process(
    proc: Path, pid: int, *words: str, comm: str = "slurmctld", environment: dict[str, str] | None = None
) -> None:
    entry = proc / str(pid)
    entry.mkdir(parents=True)
    (entry / "comm").write_text(comm + "\n")
    (entry / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in words))
    pairs = [f"{key}={value}".encode() for key, value in (environment or {}).items()]
    (entry / "environ").write_bytes(b"\0".join(pairs))


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    path = tmp_path / "etc" / "slurm.conf"
    path.parent.mkdir()
    path.touch()
    return path


@pytest.mark.parametrize(
    ("words", "foreground"),
    [
        (["/usr/sbin/slurmctld", "--systemd"], False),
        (["/usr/sbin/slurmctld"], False),
        (["slurmctld", "-D"], True),
        (["slurmctld", "-Dvvv"], True),
        (["slurmctld", "-vvD"], True),
        (["slurmctld", "-i", "-D", "-c"], True),
        (["slurmctld", "--systemd", "-D"], False),
        (["slurmctld", "-L", "/var/log/D"], False),
        (["slurmctld", "-L/var/log/D"], False),
        (["slurmctld", "-vL", "-D-looks-like-one"], True),
    ],
)
def test_plain_d_is_told_from_everything_else(tmp_path: Path, conf: Path, words: list[str], foreground: bool) -> None:
    process(tmp_path / "proc", 7, *words, environment={"SLURM_CONF": str(conf)})
    found = SlurmctldProcess(conf, proc=tmp_path / "proc")
    assert found.running() is True
    assert found.foreground() is foreground


@pytest.mark.parametrize(
    ("words", "environment", "standard", "ours"),
    [
        (["slurmctld"], {"SLURM_CONF": "{conf}"}, False, True),
        (["slurmctld"], {"SLURM_CONF": "/other/slurm.conf"}, True, False),
        (["slurmctld", "-f", "{conf}"], {"SLURM_CONF": "/other/slurm.conf"}, False, True),
        (["slurmctld", "-f{conf}"], {}, False, True),
        (["slurmctld", "-f", "/other/slurm.conf"], {}, True, False),
        (["slurmctld"], {}, True, True),
        (["slurmctld"], {"NOT_SLURM_CONF": "{conf}"}, False, False),
        (["slurmctld", "-f", "{link}"], {}, False, True),
    ],
)
def test_only_the_slurmctld_that_reads_our_slurm_conf_is_ours(
    tmp_path: Path, conf: Path, words: list[str], environment: dict[str, str], standard: bool, ours: bool
) -> None:
    link = tmp_path / "link.conf"
    link.symlink_to(conf)

    def filled(text: str) -> str:
        return text.format(conf=conf, link=link)

    process(
        tmp_path / "proc",
        7,
        *map(filled, words),
        environment={key: filled(value) for key, value in environment.items()},
    )
    assert SlurmctldProcess(conf, standard, tmp_path / "proc").running() is ours


def test_others_and_what_cannot_be_read_do_not_count(tmp_path: Path, conf: Path) -> None:
    proc = tmp_path / "proc"
    process(proc, 7, "slurmscriptd", comm="slurmscriptd", environment={"SLURM_CONF": str(conf)})
    process(proc, 8, environment={"SLURM_CONF": str(conf)})  # a zombie has no command line
    (proc / "9").mkdir()
    (proc / "self").mkdir()
    assert SlurmctldProcess(conf, proc=proc).running() is False
    assert SlurmctldProcess(conf, proc=tmp_path / "nowhere").running() is None


def test_its_own_words_since_a_moment_fatal_last_and_the_errors_that_led_to_it(tmp_path: Path, conf: Path) -> None:
    log = tmp_path / "slurmctld.log"
    log.write_text("[2026-01-01T00:00:00.000] fatal: long ago\n")
    found = SlurmctldProcess(conf)
    mark = found.log_mark(str(log))
    assert found.log_words(mark) == ""
    with log.open("ab") as file:
        file.write(b"[2026-01-01T00:00:01.000] debug:  nothing\n[t] error: one\n[t] error: one\n[t] error: two\n")
        file.write(b"[t] fatal: three \xff\n[t] Resuming operation, reconfigure failed.\n[t] error: afterwards\n")
    assert found.log_words(mark) == "error: one / error: two / fatal: three \ufffd"


def test_a_log_that_was_rotated_is_read_from_its_start_and_none_is_no_words(tmp_path: Path, conf: Path) -> None:
    log = tmp_path / "slurmctld.log"
    log.write_text("x" * 100)
    found = SlurmctldProcess(conf)
    mark = found.log_mark(str(log))
    log.write_text("[t] error: fresh\n")
    assert found.log_words(mark) == "error: fresh"
    log.unlink()
    assert found.log_words(mark) == ""
    assert found.log_words(found.log_mark(None)) == ""
    assert found.log_words(found.log_mark(str(tmp_path / "none"))) == ""


def test_of_a_huge_log_only_the_end_is_read(tmp_path: Path, conf: Path) -> None:
    log = tmp_path / "slurmctld.log"
    log.write_bytes(b"[t] error: early\n" + b"[t] debug: noise\n" * 40_000 + b"[t] fatal: late\n")
    found = SlurmctldProcess(conf)
    assert found.log_words(found.log_mark(str(tmp_path / "none"))) == ""
    from topology_plugin.adapters.controller import LogMark

    assert found.log_words(LogMark(str(log))) == "fatal: late"
