#!/usr/bin/env python3
"""Makes the README's pictures from the demo: the page in both themes and `show`, of a cluster that really ran.

    make pictures          or: .venv/bin/python -m docs.pictures --slurm-bin DIR

Needs a Slurm (as the demo does) and Chromium. Writes docs/pictures/*.png and the lines between the README's markers.
"""

from __future__ import annotations

import argparse
import html
import sys
import tempfile
import time
from pathlib import Path

from tests.views.browser import Browser, Page, found
from topology_plugin.app.demo import Demo
from topology_plugin.app.observe_state import load_live, recent_generations, see
from topology_plugin.app.wiring import Wiring
from topology_plugin.views.page import GenerationNote, page
from topology_plugin.views.scene import Scene, arrange
from topology_plugin.views.text import Line, tree
from topology_plugin.views.words import brief

HERE = Path(__file__).parent
PICTURES = HERE / "pictures"
README = HERE.parent / "README.md"
BEGIN, END = "<!-- pictures: begin -->", "<!-- pictures: end -->"
WIDTH, HEIGHT, SCALE = 1440, 880, 1.5
# What runs while the pictures are taken.
JOBS = (
    ("-p", "train", "-N16", "-J", "llama-pretrain"),
    ("-p", "train", "-N8", "-J", "vision"),
    ("-p", "train", "-N5", "-J", "eval"),
    ("-p", "gb200", "-N16", "--segment=16", "-J", "moe-train"),
    ("-p", "cpu", "-N2", "-J", "tokenize"),
    ("-p", "train", "-N64", "-J", "sweep"),
)
COLOURS = {
    "title": "#ffffff;font-weight:bold", "name": "#6cc7d9", "dim": "#7f8b99", "ok": "#7fd1a3", "warn": "#e6b35c",
    "bad": "#ff8a80", "": "#d5dbe3",
}  # fmt: skip
MARKUP = """\
<picture>
  <source media="(prefers-color-scheme: dark)" srcset="docs/pictures/page-dark.png">
  <img alt="The page of a cluster: a partition's tree, each node coloured by its state, jobs and generations beside it"
       src="docs/pictures/page-light.png">
</picture>

`hyperpod-topology show -o html > page.html`: one file, for 16 nodes and for 16,000. The same cluster in a terminal:

<img alt="hyperpod-topology show: each partition's topology, with what is idle" src="docs/pictures/show.png">"""


def main() -> int:
    parser = argparse.ArgumentParser(description="Make the README's pictures from the demo.")
    parser.add_argument("--slurm-bin", type=Path, required=True, help="directory of Slurm's commands")
    chosen = parser.parse_args()
    if found() is None:
        print("pictures: no Chromium (Debian: apt-get install chromium, or set CHROMIUM)", file=sys.stderr)
        return 2
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="pictures-") as directory:
        demo = Demo(Path(directory) / "demo", chosen.slurm_bin)
        try:
            for step in demo.steps():
                print(f"pictures: {step.title}", file=sys.stderr)
            scene, notes = _scene(demo)
        finally:
            demo.close()
        _draw(scene, notes, Path(directory))
    _into_readme()
    return 0


def _scene(demo: Demo) -> tuple[Scene, list[GenerationNote]]:
    slurmctld = demo.room.slurmctld
    if slurmctld is None:
        raise SystemExit("pictures: they are taken of a real slurmctld")
    for arguments in JOBS:
        slurmctld.run("sbatch", "--exclusive", *arguments, "--wrap", "sleep 3600")
    for member, condition, reason in ((-2, "drain", "NVLink errors"), (-3, "down", "Not responding")):
        name = demo.cluster.members("worker-p5")[member].name
        slurmctld.scontrol("update", f"nodename={name}", f"state={condition}", f"reason={reason}")
    time.sleep(3)  # the scheduler's next round
    flags = {
        "slurm_conf": str(demo.room.conf), "registry": str(demo.room.registry), "slurm_bin": str(demo.slurm_bin),
        "sources": "resource-config,records",
    }  # fmt: skip
    wiring = Wiring.of(str(demo.room.controller), flags, {})
    state = see(wiring).state
    notes = [
        GenerationNote(past.number, past.time, past.by, brief(past.diff) if past.diff else ("the first one",))
        for past in recent_generations(wiring, state)
    ]
    return arrange(state, load_live(wiring)), notes


def _draw(scene: Scene, notes: list[GenerationNote], directory: Path) -> None:
    file = directory / "page.html"
    file.write_text(page(scene, generations=notes, origin="a pass in memory just now"), encoding="utf-8")
    terminal = directory / "show.html"
    terminal.write_text(_terminal(tree(scene)), encoding="utf-8")
    with Browser.start() as browser:
        for theme in ("light", "dark"):
            shot = browser.open(file, WIDTH, HEIGHT, dark=theme == "dark")
            _shoot(shot, PICTURES / f"page-{theme}.png", WIDTH, HEIGHT)
        shown = browser.open(terminal, WIDTH, HEIGHT)
        box = shown.evaluate("(r => [r.width, r.height])(document.querySelector('pre').getBoundingClientRect())")
        _shoot(shown, PICTURES / "show.png", int(box[0]) + 1, int(box[1]) + 1)


def _shoot(shot: Page, target: Path, width: int, height: int) -> None:
    shot.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=SCALE, mobile=False)
    shot.evaluate("document.documentElement.style.scrollbarWidth = 'none'")
    shot.frame()
    shot.screenshot(target)
    print(f"pictures: {target.relative_to(HERE.parent)} ({target.stat().st_size // 1024} KiB)", file=sys.stderr)


def _terminal(lines: list[Line]) -> str:
    rows = ['<span style="color:#7f8b99">$ </span><span style="color:#fff">hyperpod-topology show</span>']
    for row in lines:
        pieces = (f'<span style="color:{COLOURS[style]}">{html.escape(text)}</span>' for text, style in row.pieces)
        rows.append("".join(pieces))
    style = (
        "body{margin:0;background:#11161d}pre{margin:0;padding:18px 22px;display:inline-block;background:#11161d;"
        "font:13px/1.45 'DejaVu Sans Mono',ui-monospace,monospace}"
    )
    ready = "<script>document.documentElement.dataset.ready='1'</script>"
    return f"<!doctype html><meta charset=utf-8><style>{style}</style><pre>{chr(10).join(rows)}</pre>{ready}"


def _into_readme() -> None:
    text = README.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, marker, after = rest.partition(END)
    if marker:
        README.write_text(f"{before}{BEGIN}\n{MARKUP}\n{END}{after}", encoding="utf-8")
    else:
        print("pictures: README.md has no markers for pictures; it is left alone", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
