"""Designs of studies: runs, tournaments and computations, planned before any work starts.

A run is identified by a digest of everything that its result depends on. Equal runs, within a study
or in different studies, are therefore trained only once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from zerolab.core.errors import UserError, did_you_mean, quoted
from zerolab.core.nested_tables import flatten
from zerolab.evaluation.collecting import DatasetSettings
from zerolab.store.checks import hex_digest
from zerolab.training.configure import resolve_settings
from zerolab.training.inputs import with_planned_features
from zerolab.training.learn_settings import START_FIELDS_SET_BY_RUN
from zerolab.training.train_settings import TrainSettings

FactorLevel = str | int | float
"""Level of a factor of the experimental design."""

UNKNOWN_DIGEST = "not made yet"
"""Placeholder in plans for the digest of a data set that does not exist yet."""

_KEY_LENGTH = 16
_EMPTY: tuple[Any, ...] = ([], {}, ())


@dataclass(frozen=True)
class PlannedDataset:
    """Data set of solved positions for training or for measuring accuracy."""

    label: str
    """Name among the data sets of the study."""
    game: str
    position_count: int
    """Number of positions; see `make_dataset`."""
    settings: DatasetSettings
    estimated_seconds: float
    """Estimated time on one core."""
    part: str = ""
    """First part of the study that needs the data set; see `Design.datasets`."""

    @property
    def title(self) -> str:
        """Name in progress displays and lists of failures."""
        return f"{self.part}: positions {self.label}"

    @cached_property
    def key(self) -> str:
        """Digest of everything that determines the content of the file."""
        identity = [self.game, self.position_count, self.settings.model_dump(mode="json")]
        return hex_digest(json.dumps(identity, sort_keys=True).encode())[:_KEY_LENGTH]

    @property
    def file_name(self) -> str:
        """File name in the study folder and in run folders."""
        return f"{self.key}.parquet"


@dataclass(frozen=True)
class PlannedRun:
    """Run that a study needs."""

    part: str
    """Part of the study, as named by ``--only``."""
    factors: Mapping[str, FactorLevel]
    """Level of each factor, including the seed; unique among the runs of the part."""
    settings: TrainSettings
    datasets: Sequence[PlannedDataset] = ()
    """Data sets to which the settings refer by `PlannedDataset.file_name`."""
    feature_run: PlannedRun | None = None
    """Run whose final network provides features to predict. The settings refer to it by key."""
    start_run: PlannedRun | None = None
    """Run from whose final network this run starts. The settings refer to it by key."""

    @property
    def source_runs(self) -> tuple[PlannedRun, ...]:
        """Runs that must be finished before this run can begin."""
        return tuple(run for run in (self.feature_run, self.start_run) if run is not None)

    @cached_property
    def label(self) -> str:
        """Name of the run within its part, formed from its levels, such as ``wrora/seed=3``."""
        return "/".join(
            level if isinstance(level, str) else f"{name}={level}"
            for name, level in self.factors.items()
        )

    @property
    def title(self) -> str:
        """Name in progress displays and lists of failures; unique within a study."""
        return f"{self.part}: {self.label}"

    @property
    def supervised_position_count(self) -> int:
        """Number of solved positions for training, validation and test; 0 for self-play."""
        name = self.settings.supervised.positions
        return next((each.position_count for each in self.datasets if each.file_name == name), 0)

    @cached_property
    def key(self) -> str:
        """Digest that identifies the run; see `run_key`."""
        return run_key(self.settings)


_NEWER_SETTINGS: Mapping[str, Any] = {
    "selfplay": {
        "lag": 0, "start": {"name": "initial"}, "policy_target_temperature": 1.0, "processes": 1,
    },
    "learn": {"surprise_weight": 0.0}, "growth": {"added_blocks": 0},
}  # fmt: skip
"""Settings added after some ledgers were stored, with the values that leave runs unchanged."""


def without_newer_settings(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a run as JSON, without newer settings that leave the run unchanged."""
    kept = deepcopy(dict(data))
    for section, values in _NEWER_SETTINGS.items():
        for name, unchanged in values.items():
            if kept[section].get(name) == unchanged:
                del kept[section][name]
    return kept


