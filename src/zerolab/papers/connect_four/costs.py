"""Cost of self-play on a reference machine, and accuracy at a given cost.

[Clausen2021] measures training cost in hours on one graphics card, as the time per move multiplied
by the number of moves. Here, the machine that times the moves is the reference machine; the runs
can be trained on other machines. Moves are timed with untrained networks in random games, on one
core, so the number of workers does not affect the cost. All networks are timed together, under the
same load.

The accuracy of a single iteration is noisy, and the maximum of noisy measurements grows with their
number. Accuracies are therefore smoothed and evaluated at the same number of points in every run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from zerolab.core.config import validate
from zerolab.core.processes import on_one_core
from zerolab.papers.connect_four.variants import TRAINING, VARIANTS
from zerolab.store.checks import digest
from zerolab.store.run_folder import RunFolder
from zerolab.studies.design import PlannedComputation, PlannedRun
from zerolab.studies.results import Results, TrainedRun
from zerolab.training.costs import run_costs
from zerolab.training.move_times import (
    ROUNDS,
    MeasuredMove,
    MoveKind,
    MoveTimes,
    Subject,
    measure_moves,
    move_kind,
)
from zerolab.training.settings import TrainSettings

_LAST_SHARE = 0.2  # share of the cost over which accuracy is averaged
_POINTS = 50  # smoothed accuracies per run


class Step(NamedTuple):
    """Cost and accuracy of a run after an iteration."""

    cost: float
    """Cost of all self-play so far, in core hours on the reference machine."""
    strong: float
    """Strong accuracy of search, from 0 to 1."""


def steps(run: TrainedRun, times: MoveTimes) -> list[Step]:
    """Return all measured iterations of a run, in order."""
    return [
        Step(iteration.reference_hours, iteration.strong)
        for iteration in run_costs(RunFolder.open(run.path), times)
        if iteration.strong is not None and iteration.reference_hours is not None
    ]


def accuracy_at(run: Sequence[Step], cost: float) -> float | None:
    """Return the accuracy of a run at a cost, or None if its measurements start too late.

    The accuracy is averaged over the last fifth of the cost, with linear interpolation between
    iterations.
    """
    first = (1 - _LAST_SHARE) * cost
    if first < run[0].cost:
        return None
    costs = np.linspace(first, cost, 21)
    strong = np.interp(costs, [step.cost for step in run], [step.strong for step in run])
    return float(strong.mean())


def cost_to_reach(run: Sequence[Step], strong: float) -> float | None:
    """Return the lowest cost at which a run reaches a smoothed accuracy, or None if it never does.

    `strong` is the accuracy, from 0 to 1.
    """
    return next((step.cost for step in _smoothed(run) if step.strong >= strong), None)


def peak(run: Sequence[Step]) -> float | None:
    """Return the highest smoothed accuracy of a run, or None if its measurements start too late."""
    return max((step.strong for step in _smoothed(run)), default=None)


def _smoothed(run: Sequence[Step]) -> list[Step]:
    costs = np.linspace(0, run[-1].cost, _POINTS + 1)[1:].tolist()
    accuracies = ((cost, accuracy_at(run, cost)) for cost in costs)
    return [Step(cost, strong) for cost, strong in accuracies if strong is not None]


_PLIES = 2  # per game and round
_KEY_LENGTH = 16
_SECONDS_PER_SIMULATION = 1e-4


class MeasuredMoves:
    """Move times measured for a study, by kind of move; implements `MoveTimes`."""

    def __init__(self, numbers: Mapping[str, float]) -> None:
        """Wrap `numbers`, the result of `measure`."""
        self._numbers = numbers

    def of(self, kind: MoveKind) -> MeasuredMove | None:
        """Return the measurement of a kind of move, or None if there is none."""
        prefix = f"{_key(kind)}."
        fields = {
            name.removeprefix(prefix): value
            for name, value in self._numbers.items()
            if name.startswith(prefix)
        }
        return validate(MeasuredMove, {"kind": kind.model_dump(), **fields}) if fields else None


class Mover(NamedTuple):
    """Kind of move to time, and the first run and iteration with such moves."""

    kind: MoveKind
    run: PlannedRun
    iteration: int
    titles: list[str]
    """Titles of all variants with such moves."""


def movers(runs: Iterable[PlannedRun]) -> dict[str, Mover]:
    """Return a network for each kind of move in `runs`, by the key of the kind."""
    by_key: dict[str, Mover] = {}
    for run in runs:
        title = VARIANTS[str(run.factors["variant"])].title
        for iteration in range(run.settings.iterations):
            kind = move_kind(run.settings, iteration)
            mover = by_key.setdefault(_key(kind), Mover(kind, run, iteration, []))
            if title not in mover.titles:
                mover.titles.append(title)
    return by_key


def planned_measurement(runs: Iterable[PlannedRun]) -> PlannedComputation:
    """Return the computation that times all kinds of moves in `runs`."""
    networks: dict[str, Any] = {}
    simulations = 0
    for key, mover in movers(runs).items():
        settings = mover.run.settings
        networks[key] = {"settings": settings.model_dump(mode="json"), "iteration": mover.iteration}
        simulations += settings.selfplay.parallel_games * settings.search.simulations
    seconds = simulations * _PLIES * (ROUNDS + 1) * _SECONDS_PER_SIMULATION
    function, arguments = f"{__name__}:{measure.__name__}", {"networks": networks}
    return PlannedComputation(TRAINING, "time of a move", function, arguments, seconds)


def measure(*, networks: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Time the moves of networks on one core.

    `networks` maps a key to the settings of a run (`settings`) and an iteration (`iteration`).
    Return the fields of `MeasuredMove`, except `kind`, under the names ``KEY.FIELD``.
    """
    subjects = [
        Subject.untrained(validate(TrainSettings, network["settings"]), network["iteration"])
        for network in networks.values()
    ]
    with on_one_core():
        moves = measure_moves(subjects, _PLIES)
    return {
        f"{key}.{name}": float(value)
        for key, move in zip(networks, moves, strict=True)
        for name, value in move.model_dump(exclude={"kind"}).items()
    }


def measured_moves(results: Results) -> MeasuredMoves | None:
    """Return the measured move times, or None if they are not measured."""
    computed = (
        results.computed.get(planned.title)
        for planned in results.design.computations
        if planned.function == f"{__name__}:{measure.__name__}"
    )
    numbers = next(computed, None)
    return None if numbers is None else MeasuredMoves(numbers)


def _key(kind: MoveKind) -> str:
    text = json.dumps(kind.model_dump(mode="json"), sort_keys=True)
    return digest(text.encode())[:_KEY_LENGTH]
