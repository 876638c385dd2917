"""Designs of studies: runs, tournaments and computations, planned before any work starts.

A run is identified by a digest of everything that its result depends on. Equal runs, within a study
or in different studies, are therefore trained only once.
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
    """File of solved positions for training or for measuring accuracy."""

    label: str
    """Name among the positions of the study."""
    game: str
    count: int
    """Number of positions, see `make_dataset`."""
    settings: DatasetSettings
    seconds: float
    """Estimated time on one core."""
    part: str = ""
    """First part of the study that needs the file, see `Design.positions`."""

    @property
    def title(self) -> str:
        """Name in progress displays and lists of failures."""
        return f"{self.part}: positions {self.label}"

    @cached_property
    def key(self) -> str:
        """Digest of everything that the content of the file depends on."""
        facts = [self.game, self.count, self.settings.model_dump(mode="json")]
        return digest(json.dumps(facts, sort_keys=True).encode())[:_KEY_LENGTH]

    @property
    def file(self) -> str:
        """File name in the study folder and in run folders."""
        return f"{self.key}.parquet"


@dataclass(frozen=True)
class PlannedRun:
    """Run that a study needs."""

    part: str
    """Part of the study, as named by ``--only``."""
    factors: Mapping[str, Level]
    """Levels that distinguish the run from other runs of its part, including the seed."""
    settings: TrainSettings
    positions: Sequence[PlannedPositions] = ()
    """Solved positions to which the settings refer by `PlannedPositions.file`."""
    source: PlannedRun | None = None
    """Run whose final network provides features to learn. The settings refer to it by key."""
    start: PlannedRun | None = None
    """Run from whose final network this run starts. The settings refer to it by key."""

    @property
    def sources(self) -> tuple[PlannedRun, ...]:
        """Runs that must be finished before this run can begin."""
        return tuple(run for run in (self.source, self.start) if run is not None)

    @cached_property
    def label(self) -> str:
        """Levels as the name of the run within its part, such as ``wrora/seed=3``."""
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
        """Number of solved positions for training, validation and test."""
        file = self.settings.supervised.positions
        return next((planned.count for planned in self.positions if planned.file == file), 0)

    @cached_property
    def key(self) -> str:
        """Digest that identifies the run, see `run_key`."""
        return run_key(self.settings)


def run_key(settings: TrainSettings) -> str:
    """Return a digest of all settings that the result of a run depends on.

    The digest ignores the name of the preset and the number of threads. It also ignores values that
    follow from other settings, namely the digest of solved positions, which their file name
    determines, and the fields of heads and of ``start`` that are filled in when a run begins. Empty
    values are omitted so that adding an optional list of options does not change existing keys.
    """
    data = settings.model_dump(mode="json", exclude={"preset"})
    table = {key: value for key, value in flatten(data) if value not in ([], {}, ())}
    del table["selfplay.threads"]
    table["supervised.digest"] = ""
    for name in SET_BY_RUN:
        table.pop(f"start.{name}", None)
    table["network.heads"] = [
        head.model_dump(mode="json", exclude=set(head.set_by_run))
        for head in settings.network.heads
    ]
    return digest(json.dumps(table, sort_keys=True).encode())[:_KEY_LENGTH]


@dataclass(frozen=True)
class PlannedTournament:
    """Round robin between the networks of runs and other agents."""

    part: str
    game: str
    entrants: Mapping[str, PlannedRun] = field(default_factory=dict)
    """Runs by tournament name of their network."""
    after: Mapping[str, int] = field(default_factory=dict)
    """Iteration whose best network plays, by entrant. The default is the final network."""
    agents: Sequence[str] = ("random",)
    """Specs of agents without a run."""
    games: int = 20
    """Number of games per pair."""
    openings: int = 0
    """Number of random plies at the start of each game."""
    options: str = ""
    """Search options of all networks, in the syntax that follows ? in a spec. By default, networks
    use the search options of their training."""
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
        """Number of pairs of players."""
        players = len(self.entrants) + len(self.agents)
        return players * (players - 1) // 2


@dataclass(frozen=True)
class PlannedComputation:
    """Computation other than a run or tournament, with a result that is stored as JSON."""

    part: str
    label: str
    """Name within the part."""
    function: str
    """Function in the form ``module:name``. It returns a dictionary of numbers."""
    arguments: Mapping[str, Any]
    """Keyword arguments, which determine the result."""
    seconds: float
    """Estimated time on one core."""

    @property
    def title(self) -> str:
        """Name in progress displays and lists of failures; unique within a study."""
        return f"{self.part}: {self.label}"

    @cached_property
    def key(self) -> str:
        """Digest of the function name and the arguments."""
        facts = json.dumps([self.function, dict(self.arguments)], sort_keys=True)
        return digest(facts.encode())[:_KEY_LENGTH]


@dataclass(frozen=True)
class Design:
    """Runs, tournaments and computations of a study at a scale."""

    runs: Sequence[PlannedRun]
    tournaments: Sequence[PlannedTournament] = ()
    computations: Sequence[PlannedComputation] = ()
    solved: Sequence[PlannedPositions] = ()
    """Positions on which the report measures networks. Each must specify its part."""

    def __post_init__(self) -> None:
        labels = [(run.part, run.label) for run in self.runs]
        assert len(set(labels)) == len(labels), "two runs of a part have the same label"

    @cached_property
    def positions(self) -> list[PlannedPositions]:
        """All files of solved positions, each in the first part that needs it."""
        for_runs = (replace(plan, part=run.part) for run in self.runs for plan in run.positions)
        distinct: dict[str, PlannedPositions] = {}
        for planned in (*for_runs, *self.solved):
            distinct.setdefault(planned.key, planned)
        return list(distinct.values())

    @property
    def parts(self) -> list[str]:
        """Names of the parts, in order."""
        names = [run.part for run in self.runs]
        names += [tournament.part for tournament in self.tournaments]
        names += [computation.part for computation in self.computations]
        return list(dict.fromkeys(names))

    def only(self, parts: Sequence[str]) -> Design:
        """Return the design of some parts, including runs of other parts on which they depend.

        Empty `parts` select all parts. An unknown part raises UserError.
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
        selected = [run for run in self.runs if run.part in parts]
        sources = _with_sources(selected) - {run.key for run in selected}
        return Design(
            [run for run in self.runs if run.part in parts or run.key in sources],
            [each for each in self.tournaments if each.part in parts],
            [each for each in self.computations if each.part in parts],
            [each for each in self.solved if each.part in parts],
        )

    @cached_property
    def distinct_runs(self) -> dict[str, PlannedRun]:
        """Runs by key, without duplicates."""
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
    """Return the keys of runs and, recursively, of the runs on which they depend."""
    keys: set[str] = set()
    pending = list(runs)
    while pending:
        run = pending.pop()
        if run.key not in keys:
            keys.add(run.key)
            pending += run.sources
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
    """Plan a run of a preset with changed settings.

    `changes` maps dotted keys to values, and `seed` is added to the factors. Runs with the same
    seed in different groups share no random numbers, not even the initial network. `positions` maps
    settings such as ``accuracy.positions`` to solved positions. The head ``features`` learns the
    features of `source`. The run starts from the network of `start`, as specified by
    ``start.transfer``. It has the same architecture as `start`, with the sizes of the preset and
    `changes`.
    """
    positions = positions or {}
    inputs: dict[str, Any] = {key: planned.file for key, planned in positions.items()}
    if "supervised.positions" in inputs:
        inputs["supervised.digest"] = NOT_MADE_YET
    if source is not None:
        width = count_features(source.settings)
        inputs |= {f"{_FEATURES}.source": source.key, f"{_FEATURES}.width": width}
    start_changes: dict[str, Any] = {}
    if start is not None:
        start_changes = {"start.source": start.key, "network.name": start.settings.network.name}
    all_changes = {**start_changes, **changes, **inputs, "seed": 1000 * group + seed}
    settings = resolve_settings(game, preset, list(flatten(all_changes)))
    factors = {**factors, "seed": seed}
    return PlannedRun(part, factors, settings, tuple(positions.values()), source, start)


def full_product(levels: Mapping[str, Sequence[Level]]) -> Iterator[dict[str, Level]]:
    """Yield all combinations of the levels of the factors."""
    for combination in product(*levels.values()):
        yield dict(zip(levels, combination, strict=True))


def one_at_a_time(
    levels: Mapping[str, Sequence[Level]], default: Mapping[str, Level]
) -> Iterator[dict[str, Level]]:
    """Yield the default and all combinations that differ from it in exactly one factor."""
    yield dict(default)
    for name, values in levels.items():
        for value in values:
            if value != default[name]:
                yield {**default, name: value}