def run_key(settings: TrainSettings) -> str:
    """Return a digest of all settings that affect the result of a run.

    The digest ignores the name of the preset, the device, the numbers of threads, processes and
    chunks, and newer settings without effect. The digest also ignores values that follow from other
    settings: the digest of a data set, which its file name determines, and the fields of heads and
    of ``start`` that are filled in when a run starts. Empty values are omitted so that adding an
    optional list of options does not change existing keys.
    """
    data = without_newer_settings(settings.model_dump(mode="json", exclude={"preset", "device"}))
    table = {key: value for key, value in flatten(data) if value not in _EMPTY}
    del table["selfplay.threads"]
    table.pop("selfplay.chunks", None)
    table.pop("selfplay.processes", None)
    table["supervised.digest"] = ""
    for name in START_FIELDS_SET_BY_RUN:
        table.pop(f"start.{name}", None)
    table["network.heads"] = [
        {
            key: value
            for key, value in head.model_dump(
                mode="json", exclude=set(head.fields_set_by_run)
            ).items()
            if value not in _EMPTY
        }
        for head in settings.network.heads
    ]
    return hex_digest(json.dumps(table, sort_keys=True).encode())[:_KEY_LENGTH]


@dataclass(frozen=True)
class PlannedTournament:
    """Round-robin tournament between the networks of runs and other agents."""

    part: str
    game: str
    run_by_player: Mapping[str, PlannedRun] = field(default_factory=dict)
    """Run of each network, by the name of the network in the tournament."""
    iteration_by_player: Mapping[str, int] = field(default_factory=dict)
    """Iteration whose best network plays, by player. The default is the final network."""
    agent_specs: Sequence[str] = ("random",)
    """Specs of agents without a run."""
    games_per_pair: int = 20
    opening_plies: int = 0
    """Number of random plies at the start of each game."""
    search_options: str = ""
    """Search options of all networks, in the syntax that follows ? in an agent spec. By default,
    networks use the search options of their training."""
    name: str = ""
    """Name among the tournaments of the part."""
    seed: int | None = None
    """Seed of all runs, or None for a tournament between runs of all seeds.

    A tournament of one seed can be played on any machine, and seeds are independent blocks."""

    @property
    def group_name(self) -> str:
        """Name shared by the tournaments of all seeds."""
        return "-".join(filter(None, (self.part, self.name)))

    @property
    def key(self) -> str:
        """Name of the tournament within the study."""
        return self.group_name if self.seed is None else f"{self.group_name}-seed-{self.seed}"

    @property
    def title(self) -> str:
        """Name in progress displays and lists of failures; unique within a study."""
        seed = "" if self.seed is None else f"seed={self.seed}"
        return " ".join(filter(None, (f"{self.part}: games", self.name, seed)))

    @property
    def game_seed(self) -> int:
        """Seed of the openings and of random moves; 0 if `seed` is None."""
        return self.seed or 0

    @property
    def determining_inputs(self) -> dict[str, Any]:
        """Everything that determines the games, as JSON."""
        return {
            "part": self.part,
            "game": self.game,
            "entrants": {name: run.key for name, run in self.run_by_player.items()},
            "after": dict(self.iteration_by_player),
            "agents": self.agent_specs,
            "games": self.games_per_pair,
            "openings": self.opening_plies,
            "options": self.search_options,
            "name": self.name,
            "seed": self.seed,
        }

    @property
    def players(self) -> list[str]:
        """Names of all players."""
        return [*self.run_by_player, *self.agent_specs]

    @property
    def pair_count(self) -> int:
        """Number of pairs of players."""
        return len(self.players) * (len(self.players) - 1) // 2


@dataclass(frozen=True)
class PlannedComputation:
    """Computation other than a run or a tournament. Its result is stored as JSON."""

    part: str
    label: str
    """Name within the part."""
    function_path: str
    """Function that returns a dictionary of numbers, in the form ``module:name``."""
    arguments: Mapping[str, Any]
    """Keyword arguments, which determine the result."""
    estimated_seconds: float
    """Estimated time on one core."""

    @property
    def title(self) -> str:
        """Name in progress displays and lists of failures; unique within a study."""
        return f"{self.part}: {self.label}"

    @cached_property
    def key(self) -> str:
        """Digest of the function name and the arguments."""
        identity = json.dumps([self.function_path, dict(self.arguments)], sort_keys=True)
        return hex_digest(identity.encode())[:_KEY_LENGTH]


