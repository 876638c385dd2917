"""What a search has found: tables, figures, and the best settings as a preset."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from optuna.importance import get_param_importances
from optuna.trial import FrozenTrial, TrialState

from zerolab.core.errors import one_line
from zerolab.studies.report.cells import Cell
from zerolab.studies.report.document import Column, DataTable
from zerolab.studies.tuning.settings import Objective, TuningPlan, TuningSettings
from zerolab.studies.tuning.space import Value, Values
from zerolab.studies.tuning.store import Store, refusal

State = Literal["running", "complete", "pruned", "refused"]
"""Of a trial; refused are those whose settings do not fit each other, or make learning diverge."""

LEAST_FOR_IMPORTANCE = 10
"""Complete trials without which importance would be chance."""

_SHOWN = 10  # trials in a terminal
_STATES: dict[TrialState, State] = {
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "pruned",
    TrialState.RUNNING: "running",
}


class Result(NamedTuple):
    """One trial; its number counts from 0."""

    number: int
    state: State
    values: Values
    objective: float | None
    """That of the last measurement, for pruned trials; None where there was none."""
    low: float | None
    """Lower end of the 95 % interval of the objective; None where it has none."""
    high: float | None
    hours: float | None
    """Of training."""
    reason: str
    """Why it was refused."""

    @property
    def value(self) -> float:
        """The objective of a trial that has been measured."""
        assert self.objective is not None
        return self.objective

    @property
    def time(self) -> float:
        """The hours of training of a trial that has been measured."""
        assert self.hours is not None
        return self.hours

    def summary(self, objective: Objective) -> str:
        """Return the outcome in one line."""
        if self.state == "refused":
            return f"refused: {self.reason}"
        hours = "" if self.hours is None else f" after {self.hours:.3g} h"
        pruned = "pruned, " if self.state == "pruned" else ""
        return f"{pruned}{self.measured(objective)}{hours}"

    def measured(self, objective: Objective) -> str:
        """Return the objective in one line, without the time that it took."""
        return f"{objective} {_shown(self, objective)}"


def results_of(store: Store) -> list[Result]:
    """Return all trials by number."""
    return [_result(each) for each in store.trials()]


def _result(trial: FrozenTrial) -> Result:
    facts, reason = trial.user_attrs, refusal(trial)
    return Result(
        trial.number,
        "refused" if reason and trial.state == TrialState.PRUNED else _STATES[trial.state],
        dict(trial.params),
        trial.values[0] if trial.values else None,
        facts.get("low"),
        facts.get("high"),
        facts.get("hours"),
        reason,
    )


def best_of(results: Sequence[Result], settings: TuningSettings) -> Result | None:
    """Return the complete trial with the best objective.

    Of equal ones it is the fastest where time is an objective, the first otherwise.
    """

    def rank(each: Result) -> tuple[float, float]:
        return _badness(each, settings), each.time if settings.and_time else 0.0

    complete = [each for each in results if each.state == "complete"]
    return min(complete, key=rank, default=None)


def front_of(results: Sequence[Result], settings: TuningSettings) -> list[Result]:
    """Return the complete trials that no other one beats in time and objective, fastest first."""
    complete = [each for each in results if each.state == "complete"]
    front: list[Result] = []
    for each in sorted(complete, key=lambda each: (each.time, _badness(each, settings))):
        if not front or _badness(each, settings) < _badness(front[-1], settings):
            front.append(each)
    return front


def _badness(result: Result, settings: TuningSettings) -> float:
    return -result.value if settings.is_maximised else result.value


@dataclass(frozen=True)
class TuningReport:
    """All trials of a search, and what they show."""

    settings: TuningSettings
    keys: tuple[str, ...]
    """What was searched."""
    results: list[Result]
    importance: dict[str, float]
    """What share of the differences in the objective each setting explains, by PED-ANOVA
    [Watanabe2023]; empty with few trials."""

    @classmethod
    def of(cls, store: Store, plan: TuningPlan) -> TuningReport:
        """Return the report of a search as it is now."""
        keys = tuple(plan.space.searched)
        return cls(plan.settings, keys, results_of(store), _importance(store, plan.settings))

    @property
    def best(self) -> Result | None:
        """The trial with the best objective, whatever its time; None before one is complete."""
        return best_of(self.results, self.settings)

    @property
    def front(self) -> list[Result]:
        """The trials of which one has to choose: all that none beats, or the best one alone."""
        if self.settings.and_time:
            return front_of(self.results, self.settings)
        return [] if self.best is None else [self.best]

    def as_dict(self) -> dict[str, Any]:
        """Return everything for JSON."""
        return {
            "game": self.settings.game,
            "objective": self.settings.objective,
            "and_time": self.settings.and_time,
            "trials": [each._asdict() for each in self.results],
            "best": None if self.best is None else self.best.number,
            "front": [each.number for each in self.front],
            "importance": self.importance,
        }

    def table(self, *, all_trials: bool = False) -> DataTable:
        """Return the best trials, those of the front first, or all of them."""
        ranked = self._ranked()
        shown = ranked if all_trials else ranked[: max(_SHOWN, len(self.front))]
        states = [each.state for each in self.results]
        counts = ", ".join(
            f"{states.count(state)} {state}" for state in dict.fromkeys(sorted(states))
        )
        objective = self.settings.objective
        front = {each.number for each in self.front}
        rows: list[list[Cell]] = [
            [
                f"{each.number}{' *' if each.number in front else ''}",
                _shown(each, objective) if each.state != "refused" else one_line(each.reason),
                each.hours,
                *(short(each.values.get(key)) for key in self.keys),
                each.state,
            ]
            for each in shown
        ]
        chosen = "no other one is both better and faster" if self.settings.and_time else "best"
        title = f"{self.settings.game}, {objective} with 95 % intervals: {counts}; * {chosen}"
        columns = ["trial", objective, Column("hours", ".3g"), *self.keys, "state"]
        return DataTable("tuning", title, columns, rows)

    def _ranked(self) -> list[Result]:
        front = {each.number for each in self.front}
        places = {"complete": 0, "pruned": 1, "running": 2, "refused": 3}

        def place(each: Result) -> tuple[bool, int, float]:
            known = each.objective is not None
            badness = _badness(each, self.settings) if known else math.inf
            return each.number not in front, places[each.state], badness

        return sorted(self.results, key=place)


def _importance(store: Store, settings: TuningSettings) -> dict[str, float]:
    complete = [each for each in store.trials() if each.state == TrialState.COMPLETE]
    if len(complete) < LEAST_FOR_IMPORTANCE:
        return {}
    sign = -1.0 if settings.is_maximised else 1.0  # PED-ANOVA takes less for better
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that it does so
        return get_param_importances(store.study, target=lambda trial: sign * trial.values[0])


def _shown(result: Result, objective: Objective) -> str:
    """Return the objective with its interval, as people read it."""
    if result.objective is None:
        return "not measured"
    shown = _number(result.objective, objective)
    if result.low is None or result.high is None:
        return shown
    return f"{shown} ({_number(result.low, objective)} to {_number(result.high, objective)})"


def _number(value: float, objective: Objective) -> str:
    if objective == "accuracy":
        return f"{100 * value:.1f} %"
    return f"{value:+.0f}" if objective == "elo" else f"{value:.4f}"


def short(value: Value | None) -> str:
    """Return what a trial gives a setting, as people read it; nothing where it takes no part."""
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
