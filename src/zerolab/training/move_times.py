"""Self-play move times, measured on a reference machine.

A network continues earlier games from random plies under the conditions of its run's self-play:
with the same number of parallel games, root noise, deduplication and tree reuse. Every move is
fully searched, regardless of the run's budget.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

import numpy as np
import torch
from pydantic import Field

from zerolab.agents.run_agents import load_run_evaluator
from zerolab.core import streams
from zerolab.core.config import Settings, validate
from zerolab.core.errors import UserError, quoted
from zerolab.core.files import write_text
from zerolab.core.processes import available_cores
from zerolab.core.resources import processor_model
from zerolab.evaluation.positions import check_recorded_games
from zerolab.networks.catalogue import build_network
from zerolab.networks.inference import NetworkEvaluator, default_device, default_precision
from zerolab.networks.network_settings import NetworkSettings
from zerolab.play.engine import useful_thread_count
from zerolab.play.pairings import Pairing, random_opening
from zerolab.play.selfplay import SelfPlayer, SelfPlayJob, SelfPlayResult, play_batches
from zerolab.play.selfplay_settings import SelfPlaySettings
from zerolab.rules.catalogue import parse_game
from zerolab.rules.rules import MAX_PLIES
from zerolab.search.evaluator import has_network
from zerolab.search.search_settings import SearchSettings
from zerolab.store.checks import (
    check_schema_version,
    damaged_file_error,
    hex_digest,
    read_bytes,
    user_errors_on_read,
)
from zerolab.store.games import SELF_PLAY_STAGE
from zerolab.store.run_folder import RunFolder
from zerolab.training.configure import saved_settings
from zerolab.training.train_settings import TrainSettings

_COST_FREE = frozenset({"tie_break", "discount", "draw_value"})
"""Settings that affect the moves chosen by a search but not its cost."""
_SEARCH_RULES = "selection", "fpu", "root"
"""Search rules whose names affect the cost of a search, but whose parameters do not."""
_KEY_LENGTH = 16


class MoveKind(Settings):
    """A kind of move, defined by game, network and search; all its moves have equal cost.

    Cost references identify measurements by the kind of move. Settings that affect only the choice
    of moves, such as PUCT's c, are excluded, and so is the number of parallel games.
    """

    game: str
    network: dict[str, Any]
    """Network settings, with the names of the heads used by a search."""
    search: dict[str, Any]
    """Search settings that affect the cost."""

    @property
    def key(self) -> str:
        """Short digest of the kind."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hex_digest(text.encode())[:_KEY_LENGTH]

    def __str__(self) -> str:
        """Return a description for messages."""
        sizes = {key: value for key, value in self.network.items() if isinstance(value, int)}
        numbers = ", ".join(f"{key} {value}" for key, value in sizes.items())
        simulations = self.search.get("simulations")
        return f"{self.network.get('name')} ({numbers}), {self.game}, {simulations} simulations"


def move_kind(settings: TrainSettings, iteration: int) -> MoveKind:
    """Return the kind of move that a run's network from an iteration makes."""
    return MoveKind(
        game=settings.game,
        network=_json_round_trip(_network_cost_settings(settings.network_settings_at(iteration))),
        search=_json_round_trip(_search_cost_settings(settings.search)),
    )


def _network_cost_settings(network: NetworkSettings) -> dict[str, Any]:
    """Return the network settings that affect the speed of evaluations.

    Self-play computes only the heads used by the search. Settings of their targets do not matter.
    """
    heads = [{"name": head.name} for head in network.heads if head.evaluator_outputs]
    return {**network.model_dump(), "heads": heads}


def _search_cost_settings(search: SearchSettings) -> dict[str, Any]:
    """Return the search settings that affect the speed of searches."""
    costly = {key: value for key, value in search.model_dump().items() if key not in _COST_FREE}
    return costly | {rule: costly[rule]["name"] for rule in _SEARCH_RULES}


def _json_round_trip(table: dict[str, Any]) -> dict[str, Any]:
    """Return a table as read back from JSON, with lists instead of tuples."""
    decoded: dict[str, Any] = json.loads(json.dumps(table))
    return decoded


SCHEMA = 1
_MAX_BYTES = 1 << 24


class Machine(Settings):
    """The machine on which move times were measured."""

    processor: str
    """Processor model."""
    device: str
    """Device that evaluates networks: the name of a GPU, or "cpu"."""
    precision: str
    """Precision of network evaluations: float32 or bfloat16."""
    cores: int = Field(ge=1)
    """Number of cores available to self-play."""


