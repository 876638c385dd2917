"""What a study is made of: runs to train and tournaments to play, planned before any work starts.

A run is known by the digest of what its result depends on. So two plans that ask for the same run
share it, within a study and between studies, and it is trained once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any

from zerolab.core.errors import UserError, nearest, quoted
from zerolab.evaluation.collecting import DatasetSettings
from zerolab.store.checks import digest
from zerolab.store.folder import flat
from zerolab.training.configure import as_assignments, resolve_settings
from zerolab.training.inputs import features_width
from zerolab.training.learn_settings import FOUND
from zerolab.training.settings import TrainSettings

Level = str | int | float
"""What a factor is set to in a run."""

_KEY_LENGTH = 16
_LATER = {"growth.name": "none", "learn.frozen": "none"}
"""Settings that came after studies had been run, with the values that change nothing."""

_FEATURES = "network.heads.features"

NOT_MADE_YET = "not made yet"
"""In plans, in place of the digest of solved positions."""


@dataclass(frozen=True)
class PlannedPositions:
    """A file of solved positions that runs learn from or are measured on."""

    label: str
    """What tells them apart from the study's other positions."""
    game: str
    count: int
    """How many there are to be; see `make_dataset`."""
    settings: DatasetSettings
    seconds: float
    """About how long it takes on one core."""
    part: str = ""
    """The part of the study that needs them first; see `Design.positions`."""

    @property
    def title(self) -> str:
        """What people call the work of making them."""
        return f"{self.part}: positions {self.label}"

    @cached_property
    def key(self) -> str:
        """The digest of what the file depends on."""
        facts = [self.game, self.count, self.settings.model_dump(mode="json")]
        return digest(json.dumps(facts, sort_keys=True).encode())[:_KEY_LENGTH]

    @property
    def file(self) -> str:
        """The file's name, in the study's folder and in those of runs."""
        return f"{self.key}.parquet"


@dataclass(frozen=True)
class PlannedRun:
    """A run that a study needs."""

    part: str
    """The part of the study that it belongs to, which `--only` names."""
    factors: Mapping[str, Level]
    """What distinguishes it from the study's other runs, the seed included."""
    settings: TrainSettings
    positions: Sequence[PlannedPositions] = ()
    """Solved positions that the settings name by `PlannedPositions.file`."""
    source: PlannedRun | None = None
    """The run whose final network it learns the features of; the settings name it by its key."""
    start: PlannedRun | None = None
    """The run whose final network it starts from; the settings name it by its key, too."""

    @property
    def sources(self) -> tuple[PlannedRun, ...]:
        """The runs that have to be finished before this one can begin."""
        return tuple(each for each in (self.source, self.start) if each is not None)

    @cached_property
    def label(self) -> str:
        """The run's name within its part: its levels, such as ``wrora/seed=3``."""
        return "/".join(
            level if isinstance(level, str) else f"{name}={level}"
            for name, level in self.factors.items()
        )

    @property
    def learnt_positions(self) -> int:
        """How many solved positions a run learns from, some of them for validation and test."""
        file = self.settings.supervised.positions
        return next((each.count for each in self.positions if each.file == file), 0)

    @cached_property
    def key(self) -> str:
        """What the run is known by; see `run_key`."""
        return run_key(self.settings)


def run_key(settings: TrainSettings) -> str:
    """Return the digest of everything in some settings that the result of a run depends on.

    That is neither the name of the preset nor the number of threads; what solved positions hold
    follows from the name of their file, see `PlannedPositions`, and what heads have found out when
    a run began from their other fields. What is empty is left out, so
    that a later list of options, which nobody has used, changes no key; so are later choices that
    leave runs as they were.
    """
    data = settings.model_dump(mode="json", exclude={"preset"})
    known = {
        key: value
        for key, value in flat(data)
        if value not in ([], {}, ()) and (key, value) not in _LATER.items()
    }
    del known["selfplay.threads"]
    known["supervised.digest"] = ""
    for found in FOUND:
        known.pop(f"start.{found}", None)
    known["network.heads"] = [
        each.model_dump(mode="json", exclude=set(each.found)) for each in settings.network.heads
    ]
    return digest(json.dumps(known, sort_keys=True).encode())[:_KEY_LENGTH]


@dataclass(frozen=True)
class PlannedTournament:
    """A round robin between the final networks of runs and other agents."""

    part: str
    game: str
    entrants: Mapping[str, PlannedRun] = field(default_factory=dict)
    """Runs by the names under which their networks play."""
    after: Mapping[str, int] = field(default_factory=dict)
    """Entrants by name that play with the best network there was after an iteration; the others do
    so with the final one."""
    agents: Sequence[str] = ("random",)
    """Specs of players that need no run."""
    games: int = 20
    """Games of every pair."""
    openings: int = 0
    """Random plies at the start of a game."""
    options: str = ""
    """How all networks search where that is not how they were trained, as after the ? of a spec."""
    name: str = ""
    """What distinguishes it from other tournaments of its part."""

    @property
    def key(self) -> str:
        """The tournament's name within the study."""
        return "-".join(filter(None, (self.part, self.name)))

    @property
    def facts(self) -> dict[str, Any]:
        """Everything that the games depend on."""
        entrants = {name: run.key for name, run in self.entrants.items()}
        return {**vars(self), "entrants": entrants, "after": dict(self.after)}

    @property
    def pairs(self) -> int:
        """How many pairs meet."""
        players = len(self.entrants) + len(self.agents)
        return players * (players - 1) // 2


