"""Report on a settings search, with tables, figures and the best settings."""

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
"""State of a trial. It is refused if its settings are incompatible or training diverges."""

LEAST_FOR_IMPORTANCE = 10
"""Smallest number of complete trials for estimating importance."""

_TERMINAL_ROWS = 10  # trials in a table for the terminal
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
    """Last measured objective, or None if it was never measured."""
    hours: float | None
    """Training time in hours, or None if the trial is not finished."""
    reason: str
    """Reason for refusing the trial, or an empty string."""

    @property
    def value(self) -> float:
        """Objective of a measured trial."""
        assert self.objective is not None
        return self.objective.value

    @property
    def time(self) -> float:
        """Training time of a measured trial in hours."""
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
        """Return the objective in one line, without the training time."""
        return f"{objective} {_objective_text(self, objective)}"


def results_of(store: TrialStore) -> list[TrialResult]:
    """Return the results of all trials, ordered by number."""
    return [_result(trial) for trial in store.trials()]


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
    """Return the complete trial with the best objective, or None if no trial is complete.

    Ties are broken in favour of the fastest trial if time is an objective, otherwise in favour of
    the first trial.
    """

    def rank(result: TrialResult) -> tuple[float, float]:
        return _minimised(result, settings), result.time if settings.and_time else 0.0

    complete = [result for result in results if result.state == "complete"]
    return min(complete, key=rank, default=None)


def front_of(results: Sequence[TrialResult], settings: TuningSettings) -> list[TrialResult]:
    """Return the Pareto front of time and objective among complete trials, fastest first."""
    complete = [result for result in results if result.state == "complete"]
    complete.sort(key=lambda result: (result.time, _minimised(result, settings)))
    front: list[TrialResult] = []
    for result in complete:
        if not front or _minimised(result, settings) < _minimised(front[-1], settings):
            front.append(result)
    return front


def _minimised(result: TrialResult, settings: TuningSettings) -> float:
    """Return the objective, with a sign such that smaller is better."""
    return -result.value if settings.is_maximised else result.value