class MoveTime(Settings):
    """The measured time of fully searched moves."""

    kind: MoveKind
    milliseconds: float = Field(gt=0)
    """Wall-clock time per move when using the whole machine: the median over all rounds."""
    low: float = Field(gt=0)
    """Lower end of a confidence interval of at least 95 % for the median."""
    high: float = Field(gt=0)
    """Upper end of the confidence interval for the median."""
    rounds: int = Field(ge=1)
    """Number of measured rounds."""
    moves: int = Field(ge=1)
    """Moves per round."""
    simulations_per_move: float = Field(gt=0)
    """Mean simulations per move, which are fewer than configured if results are proven early."""
    parallel_games: int = Field(ge=1)
    """Number of games played in parallel."""

    @property
    def milliseconds_per_simulation(self) -> float:
        """Milliseconds per move, divided by simulations per move."""
        return self.milliseconds / self.simulations_per_move


class MoveTimes(Protocol):
    """Source of move times measured on one machine."""

    def find(self, kind: MoveKind) -> MoveTime | None:
        """Return the measurement for a kind of move, if any."""
        ...


class ReferenceMoveTimes(Settings):
    """Move times measured on one machine."""

    machine: Machine
    moves: tuple[MoveTime, ...] = ()

    def __repr__(self) -> str:
        return f"<ReferenceMoveTimes with {len(self.moves)} kinds of moves>"

    def find(self, kind: MoveKind) -> MoveTime | None:
        """Return the measurement for a kind of move, if any."""
        return next((move for move in self.moves if move.kind == kind), None)

    def with_measurement(self, measured: MoveTime) -> ReferenceMoveTimes:
        """Return a reference with this measurement in place of any for the same kind of move."""
        others = tuple(move for move in self.moves if move.kind != measured.kind)
        return self.model_copy(update={"moves": (*others, measured)})


class MeasuredMoveTimes:
    """Move times measured for a study; implements `MoveTimes`."""

    def __init__(self, numbers: Mapping[str, float]) -> None:
        """Wrap numbers with names ``KEY.FIELD``: keys of kinds, and fields of their `MoveTime`."""
        self._numbers = numbers

    def find(self, kind: MoveKind) -> MoveTime | None:
        """Return the measurement for a kind of move, if any."""
        prefix = f"{kind.key}."
        fields = {
            name.removeprefix(prefix): value
            for name, value in self._numbers.items()
            if name.startswith(prefix)
        }
        return validate(MoveTime, {"kind": kind.model_dump(), **fields}) if fields else None


def read_reference_move_times(path: Path) -> ReferenceMoveTimes:
    """Read a reference; raise UserError if it is missing, damaged or from another version."""
    if not path.exists():
        raise UserError(
            f"{quoted(path)} does not exist: expected a file written by zerolab cost --measure"
        )
    content = read_bytes(path, _MAX_BYTES)
    with user_errors_on_read(path):
        table: Any = json.loads(content.decode())
    if not isinstance(table, dict):
        raise damaged_file_error(path, "it is not a table")
    check_schema_version(path, table.pop("schema_version", None), SCHEMA)
    return validate(ReferenceMoveTimes, table, source=str(path))


def write_reference_move_times(path: Path, reference: ReferenceMoveTimes) -> None:
    """Write a reference to a file atomically; raise UserError if it cannot be written."""
    table = {"schema_version": SCHEMA, **reference.model_dump(mode="json")}
    write_text(path, json.dumps(table, indent=1) + "\n")


def reference_move_times_to_extend(path: Path, machine: Machine) -> ReferenceMoveTimes:
    """Return the reference in a file, or a new reference, to which measurements can be added.

    Raises UserError if the file belongs to another machine.
    """
    if not path.exists():
        return ReferenceMoveTimes(machine=machine)
    reference = read_reference_move_times(path)
    for name, value in machine.model_dump().items():
        if (reference_value := getattr(reference.machine, name)) != value:
            raise UserError(
                f"{quoted(path)} belongs to a machine with {name} = {quoted(reference_value)};"
                f" this one has {quoted(value)}: expected another --reference"
            )
    return reference


ROUNDS_PER_MEASUREMENT = 6
"""Rounds per measurement. The range of six rounds contains the median with probability 96.9 %."""
_NAME = "self-play"
_RANDOM_GAMES = 64


