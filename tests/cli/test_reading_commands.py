"""show, diff, explain and doctor as a user runs them: results on stdout, talk on stderr, exit codes as documented."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.states import inventory, state, without
from topology_plugin.cli.main import main
from topology_plugin.core import state_json

CAPTURED = Path(__file__).parents[1] / "captured" / "cluster-108-state.json"
GOLDEN = Path(__file__).parents[1] / "views" / "golden"


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No machine of its own, no Slurm, and none of this machine's settings."""
    for name in [n for n in os.environ if n.startswith(("HYPERPOD_TOPOLOGY_", "SLURM", "SAGEMAKER"))]:
        monkeypatch.delenv(name)
    (tmp_path / "root").mkdir()
    monkeypatch.setenv("HYPERPOD_TOPOLOGY_ROOT", str(tmp_path / "root"))
    monkeypatch.setenv("PATH", "/nonexistent")


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return int(ended.value.code or 0)


@pytest.fixture
def pending(tmp_path: Path) -> Path:
    """A state in which three nodes leave."""
    then = state(inventory(0, 54, 0)).desired
    now = state(without(inventory(0, 54, 0), "ip-10-9-0-3", "ip-10-9-1-3"), in_force=then)
    path = tmp_path / "pending.json"
    path.write_text(json.dumps(state_json.dump(now)))
    return path


def test_show_writes_the_topology_to_stdout_and_nothing_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("show", "--from", str(CAPTURED)) == 0
    said = capsys.readouterr()
    assert said.err == "" and "nn-sa0" in said.out and "\x1b" not in said.out


@pytest.mark.parametrize(
    ("form", "begins"),
    [
        ("tree", "abc123"),
        ("table", "NODE "),
        ("json", "{"),
        ("mermaid", "flowchart"),
        ("svg", "<svg"),
        ("html", "<!doctype"),
    ],
)
def test_show_has_every_form(form: str, begins: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("show", "--from", str(CAPTURED), "-o", form) == 0
    assert capsys.readouterr().out.startswith(begins)


def test_show_desired_and_one_partition(pending: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("show", "ultra", "--from", str(pending)) == 0
    assert "us-0001  18/18" in capsys.readouterr().out
    assert run("show", "ultra", "--from", str(pending), "--desired") == 0
    assert "us-0001  17/18" in capsys.readouterr().out


def test_diff_exits_with_3_when_something_is_pending_and_0_when_not(
    pending: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("diff", "--from", str(pending)) == 3
    assert "block us-0001 shrinks from 18 to 17 nodes" in capsys.readouterr().out
    assert run("diff", "--from", str(pending), "-o", "json") == 3
    found = json.loads(capsys.readouterr().out)
    assert found["pending"] is True and {n["change"] for n in found["nodes"]} == {"leaves"}
    assert run("diff", "--from", str(CAPTURED)) == 0
    assert capsys.readouterr().out.startswith("Nothing is pending")


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("target", ["ip-10-1-1-34", "train", "gb200"])
def test_explain_speaks_of_nodes_and_partitions(target: str, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("explain", target, "--from", str(CAPTURED), "-o", form) == 0
    out = capsys.readouterr().out
    assert target in out
    if form == "json":
        assert json.loads(out)["explains"] in ("node", "partition")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("show", "trian", "--from", str(CAPTURED)), "there is no such partition (known are cpu, dev, gb200, train)"),
        (("show", "", "--from", str(CAPTURED)), "partition '': there is no such partition"),
        (("explain", "trian", "--from", str(CAPTURED)), "did you mean train"),
        (("explain", "job:7", "--from", str(CAPTURED)), "slurmctld does not answer here"),
        (("show", "--from", "/nonexistent/x"), "cannot be read: No such file or directory"),
        (("show", "--from", __file__), ":1:3: is not valid JSON: extra data, near"),
        (("show", "--from", ""), "'': cannot be read: Is a directory"),
        (("diff",), "run this on the controller, or name the file: --from state.json"),
        (("show", "-o", "xml"), "xml"),
    ],
)
def test_a_mistake_is_a_sentence_with_a_remedy_and_exit_code_2(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == 2
    said = capsys.readouterr()
    assert words in said.err and said.out == "" and "Traceback" not in said.err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ": is empty"),
        ("\xff\xfe", ": is not UTF-8 text (byte 0)"),
        ("{", ":1:2: is not valid JSON"),
        ("{}", ": is not a state"),
        ('{"schema": 1}', ": is damaged"),
        ('{"schema": 99}', ": schema 99 is from a newer version"),
        ("[]", ": holds no JSON object"),
        ('"x"', ": holds no JSON object"),
        ("[" * 100_000, ": is nested too deeply"),
    ],
)
def test_a_state_that_is_none_says_so(
    text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "odd.json"
    path.write_text(text, encoding="latin-1")
    assert run("show", "--from", str(path)) == 2
    assert capsys.readouterr().err.startswith(f"hyperpod-topology: {path}{words}")


def test_a_root_that_is_not_there_is_a_mistake_and_none_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ("show", "merge", "hold"):
        assert run(command, "--root", str(tmp_path / "none")) == 2
        assert f"--root {tmp_path}/none: there is no such directory" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


NOTHING = "standard input: is empty (give a state.json, or the output of `kubectl get nodes -o json`)"
NO_ROOM = "hyperpod-topology: No space left on device\n"


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        pytest.param("show --from {} >&-", 0, "", id="closed"),
        pytest.param("show -o html --from {} >&-", 0, "", id="a page, closed"),
        pytest.param("show --from {} >/dev/full", 1, NO_ROOM, id="full"),
        pytest.param("show --from - <&-", 2, f"hyperpod-topology: {NOTHING}\n", id="nothing to read"),
        pytest.param("show none --from {} 2>/dev/full", 2, "", id="nobody hears it"),
        pytest.param("show none --from {} 2>&-", 2, "", id="talk closed"),
    ],
)
def test_where_its_output_cannot_be_written_a_command_ends_as_documented(command: str, code: int, said: str) -> None:
    line = f"{sys.executable} -m topology_plugin {command.format(CAPTURED)}"
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        ["/bin/sh", "-c", line], env=buffered, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (code, "", said)