@dataclass(frozen=True)
class Design:
    """Runs, tournaments and computations of a study at a scale."""

    runs: Sequence[PlannedRun]
    tournaments: Sequence[PlannedTournament] = ()
    computations: Sequence[PlannedComputation] = ()
    report_datasets: Sequence[PlannedDataset] = ()
    """Data sets on which the report measures networks. Each must specify its part."""

    def __post_init__(self) -> None:
        labels = [(run.part, run.label) for run in self.runs]
        assert len(set(labels)) == len(labels), "two runs of a part have the same label"

    @cached_property
    def datasets(self) -> list[PlannedDataset]:
        """All distinct data sets, each in the first part that needs it."""
        for_runs = (replace(each, part=run.part) for run in self.runs for each in run.datasets)
        distinct: dict[str, PlannedDataset] = {}
        for dataset in (*for_runs, *self.report_datasets):
            distinct.setdefault(dataset.key, dataset)
        return list(distinct.values())

    def restricted_to_seeds(self, seeds: Iterable[int]) -> Design:
        """Return the design without runs of other seeds, and without their tournaments."""
        chosen = set(seeds)
        return replace(
            self,
            runs=[run for run in self.runs if run.factors["seed"] in chosen],
            tournaments=[
                each for each in self.tournaments
                if all(run.factors["seed"] in chosen for run in each.run_by_player.values())
            ],
        )  # fmt: skip

    @property
    def seeds(self) -> list[int]:
        """Seeds of all runs, in ascending order."""
        return sorted({int(run.factors["seed"]) for run in self.runs})

    @property
    def part_names(self) -> list[str]:
        """Names of the parts, in the order of the design."""
        names = [run.part for run in self.runs]
        names += [tournament.part for tournament in self.tournaments]
        names += [computation.part for computation in self.computations]
        return list(dict.fromkeys(names))

    def restricted_to_parts(self, parts: Sequence[str]) -> Design:
        """Return the design of the selected parts and of the runs on which they depend.

        Empty `parts` select all parts. Raises UserError if a part is unknown.
        """
        for part in parts:
            if part not in self.part_names:
                known = ", ".join(self.part_names)
                raise UserError(
                    f"unknown part {quoted(part)}: expected one of {known}"
                    f"{did_you_mean(part, self.part_names)}"
                )
        if not parts:
            return self
        selected = [run for run in self.runs if run.part in parts]
        sources = _keys_with_sources(selected) - {run.key for run in selected}
        return Design(
            [run for run in self.runs if run.part in parts or run.key in sources],
            [each for each in self.tournaments if each.part in parts],
            [each for each in self.computations if each.part in parts],
            [each for each in self.report_datasets if each.part in parts],
        )

    @cached_property
    def distinct_runs(self) -> dict[str, PlannedRun]:
        """Runs by key. Equal runs of several parts appear once."""
        distinct: dict[str, PlannedRun] = {}
        for run in self.runs:
            distinct.setdefault(run.key, run)
        return distinct

    @cached_property
    def digest(self) -> str:
        """Digest of everything that is trained, played or computed."""
        identity = {
            "runs": [(run.part, run.label, run.key) for run in self.runs],
            "tournaments": [each.determining_inputs for each in self.tournaments],
            "computations": [(each.part, each.label, each.key) for each in self.computations],
        }
        return hex_digest(json.dumps(identity, sort_keys=True).encode())[:_KEY_LENGTH]


def _keys_with_sources(runs: Iterable[PlannedRun]) -> set[str]:
    """Return the keys of runs and, recursively, of the runs on which they depend."""
    keys: set[str] = set()
    pending = list(runs)
    while pending:
        run = pending.pop()
        if run.key not in keys:
            keys.add(run.key)
            pending += run.source_runs
    return keys


def plan_run(
    part: str,
    game: str,
    preset: str,
    factors: Mapping[str, FactorLevel],
    changes: Mapping[str, Any],
    seed: int = 0,
    *,
    group: int = 0,
    datasets: Mapping[str, PlannedDataset] | None = None,
    feature_run: PlannedRun | None = None,
    start_run: PlannedRun | None = None,
) -> PlannedRun:
    """Plan a run of a preset with changed settings.

    `changes` maps dotted keys to values, and `seed` is added to the factors. Runs with the same
    seed in different groups share no random numbers, not even the initial network. `datasets` maps
    settings such as ``accuracy.positions`` to data sets. The ``features`` head learns to predict
    the features of `feature_run`. The run starts from the network of `start_run`, as specified by
    ``start.transfer``, and has the same architecture, but with the sizes of the preset and
    `changes`.
    """
    datasets = datasets or {}
    inputs: dict[str, Any] = {key: dataset.file_name for key, dataset in datasets.items()}
    if "supervised.positions" in inputs:
        inputs["supervised.digest"] = UNKNOWN_DIGEST
    if feature_run is not None:
        inputs["network.heads.features.source"] = feature_run.key
    start_changes: dict[str, Any] = {}
    if start_run is not None:
        architecture = start_run.settings.network.name
        start_changes = {"start.source": start_run.key, "network.name": architecture}
    all_changes = {**start_changes, **changes, **inputs, "seed": 1000 * group + seed}
    settings = resolve_settings(game, preset, list(flatten(all_changes)))
    if feature_run is not None:
        settings = with_planned_features(settings, feature_run.settings)
    factors = {**factors, "seed": seed}
    return PlannedRun(part, factors, settings, tuple(datasets.values()), feature_run, start_run)
