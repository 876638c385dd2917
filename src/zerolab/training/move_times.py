"""Times of self-play moves, measured on a reference machine.

Earlier games are cut at random plies and continued by a network under the conditions of its run's
self-play: the same number of parallel games, root noise, deduplication and tree reuse. Every move
is searched fully, regardless of the run's budget.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

import numpy as np
import torch
from pydantic import Field

from zerolab.agents.kinds.run import load_evaluator
from zerolab.core import streams
from zerolab.core.config import Settings, validate
from zerolab.core.errors import UserError, quoted
from zerolab.core.files import write_text
from zerolab.core.processes import available_cores
from zerolab.networks.catalogue import build_network
from zerolab.networks.inference import NetworkEvaluator, best_device, best_precision
from zerolab.networks.network_settings import NetworkSettings
from zerolab.play.pairings import Pairing, random_opening
from zerolab.play.selfplay import SelfPlayResult, play_batches
from zerolab.play.selfplay_settings import SelfPlaySettings
from zerolab.rules.catalogue import parse_game
from zerolab.rules.rules import MAX_PLIES
from zerolab.search.search_settings import SearchSettings
from zerolab.store.checks import check_schema, damaged, read_bytes, reading
from zerolab.store.run_folder import RunFolder
from zerolab.training.configure import saved_settings
from zerolab.training.context import processor_model
from zerolab.training.settings import TrainSettings
from zerolab.training.stages import SelfPlayStage

_STEERING = frozenset({"tie_break", "discount", "draw_value"})
"""Settings that change the choices of a search, but not its cost."""
_RULES = "selection", "fpu", "root"
"""Variants whose name affects the cost, but whose numbers do not."""


class MoveKind(Settings):
    """Moves of equal cost: with one network in one game and the same amount of search.

    It is what a reference knows a network by. Settings that only steer a search, such as PUCT's c,
    are no part of it, nor is how many moves there are at once.
    """

    game: str
    network: dict[str, Any]
    """The settings of the network, with the names of the heads that a search reads."""
    search: dict[str, Any]
    """The search settings that affect the cost."""

    def __str__(self) -> str:
        """Return the kind for messages."""
        sizes = {key: value for key, value in self.network.items() if isinstance(value, int)}
        numbers = ", ".join(f"{key} {value}" for key, value in sizes.items())
        simulations = self.search.get("simulations")
        return f"{self.network.get('name')} ({numbers}), {self.game}, {simulations} simulations"


def move_kind(settings: TrainSettings, iteration: int) -> MoveKind:
    """Return the kind of moves made by a run's network of an iteration."""
    return MoveKind(
        game=settings.game,
        network=_as_json(_shape(settings.network_of(iteration))),
        search=_as_json(_work(settings.search)),
    )


def _shape(network: NetworkSettings) -> dict[str, Any]:
    """Return the settings of a network that affect its speed.

    Only heads that a search reads are computed in self-play, and their targets cost nothing there.
    """
    heads = [{"name": head.name} for head in network.heads if head.outputs]
    return {**network.model_dump(), "heads": heads}


def _work(search: SearchSettings) -> dict[str, Any]:
    """Return the settings of a search that affect its speed."""
    kept = {key: value for key, value in search.model_dump().items() if key not in _STEERING}
    return kept | {rule: kept[rule]["name"] for rule in _RULES}


def _as_json(table: dict[str, Any]) -> dict[str, Any]:
    """Return a table as it is read back from JSON, with lists for tuples."""
    read: dict[str, Any] = json.loads(json.dumps(table))
    return read


SCHEMA = 1
_LARGEST = 1 << 24


class Machine(Settings):
    """The machine of a measurement."""

    processor: str
    """The processor's model."""
    device: str
    """The device of the networks: the name of the GPU, or cpu."""
    precision: str
    """The precision of the networks: float32 or bfloat16."""
    cores: int = Field(ge=1)
    """Cores available to self-play."""