@dataclass(frozen=True)
class PlannedComputation:
    """Something else that is computed once, such as supervised learning, and kept as JSON."""

    part: str
    label: str
    """Its name within the part."""
    function: str
    """``module:name`` of a function that returns a table of numbers."""
    arguments: Mapping[str, Any]
    """By name; the result depends on nothing else."""
    seconds: float
    """About how long it takes on one core."""

    @property
    def title(self) -> str:
        """What people call it; different for all computations of a study."""
        return f"{self.part}: {self.label}"

    @cached_property
    def key(self) -> str:
        """The digest of function and arguments."""
        facts = json.dumps([self.function, dict(self.arguments)], sort_keys=True)
        return digest(facts.encode())[:_KEY_LENGTH]


@dataclass(frozen=True)
class Design:
    """Everything that a study trains, plays and computes at a scale."""

    runs: Sequence[PlannedRun]
    tournaments: Sequence[PlannedTournament] = ()
    computations: Sequence[PlannedComputation] = ()
    solved: Sequence[PlannedPositions] = ()
    """Positions that the report measures networks on; each names the part that it belongs to."""

    def __post_init__(self) -> None:
        labels = [(run.part, run.label) for run in self.runs]
        assert len(set(labels)) == len(labels), "two runs of a part have the same label"

    @cached_property
    def positions(self) -> list[PlannedPositions]:
        """All positions that are needed, each file once, in the part that needs it first."""
        of_runs = (replace(each, part=run.part) for run in self.runs for each in run.positions)
        distinct: dict[str, PlannedPositions] = {}
        for each in (*of_runs, *self.solved):
            distinct.setdefault(each.key, each)
        return list(distinct.values())

    @property
    def parts(self) -> list[str]:
        """The names of the parts, in order."""
        every = [run.part for run in self.runs]
        every += [each.part for each in self.tournaments]
        every += [each.part for each in self.computations]
        return list(dict.fromkeys(every))

    def only(self, parts: Sequence[str]) -> Design:
        """Return some parts alone, with the runs of others that theirs learn or start from.

        Raises UserError for a part that there is not.
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
        """The runs by their keys; plans that ask for the same one count once."""
        distinct: dict[str, PlannedRun] = {}
        for run in self.runs:
            distinct.setdefault(run.key, run)
        return distinct

    @cached_property
    def digest(self) -> str:
        """What changes with anything that is trained, played or computed."""
        facts = {
            "runs": [(run.part, run.label, run.key) for run in self.runs],
            "tournaments": [each.facts for each in self.tournaments],
            "computations": [(each.part, each.label, each.key) for each in self.computations],
        }
        return digest(json.dumps(facts, sort_keys=True).encode())[:_KEY_LENGTH]


def _with_sources(runs: Iterable[PlannedRun]) -> set[str]:
    """Return the keys of runs, of those that they need, and so on."""
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
    """Return a run of a preset with some settings changed, by dotted keys; `seed` is a factor.

    Runs of one seed in different `group`s have nothing in common: not the first network either.
    `positions` are solved ones by the settings that name them, such as ``accuracy.positions``; the
    features of `source` are what the head ``features`` learns. The network of `start` is what the
    run starts from, as ``start.transfer`` says, with the same architecture, whose sizes preset and
    changes give.
    """
    given: dict[str, Any] = {key: each.file for key, each in (positions or {}).items()}
    if "supervised.positions" in given:
        given["supervised.digest"] = NOT_MADE_YET
    if source is not None:
        width = features_width(source.settings)
        given |= {f"{_FEATURES}.source": source.key, f"{_FEATURES}.width": width}
    begun: dict[str, Any] = {}
    if start is not None:
        begun = {"start.source": start.key, "network.name": start.settings.network.name}
    changed = as_assignments({**begun, **changes, **given})
    settings = resolve_settings(game, preset, [*changed, f"seed={1000 * group + seed}"])
    needed = tuple((positions or {}).values())
    return PlannedRun(part, {**factors, "seed": seed}, settings, needed, source, start)


def full_product(levels: Mapping[str, Sequence[Level]]) -> Iterator[dict[str, Level]]:
    """Yield every combination of the levels of some factors."""
    for chosen in product(*levels.values()):
        yield dict(zip(levels, chosen, strict=True))


def one_at_a_time(
    levels: Mapping[str, Sequence[Level]], default: Mapping[str, Level]
) -> Iterator[dict[str, Level]]:
    """Yield the defaults, and every combination that differs from them in one factor."""
    yield dict(default)
    for name, values in levels.items():
        for value in values:
            if value != default[name]:
                yield {**default, name: value}
