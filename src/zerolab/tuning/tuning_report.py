"""Report on a search: tables, figures and the best settings."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from optuna.importance import get_param_importances
from optuna.trial import FrozenTrial, TrialState

from zerolab.core.errors import one_line
from zerolab.report.figures import colour, legend_below, new_figure, shortened
from zerolab.report.interval import Cell, Interval
from zerolab.report.table import Column, Table
from zerolab.tuning.plan import Objective, TuningPlan, TuningSettings
from zerolab.tuning.space import Value, Values
from zerolab.tuning.trials import TrialStore, refusal

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


State = Literal["running", "complete", "pruned", "refused"]
"""State of a trial; refused if its settings do not fit each other or learning diverges."""

LEAST_FOR_IMPORTANCE = 10
"""Least number of complete trials for which importance is computed; with fewer it is chance."""

_SHOWN = 10  # trials in a terminal
_STATES: dict[TrialState, State] = {
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "pruned",
    TrialState.RUNNING: "running",
}


class TrialResult(NamedTuple):
    """State and outcome of a trial."""

    number: int
    """Number of the trial, from 0."""
    state: State
    values: Values
    objective: Interval | None
    """Objective, for pruned trials at its last measurement; None if never measured."""
    hours: float | None
    """Hours of training."""
    reason: str
    """Reason for which it was refused."""

    @property
    def value(self) -> float:
        """Objective of a measured trial."""
        assert self.objective is not None
        return self.objective.value

    @property
    def time(self) -> float:
        """Hours of training of a measured trial."""
        assert self.hours is not None
        return self.hours

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON; unknown numbers are None."""
        objective = self.objective
        low, high = objective[1:] if objective and objective.is_known else (None, None)
        return {
            "number": self.number,
            "state": self.state,
            "values": self.values,
            "objective": objective and objective.value,
            "low": low,
            "high": high,
            "hours": self.hours,
            "reason": self.reason,
        }

    def summary(self, objective: Objective) -> str:
        """Return the outcome in one line."""
        if self.state == "refused":
            return f"refused: {self.reason}"
        hours = "" if self.hours is None else f" after {self.hours:.3g} h"
        pruned = "pruned, " if self.state == "pruned" else ""
        return f"{pruned}{self.measured(objective)}{hours}"

    def measured(self, objective: Objective) -> str:
        """Return the objective in one line, without the time of training."""
        return f"{objective} {_shown(self, objective)}"


def results_of(store: TrialStore) -> list[TrialResult]:
    """Return all trials by number."""
    return [_result(each) for each in store.trials()]


def _result(trial: FrozenTrial) -> TrialResult:
    facts, reason = trial.user_attrs, refusal(trial)
    return TrialResult(
        trial.number,
        "refused" if reason and trial.state == TrialState.PRUNED else _STATES[trial.state],
        dict(trial.params),
        _objective(trial.values[0], facts) if trial.values else None,
        facts.get("hours"),
        reason,
    )


def _objective(value: float, facts: Mapping[str, Any]) -> Interval:
    if "low" not in facts:
        return Interval.unknown(value)
    return Interval(value, facts["low"], facts["high"])


def best_of(results: Sequence[TrialResult], settings: TuningSettings) -> TrialResult | None:
    """Return the complete trial with the best objective, or None.

    Ties go to the fastest trial if time is an objective, otherwise to the first.
    """

    def rank(each: TrialResult) -> tuple[float, float]:
        return _badness(each, settings), each.time if settings.and_time else 0.0

    complete = [each for each in results if each.state == "complete"]
    return min(complete, key=rank, default=None)


def front_of(results: Sequence[TrialResult], settings: TuningSettings) -> list[TrialResult]:
    """Return the Pareto front of time and objective among complete trials, fastest first."""
    complete = [each for each in results if each.state == "complete"]
    front: list[TrialResult] = []
    for each in sorted(complete, key=lambda each: (each.time, _badness(each, settings))):
        if not front or _badness(each, settings) < _badness(front[-1], settings):
            front.append(each)
    return front


def _badness(result: TrialResult, settings: TuningSettings) -> float:
    return -result.value if settings.is_maximised else result.value


@dataclass(frozen=True)
class TuningReport:
    """All trials of a search, its best trials and the importance of the settings."""

    settings: TuningSettings
    keys: tuple[str, ...]
    """Keys of the searched settings."""
    results: list[TrialResult]
    importance: dict[str, float]
    """Share of the differences in the objective that each setting explains, by PED-ANOVA
    [Watanabe2023]; empty with few trials."""

    @classmethod
    def of(cls, store: TrialStore, plan: TuningPlan) -> TuningReport:
        """Return the report on the present state of a search."""
        keys = tuple(plan.space.searched)
        return cls(plan.settings, keys, results_of(store), _importance(store, plan.settings))

    @property
    def best(self) -> TrialResult | None:
        """Trial with the best objective, ignoring time; None before any is complete."""
        return best_of(self.results, self.settings)

    @property
    def front(self) -> list[TrialResult]:
        """Trials to choose from: the Pareto front if time is an objective, else the best one."""
        if self.settings.and_time:
            return front_of(self.results, self.settings)
        return [] if self.best is None else [self.best]

    def as_dict(self) -> dict[str, Any]:
        """Return everything for JSON."""
        return {
            "game": self.settings.game,
            "objective": self.settings.objective,
            "and_time": self.settings.and_time,
            "trials": [each.as_dict() for each in self.results],
            "best": None if self.best is None else self.best.number,
            "front": [each.number for each in self.front],
            "importance": self.importance,
        }

    def table(self, *, all_trials: bool = False) -> Table:
        """Return a table of the best trials, or of all, those of the front first."""
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
        chosen = "Pareto front" if self.settings.and_time else "best"
        title = f"{self.settings.game}, {objective} with 95 % intervals: {counts}; * {chosen}"
        columns = ["trial", objective, Column("hours", ".3g"), *self.keys, "state"]
        return Table("tuning", title, columns, rows)

    def _ranked(self) -> list[TrialResult]:
        front = {each.number for each in self.front}
        places = {"complete": 0, "pruned": 1, "running": 2, "refused": 3}

        def place(each: TrialResult) -> tuple[bool, int, float]:
            known = each.objective is not None
            badness = _badness(each, self.settings) if known else math.inf
            return each.number not in front, places[each.state], badness

        return sorted(self.results, key=place)


