from __future__ import annotations

import pytest

from topology_plugin.core import instance_types


@pytest.mark.parametrize(
    ("name", "capability", "layers"),
    [
        *((name, "tree", 3) for name in ("p4d.24xlarge", "p4de.24xlarge", "p5.48xlarge", "p5e.48xlarge")),
        *((name, "tree", 3) for name in ("p5en.48xlarge", "trn1.32xlarge", "trn1n.32xlarge", "trn2.48xlarge")),
        *((name, "tree", 3) for name in ("g6e.xlarge", "g6e.48xlarge", "g7e.2xlarge")),
        *((name, "tree", 4) for name in ("p6-b200.48xlarge", "p6-b300.48xlarge")),
        ("p6e-gb200.36xlarge", "block", None),
        *((name, None, None) for name in ("p5.4xlarge", "g4dn.xlarge", "g5.xlarge", "g6.xlarge", "gr6.4xlarge")),
        *((name, None, None) for name in ("g7.2xlarge", "trn2.3xlarge", "m5.xlarge", "c7i.large", "g6ex.large")),
    ],
)
def test_the_table_says_what_hyperpod_says(name: str, capability: str | None, layers: int | None) -> None:
    for written in (name, "ml." + name):
        assert instance_types.capability(written) == capability
        assert instance_types.layers(written) == layers


@pytest.mark.parametrize("name", [None, "", "ml.", "nonsense", "ml.ml.p5.48xlarge"])
def test_a_type_that_is_not_known_has_no_network_data(name: str | None) -> None:
    assert instance_types.capability(name) is None
