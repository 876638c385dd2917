"""Designs of studies: runs, tournaments and computations, planned before any work starts.

A run is identified by a digest of everything that its result depends on. Two plans that ask for the
same run therefore share it, within a study and between studies, and it is trained once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any

from zerolab.core.errors import UserError, nearest, quoted
from zerolab.core.nested_tables import flatten
from zerolab.evaluation.collecting import DatasetSettings
from zerolab.store.checks import digest
from zerolab.training.configure import resolve_settings
from zerolab.training.inputs import count_features
from zerolab.training.learn_settings import SET_BY_RUN
from zerolab.training.settings import TrainSettings

Level = str | int | float
"""Level of a factor in a run."""

NOT_MADE_YET = "not made yet"
"""Placeholder in plans for the digest of solved positions."""

_KEY_LENGTH = 16
_FEATURES = "network.heads.features"


@dataclass(frozen=True)
class PlannedPositions:
    """A file of solved positions that runs learn from or are measured on."""

    label: str
    """Name among the positions of the study."""
    game: str
    count: int
    """Number of positions; see `make_dataset`."""
    settings: DatasetSettings
    seconds: float
    """Estimated time on one core."""
    part: str = ""
    """First part of the study that needs them; see `Design.positions`."""

    @property
    def title(self) -> str:
        """Name in progress displays and lists of failures."""
        return f"{self.part}: positions {self.label}"

    @cached_property
    def key(self) -> str:
        """Digest of everything that the file depends on."""
        facts = [self.game, self.count, self.settings.model_dump(mode="json")]
        return digest(json.dumps(facts, sort_keys=True).encode())[:_KEY_LENGTH]

    @property
    def file(self) -> str:
        """Name of the file in the study's folder and in the folders of runs."""
        return f"{self.key}.parquet"


@dataclass(frozen=True)
class PlannedRun:
    """A run that a study needs."""

    part: str
    """Part of the study, as named by ``--only``."""
    factors: Mapping[str, Level]
    """Levels that distinguish it from the other runs of the study, including the seed."""
    settings: TrainSettings
    positions: Sequence[PlannedPositions] = ()
    """Solved positions that the settings name by `PlannedPositions.file`."""
    source: PlannedRun | None = None
    """Run whose final network provides the features to learn; the settings name it by its key."""
    start: PlannedRun | None = None
    """Run whose final network it starts from; the settings name it by its key."""

    @property
    def sources(self) -> tuple[PlannedRun, ...]:
        """Runs that must be finished before this one can begin."""
        return tuple(each for each in (self.source, self.start) if each is not None)

    @cached_property
    def label(self) -> str:
        """Name of the run within its part: its levels, such as ``wrora/seed=3``."""
        return "/".join(
            level if isinstance(level, str) else f"{name}={level}"
            for name, level in self.factors.items()
        )

    @property
    def title(self) -> str:
        """Name in progress displays and lists of failures; unique within a study."""
        return f"{self.part}: {self.label}"

    @property
    def learnt_positions(self) -> int:
        """Number of solved positions to learn from, including those for validation and test."""
        file = self.settings.supervised.positions
        return next((each.count for each in self.positions if each.file == file), 0)

    @cached_property
    def key(self) -> str:
        """Digest that identifies the run; see `run_key`."""
        return run_key(self.settings)


def run_key(settings: TrainSettings) -> str:
    """Return the digest of all settings that the result of a run depends on.

    The name of the preset and the number of threads do not count. Neither do values that follow
    from others: the content of solved positions, named by a digest in `PlannedPositions.file`, and
    the fields of heads and of ``start`` that are filled in when a run begins. Empty values are left
    out, so that a new list of options changes no key where it is empty.
    """
    data = settings.model_dump(mode="json", exclude={"preset"})
    known = {key: value for key, value in flatten(data) if value not in ([], {}, ())}
    del known["selfplay.threads"]
    known["supervised.digest"] = ""
    for found in SET_BY_RUN:
        known.pop(f"start.{found}", None)
    known["network.heads"] = [
        each.model_dump(mode="json", exclude=set(each.set_by_run))
        for each in settings.network.heads
    ]
    return digest(json.dumps(known, sort_keys=True).encode())[:_KEY_LENGTH]


@dataclass(frozen=True)
class PlannedTournament:
    """A round robin between the networks of runs and other agents."""

    part: str
    game: str
    entrants: Mapping[str, PlannedRun] = field(default_factory=dict)
    """Runs by the names under which their networks play."""
    after: Mapping[str, int] = field(default_factory=dict)
    """Iterations, by entrant, after which the best network is taken; the final one by default."""
    agents: Sequence[str] = ("random",)
    """Specs of agents that need no run."""
    games: int = 20
    """Games of each pair."""
    openings: int = 0
    """Random plies at the start of each game."""
    options: str = ""
    """Search options of all networks, written as after the ? of a spec; by default those of their
    training."""
    name: str = ""
    """Name among the tournaments of the part."""

    @property
    def key(self) -> str:
        """Name of the tournament within the study."""
        return "-".join(filter(None, (self.part, self.name)))

    @property
    def facts(self) -> dict[str, Any]:
        """Everything that the games depend on."""
        entrants = {name: run.key for name, run in self.entrants.items()}
        return {**vars(self), "entrants": entrants, "after": dict(self.after)}

    @property
    def pairs(self) -> int:
        """Number of pairs that meet."""
        players = len(self.entrants) + len(self.agents)
        return players * (players - 1) // 2


