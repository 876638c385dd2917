"""Report on a settings search: table, figure and best settings."""

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
from zerolab.report.figures import add_legend_below, new_figure, series_colour, shorten_name
from zerolab.report.table import Cell, Column, Interval, Table
from zerolab.tuning.plan import Objective, TuningPlan, TuningSettings
from zerolab.tuning.space import SettingValue, TrialValues
from zerolab.tuning.trials import TrialStore, refusal_reason

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


TrialResultState = Literal["running", "complete", "pruned", "refused"]
"""State of a trial. A trial is refused if its settings are incompatible, if training diverges, or
if the run ends without a measurement of the objective."""

MIN_TRIALS_FOR_IMPORTANCE = 10
"""Minimum number of complete trials for an estimate of importance."""

_TERMINAL_ROWS = 10  # number of trials shown in the terminal
_STATES: dict[TrialState, TrialResultState] = {
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "pruned",
    TrialState.RUNNING: "running",
}


class TrialResult(NamedTuple):
    """State and outcome of a trial."""

    number: int
    """Number of the trial, counted from 0."""
    state: TrialResultState
    setting_values: TrialValues
    objective: Interval | None
    """Last measured objective, or None if it was never measured."""
    training_hours: float | None
    """Training time in hours, or None if the trial is running or refused."""
    refusal_reason: str
    """Reason for refusing the trial, or an empty string if it was not refused."""

    @property
    def objective_value(self) -> float:
        """Objective of a measured trial, without its interval."""
        assert self.objective is not None
        return self.objective.value

    @property
    def known_training_hours(self) -> float:
        """Training time of a measured trial, in hours."""
        assert self.training_hours is not None
        return self.training_hours

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON; unknown numbers are None."""
        objective = self.objective
        low, high = objective[1:] if objective and objective.is_bounded else (None, None)
        return {
            "number": self.number,
            "state": self.state,
            "values": self.setting_values,
            "objective": objective and objective.value,
            "low": low,
            "high": high,
            "hours": self.training_hours,
            "reason": self.refusal_reason,
        }

    def summary(self, objective: Objective) -> str:
        """Return the outcome in one line."""
        if self.state == "refused":
            return f"refused: {self.refusal_reason}"
        hours = "" if self.training_hours is None else f" after {self.training_hours:.3g} h"
        pruned = "pruned, " if self.state == "pruned" else ""
        return f"{pruned}{self.objective_text(objective)}{hours}"

    def objective_text(self, objective: Objective) -> str:
        """Return the name and the measured value of the objective in one line."""
        return f"{objective} {_measured_text(self, objective)}"


def trial_results(store: TrialStore) -> list[TrialResult]:
    """Return the results of all trials, ordered by number."""
    return [_result(trial) for trial in store.trials()]


def _result(trial: FrozenTrial) -> TrialResult:
    attributes, reason = trial.user_attrs, refusal_reason(trial)
    return TrialResult(
        trial.number,
        "refused" if reason and trial.state == TrialState.PRUNED else _STATES[trial.state],
        dict(trial.params),
        _objective_interval(trial.values[0], attributes) if trial.values else None,
        attributes.get("hours"),
        reason,
    )


def _objective_interval(value: float, attributes: Mapping[str, Any]) -> Interval:
    if "low" not in attributes:
        return Interval.unbounded(value)
    return Interval(value, attributes["low"], attributes["high"])


def best_result(results: Sequence[TrialResult], settings: TuningSettings) -> TrialResult | None:
    """Return the complete trial with the best objective, or None if no trial is complete.

    Ties are broken in favour of the fastest trial if time is an objective, otherwise in favour of
    the first trial.
    """

    def rank(result: TrialResult) -> tuple[float, float]:
        hours = result.known_training_hours if settings.and_time else 0.0
        return _minimised(result, settings), hours

    complete = [result for result in results if result.state == "complete"]
    return min(complete, key=rank, default=None)


def pareto_front_results(
    results: Sequence[TrialResult], settings: TuningSettings
) -> list[TrialResult]:
    """Return the complete trials on the Pareto front of time and objective, fastest first."""
    complete = [result for result in results if result.state == "complete"]
    complete.sort(key=lambda result: (result.known_training_hours, _minimised(result, settings)))
    front: list[TrialResult] = []
    for result in complete:
        if not front or _minimised(result, settings) < _minimised(front[-1], settings):
            front.append(result)
    return front


def _minimised(result: TrialResult, settings: TuningSettings) -> float:
    """Return the objective, negated if larger is better."""
    return -result.objective_value if settings.is_maximised else result.objective_value


@dataclass(frozen=True)
class TuningReport:
    """Results of a settings search, and the importance of the searched settings."""

    settings: TuningSettings
    searched_keys: tuple[str, ...]
    """Keys of the searched settings."""
    results: list[TrialResult]
    importance: dict[str, float]
    """Importance of each setting for being among the best trials, by key, from PED-ANOVA
    [Watanabe2023]; adds up to 1. Empty if there are too few trials."""

    @classmethod
    def from_store(cls, store: TrialStore, plan: TuningPlan) -> TuningReport:
        """Return the report on the current state of a settings search."""
        keys = tuple(plan.space.searched_domains)
        return cls(plan.settings, keys, trial_results(store), _importance(store, plan.settings))

    @property
    def best_result(self) -> TrialResult | None:
        """Result with the best objective, regardless of time; None if no trial is complete."""
        return best_result(self.results, self.settings)

    @property
    def leading_results(self) -> list[TrialResult]:
        """Results on the Pareto front if time is an objective; otherwise the best result."""
        if self.settings.and_time:
            return pareto_front_results(self.results, self.settings)
        return [] if self.best_result is None else [self.best_result]

    def as_dict(self) -> dict[str, Any]:
        """Return the report for JSON."""
        return {
            "game": self.settings.game,
            "objective": self.settings.objective,
            "and_time": self.settings.and_time,
            "trials": [result.as_dict() for result in self.results],
            "best": None if self.best_result is None else self.best_result.number,
            "front": [result.number for result in self.leading_results],
            "importance": self.importance,
        }

    def table(self, *, all_trials: bool = False) -> Table:
        """Return a table of the best trials, or of all trials; `leading_results` come first."""
        ranked = self._ranked()
        selected = (
            ranked if all_trials else ranked[: max(_TERMINAL_ROWS, len(self.leading_results))]
        )
        states = [result.state for result in self.results]
        counts = ", ".join(
            f"{states.count(state)} {state}" for state in dict.fromkeys(sorted(states))
        )
        objective = self.settings.objective
        front = {result.number for result in self.leading_results}
        rows: list[list[Cell]] = [
            [
                f"{result.number}{' *' if result.number in front else ''}",
                one_line(result.refusal_reason)
                if result.state == "refused"
                else _measured_text(result, objective),
                result.training_hours,
                *(setting_value_text(result.setting_values.get(key)) for key in self.searched_keys),
                result.state,
            ]
            for result in selected
        ]
        mark = "Pareto front" if self.settings.and_time else "best"
        title = f"{self.settings.game}, {objective} with 95 % intervals: {counts}; * {mark}"
        columns = ["trial", objective, Column("hours", ".3g"), *self.searched_keys, "state"]
        return Table("tuning", title, columns, rows)

    def _ranked(self) -> list[TrialResult]:
        front = {result.number for result in self.leading_results}
        state_ranks = {"complete": 0, "pruned": 1, "running": 2, "refused": 3}

        def rank(result: TrialResult) -> tuple[bool, int, float]:
            is_measured = result.objective is not None
            objective = _minimised(result, self.settings) if is_measured else math.inf
            return result.number not in front, state_ranks[result.state], objective

        return sorted(self.results, key=rank)


def _importance(store: TrialStore, settings: TuningSettings) -> dict[str, float]:
    complete = [trial for trial in store.trials() if trial.state == TrialState.COMPLETE]
    if len(complete) < MIN_TRIALS_FOR_IMPORTANCE or len({x.values[0] for x in complete}) == 1:
        return {}
    sign = -1.0 if settings.is_maximised else 1.0  # PED-ANOVA warns that it assumes minimisation
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return get_param_importances(
            store.optuna_study, target=lambda trial: sign * trial.values[0]
        )


def _measured_text(result: TrialResult, objective: Objective) -> str:
    """Return the rounded objective with its interval, or a note if it was not measured."""
    if result.objective is None:
        return "not measured"
    value, low, high = (_number(number, objective) for number in result.objective)
    return f"{value} ({low} to {high})" if result.objective.is_bounded else value


def _number(value: float, objective: Objective) -> str:
    if objective == "accuracy":
        return f"{100 * value:.1f} %"
    return f"{value:+.0f}" if objective == "elo" else f"{value:.4f}"


def setting_value_text(value: SettingValue | None) -> str:
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


def draw_trials_and_importance(report: TuningReport) -> Figure:
    """Draw the objective of each trial, and the importance of the settings.

    The x axis is the trial number, or the training time if time is an objective. At least one trial
    must be complete.
    """
    count = 2 if report.importance else 1
    figure = new_figure(5.6 * count, 4.2)
    panels = figure.subplots(1, count, squeeze=False)[0]
    draw_trials = _draw_front if report.settings.and_time else _draw_history
    handles = draw_trials(panels[0], report)
    panels[0].set_ylabel(
        _AXES[report.settings.objective].format(opponent=report.settings.match_opponent)
    )
    panels[0].grid(alpha=0.3)
    if report.importance:
        _draw_importance(panels[1], report.importance)
    add_legend_below(figure, handles)
    figure.suptitle(f"{report.settings.game}, {len(report.results)} trials", parse_math=False)
    return figure


def _draw_history(axes: Axes, report: TuningReport) -> list[Artist]:
    complete = _measured(report.results, "complete")
    numbers = [result.number for result in complete]
    handles = [_draw_points(axes, numbers, complete, series_colour(0), "complete, 95 % interval")]
    better = max if report.settings.is_maximised else min
    best = list(accumulate((result.objective_value for result in complete), better))
    handles += axes.step(numbers, best, where="post", color=series_colour(2), label="best so far")
    if pruned := _measured(report.results, "pruned"):
        handles += axes.plot(
            [result.number for result in pruned],
            [result.objective_value for result in pruned],
            "x",
            color=series_colour(1),
            label="pruned, last measurement",
        )
    axes.set_title("history")
    axes.set_xlabel("trial")
    axes.locator_params(axis="x", integer=True)
    return handles


def _draw_front(axes: Axes, report: TuningReport) -> list[Artist]:
    front = report.leading_results
    others = [result for result in _measured(report.results, "complete") if result not in front]
    handles = []
    if others:
        hours = [result.known_training_hours for result in others]
        handles.append(_draw_points(axes, hours, others, _FAINT, "dominated"))
    hours = [result.known_training_hours for result in front]
    label = "Pareto front, 95 % interval"
    handles.append(_draw_points(axes, hours, front, series_colour(0), label))
    values = [result.objective_value for result in front]
    axes.step(hours, values, where="post", color=series_colour(0), alpha=0.6)
    for result, x, y in zip(front, hours, values, strict=True):
        axes.annotate(f" {result.number}", (x, y), va="bottom", fontsize=8)
    axes.set_title("Pareto front, with trial numbers")
    axes.set_xlabel("training time (h)")
    return handles


def _draw_importance(axes: Axes, importance: dict[str, float]) -> None:
    names = [shorten_name(key) for key in importance]
    axes.barh(range(len(names)), list(importance.values()), color=series_colour(0))
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
    """Draw objectives with their known intervals, and return the legend handle."""
    objectives = [result.objective for result in results if result.objective is not None]
    errors = [[objective.margins[side] for objective in objectives] for side in (0, 1)]
    y = [objective.value for objective in objectives]
    return axes.errorbar(
        x, y, yerr=errors, fmt="o", markersize=4, capsize=2.5, color=shade, label=label
    )
