"""Draw the layers and data flow of zerolab in docs/figures/architecture.svg and .png."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

_ROOT = Path(__file__).parents[1]
_COLOURS = {"layer": "#e8eef7", "stage": "#fdf1dc", "file": "#e6f4e6", "user": "#f6e3ea"}
_INK = "#45505e"


class Box(NamedTuple):
    """Labelled box with its centre (x, y) in data coordinates."""

    x: float
    y: float
    width: float
    text: str
    kind: str
    height: float = 1.0


_DATA = {
    "search": Box(1.6, 7.6, 2.5, "search: select leaves,\nexpand and back up", "layer"),
    "network": Box(5.2, 7.6, 2.5, "checkpoints/\n*.safetensors", "file"),
    "gate": Box(8.8, 7.6, 2.5, "gate: candidate\nagainst best network", "stage"),
    "selfplay": Box(1.6, 5.4, 2.5, "self-play:\ngames in parallel", "stage"),
    "examples": Box(5.2, 5.4, 2.5, "examples/*.npz", "file"),
    "learn": Box(8.8, 5.4, 2.5, "learning: batches\nunder symmetries", "stage"),
    "games": Box(1.6, 3.2, 2.5, "games.sqlite", "file"),
    "report": Box(5.2, 3.2, 2.5, "ratings, accuracy,\nstudies, figures", "user"),
    "metrics": Box(8.8, 3.2, 2.5, "metrics.jsonl", "file"),
}
_ARROWS = (
    ("network", "search", "priors,\nvalues"),
    ("search", "selfplay", "moves"),
    ("selfplay", "examples", "states,\nvisits,\noutcomes"),
    ("examples", "learn", "replay\nwindow"),
    ("learn", "gate", "candidate"),
    ("gate", "network", "best\nnetwork"),
    ("selfplay", "games", "every game"),
    ("learn", "metrics", "every stage"),
    ("games", "report", ""),
    ("metrics", "report", ""),
)


def layers() -> list[str]:
    """Return the layers from the import contract in pyproject.toml, highest first."""
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    return next(list(each["layers"]) for each in contracts if each["type"] == "layers")


def draw_layers(axes: Axes) -> None:
    """Draw one box per package, with the packages of a layer side by side."""
    rows = layers()
    for row, names in enumerate(reversed(rows)):
        siblings = [name.strip() for name in names.split("|")]
        width = 8.6 / len(siblings)
        for column, name in enumerate(siblings):
            x = 0.7 + width * (column + 0.5)
            _box(axes, Box(x, 0.75 + row * 0.86, width - 0.12, name, "layer", 0.62), 8.5)
    axes.set_title("layers: each imports only layers below it", fontsize=11)
    axes.set(xlim=(0, 10), ylim=(0, 1.1 + 0.86 * len(rows)))
    axes.axis("off")


def draw_data(axes: Axes) -> None:
    """Draw the data flow between the stages and files of a run."""
    for source, target, label in _ARROWS:
        _arrow(axes, _DATA[source], _DATA[target], label)
    for box in _DATA.values():
        _box(axes, box, 8.5)
    axes.set_title("one iteration of training: stages and files of a run", fontsize=11)
    axes.set(xlim=(0.2, 10.2), ylim=(2.2, 8.6))
    axes.axis("off")


def _box(axes: Axes, box: Box, size: float) -> None:
    corner = (box.x - box.width / 2, box.y - box.height / 2)
    style = {"facecolor": _COLOURS[box.kind], "edgecolor": _INK, "linewidth": 0.9}
    rounding = "round,pad=0.02,rounding_size=0.08"
    patch = FancyBboxPatch(corner, box.width, box.height, boxstyle=rounding, zorder=2, **style)
    axes.add_patch(patch)
    axes.text(box.x, box.y, box.text, ha="center", va="center", fontsize=size, zorder=3)


def _arrow(axes: Axes, source: Box, target: Box, label: str) -> None:
    """Draw an arrow between the facing edges of two boxes in the same row or column."""
    right, up = np.sign(target.x - source.x), np.sign(target.y - source.y)
    start = (source.x + right * source.width / 2, source.y + up * source.height / 2)
    end = (target.x - right * target.width / 2, target.y - up * target.height / 2)
    axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": _INK, "linewidth": 1.1})
    middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
    background = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
    if label:
        axes.text(
            *middle, label, ha="center", va="center", fontsize=7.5, color=_INK, bbox=background
        )


def main() -> None:
    """Write the SVG and PNG files."""
    figure = Figure(figsize=(13, 5.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.05))
    draw_layers(left)
    draw_data(right)
    for ending in ("svg", "png"):
        metadata = {"Date": None} if ending == "svg" else {}
        path = _ROOT / "docs" / "figures" / f"architecture.{ending}"
        figure.savefig(path, dpi=110, metadata=metadata)


if __name__ == "__main__":
    main()