def test_a_terminal_of_another_encoding_gets_what_it_can_show() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "topology_plugin", "show", "train", "--from", str(CAPTURED)],
        env={**os.environ, "PYTHONIOENCODING": "latin-1"}, capture_output=True, encoding="latin-1", timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "") and "?? nn-" in done.stdout


def test_doctor_exits_with_4_when_something_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("doctor", "--no-aws") == 4
    out = capsys.readouterr().out
    assert "bad     resource-config" in out and "Settings" in out and "registry" in out
    assert run("doctor", "--no-aws", "-o", "json") == 4
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"schema", "version", "checks", "settings"}
    assert {"id", "title", "result", "reason", "remedy"} == set(found["checks"][0])


def test_doctor_names_a_setting_that_cannot_be_used_and_the_origin_of_each_value(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("doctor", "--no-aws", "--mode", "sideways") == 4
    out = capsys.readouterr().out
    assert "bad     settings" in out and "1 check: 1 bad" in out
    monkeypatch.setenv("HYPERPOD_TOPOLOGY_BLOCK_SIZES", "9")
    run("doctor", "--no-aws", "--spares-per-ultraserver", "1")
    out = capsys.readouterr().out
    assert "9  (variable HYPERPOD_TOPOLOGY_BLOCK_SIZES)" in out and "1  (flag --spares-per-ultraserver)" in out


def test_kubernetes_nodes_can_be_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels = {"topology.k8s.aws/network-node-layer-1": "nn-1", "topology.k8s.aws/network-node-layer-2": "nn-2a"}
    items = [
        {
            "kind": "Node",
            "metadata": {"name": "n1", "labels": {**labels, "node.kubernetes.io/instance-type": "ml.p5.48xlarge"}},
        },
        {"kind": "Node", "metadata": {"name": "n2", "labels": {"node.kubernetes.io/instance-type": "ml.p5.48xlarge"}}},
    ]
    path = tmp_path / "nodes.json"
    path.write_text(json.dumps({"kind": "List", "items": items}))
    assert run("show", "--from", str(path)) == 0
    out = capsys.readouterr().out
    assert "nn-2a" in out and "unplaced-n2" in out and "owner: nobody (a Kubernetes cluster: shown only)" in out


def environment(**more: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "TERM")}
    return {**kept, "TERM": "xterm", **more}


