"""Times of self-play moves, measured on a reference machine.

Games are cut where chance wants it and played on by a network, as many at once as in self-play of
its run and as it searches there: with its root noise, equal positions evaluated once, and what the
run keeps from move to move. Every move is searched in full, whatever budget the run has.
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
"""Settings of a search that lead it elsewhere, at the same cost."""
_RULES = "selection", "fpu", "root"
"""Settings of which the name matters, but no number."""


class MoveKind(Settings):
    """Moves of equal work: of one network in one game, with the same amount of search.

    It is what a reference knows a network by. Settings that only steer a search, such as PUCT's c,
    are no part of it, nor is how many moves there are at once.
    """

    game: str
    network: dict[str, Any]
    """The settings of the network; of its heads, which there are for a search to read."""
    search: dict[str, Any]
    """The settings of the search on which its work depends."""

    def __str__(self) -> str:
        """Return the kind as messages name it."""
        sizes = {key: value for key, value in self.network.items() if isinstance(value, int)}
        numbers = ", ".join(f"{key} {value}" for key, value in sizes.items())
        simulations = self.search.get("simulations")
        return f"{self.network.get('name')} ({numbers}), {self.game}, {simulations} simulations"


def move_kind(settings: TrainSettings, iteration: int) -> MoveKind:
    """Return what moves are that a run's network of an iteration makes."""
    return MoveKind(
        game=settings.game,
        network=_as_json(_shape(settings.network_of(iteration))),
        search=_as_json(_work(settings.search)),
    )


def _shape(network: NetworkSettings) -> dict[str, Any]:
    """Return the settings of a network on which the time that it takes depends.

    Self-play computes no other heads, and those cost the same whatever they learn, and how.
    """
    heads = [{"name": head.name} for head in network.heads if head.answers]
    return {**network.model_dump(), "heads": heads}


def _work(search: SearchSettings) -> dict[str, Any]:
    """Return the settings of a search on which the time that it takes depends."""
    kept = {key: value for key, value in search.model_dump().items() if key not in _STEERING}
    return kept | {rule: kept[rule]["name"] for rule in _RULES}


def _as_json(table: dict[str, Any]) -> dict[str, Any]:
    """Return a table as it is read back from a file: its tuples are lists."""
    read: dict[str, Any] = json.loads(json.dumps(table))
    return read


SCHEMA = 1
_LARGEST = 1 << 24


class Machine(Settings):
    """What was measured on."""

    processor: str
    """The processor's model."""
    device: str
    """What networks compute on: the name of the GPU, or cpu."""
    precision: str
    """In what they compute: float32 or bfloat16."""
    cores: int = Field(ge=1)
    """Cores that self-play had."""


class MeasuredMove(Settings):
    """How long a move takes that is searched in full."""

    kind: MoveKind
    milliseconds: float = Field(gt=0)
    """Wall clock of the whole machine divided by moves: the median of all rounds."""
    low: float = Field(gt=0)
    """Lower end of the median's interval of at least 95 %."""
    high: float = Field(gt=0)
    """Upper end of that interval."""
    rounds: int = Field(ge=1)
    moves: int = Field(ge=1)
    """Moves per round."""
    simulations_per_move: float = Field(gt=0)
    """Mean simulations of these moves: fewer than asked for where results are proven."""
    parallel_games: int = Field(ge=1)
    """Games in progress at once."""

    @property
    def milliseconds_per_simulation(self) -> float:
        """Milliseconds of a move, divided by its simulations."""
        return self.milliseconds / self.simulations_per_move


class MoveTimes(Protocol):
    """Knows how long moves take on one machine."""

    def of(self, kind: MoveKind) -> MeasuredMove | None:
        """Return the measurement of a kind of moves, None if there is none."""
        ...


class CostReference(Settings):
    """The moves measured on one machine."""

    machine: Machine
    moves: tuple[MeasuredMove, ...] = ()

    def of(self, kind: MoveKind) -> MeasuredMove | None:
        """Return the measurement of a kind of moves, None if there is none."""
        return next((each for each in self.moves if each.kind == kind), None)

    def extended(self, measured: MeasuredMove) -> CostReference:
        """Return the reference with a measurement added, or put in the place of a former one."""
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
    """Replace a reference's file in one step; raise UserError where it cannot be written."""
    table = {"schema_version": SCHEMA, **reference.model_dump(mode="json")}
    write_text(path, json.dumps(table, indent=1) + "\n")


def reference_to_extend(path: Path, machine: Machine) -> CostReference:
    """Return the reference of a machine that measurements are to be added to, a new one if none.

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
"""From its lowest to its highest value, six rounds hold the median in 96.9 % of all cases."""
_NAME = "self-play"
_RANDOM_GAMES = 64


@dataclass(frozen=True)
class Subject:
    """A network whose moves are to be measured."""

    settings: TrainSettings
    """Those of its run."""
    iteration: int
    """That of the network."""
    evaluator: NetworkEvaluator
    games: Sequence[Sequence[int]]
    """Moves of games from which positions are taken."""

    @classmethod
    def of(cls, run: RunFolder, network: int) -> Subject:
        """Choose a network of a run, and the latest games of self-play.

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
        """Choose random games, and an untrained network as large as a run's of an iteration."""
        game, numbers = parse_game(settings.game), np.arange(_RANDOM_GAMES)
        network = build_network(settings.network_of(iteration), game, settings.seed)
        keys = streams.streams(0, 0, numbers, np.zeros_like(numbers), streams.ARENA_OPENING)
        games = [random_opening(game, MAX_PLIES, key) for key in keys]
        return cls(settings, iteration, NetworkEvaluator(network, game), games)


def this_machine() -> Machine:
    """Return what this process would measure on."""
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
    """Measure the moves of several networks in turns, so that the machine's noise falls on all.

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
        """Play moves in all games; equal numbers of rounds begin at equal positions."""
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
        """Return a game that goes on from a random ply of one that was played."""
        actions = self._games[int(random.integers(len(self._games)))]
        opening = tuple(actions[: int(random.integers(len(actions)))])
        return Pairing(lane, _NAME, _NAME, lane, opening, plies, self._lanes)

    def measured(self, rounds: Sequence[_Round]) -> MeasuredMove:
        """Return what the rounds say."""
        times = [each.milliseconds for each in rounds]
        moves = sum(each.episodes.moves for each in rounds)
        simulations = sum(each.episodes.counts["simulations"] for each in rounds)
        return MeasuredMove(
            kind=self._kind, milliseconds=statistics.median(times), low=min(times),
            high=max(times), rounds=len(times), moves=moves // len(rounds),
            simulations_per_move=simulations / moves, parallel_games=self._lanes,
        )  # fmt: skip
