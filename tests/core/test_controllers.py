"""Which controllers slurm.conf lists, and which is the active one."""

from __future__ import annotations

import pytest

from topology_plugin.core.controllers import ControllerHost, active, parse

A, B, C = ControllerHost("ip-10-1-1-5", "10.1.1.5"), ControllerHost("ip-10-1-1-6"), ControllerHost("c")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ()),
        ("ip-10-1-1-5(10.1.1.5)", (A,)),
        ("ip-10-1-1-5(10.1.1.5),ip-10-1-1-6", (A, B)),
        (" ip-10-1-1-5 ( 10.1.1.5 ) , , ip-10-1-1-6 ", (A, B)),
        ("ip-10-1-1-6,ip-10-1-1-6", (B,)),
        ("a(fe80::1)", (ControllerHost("a", "fe80::1"),)),
    ],
)
def test_hosts_are_read_in_order(text: str, found: tuple[ControllerHost, ...]) -> None:
    assert parse(text) == found


def pinged(*states: str) -> str:
    """As `scontrol ping` of 24.11 and 26.05 writes it (run)."""
    roles = ["primary", "backup1", "backup2"] if len(states) > 2 else ["primary", "backup"]
    names = ["ip-10-1-1-5", "ip-10-1-1-6", "c"]
    return "".join(f"Slurmctld({r}) at {n} is {s}\n" for r, n, s in zip(roles, names, states, strict=False))


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        pytest.param(pinged("UP", "UP"), A, id="a-backup-waits"),
        pytest.param(pinged("DOWN", "UP"), B, id="the-backup-has-taken-over"),
        pytest.param(pinged("DOWN", "DOWN", "UP"), C, id="the-second-backup-too"),
        pytest.param(pinged("DOWN", "DOWN"), A, id="nobody-answers"),
        pytest.param(None, A, id="nobody-could-be-asked"),
        pytest.param(
            "*****\n** RESTORE SLURMCTLD DAEMON TO SERVICE **\n*****\n" + pinged("DOWN", "UP"), B, id="banner"
        ),
        pytest.param("Slurmctld(primary) at elsewhere is UP\n", ControllerHost("elsewhere"), id="not-in-slurm-conf"),
    ],
)
def test_the_first_that_answers_is_active(said: str | None, expected: ControllerHost) -> None:
    assert active((A, B, C), said) == expected
