"""Settings: what an operator may choose, with the origin of every value."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal

from topology_plugin.core.issues import InputError, Issue
from topology_plugin.core.position import SOURCES

if TYPE_CHECKING:
    from topology_plugin.core.topology import Kind

ENVIRONMENT_PREFIX = "HYPERPOD_TOPOLOGY_"

BlockSizes = tuple[int, ...] | Literal["auto"]
SeparateFabrics = bool | Literal["auto"]


@dataclass(frozen=True)
class PartitionSettings:
    """What is set for one partition; None: as for the cluster."""

    kind: Kind | None = None
    block_sizes: BlockSizes | None = None
    separate_fabrics: SeparateFabrics | None = None

    @property
    def has_options(self) -> bool:
        """Options need a topology of their own; a kind alone shares the cluster's topology of that kind."""
        return self.block_sizes is not None or self.separate_fabrics is not None


@dataclass(frozen=True)
class Settings:
    """Every setting with its default. Sizes in nodes, times in seconds."""

    registry: str | None = "auto"
    mode: Literal["auto", "manage", "observe", "off"] = "auto"
    sources: tuple[str, ...] = SOURCES
    partitions: Mapping[str, PartitionSettings] = field(default_factory=dict)
    mixed_partitions: Literal["flat", "tree"] = "flat"
    block_sizes: BlockSizes = "auto"
    spares_per_ultraserver: int = 0
    separate_fabrics: SeparateFabrics = "auto"
    max_unplaced_leaves: int = 64
    rehearse: Literal["auto", "always", "never"] = "auto"
    settle_seconds: float = 45
    max_wait_seconds: float = 180
    poll_seconds: float = 10
    min_reconfigure_interval: float = 120
    register_timeout_seconds: float = 180
    api_budget_seconds: float = 60
    generations_keep: int = 20
    slurm_conf: str | None = None
    slurm_bin: str | None = None
    state_dir: str = "/var/lib/hyperpod-topology"
    metrics_file: str | None = None
    strict: bool = False
    origins: Mapping[str, str] = field(default_factory=dict, compare=False)

    def origin(self, name: str) -> str:
        """Where the value comes from: `default`, a file, an environment variable or a flag."""
        return self.origins.get(name, "default")

    def explicit(self, name: str) -> bool:
        """True if the value was given by flag or variable (then `--root` does not prefix it)."""
        return self.origin(name).startswith(("flag ", "variable "))


NAMES = tuple(f.name for f in fields(Settings) if f.name != "origins")
_CHOICES: dict[str, tuple[str, ...]] = {
    "mode": ("auto", "manage", "observe", "off"),
    "mixed_partitions": ("flat", "tree"),
    "rehearse": ("auto", "always", "never"),
}
_SECONDS = tuple(n for n in NAMES if n.endswith("_seconds") or n == "min_reconfigure_interval")
_COUNTS = ("spares_per_ultraserver", "max_unplaced_leaves", "generations_keep")
_PATHS = ("registry", "slurm_conf", "slurm_bin", "state_dir", "metrics_file")


def layered(layers: list[tuple[str, Mapping[str, Any]]]) -> Settings:
    """Settings from layers, weakest first: (origin, values). Collects every issue and raises one InputError."""
    issues: list[Issue] = []
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for origin, layer in layers:
        for name, raw in layer.items():
            if name not in NAMES:
                issues.append(Issue(f"{origin}: {name}", "no such setting", "known are " + ", ".join(NAMES)))
                continue
            try:
                values[name] = parse(name, raw)
                origins[name] = origin
            except ValueError as error:
                issues.append(Issue(f"{origin}: {name}", str(error)))
    if issues:
        raise InputError(issues)
    return replace(Settings(), **values, origins=origins)


def from_environment(environment: Mapping[str, str]) -> list[tuple[str, Mapping[str, Any]]]:
    """A layer for each HYPERPOD_TOPOLOGY_<NAME> that names a setting."""
    layers: list[tuple[str, Mapping[str, Any]]] = []
    for name in NAMES:
        variable = ENVIRONMENT_PREFIX + name.upper()
        if variable in environment:
            layers.append((f"variable {variable}", {name: environment[variable]}))
    return layers