def on_a_terminal(*arguments: str, width: int = 60, **more: str) -> str:
    """What a command writes when its output is a terminal of this width."""
    import fcntl
    import struct
    import termios

    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    command = [sys.executable, "-m", "topology_plugin", *arguments]
    process = subprocess.Popen(command, stdout=follower, stderr=follower, env=environment(**more))
    os.close(follower)
    data = b""
    try:
        while chunk := os.read(leader, 65536):
            data += chunk
    except OSError:  # the terminal is gone: the command has ended
        pass
    os.close(leader)
    process.wait(60)
    return data.decode()


@pytest.mark.parametrize("more", [{}, {"COLUMNS": "0"}], ids=["40 columns", "none said"])
def test_a_terminal_gets_colours_and_node_names_are_not_wrapped_there(tmp_path: Path, more: dict[str, str]) -> None:
    odd = state(inventory(120, 0, 0, per_leaf=120, unlabelled=tuple(range(0, 120, 2))))
    path = tmp_path / "odd.json"
    path.write_text(json.dumps(state_json.dump(odd)))
    text = on_a_terminal("show", "--from", str(path), width=40, **more)
    assert "\x1b[" in text
    rows = [row for row in text.splitlines() if "ip-10-1-0-[2,4,6" in row]
    assert rows and "118,120]" in rows[0]


def test_no_color_is_respected() -> None:
    assert "\x1b[" not in on_a_terminal("show", "--from", str(CAPTURED), NO_COLOR="1")
    assert "\x1b[" not in on_a_terminal("show", "--from", str(CAPTURED), TERM="dumb")


def test_colours_come_from_the_one_place_that_heeds_no_color() -> None:
    commands = (Path(__file__).parents[2] / "topology_plugin" / "cli").glob("*.py")
    assert [path.name for path in commands if "secho(" in path.read_text() or "click.style(" in path.read_text()] == []


def test_a_page_is_not_poured_into_a_terminal() -> None:
    text = on_a_terminal("show", "--from", str(CAPTURED), "-o", "html")
    assert "write it to a file" in text and "<!doctype" not in text


def test_rich_is_not_imported_where_nobody_sees_colours() -> None:
    code = (
        "import sys; from topology_plugin.cli.main import main\n"
        "try: main(sys.argv[1:])\nexcept SystemExit: pass\n"
        "sys.exit('rich' in sys.modules or 'prometheus_client' in sys.modules or 'boto3' in sys.modules)"
    )
    command = [sys.executable, "-c", code, "show", "--from", str(CAPTURED)]
    assert subprocess.run(command, stdout=subprocess.DEVNULL, env=environment()).returncode == 0


def test_the_shell_is_offered_partitions_and_nodes_of_the_last_pass(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "var/lib/hyperpod-topology").mkdir(parents=True)
    made = replace(state(), cluster_arn=None)
    (root / "var/lib/hyperpod-topology/state.json").write_text(json.dumps(state_json.dump(made)))

    def offered(*words: str) -> set[str]:
        typed = ["hyperpod-topology", *words]
        done = subprocess.run(
            [sys.executable, "-m", "topology_plugin"],
            env=environment(
                _HYPERPOD_TOPOLOGY_COMPLETE="bash_complete", COMP_WORDS=" ".join(typed), COMP_CWORD=str(len(words)),
                HYPERPOD_TOPOLOGY_ROOT=str(root),
            ),
            capture_output=True, text=True,
        )  # fmt: skip
        return {line.split(",", 1)[1] for line in done.stdout.splitlines() if "," in line}

    assert {"show", "submit", "simulate"} <= offered("s")
    assert offered("show", "t") == {"train"}
    assert "ip-10-9-0-7" in offered("explain", "ip-10-9-0-7")
