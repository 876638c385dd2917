"""Estimates of the time and disk space that work will take.

The model counts what takes long, simulations of self-play and examples seen by learning, and takes
the size of the network into account. Its constants are those of one core of a laptop; `Pace` scales
them by the measured times of finished tasks.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from zerolab.core import streams
from zerolab.networks.flops import count_parameters, evaluation_flops
from zerolab.play.selfplay_settings import ContinuousMode
from zerolab.rules import python
from zerolab.rules.catalogue import parse_game
from zerolab.rules.rules import ONGOING
from zerolab.studies.design import PlannedTournament
from zerolab.training.settings import TrainSettings

_SIMULATION_SECONDS = 5e-5  # tree, batching and small layers
_SAMPLE_SECONDS = 1e-4  # a step's fixed costs, divided by the papers' batch of 64
_FLOPS = 5e10
_TRAINING_FLOPS = 3  # forward and backward, relative to forward alone
_AGENT_SECONDS = 1e-4  # a move of an agent without a network
_STAGE_SECONDS = 0.3  # loading, saving
_COMPRESSED = 0.4  # see store.examples
_RANDOM_GAMES = 20
_SHARE_KEPT = 0.7  # of candidates that a gate accepts, whose networks stay on disk


class RunWork(NamedTuple):
    """Amount of work in a run."""

    simulations: float
    samples: float
    """Examples seen by learning, with repetitions."""
    positions: float
    """Examples stored."""


def work_of(settings: TrainSettings, solved: int = 0) -> RunWork:
    """Estimate the work of a run, assuming games as long as random ones.

    A run with `solved` positions learns from these instead of games.
    """
    if solved:
        return RunWork(0.0, settings.iterations * (settings.learn.epochs or 1) * solved, 0.0)
    plies, learn = mean_plies(settings.game), settings.learn
    fresh = _fresh_positions(settings)
    images = symmetries(settings.game) if learn.symmetries == "all" else 1
    samples = 0.0
    for iteration in range(1, settings.iterations + 1):
        total = round(iteration * fresh)
        kept = learn.window.positions(iteration, total)
        newest = getattr(learn.window, "iterations", iteration)
        window = min(newest, iteration) * fresh if kept is None else min(kept, total)
        epoch = images * window / learn.batch_size
        samples += learn.steps(max(1, round(epoch)), round(fresh)) * learn.batch_size
    moves = settings.iterations * (fresh + settings.gate.games * plies)
    return RunWork(moves * settings.search.simulations, samples, settings.iterations * fresh)


def _fresh_positions(settings: TrainSettings) -> float:
    """Estimate the number of positions played in an iteration."""
    play = settings.selfplay
    if isinstance(play.mode, ContinuousMode):
        return play.parallel_games * play.mode.plies
    return play.episodes * mean_plies(settings.game)


def run_seconds(settings: TrainSettings, solved: int = 0) -> float:
    """Estimate the seconds that a run takes on one core; see `work_of`."""
    work = work_of(settings, solved)
    sizes = [forward_flops(settings, each) for each in range(settings.iterations)]
    flops = sum(sizes) / len(sizes)  # self-play uses the network of the previous iteration
    played = work.simulations * (_SIMULATION_SECONDS + flops / _FLOPS)
    learnt = work.samples * (_SAMPLE_SECONDS + _TRAINING_FLOPS * flops / _FLOPS)
    return played + learnt + 3 * _STAGE_SECONDS * settings.iterations


def tournament_seconds(tournament: PlannedTournament) -> float:
    """Estimate the seconds that a tournament takes on one core."""
    runs = [run.settings for run in tournament.entrants.values()]
    moves = [
        each.search.simulations
        * (_SIMULATION_SECONDS + forward_flops(each, each.iterations) / _FLOPS)
        for each in runs
    ]
    moves += [_AGENT_SECONDS] * len(tournament.agents)
    games = tournament.pairs * tournament.games
    return games * mean_plies(tournament.game) * sum(moves) / max(1, len(moves))


def run_bytes(settings: TrainSettings) -> float:
    """Estimate the bytes that a run takes on disk."""
    game = parse_game(settings.game)
    actions, words = len(python.legal(game, python.start(game))), len(python.start(game))
    position = 8 * words + 4 * actions + 20
    weights = 4 * count_parameters(settings.network_of(settings.iterations), game)
    networks = 3 + _SHARE_KEPT * settings.iterations  # the optimiser's state is two more
    return work_of(settings).positions * position * _COMPRESSED + networks * weights


def forward_flops(settings: TrainSettings, iteration: int) -> float:
    """Return the floating-point operations of evaluating one position with a run's network."""
    return float(evaluation_flops(settings.network_of(iteration), parse_game(settings.game)))


@cache
def mean_plies(game: str) -> float:
    """Return the mean length of random games, in plies."""
    parsed, total = parse_game(game), 0
    random = streams.generator(0, 0, streams.ARENA_OPENING)
    for _ in range(_RANDOM_GAMES):
        state = python.start(parsed)
        while python.outcome(parsed, state) == ONGOING:
            action = int(random.choice(np.flatnonzero(python.legal(parsed, state))))
            state, total = python.apply(parsed, state, action), total + 1
    return total / _RANDOM_GAMES


@cache
def symmetries(game: str) -> int:
    """Return the number of symmetries of a game."""
    return len(python.symmetry_tables(parse_game(game))[0])


class Pace:
    """Ratio of measured to estimated times, from finished tasks."""

    def __init__(self) -> None:
        self._estimated = self._measured = 0.0

    def add(self, estimated: float, measured: float) -> None:
        """Add a finished task, in seconds."""
        self._estimated += estimated
        self._measured += measured

    @property
    def factor(self) -> float:
        """Factor for estimates; 1 before anything was measured."""
        return self._measured / self._estimated if self._measured else 1.0
