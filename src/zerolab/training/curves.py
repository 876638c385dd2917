"""The training curves of a run as a figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from zerolab.core.errors import UserError
from zerolab.store.run_folder import RunFolder

_STAGES = {"selfplay": "self-play", "learn": "learning", "gate": "arena"}


def draw_curves(run: RunFolder) -> Figure:
    """Draw losses, training Elo, game length, time and, if measured, accuracy by iteration.

    Raises UserError for a run without a finished iteration.
    """
    metrics = run.metrics()
    accuracy = [line for line in metrics if line["stage"] == "evaluate"]
    by_stage = {name: [line for line in metrics if line["stage"] == name] for name in _STAGES}
    if not by_stage["gate"]:
        raise UserError(f"{run.path} has no finished iteration yet: nothing to draw")
    rows = 3 if accuracy else 2
    figure = Figure(figsize=(9, 3 * rows), layout="constrained")
    losses, elo, length, seconds, *others = figure.subplots(rows, 2).flat
    for axes, measure in zip(others, ("strong", "weak"), strict=False):
        _draw_accuracy(axes, accuracy, measure)
    _plot(losses, by_stage["learn"], "loss_policy", "policy")
    _plot(losses, by_stage["learn"], "loss_value", "value")
    losses.set(title="loss in the last epoch", xlabel="iteration")
    losses.legend()
    _plot(elo, by_stage["gate"], "elo", "best network")
    elo.set(title="training Elo (biased, see L)", xlabel="iteration")
    _plot(length, by_stage["selfplay"], "plies_per_game", "plies")
    length.set(title="plies a game", xlabel="iteration")
    _stack_seconds(seconds, by_stage)
    figure.suptitle(f"{run.config['game']}, preset {run.config['preset']}")
    return figure


def _draw_accuracy(axes: Axes, lines: Sequence[dict[str, Any]], measure: str) -> None:
    """Draw the accuracy of the network alone and with search, with intervals."""
    x = [line["iteration"] for line in lines]
    for player in ("network", "search"):
        key = f"{player}_{measure}"
        _plot(axes, lines, key, player)
        low, high = ([line[f"{key}_{end}"] for line in lines] for end in ("low", "high"))
        axes.fill_between(x, low, high, alpha=0.2)
    axes.set(title=f"{measure} accuracy on solved positions", xlabel="iteration")
    axes.legend()


def save_curves(run: RunFolder, path: Path) -> None:
    """Write the figure to a file whose ending names its format, such as .png or .svg."""
    figure = draw_curves(run)
    formats = figure.canvas.get_supported_filetypes()
    if path.suffix[1:] not in formats:
        raise UserError(f'"{path}": expected an ending such as .png, .svg or .pdf')
    try:
        figure.savefig(path, dpi=120)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error


def _plot(axes: Axes, lines: Sequence[dict[str, Any]], key: str, label: str) -> None:
    known = [line for line in lines if key in line]
    x, y = [line["iteration"] for line in known], [line[key] for line in known]
    axes.plot(x, y, marker=".", label=label)
    axes.grid(alpha=0.3)


def _stack_seconds(axes: Axes, by_stage: dict[str, list[dict[str, Any]]]) -> None:
    """Stack the seconds that each stage of an iteration took."""
    count = len(by_stage["gate"])
    floor = [0.0] * count
    for stage, label in _STAGES.items():
        heights = [line["wall_seconds"] for line in by_stage[stage][:count]]
        axes.bar(range(1, count + 1), heights, bottom=floor, label=label)
        floor = [low + height for low, height in zip(floor, heights, strict=True)]
    axes.set(title="seconds an iteration", xlabel="iteration")
    axes.legend()