def _importance(store: TrialStore, settings: TuningSettings) -> dict[str, float]:
    complete = [each for each in store.trials() if each.state == TrialState.COMPLETE]
    if len(complete) < LEAST_FOR_IMPORTANCE:
        return {}
    sign = -1.0 if settings.is_maximised else 1.0  # PED-ANOVA minimises, and warns that it does
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return get_param_importances(store.study, target=lambda trial: sign * trial.values[0])


def _shown(result: TrialResult, objective: Objective) -> str:
    """Return the objective with its interval, rounded."""
    if result.objective is None:
        return "not measured"
    value, low, high = (_number(number, objective) for number in result.objective)
    return f"{value} ({low} to {high})" if result.objective.is_known else value


def _number(value: float, objective: Objective) -> str:
    if objective == "accuracy":
        return f"{100 * value:.1f} %"
    return f"{value:+.0f}" if objective == "elo" else f"{value:.4f}"


def short(value: Value | None) -> str:
    """Return the value of a setting in a trial, rounded; empty if the setting does not apply."""
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


_AXES = {
    "accuracy": "strong accuracy with search",
    "elo": "Elo against {opponent}",
    "loss": "loss of the last iteration, all heads",
}
_FAINT = "#999999"


def draw_tuning(report: TuningReport) -> Figure:
    """Draw the objective over trials, or over hours if time is an objective, and importance.

    At least one trial must be complete.
    """
    parts = 2 if report.importance else 1
    figure = new_figure(5.6 * parts, 4.2)
    panels = figure.subplots(1, parts, squeeze=False)[0]
    draw_trials = _draw_front if report.settings.and_time else _draw_history
    handles = draw_trials(panels[0], report)
    panels[0].set_ylabel(_AXES[report.settings.objective].format(opponent=report.settings.opponent))
    panels[0].grid(alpha=0.3)
    if report.importance:
        _draw_importance(panels[1], report.importance)
    legend_below(figure, handles)
    figure.suptitle(f"{report.settings.game}, {len(report.results)} trials", parse_math=False)
    return figure


def _draw_history(axes: Axes, report: TuningReport) -> list[Artist]:
    complete = _measured(report.results, "complete")
    numbers = [each.number for each in complete]
    handles = [_draw_points(axes, numbers, complete, colour(0), "complete, 95 % interval")]
    better = max if report.settings.is_maximised else min
    best = list(accumulate((each.value for each in complete), better))
    handles += axes.step(numbers, best, where="post", color=colour(2), label="best so far")
    if pruned := _measured(report.results, "pruned"):
        handles += axes.plot(
            [each.number for each in pruned], [each.value for each in pruned], "x",
            color=colour(1), label="pruned, at its last measurement",
        )  # fmt: skip
    axes.set_title("history")
    axes.set_xlabel("trial")
    axes.locator_params(axis="x", integer=True)
    return handles


def _draw_front(axes: Axes, report: TuningReport) -> list[Artist]:
    front = report.front
    others = [each for each in _measured(report.results, "complete") if each not in front]
    handles = []
    if others:
        hours = [each.time for each in others]
        handles.append(_draw_points(axes, hours, others, _FAINT, "beaten by another"))
    hours = [each.time for each in front]
    label = "Pareto front, 95 % interval"
    handles.append(_draw_points(axes, hours, front, colour(0), label))
    values = [each.value for each in front]
    axes.step(hours, values, where="post", color=colour(0), alpha=0.6)
    for each, x, y in zip(front, hours, values, strict=True):
        axes.annotate(f" {each.number}", (x, y), va="bottom", fontsize=8)
    axes.set_title("Pareto front, by trial")
    axes.set_xlabel("hours of training")
    return handles


def _draw_importance(axes: Axes, importance: dict[str, float]) -> None:
    names = [shortened(each) for each in importance]
    axes.barh(range(len(names)), list(importance.values()), color=colour(0))
    axes.set_yticks(range(len(names)), names, parse_math=False)
    axes.invert_yaxis()
    axes.set_title("importance (PED-ANOVA)")
    axes.set_xlabel("share")
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)


def _measured(results: Sequence[TrialResult], state: str) -> list[TrialResult]:
    return [each for each in results if each.state == state and each.objective is not None]


def _draw_points(
    axes: Axes, x: Sequence[float], results: Sequence[TrialResult], shade: str, label: str
) -> Any:
    """Draw objectives with their intervals, if any; return the handle for a legend."""
    measured = [each.objective for each in results if each.objective is not None]
    errors = [[each.margins[side] for each in measured] for side in (0, 1)]
    y = [each.value for each in measured]
    return axes.errorbar(
        x, y, yerr=errors, fmt="o", markersize=4, capsize=2.5, color=shade, label=label
    )