class MeasuredMove(Settings):
    """The measured time of fully searched moves."""

    kind: MoveKind
    milliseconds: float = Field(gt=0)
    """Wall-clock time of the whole machine per move: the median of all rounds."""
    low: float = Field(gt=0)
    """Lower end of the median's interval of at least 95 %."""
    high: float = Field(gt=0)
    """Upper end of that interval."""
    rounds: int = Field(ge=1)
    moves: int = Field(ge=1)
    """Moves per round."""
    simulations_per_move: float = Field(gt=0)
    """Mean simulations per move, lower than configured if results are proven."""
    parallel_games: int = Field(ge=1)
    """Games in progress at once."""

    @property
    def milliseconds_per_simulation(self) -> float:
        """Milliseconds of a move, divided by its simulations."""
        return self.milliseconds / self.simulations_per_move


class MoveTimes(Protocol):
    """Source of move times on one machine."""

    def of(self, kind: MoveKind) -> MeasuredMove | None:
        """Return the measurement of a kind of move, None if there is none."""
        ...


class CostReference(Settings):
    """Moves measured on one machine."""

    machine: Machine
    moves: tuple[MeasuredMove, ...] = ()

    def of(self, kind: MoveKind) -> MeasuredMove | None:
        """Return the measurement of a kind of move, None if there is none."""
        return next((each for each in self.moves if each.kind == kind), None)

    def extended(self, measured: MeasuredMove) -> CostReference:
        """Return the reference with a measurement added or replaced."""
        others = tuple(each for each in self.moves if each.kind != measured.kind)
        return self.model_copy(update={"moves": (*others, measured)})


def read_reference(path: Path) -> CostReference:
    """Return the reference in a file; raise UserError if it is missing, damaged or newer."""
    if not path.exists():
        raise UserError(
            f"{quoted(path)} does not exist: expected a file that zerolab cost --measure has made"
        )
    content = read_bytes(path, _LARGEST)
    with reading(path):
        table: Any = json.loads(content.decode())
    if not isinstance(table, dict):
        raise damaged(path, "it is no table")
    check_schema(path, table.pop("schema_version", None), SCHEMA)
    return validate(CostReference, table, source=str(path))


def write_reference(path: Path, reference: CostReference) -> None:
    """Replace a reference's file atomically; raise UserError if it cannot be written."""
    table = {"schema_version": SCHEMA, **reference.model_dump(mode="json")}
    write_text(path, json.dumps(table, indent=1) + "\n")


def reference_to_extend(path: Path, machine: Machine) -> CostReference:
    """Return the reference to add measurements of a machine to, a new one if there is no file.

    Raises UserError for a file of another machine: a reference has one.
    """
    if not path.exists():
        return CostReference(machine=machine)
    found = read_reference(path)
    for name, value in machine.model_dump().items():
        if (known := getattr(found.machine, name)) != value:
            raise UserError(
                f"{quoted(path)} is of a machine with {name} = {quoted(known)}, this one has"
                f" {quoted(value)}: expected another --reference"
            )
    return found


ROUNDS = 6
"""The range of six rounds contains the median with a probability of 96.9 %."""
_NAME = "self-play"
_RANDOM_GAMES = 64


@dataclass(frozen=True)
class Subject:
    """A network whose moves are to be measured."""

    settings: TrainSettings
    """The settings of its run."""
    iteration: int
    """The iteration of the network."""
    evaluator: NetworkEvaluator
    games: Sequence[Sequence[int]]
    """The moves of games whose positions are searched."""

    @classmethod
    def of(cls, run: RunFolder, network: int) -> Subject:
        """Take a network of a run, and the latest games of self-play.

        Raises UserError if there are none, or no such network.
        """
        stages = run.games.stages()
        played = [iteration for iteration, stage in stages if stage == SelfPlayStage.name]
        games = [
            game.actions
            for each in played[-1:]
            for game in run.games.games(each, SelfPlayStage.name)
        ]
        if not games:
            raise UserError(
                f"{run.path} has no games of self-play: expected a run that has, whose positions"
                " can be searched"
            )
        return cls(saved_settings(run), network, load_evaluator(run, network), games)

    @classmethod
    def untrained(cls, settings: TrainSettings, iteration: int) -> Subject:
        """Take random games, and an untrained network of the size of an iteration's."""
        game, numbers = parse_game(settings.game), np.arange(_RANDOM_GAMES)
        network = build_network(settings.network_of(iteration), game, settings.seed)
        keys = streams.streams(0, 0, numbers, np.zeros_like(numbers), streams.ARENA_OPENING)
        games = [random_opening(game, MAX_PLIES, key) for key in keys]
        return cls(settings, iteration, NetworkEvaluator(network, game), games)


