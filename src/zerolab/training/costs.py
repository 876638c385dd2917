"""Costs of a run after each iteration, and a summary of its training, from its records."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import PurePath
from typing import Any, NamedTuple

from zerolab.core.errors import UserError
from zerolab.evaluation.cards import TrainingSummary
from zerolab.networks.objectives import EvaluatorOutputName
from zerolab.play.selfplay_settings import MAX_THREADS
from zerolab.rules.catalogue import parse_game
from zerolab.store.arrays import AgentOrigin
from zerolab.store.run_folder import RunFolder
from zerolab.training.configure import no_effect_message, resolve_settings, saved_settings
from zerolab.training.learn_settings import START_FIELDS_SET_BY_RUN
from zerolab.training.move_times import MoveTimes, move_kind
from zerolab.training.records import AccuracyRecord, LearnRecord, Record, SelfPlayRecord
from zerolab.training.reporting import best_network_after, read_records
from zerolab.training.shorthands import preset_names
from zerolab.training.train_settings import TrainSettings
from zerolab.training.warm_start import warm_start_search_settings

_MILLISECONDS_PER_HOUR = 3_600_000.0
_BASIC_OUTPUTS: tuple[EvaluatorOutputName, ...] = ("priors", "values")


class CumulativeCost(NamedTuple):
    """Cumulative cost of a run from its start to the end of an iteration.

    Gate games, accuracy measurements and the final evaluation are included only in `seconds`.
    """

    iteration: int
    games: int = 0
    """Finished self-play games."""
    moves: int = 0
    """Searched moves in self-play, including random plies in episodic and continuous mode."""
    simulations: int = 0
    """Simulations of all searched moves."""
    evaluated: int = 0
    """Leaves evaluated by the network in self-play."""
    deduplicated: int = 0
    """Leaves identical to another leaf of the same step, which need no evaluation."""
    cached: int = 0
    """Leaves with a cached evaluation."""
    terminal: int = 0
    """Leaves with a finished game or a proven result, which need no evaluation."""
    examples_seen: int = 0
    """Training examples, including repetitions."""
    selfplay_flops: int = 0
    """Floating-point operations of the network in self-play (see `networks.catalogue`)."""
    learn_flops: int = 0
    """Floating-point operations of training."""
    seconds: Mapping[str, float] = {}
    """Wall-clock seconds by stage, on the run's machine."""
    reference_hours: float | None = None
    """Hours of self-play on the reference machine: moves times milliseconds per move [Clausen2021].
    A move with fewer simulations than the measured moves, such as a random ply, counts
    proportionally. None if there is no reference."""
    accuracy: AccuracyRecord | None = None
    """The accuracy measured in this iteration; None if it was not measured."""

    def __repr__(self) -> str:
        return (
            f"<CumulativeCost after iteration {self.iteration}: {self.games:,} games,"
            f" {self.simulations:,} simulations>"
        )

    @property
    def avoided_evaluations(self) -> int:
        """Evaluations avoided by deduplication and by the cache."""
        return self.deduplicated + self.cached

    @property
    def search_strong_accuracy(self) -> float | None:
        """Strong accuracy with search: share of positions where the best network plays a best move.

        None if it was not measured in this iteration.
        """
        return None if self.accuracy is None else self.accuracy.search_strong

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON, with the strong accuracies of search and network."""
        fields = {**self._asdict(), "seconds": dict(self.seconds)}
        accuracy = fields.pop("accuracy")
        names = ("search_strong", "search_strong_low", "search_strong_high", "network_strong")
        return fields | ({name: getattr(accuracy, name) for name in names} if accuracy else {})


def run_costs(run: RunFolder, reference: MoveTimes | None = None) -> list[CumulativeCost]:
    """Return the cost of a run after each iteration; the last iteration can be unfinished.

    Raises UserError if the run is damaged or has no finished stage, or if the reference has no
    measurement for one of the run's networks.
    """
    settings, records = saved_settings(run), read_records(run)
    if not records:
        raise UserError(f"{run.path} has no finished stage yet, so there are no costs to report")
    try:
        return iteration_costs(settings, records, reference)
    except MissingMoveTimeError as error:
        raise UserError(
            f"the reference has no measurement of {error}: run zerolab cost --measure"
            f" {shlex.quote(str(run.path))} on the reference machine"
        ) from None


def cost_to_reach(
    costs: Iterable[CumulativeCost], levels: Iterable[float]
) -> dict[float, CumulativeCost | None]:
    """Return the cost of reaching each level, in [0, 1], of strong accuracy with search.

    This is the cost after the first iteration with at least that accuracy; None if no iteration
    reached it.
    """
    measured = [cost for cost in costs if cost.search_strong_accuracy is not None]
    return {
        level: next(
            (cost for cost in measured if (cost.search_strong_accuracy or 0.0) >= level), None
        )
        for level in levels
    }


class MissingMoveTimeError(Exception):
    """Error for a kind of move without a measurement in the reference."""


def iteration_costs(
    settings: TrainSettings, records: Sequence[Record], reference: MoveTimes | None = None
) -> list[CumulativeCost]:
    """Return the cost of a run after each iteration, from its settings and records.

    Raises MissingMoveTimeError if the reference has no measurement for one of the run's networks.
    """
    return list(_costs(settings, records, reference))


def _costs(
    settings: TrainSettings, records: Sequence[Record], reference: MoveTimes | None
) -> Iterator[CumulativeCost]:
    cost = CumulativeCost(0, seconds={}, reference_hours=None if reference is None else 0.0)
    for iteration, group in groupby(records, attrgetter("iteration")):
        cost = cost._replace(iteration=iteration, accuracy=None)
        for record in group:
            seconds = cost.seconds.get(record.stage, 0.0) + record.wall_seconds
            cost = cost._replace(seconds={**cost.seconds, record.stage: seconds})
            match record:
                case SelfPlayRecord():
                    player = best_network_after(records, iteration - 1 - settings.selfplay.lag)
                    cost = _with_self_play(cost, settings, record, player, reference)
                case LearnRecord():
                    cost = _with_learning(cost, settings, record)
                case AccuracyRecord():
                    cost = cost._replace(accuracy=record)
                case _:
                    pass
        yield cost


def _with_self_play(
    cost: CumulativeCost,
    settings: TrainSettings,
    record: SelfPlayRecord,
    player: int,
    reference: MoveTimes | None,
) -> CumulativeCost:
    """Add self-play games played by the network of iteration `player`."""
    counts = "games", "simulations", "evaluated", "deduplicated", "cached", "terminal"
    hours = cost.reference_hours
    if reference is not None and hours is not None:
        hours += record.simulations * _hours_per_simulation(settings, player, reference)
    return cost._replace(
        **{name: getattr(cost, name) + getattr(record, name) for name in counts},
        moves=cost.moves + record.searched_move_count,
        selfplay_flops=cost.selfplay_flops + record.evaluated * _flops(settings, record, player),
        reference_hours=hours,
    )


def _with_learning(
    cost: CumulativeCost, settings: TrainSettings, record: LearnRecord
) -> CumulativeCost:
    from zerolab.networks.catalogue import training_flops

    network, is_frozen = (
        settings.network_settings_at(record.iteration),
        settings.learn.frozen == "trunk",
    )
    flops = training_flops(network, parse_game(settings.game), is_trunk_frozen=is_frozen)
    return cost._replace(
        examples_seen=cost.examples_seen + record.examples_seen,
        learn_flops=cost.learn_flops + record.examples_seen * flops,
    )


def _flops(settings: TrainSettings, record: SelfPlayRecord, player: int) -> int:
    """Return the operations per evaluation in self-play by the network of iteration `player`."""
    from zerolab.networks.catalogue import evaluation_flops

    weight = record.warm_start_weight or 0.0
    search = warm_start_search_settings(settings.search, settings.warm_start, weight)
    extra_outputs: tuple[EvaluatorOutputName, ...] = tuple(sorted(search.extra_outputs))
    network, game = settings.network_settings_at(player), parse_game(settings.game)
    return evaluation_flops(network, game, (*_BASIC_OUTPUTS, *extra_outputs))


def _hours_per_simulation(settings: TrainSettings, player: int, reference: MoveTimes) -> float:
    kind = move_kind(settings, player)
    move = reference.find(kind)
    if move is None:
        raise MissingMoveTimeError(str(kind))
    return move.milliseconds_per_simulation / _MILLISECONDS_PER_HOUR


_MEASUREMENTS = ("accuracy", "supervised", "final_evaluation", "unplayed_baseline")
"""Stages that measure networks without changing them."""
_WITHOUT_EFFECT = ("game", "preset", "device", "final_evaluation")
"""Settings that the command names separately, or that never change networks."""
_SET_BY_RUN = ("supervised.digest", *(f"start.{name}" for name in START_FIELDS_SET_BY_RUN))
_POSITIONS = "supervised.positions"
_BASE_PRESET, _SUPERVISED_PRESET = "mini", "supervised"
_SECONDS_PER_HOUR = 3600.0


def training_summary(run: RunFolder, origin: AgentOrigin) -> TrainingSummary:
    """Return a summary of the training of the network with this origin, for its agent's card.

    Paths are reduced to their last component. Raises UserError if the run is damaged.
    """
    settings = saved_settings(run)
    known = settings.preset in preset_names()
    usual = _SUPERVISED_PRESET if settings.supervised.positions else _BASE_PRESET
    preset = settings.preset if known else usual
    base = resolve_settings(settings.game, preset, allow_programs=True).model_dump(mode="json")
    if origin.environments:  # the default depends on the cores of the run's machine
        base["selfplay"]["threads"] = min(MAX_THREADS, origin.environments[0].threads)
    own = settings.model_dump(mode="json")
    if not settings.stop.needs_accuracy:
        del own["accuracy"]  # it changes no network
    changed = {
        key: value
        for key, value in _differences(base, own)
        if not no_effect_message(settings, key)  # the command would reject the others
    }
    records = [each for each in read_records(run) if each.iteration <= origin.iteration]
    seconds = sum(each.wall_seconds for each in records if each.stage not in _MEASUREMENTS)
    return TrainingSummary(
        preset=origin.preset,
        settings=changed,
        command=_command(settings, preset, changed, origin.run),
        iterations=origin.iteration,
        games=origin.games,
        positions=origin.positions,
        hours=round(seconds / _SECONDS_PER_HOUR, 4),
        environments=origin.environments,
    )


def _differences(
    base: Mapping[str, Any], own: Mapping[str, Any], prefix: str = ""
) -> Iterator[tuple[str, Any]]:
    """Yield the settings that differ from `base`, as assignable dotted keys and values.

    If the name of a variant differs, all settings of the variant are included.
    """
    has_other_name = base.get("name") != own.get("name")
    for name, value in own.items():
        key = prefix + name
        if key in _WITHOUT_EFFECT or key in _SET_BY_RUN:
            continue
        inherited = None if has_other_name else base.get(name)
        if isinstance(value, Mapping) and value:
            inner = inherited if isinstance(inherited, Mapping) else {}
            yield from _differences(inner, value, f"{key}.")
        elif value != inherited:
            yield key, _without_folders(value)


def _without_folders(value: Any) -> Any:
    """Return a value with paths replaced by their last component, because folders are private."""
    if isinstance(value, str):
        return PurePath(value).name if "/" in value else value
    if isinstance(value, Mapping):
        return {name: _without_folders(each) for name, each in value.items()}
    return list(map(_without_folders, value)) if isinstance(value, list) else value


def _command(settings: TrainSettings, preset: str, changed: Mapping[str, Any], run: str) -> str:
    """Return the command that trains a run with some changes to a preset."""
    positions = changed.get(_POSITIONS)
    command = ["train", settings.game] if positions is None else ["fit", str(positions)]
    assignments = [
        word
        for key, value in changed.items()
        if key != _POSITIONS
        for word in ("--set", f"{key}={_toml(value)}")
    ]
    return shlex.join(
        ["zerolab", *command, "--preset", preset, *assignments, "--run", f"runs/{run}"]
    )


def _toml(value: Any) -> str:
    """Return a value on one line of TOML."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{name} = {_toml(each)}' for name, each in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)
