"""Estimates of computing time and disk space.

The model counts the dominant costs, self-play simulations and training examples, and accounts for
the size of the network. The constants apply to one core of a laptop. `TimeCorrection` scales the
estimates by the measured times of finished tasks.
"""

from __future__ import annotations

from functools import cache
from itertools import groupby
from typing import NamedTuple

import numpy as np

from zerolab.core import streams
from zerolab.networks.catalogue import count_parameters, evaluation_flops
from zerolab.play.selfplay_settings import ContinuousMode
from zerolab.rules import compiled_rules
from zerolab.rules.catalogue import parse_game
from zerolab.rules.rules import ONGOING
from zerolab.studies.design import PlannedTournament
from zerolab.training.train_settings import TrainSettings

_SIMULATION_SECONDS = 5e-5  # includes the tree, batching and small layers
_EXAMPLE_SECONDS = 1e-4  # fixed cost of a training step, divided by the papers' batch size of 64
_FLOPS = 5e10  # floating-point operations per second
_TRAINING_FLOPS = 3  # forward and backward, relative to forward alone
_AGENT_SECONDS = 1e-4  # per move of an agent without a network
_STAGE_SECONDS = 0.3  # time for loading and saving
_COMPRESSED = 0.4  # compressed size, relative to the original; see store.examples
_RANDOM_GAMES = 20
_SHARE_ACCEPTED = 0.7  # share of candidates that pass the gate and are kept on disk


class EstimatedWork(NamedTuple):
    """Estimated amount of work in a run."""

    simulations: float
    training_examples: float
    """Number of training examples, including repetitions."""
    stored_examples: float
    """Number of distinct examples, which are stored on disk."""


def estimate_work(settings: TrainSettings, dataset_positions: int = 0) -> EstimatedWork:
    """Estimate the work of a run, assuming that games are as long as random games.

    If `dataset_positions` is positive, the run learns from that number of solved positions instead
    of games.
    """
    if dataset_positions:
        return EstimatedWork(
            0.0, settings.iterations * (settings.learn.epochs or 1) * dataset_positions, 0.0
        )
    plies, learn = mean_random_game_plies(settings.game), settings.learn
    fresh = _fresh_positions(settings)
    images = symmetry_count(settings.game) if learn.symmetries == "all" else 1
    training_examples = 0.0
    for iteration in range(1, settings.iterations + 1):
        total = round(iteration * fresh)
        limit = learn.window.max_positions(iteration, total)
        iterations = getattr(learn.window, "iterations", iteration)
        window = min(iterations, iteration) * fresh if limit is None else min(limit, total)
        epoch = images * window / learn.batch_size
        training_examples += learn.batch_size * learn.steps_per_iteration(
            max(1, round(epoch)), round(fresh)
        )
    moves = settings.iterations * settings.gate.games * plies
    simulations = moves * settings.search.simulations + fresh * sum(
        settings.selfplay.search_settings_at(
            done / settings.iterations, settings.search
        ).simulations
        for done in range(settings.iterations)
    )
    return EstimatedWork(simulations, training_examples, settings.iterations * fresh)


def _fresh_positions(settings: TrainSettings) -> float:
    """Estimate the number of positions played per iteration."""
    play = settings.selfplay
    if isinstance(play.mode, ContinuousMode):
        return play.parallel_games * play.mode.plies
    return play.episodes * mean_random_game_plies(settings.game)


def estimate_run_seconds(settings: TrainSettings, dataset_positions: int = 0) -> float:
    """Estimate the time of a run on one core, in seconds; see `estimate_work`."""
    work = estimate_work(settings, dataset_positions)
    # Self-play uses the network of the previous iteration.
    networks = groupby(map(settings.network_settings_at, range(settings.iterations)))
    game = parse_game(settings.game)
    total = sum(evaluation_flops(network, game) * len(list(same)) for network, same in networks)
    flops = total / settings.iterations
    selfplay = work.simulations * (_SIMULATION_SECONDS + flops / _FLOPS)
    learning = work.training_examples * (_EXAMPLE_SECONDS + _TRAINING_FLOPS * flops / _FLOPS)
    return selfplay + learning + 3 * _STAGE_SECONDS * settings.iterations


def estimate_tournament_seconds(tournament: PlannedTournament) -> float:
    """Estimate the time of a tournament on one core, in seconds."""
    settings_of_runs = [run.settings for run in tournament.run_by_player.values()]
    move_seconds = [
        settings.search.simulations
        * (_SIMULATION_SECONDS + forward_flops(settings, settings.iterations) / _FLOPS)
        for settings in settings_of_runs
    ]
    move_seconds += [_AGENT_SECONDS] * len(tournament.agent_specs)
    games = tournament.pair_count * tournament.games_per_pair
    plies = games * mean_random_game_plies(tournament.game)
    return plies * sum(move_seconds) / max(1, len(move_seconds))


def estimate_run_bytes(settings: TrainSettings, dataset_positions: int = 0) -> float:
    """Estimate the size of a run on disk, in bytes; see `estimate_work`."""
    game = parse_game(settings.game)
    actions, words = (
        len(compiled_rules.legal(game, compiled_rules.start(game))),
        len(compiled_rules.start(game)),
    )
    position = 8 * words + 4 * actions + 20
    weights = 4 * count_parameters(settings.network_settings_at(settings.iterations), game)
    # The state of the optimiser takes as much space as two networks.
    networks = 3 + _SHARE_ACCEPTED * settings.iterations
    examples = estimate_work(settings, dataset_positions).stored_examples
    return examples * position * _COMPRESSED + networks * weights


def forward_flops(settings: TrainSettings, iteration: int) -> float:
    """Return the number of floating-point operations of a run's network per position."""
    return float(
        evaluation_flops(settings.network_settings_at(iteration), parse_game(settings.game))
    )


@cache
def mean_random_game_plies(game: str) -> float:
    """Return the mean length of random games in plies."""
    parsed, total = parse_game(game), 0
    random = streams.numpy_generator(0, 0, streams.MATCH_OPENING)
    for _ in range(_RANDOM_GAMES):
        state = compiled_rules.start(parsed)
        while compiled_rules.outcome(parsed, state) == ONGOING:
            action = int(random.choice(np.flatnonzero(compiled_rules.legal(parsed, state))))
            state, total = compiled_rules.apply(parsed, state, action), total + 1
    return total / _RANDOM_GAMES


@cache
def symmetry_count(game: str) -> int:
    """Return the number of symmetries of a game."""
    return len(compiled_rules.symmetry_tables(parse_game(game))[0])


class TimeCorrection:
    """Ratio of measured to estimated times, from finished tasks."""

    def __init__(self) -> None:
        self._estimated = self._measured = 0.0

    def add(self, estimated: float, measured: float) -> None:
        """Add the estimated and measured seconds of a finished task."""
        self._estimated += estimated
        self._measured += measured

    @property
    def factor(self) -> float:
        """Factor by which to multiply estimates; 1 without measurements."""
        return self._measured / self._estimated if self._measured else 1.0