def this_machine() -> Machine:
    """Return the machine of this process."""
    device = best_device()
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    precision = str(best_precision(device)).removeprefix("torch.")
    return Machine(
        processor=processor_model(), device=name, precision=precision, cores=available_cores()
    )


def measure_moves(
    subjects: Sequence[Subject],
    plies: int,
    report: Callable[[int], None] = lambda _: None,
) -> list[MeasuredMove]:
    """Measure the moves of several networks in turns, so that noise affects all of them.

    A round plays `plies` moves in every game. `report` is called with the rounds done, of which
    each subject has one to warm up and `ROUNDS` more.
    """
    players = [_Player(each) for each in subjects]
    for number, player in enumerate(players):
        player.play(1, 0)
        report(number + 1)
    timed: list[list[_Round]] = [[] for _ in players]
    for number in range(ROUNDS):
        for place, player in enumerate(players):
            timed[place].append(player.play(plies, number + 1))
            report(len(players) * (number + 1) + place + 1)
    return [player.measured(rounds) for player, rounds in zip(players, timed, strict=True)]


@dataclass(frozen=True)
class _Round:
    milliseconds: float
    episodes: SelfPlayResult


class _Player:
    def __init__(self, subject: Subject) -> None:
        settings = subject.settings
        self._games = subject.games
        self._game = parse_game(settings.game)
        self._kind = move_kind(settings, subject.iteration)
        self._search = settings.search
        self._lanes = settings.selfplay.parallel_games
        self._settings = SelfPlaySettings(
            parallel_games=self._lanes, temperature_plies=settings.selfplay.temperature_plies
        )
        self._evaluator = subject.evaluator

    def play(self, plies: int, number: int) -> _Round:
        """Play moves in all games; the number of a round determines its positions."""
        random = np.random.default_rng(number)
        threads = min(self._settings.threads, self._lanes)
        waiting = [self._cut(random, lane, plies) for lane in range(self._lanes)]
        batches = [waiting[thread::threads] for thread in range(threads)]
        began = perf_counter()
        episodes = play_batches(
            self._game, self._settings, self._search, self._evaluator, number, 0, batches,
            -(-self._lanes // threads), _NAME, lambda _: None,
        )  # fmt: skip
        seconds = perf_counter() - began
        return _Round(1000.0 * seconds / episodes.moves, episodes)

    def _cut(self, random: np.random.Generator, lane: int, plies: int) -> Pairing:
        """Return a game that continues from a random ply of an earlier one."""
        actions = self._games[int(random.integers(len(self._games)))]
        opening = tuple(actions[: int(random.integers(len(actions)))])
        return Pairing(lane, _NAME, _NAME, lane, opening, plies, self._lanes)

    def measured(self, rounds: Sequence[_Round]) -> MeasuredMove:
        """Return the measurement of these rounds."""
        times = [each.milliseconds for each in rounds]
        moves = sum(each.episodes.moves for each in rounds)
        simulations = sum(each.episodes.counts["simulations"] for each in rounds)
        return MeasuredMove(
            kind=self._kind, milliseconds=statistics.median(times), low=min(times),
            high=max(times), rounds=len(times), moves=moves // len(rounds),
            simulations_per_move=simulations / moves, parallel_games=self._lanes,
        )  # fmt: skip