def parse(name: str, raw: Any) -> Any:
    """The typed value of a setting from JSON or from text; ValueError says what is wrong."""
    if isinstance(raw, str) and name not in _PATHS and name not in _CHOICES:
        raw = _from_text(name, raw)
    if name in _PATHS:
        return _path(name, raw)
    if name in _CHOICES:
        return _choice(raw, _CHOICES[name])
    if name == "strict":
        return _boolean(raw)
    if name in _SECONDS:
        if isinstance(raw, bool) or not isinstance(raw, (int, float)) or not 0 <= raw < float("inf"):
            raise ValueError(f"{raw!r} is not a number of seconds (0 or more)")
        return raw
    if name in _COUNTS:
        if isinstance(raw, bool) or not isinstance(raw, int) or raw < (1 if name == "generations_keep" else 0):
            raise ValueError(f"{raw!r} is not a whole number that can be used here")
        return raw
    if name == "sources":
        if not isinstance(raw, list) or not all(isinstance(s, str) for s in raw):
            raise ValueError(f"{raw!r} is not a list of sources")
        unknown = [s for s in raw if s not in SOURCES]
        if unknown:
            raise ValueError(f"unknown sources {unknown}: known are {', '.join(SOURCES)}")
        return tuple(dict.fromkeys(raw))
    if name == "block_sizes":
        return _block_sizes(raw)
    if name == "separate_fabrics":
        return raw if raw == "auto" and isinstance(raw, str) else _boolean(raw)
    return _partitions(raw)


def unknown_partitions(settings: Settings, known: Iterable[str]) -> tuple[str, ...]:
    """A sentence for each partition that `partitions` names and slurm.conf does not: a typo would be silent. `known`
    empty: slurm.conf could not be read, and nothing is said."""
    import difflib  # not for a hook: it starts faster

    names = tuple(known)
    sentences = []
    for name in settings.partitions if names else ():
        if name not in names:
            near = difflib.get_close_matches(name, names, 3)
            hint = f"did you mean {' or '.join(near)}?" if near else f"it has {', '.join(names)}"
            what = f"partitions.{name} ({settings.origin('partitions')}): slurm.conf has no such partition"
            sentences.append(f"{what}, so it does nothing; {hint}")
    return tuple(sentences)


def _from_text(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        pass
    if name in ("sources", "block_sizes") and text != "auto":
        parts = [part.strip() for part in text.split(",") if part.strip()]
        return [int(p) if p.isdigit() else p for p in parts]
    return text


def _path(name: str, raw: Any) -> str | None:
    if name == "registry" and (raw is None or raw == "null"):
        return None
    if raw is None and name != "state_dir":
        return None
    if not isinstance(raw, str) or not raw or (raw != "auto" and not raw.startswith("/")):
        raise ValueError(f"{raw!r} is not an absolute path")
    return raw


def _choice(raw: Any, choices: tuple[str, ...]) -> str:
    if raw not in choices:
        raise ValueError(f"{raw!r} is not one of {', '.join(choices)}")
    return str(raw)


def _boolean(raw: Any) -> bool:
    if isinstance(raw, bool):
        return raw
    if raw in (0, 1):
        return bool(raw)
    raise ValueError(f"{raw!r} is neither true nor false")


def _block_sizes(raw: Any) -> BlockSizes:
    if raw == "auto":
        return "auto"
    if isinstance(raw, int) and not isinstance(raw, bool):
        raw = [raw]
    if not isinstance(raw, list) or not raw or not all(isinstance(s, int) and not isinstance(s, bool) for s in raw):
        raise ValueError(f'{raw!r} is neither "auto" nor a list of whole numbers')
    base = raw[0]
    if base < 1 or sorted(set(raw)) != raw or any(s not in {base << k for k in range(16)} for s in raw):
        raise ValueError(f"{raw!r}: base size first, then ascending, each base x 2^k with k at most 15 (Slurm's rule)")
    return tuple(raw)


def _partitions(raw: Any) -> Mapping[str, PartitionSettings]:
    from topology_plugin.core.topology import KINDS  # not for a hook without such settings: it starts faster

    if not isinstance(raw, dict):
        raise ValueError(f"{raw!r} is not a map of partition names")
    result: dict[str, PartitionSettings] = {}
    for partition, options in raw.items():
        if not isinstance(options, dict):
            raise ValueError(f"{partition}: {options!r} is not a map with kind, block_sizes, separate_fabrics")
        unknown = sorted(set(options) - {"kind", "block_sizes", "separate_fabrics"})
        if unknown:
            raise ValueError(
                f"{partition}: unknown {', '.join(unknown)}: known are kind, block_sizes, separate_fabrics"
            )
        try:
            result[partition] = PartitionSettings(
                kind=None if options.get("kind") is None else _choice(options["kind"], KINDS),  # type: ignore[arg-type]
                block_sizes=None if options.get("block_sizes") is None else _block_sizes(options["block_sizes"]),
                separate_fabrics=None
                if options.get("separate_fabrics") is None
                else parse("separate_fabrics", options["separate_fabrics"]),
            )
        except ValueError as error:
            raise ValueError(f"{partition}: {error}") from None
    return result