@dataclass(frozen=True)
class MeasurementSubject:
    """A network whose move times are measured, and the games that it continues."""

    settings: TrainSettings
    """Settings of the network's run."""
    iteration: int
    """Iteration of the network."""
    evaluator: NetworkEvaluator
    recorded_games: Sequence[Sequence[int]]
    """Moves of the games from whose positions play continues."""

    @classmethod
    def from_run(cls, run: RunFolder, iteration: int) -> MeasurementSubject:
        """Return a run's network from an iteration, with the run's latest self-play games.

        Raises UserError if the run has no such network or no self-play games.
        """
        self_play = [stage for stage in run.games.stages() if stage[1] == SELF_PLAY_STAGE]
        records = run.games.games_of_stages(self_play[-1:])
        games = [record.actions[: record.ply_count] for record in records if record.ply_count]
        if not games:
            raise UserError(
                f"{run.path} has no self-play games: expected a run with games whose positions can"
                " be searched"
            )
        settings = saved_settings(run)
        check_recorded_games(run.games.path, parse_game(settings.game), games)
        return cls(settings, iteration, load_run_evaluator(run, iteration), games)

    @classmethod
    def untrained(cls, settings: TrainSettings, iteration: int) -> MeasurementSubject:
        """Return an untrained network with the size of an iteration's network, and random games."""
        game, numbers = parse_game(settings.game), np.arange(_RANDOM_GAMES)
        network = build_network(settings.network_settings_at(iteration), game, settings.seed)
        keys = streams.stream_keys(0, 0, numbers, np.zeros_like(numbers), streams.MATCH_OPENING)
        games = [random_opening(game, MAX_PLIES, key) for key in keys]
        return cls(settings, iteration, NetworkEvaluator(network, game), games)


def current_machine() -> Machine:
    """Return the machine on which this process runs."""
    device = default_device()
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    precision = str(default_precision(device)).removeprefix("torch.")
    return Machine(
        processor=processor_model(), device=name, precision=precision, cores=available_cores()
    )


def measure_move_times(
    subjects: Sequence[MeasurementSubject],
    plies: int,
    report: Callable[[int], None] = lambda _: None,
) -> list[MoveTime]:
    """Measure the move times of several networks in turn, so that noise affects all of them alike.

    Each subject plays a warm-up round of one move, then `ROUNDS_PER_MEASUREMENT` rounds of `plies`
    moves, in each of its parallel games; a finished game is followed by another. `report` is called
    with the number of finished rounds, over all subjects.
    """
    players = [_Player(subject) for subject in subjects]
    for number, player in enumerate(players):
        player.play(1, 0)
        report(number + 1)
    rounds_by_player: list[list[_Round]] = [[] for _ in players]
    for number in range(ROUNDS_PER_MEASUREMENT):
        for index, (player, rounds) in enumerate(zip(players, rounds_by_player, strict=True)):
            rounds.append(player.play(plies, number + 1))
            report(len(players) * (number + 1) + index + 1)
    pairs = zip(players, rounds_by_player, strict=True)
    return [player.summarise(rounds) for player, rounds in pairs]


@dataclass(frozen=True)
class _Round:
    milliseconds: float
    selfplay: SelfPlayResult


class _Player:
    def __init__(self, subject: MeasurementSubject) -> None:
        settings = subject.settings
        self._games = subject.recorded_games
        self._game = parse_game(settings.game)
        self._kind = move_kind(settings, subject.iteration)
        self._search = settings.search
        self._parallel_games = settings.selfplay.parallel_games
        self._settings = SelfPlaySettings(
            parallel_games=self._parallel_games,
            temperature_plies=settings.selfplay.temperature_plies,
        )
        self._evaluator = subject.evaluator

    def play(self, plies: int, number: int) -> _Round:
        """Play moves in all games, from positions that depend on the round number."""
        random = np.random.default_rng(number)
        threads = useful_thread_count(
            self._settings.threads, self._parallel_games, has_network(self._evaluator)
        )
        pairings = [self._draw_pairing(random, lane, plies) for lane in range(self._parallel_games)]
        batches = [pairings[thread::threads] for thread in range(threads)]
        start = perf_counter()
        job = SelfPlayJob(
            self._game, self._settings, self._search, lambda: self._evaluator, number, 0, threads,
            -(-self._parallel_games // threads), _NAME, SelfPlayer,
        )  # fmt: skip
        selfplay = play_batches(job, batches)
        seconds = perf_counter() - start
        return _Round(1000.0 * seconds / selfplay.searched_move_count, selfplay)

    def _draw_pairing(self, random: np.random.Generator, lane: int, plies: int) -> Pairing:
        """Return a game that continues from a random ply of an earlier game."""
        actions = self._games[int(random.integers(len(self._games)))]
        opening = tuple(actions[: int(random.integers(len(actions)))])
        return Pairing(lane, _NAME, _NAME, lane, opening, plies, self._parallel_games)

    def summarise(self, rounds: Sequence[_Round]) -> MoveTime:
        """Return the measurement of these rounds."""
        times = [one_round.milliseconds for one_round in rounds]
        moves = sum(one_round.selfplay.searched_move_count for one_round in rounds)
        simulations = sum(one_round.selfplay.search_counts["simulations"] for one_round in rounds)
        return MoveTime(
            kind=self._kind, milliseconds=statistics.median(times), low=min(times),
            high=max(times), rounds=len(times), moves=moves // len(rounds),
            simulations_per_move=simulations / moves, parallel_games=self._parallel_games,
        )  # fmt: skip