@dataclass(frozen=True)
class PlannedComputation:
    """A computation that is neither run nor tournament; its result is kept as JSON."""

    part: str
    label: str
    """Name within the part."""
    function: str
    """``module:name`` of a function that returns a table of numbers."""
    arguments: Mapping[str, Any]
    """Arguments by name; the result depends on nothing else."""
    seconds: float
    """Estimated time on one core."""

    @property
    def title(self) -> str:
        """Name in progress displays and lists of failures; unique within a study."""
        return f"{self.part}: {self.label}"

    @cached_property
    def key(self) -> str:
        """Digest of function and arguments."""
        facts = json.dumps([self.function, dict(self.arguments)], sort_keys=True)
        return digest(facts.encode())[:_KEY_LENGTH]


@dataclass(frozen=True)
class Design:
    """All that a study trains, plays and computes at a scale."""

    runs: Sequence[PlannedRun]
    tournaments: Sequence[PlannedTournament] = ()
    computations: Sequence[PlannedComputation] = ()
    solved: Sequence[PlannedPositions] = ()
    """Positions on which the report measures networks; each names its part."""

    def __post_init__(self) -> None:
        labels = [(run.part, run.label) for run in self.runs]
        assert len(set(labels)) == len(labels), "two runs of a part have the same label"

    @cached_property
    def positions(self) -> list[PlannedPositions]:
        """All solved positions, each file once, in the first part that needs it."""
        of_runs = (replace(each, part=run.part) for run in self.runs for each in run.positions)
        distinct: dict[str, PlannedPositions] = {}
        for each in (*of_runs, *self.solved):
            distinct.setdefault(each.key, each)
        return list(distinct.values())

    @property
    def parts(self) -> list[str]:
        """Names of the parts, in order."""
        every = [run.part for run in self.runs]
        every += [each.part for each in self.tournaments]
        every += [each.part for each in self.computations]
        return list(dict.fromkeys(every))

    def only(self, parts: Sequence[str]) -> Design:
        """Return the design of some parts, with the runs of other parts that theirs depend on.

        No `parts` means all. Raises UserError for an unknown part.
        """
        for part in parts:
            if part not in self.parts:
                known = ", ".join(self.parts)
                raise UserError(
                    f"unknown part {quoted(part)}: expected one of {known}"
                    f"{nearest(part, self.parts)}"
                )
        if not parts:
            return self
        own = [run for run in self.runs if run.part in parts]
        needed = _with_sources(own) - {run.key for run in own}
        return Design(
            [run for run in self.runs if run.part in parts or run.key in needed],
            [each for each in self.tournaments if each.part in parts],
            [each for each in self.computations if each.part in parts],
            [each for each in self.solved if each.part in parts],
        )

    @cached_property
    def distinct_runs(self) -> dict[str, PlannedRun]:
        """Runs by their keys; equal runs count once."""
        distinct: dict[str, PlannedRun] = {}
        for run in self.runs:
            distinct.setdefault(run.key, run)
        return distinct

    @cached_property
    def digest(self) -> str:
        """Digest of everything that is trained, played or computed."""
        facts = {
            "runs": [(run.part, run.label, run.key) for run in self.runs],
            "tournaments": [each.facts for each in self.tournaments],
            "computations": [(each.part, each.label, each.key) for each in self.computations],
        }
        return digest(json.dumps(facts, sort_keys=True).encode())[:_KEY_LENGTH]


def _with_sources(runs: Iterable[PlannedRun]) -> set[str]:
    """Return the keys of runs and, recursively, of the runs that they depend on."""
    keys: set[str] = set()
    left = list(runs)
    while left:
        run = left.pop()
        if run.key not in keys:
            keys.add(run.key)
            left += run.sources
    return keys


def planned_run(
    part: str,
    game: str,
    preset: str,
    factors: Mapping[str, Level],
    changes: Mapping[str, Any],
    seed: int = 0,
    *,
    group: int = 0,
    positions: Mapping[str, PlannedPositions] | None = None,
    source: PlannedRun | None = None,
    start: PlannedRun | None = None,
) -> PlannedRun:
    """Plan a run of a preset with some settings changed; `seed` becomes a factor.

    `changes` has dotted keys. Runs of one seed in different `group`s share no random numbers, not
    even the first network. `positions` are solved positions by the setting that names them, such as
    ``accuracy.positions``. The head ``features`` learns the features of `source`. The run starts
    from the network of `start`, in the manner of ``start.transfer`` and with the same architecture;
    preset and changes give its sizes.
    """
    given: dict[str, Any] = {key: each.file for key, each in (positions or {}).items()}
    if "supervised.positions" in given:
        given["supervised.digest"] = NOT_MADE_YET
    if source is not None:
        width = count_features(source.settings)
        given |= {f"{_FEATURES}.source": source.key, f"{_FEATURES}.width": width}
    begun: dict[str, Any] = {}
    if start is not None:
        begun = {"start.source": start.key, "network.name": start.settings.network.name}
    changed = {**begun, **changes, **given, "seed": 1000 * group + seed}
    settings = resolve_settings(game, preset, list(flatten(changed)))
    needed = tuple((positions or {}).values())
    return PlannedRun(part, {**factors, "seed": seed}, settings, needed, source, start)


def full_product(levels: Mapping[str, Sequence[Level]]) -> Iterator[dict[str, Level]]:
    """Yield all combinations of the levels of some factors."""
    for chosen in product(*levels.values()):
        yield dict(zip(levels, chosen, strict=True))


def one_at_a_time(
    levels: Mapping[str, Sequence[Level]], default: Mapping[str, Level]
) -> Iterator[dict[str, Level]]:
    """Yield the defaults and all combinations that differ from them in exactly one factor."""
    yield dict(default)
    for name, values in levels.items():
        for value in values:
            if value != default[name]:
                yield {**default, name: value}
