"""How long a move of self-play takes on this machine.

Games are cut where chance wants it and played on by a network, as many at once as in self-play of
its run and as it searches there: with its root noise, equal positions evaluated once, and what the
run keeps from move to move. Every move is searched in full, whatever budget the run has.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
import torch

from zerolab.agents.kinds.run import load_evaluator
from zerolab.core import streams
from zerolab.core.errors import UserError
from zerolab.core.threads import available_cores
from zerolab.networks.catalogue import build_network
from zerolab.networks.inference import NetworkEvaluator, best_device, best_precision
from zerolab.play.random_starts import random_opening
from zerolab.play.schedule import ScheduledGame
from zerolab.play.selfplay import Episodes, play_batches
from zerolab.play.selfplay_settings import SelfPlaySettings
from zerolab.rules.catalogue import parse_game
from zerolab.rules.interface import MOST_PLIES
from zerolab.store.run_folder import RunFolder
from zerolab.training.configure import saved_settings
from zerolab.training.costs.moves import move_kind
from zerolab.training.costs.reference import Machine, MeasuredMove
from zerolab.training.environment import processor_model
from zerolab.training.settings import TrainSettings
from zerolab.training.stages.selfplay import SelfPlay

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
        played = [iteration for iteration, stage in stages if stage == SelfPlay.name]
        games = [
            game.actions for each in played[-1:] for game in run.games.games(each, SelfPlay.name)
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
        games = [random_opening(game, MOST_PLIES, key) for key in keys]
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
    episodes: Episodes


class _Player:
    def __init__(self, subject: Subject) -> None:
        settings = subject.settings
        self._games = subject.games
        self._game = parse_game(settings.game)
        self._kind = move_kind(settings, subject.iteration)
        self._search = settings.search
        self._lanes = settings.selfplay.parallel_games
        self._settings = SelfPlaySettings(
            parallel_games=self._lanes, sampled_plies=settings.selfplay.sampled_plies
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

    def _cut(self, random: np.random.Generator, lane: int, plies: int) -> ScheduledGame:
        """Return a game that goes on from a random ply of one that was played."""
        actions = self._games[int(random.integers(len(self._games)))]
        opening = tuple(actions[: int(random.integers(len(actions)))])
        return ScheduledGame(lane, _NAME, _NAME, lane, opening, plies, self._lanes)

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