@dataclass(frozen=True)
class TuningReport:
    """Trials of a search, its best trials and the importance of its settings."""

    settings: TuningSettings
    keys: tuple[str, ...]
    """Keys of the searched settings."""
    results: list[TrialResult]
    importance: dict[str, float]
    """Share of the variation in the objective that each setting explains, estimated with PED-ANOVA
    [Watanabe2023]. Empty if there are too few trials."""

    @classmethod
    def of(cls, store: TrialStore, plan: TuningPlan) -> TuningReport:
        """Return the report on the current state of a search."""
        keys = tuple(plan.space.searched)
        return cls(plan.settings, keys, results_of(store), _importance(store, plan.settings))

    @property
    def best(self) -> TrialResult | None:
        """Trial with the best objective, ignoring time, or None if no trial is complete."""
        return best_of(self.results, self.settings)

    @property
    def front(self) -> list[TrialResult]:
        """Pareto front if time is an objective, otherwise the best trial."""
        if self.settings.and_time:
            return front_of(self.results, self.settings)
        return [] if self.best is None else [self.best]

    def as_dict(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        return {
            "game": self.settings.game,
            "objective": self.settings.objective,
            "and_time": self.settings.and_time,
            "trials": [result.as_dict() for result in self.results],
            "best": None if self.best is None else self.best.number,
            "front": [result.number for result in self.front],
            "importance": self.importance,
        }

    def table(self, *, all_trials: bool = False) -> Table:
        """Return a table of the best trials or of all trials, starting with the front."""
        ranked = self._ranked()
        selected = ranked if all_trials else ranked[: max(_TERMINAL_ROWS, len(self.front))]
        states = [result.state for result in self.results]
        counts = ", ".join(
            f"{states.count(state)} {state}" for state in dict.fromkeys(sorted(states))
        )
        objective = self.settings.objective
        front = {result.number for result in self.front}
        rows: list[list[Cell]] = [
            [
                f"{result.number}{' *' if result.number in front else ''}",
                one_line(result.reason)
                if result.state == "refused"
                else _objective_text(result, objective),
                result.hours,
                *(short(result.values.get(key)) for key in self.keys),
                result.state,
            ]
            for result in selected
        ]
        mark = "Pareto front" if self.settings.and_time else "best"
        title = f"{self.settings.game}, {objective} with 95 % intervals: {counts}; * {mark}"
        columns = ["trial", objective, Column("hours", ".3g"), *self.keys, "state"]
        return Table("tuning", title, columns, rows)

    def _ranked(self) -> list[TrialResult]:
        front = {result.number for result in self.front}
        state_ranks = {"complete": 0, "pruned": 1, "running": 2, "refused": 3}

        def rank(result: TrialResult) -> tuple[bool, int, float]:
            is_measured = result.objective is not None
            objective = _minimised(result, self.settings) if is_measured else math.inf
            return result.number not in front, state_ranks[result.state], objective

        return sorted(self.results, key=rank)


def _importance(store: TrialStore, settings: TuningSettings) -> dict[str, float]:
    complete = [trial for trial in store.trials() if trial.state == TrialState.COMPLETE]
    if len(complete) < LEAST_FOR_IMPORTANCE:
        return {}
    sign = -1.0 if settings.is_maximised else 1.0  # PED-ANOVA warns that it assumes minimisation
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return get_param_importances(store.study, target=lambda trial: sign * trial.values[0])


def _objective_text(result: TrialResult, objective: Objective) -> str:
    """Return the rounded objective with its interval."""
    if result.objective is None:
        return "not measured"
    value, low, high = (_number(number, objective) for number in result.objective)
    return f"{value} ({low} to {high})" if result.objective.is_known else value


def _number(value: float, objective: Objective) -> str:
    if objective == "accuracy":
        return f"{100 * value:.1f} %"
    return f"{value:+.0f}" if objective == "elo" else f"{value:.4f}"


def short(value: Value | None) -> str:
    """Return the rounded value of a setting, or an empty string if the setting does not apply."""
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


_AXES = {
    "accuracy": "strong accuracy of search",
    "elo": "Elo relative to {opponent}",
    "loss": "total loss in the last iteration",
}
_FAINT = "#999999"


def draw_tuning(report: TuningReport) -> Figure:
    """Draw the objective over trials, or over time if it is an objective, and importance.

    At least one trial must be complete.
    """
    count = 2 if report.importance else 1
    figure = new_figure(5.6 * count, 4.2)
    panels = figure.subplots(1, count, squeeze=False)[0]
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
    numbers = [result.number for result in complete]
    handles = [_draw_points(axes, numbers, complete, colour(0), "complete, 95 % interval")]
    better = max if report.settings.is_maximised else min
    best = list(accumulate((result.value for result in complete), better))
    handles += axes.step(numbers, best, where="post", color=colour(2), label="best so far")
    if pruned := _measured(report.results, "pruned"):
        handles += axes.plot(
            [result.number for result in pruned], [result.value for result in pruned], "x",
            color=colour(1), label="pruned, last measurement",
        )  # fmt: skip
    axes.set_title("history")
    axes.set_xlabel("trial")
    axes.locator_params(axis="x", integer=True)
    return handles


def _draw_front(axes: Axes, report: TuningReport) -> list[Artist]:
    front = report.front
    others = [result for result in _measured(report.results, "complete") if result not in front]
    handles = []
    if others:
        hours = [result.time for result in others]
        handles.append(_draw_points(axes, hours, others, _FAINT, "dominated"))
    hours = [result.time for result in front]
    label = "Pareto front, 95 % interval"
    handles.append(_draw_points(axes, hours, front, colour(0), label))
    values = [result.value for result in front]
    axes.step(hours, values, where="post", color=colour(0), alpha=0.6)
    for result, x, y in zip(front, hours, values, strict=True):
        axes.annotate(f" {result.number}", (x, y), va="bottom", fontsize=8)
    axes.set_title("Pareto front, with trial numbers")
    axes.set_xlabel("training time (h)")
    return handles


def _draw_importance(axes: Axes, importance: dict[str, float]) -> None:
    names = [shortened(key) for key in importance]
    axes.barh(range(len(names)), list(importance.values()), color=colour(0))
    axes.set_yticks(range(len(names)), names, parse_math=False)
    axes.invert_yaxis()
    axes.set_title("importance (PED-ANOVA)")
    axes.set_xlabel("share")
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)


def _measured(results: Sequence[TrialResult], state: str) -> list[TrialResult]:
    return [result for result in results if result.state == state and result.objective is not None]


def _draw_points(
    axes: Axes, x: Sequence[float], results: Sequence[TrialResult], shade: str, label: str
) -> Any:
    """Draw objectives with their known intervals, and return the handle for the legend."""
    objectives = [result.objective for result in results if result.objective is not None]
    errors = [[objective.margins[side] for objective in objectives] for side in (0, 1)]
    y = [objective.value for objective in objectives]
    return axes.errorbar(
        x, y, yerr=errors, fmt="o", markersize=4, capsize=2.5, color=shade, label=label
    )
