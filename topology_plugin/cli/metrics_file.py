"""The metrics file of a pass: node_exporter's textfile collector reads it whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from topology_plugin.app.wiring import Wiring
from topology_plugin.core.state import State


def writing_metrics(wiring: Wiring) -> Wiring:
    """The same wiring, whose passes write the file that `metrics_file` names."""
    path = wiring.places.setting("metrics_file", "")
    return replace(wiring, metrics=_writer(path))


def _writer(path: Path) -> Callable[[State], None]:
    def write(state: State) -> None:
        from topology_plugin.adapters.files import RealFiles
        from topology_plugin.views.metrics import text

        files = RealFiles()
        files.make_directory(path.parent)
        files.write(path, text(state).encode(), new_mode=0o644)

    return write
