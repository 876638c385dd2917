"""Strength of the baseline and of a warm-started variant during training, over several seeds.

Usage: python benchmarks/warm_start.py FOLDER [GAME] [VARIANT] [SEEDS]

Trains runs with the settings of warm_start.toml into FOLDER/runs, lets networks of iterations 2, 5
and 13 of all of them play a tournament with Random and MCTS 100, and writes FOLDER/warm-start.md,
.png and .svg. Stopped or killed, it is resumed by calling it again. An hour on two cores for six
seeds of Connect Four 6x7; a third of that for Gobang 6x6, whose games are short.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import sys
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure

from zerolab.cli.main import main as zerolab

ITERATIONS = (2, 5, 13)
_PRESET = Path(__file__).with_suffix(".toml").resolve()
_T95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13)
"""97.5 % quantiles of Student's t by degrees of freedom, from 1."""

Elos = dict[tuple[str, int], list[float]]
"""By variant and iteration, one per seed."""


class Gain(NamedTuple):
    """A difference of means with its 95 % interval."""

    difference: float
    half_width: float

    def __str__(self) -> str:
        low, high = self.difference - self.half_width, self.difference + self.half_width
        return f"{self.difference:+.0f} ({low:+.0f} to {high:+.0f})"


def gain(one: list[float], other: list[float]) -> Gain:
    """Return how much higher the mean of `other` is, by Welch's t for samples of one size."""
    size = len(one)
    errors = [statistics.variance(each) / size for each in (one, other)]
    freedom = sum(errors) ** 2 / sum(error**2 for error in errors) * (size - 1)
    quantile = _T95[min(math.floor(freedom), len(_T95)) - 1]
    difference = statistics.mean(other) - statistics.mean(one)
    return Gain(difference, quantile * math.sqrt(sum(errors)))


def train_all(game: str, variants: list[str], seeds: int) -> None:
    """Train what is not trained yet."""
    for seed in range(seeds):
        for variant in variants:
            sets = [f"--set=seed={seed}", f"--set=warm_start.variant={variant}"]
            run = f"runs/{variant}-{seed}"
            if zerolab(["train", game, "--preset", str(_PRESET), "--run", run, *sets]):
                sys.exit(f"{run} was not trained")


def rate_all(variants: list[str], seeds: int) -> Elos:
    """Play the tournament and return the ratings."""
    runs = [(variant, seed) for variant in variants for seed in range(seeds)]
    names = {f"runs/{v}-{seed}@{i}": (v, i) for v, seed in runs for i in ITERATIONS}
    options = ["--games", "20", "--openings", "2", "--seed", "1", "--folder", "tournament"]
    if zerolab(["tournament", *names, "random", "mcts:100", *options]):
        sys.exit("the tournament was not played")
    elos: Elos = {}
    for player in json.loads(Path("tournament/ratings.json").read_text("utf-8"))["players"]:
        if player["player"] in names:
            elos.setdefault(names[player["player"]], []).append(player["elo"])
    return elos


def table(game: str, variants: list[str], elos: Elos) -> str:
    """Return the comparison as Markdown."""
    baseline, warm = variants
    seeds = len(elos[baseline, ITERATIONS[0]])
    lines = [
        f"# {warm} and {baseline}, {game}, {seeds} seeds\n",
        f"Mean tournament Elo (standard deviation between seeds); the gain of {warm} with its 95 %"
        " interval by Welch's t.\n",
        f"| iteration | {baseline} | {warm} | gain |",
        "|---|---|---|---|",
    ]
    for iteration in ITERATIONS:
        one, other = (elos[variant, iteration] for variant in variants)
        cells = [f"{statistics.mean(e):+.0f} ({statistics.stdev(e):.0f})" for e in (one, other)]
        lines.append(f"| {iteration} | {cells[0]} | {cells[1]} | {gain(one, other)} |")
    return "\n".join([*lines, "\n![Elo by iteration](warm-start.png)\n"])


def draw(game: str, variants: list[str], elos: Elos) -> Figure:
    """Draw every run as a dot, and the means of the variants as lines."""
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for variant, colour, shift in zip(variants, ("#0072b2", "#d55e00"), (-0.03, 0.03), strict=True):
        places = [place + shift for place in range(len(ITERATIONS))]
        means = [statistics.mean(elos[variant, iteration]) for iteration in ITERATIONS]
        axes.plot(places, means, color=colour, label=f"{variant}, mean")
        for place, iteration in zip(places, ITERATIONS, strict=True):
            runs = elos[variant, iteration]
            axes.plot([place] * len(runs), runs, "o", color=colour, alpha=0.5)
    axes.set_xticks(range(len(ITERATIONS)), [str(iteration) for iteration in ITERATIONS])
    axes.set(xlabel="iteration", ylabel="tournament Elo", title=f"{game}, one dot per run")
    axes.grid(axis="y", alpha=0.3)
    axes.legend(loc="lower right")
    return figure


def main(folder: str, game: str = "gobang:6x6", variant: str = "wrora", seeds: str = "6") -> None:
    """Train, rate, write and print."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    variants = ["baseline", variant]
    train_all(game, variants, int(seeds))
    elos = rate_all(variants, int(seeds))
    written = table(game, variants, elos)
    Path("warm-start.md").write_text(written, "utf-8")
    for ending in ("png", "svg"):
        draw(game, variants, elos).savefig(f"warm-start.{ending}", dpi=120)
    print(written)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
