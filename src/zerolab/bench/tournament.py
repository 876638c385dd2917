"""A tournament of networks beside plain self-play of one of them, by simulations per second."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from zerolab.agents.interface import Agent
from zerolab.agents.search_player import SearchPlayer, search_bytes
from zerolab.bench.measure import Measurement, in_turns
from zerolab.core.threads import available_cores
from zerolab.networks.catalogue import NETWORKS, build_network
from zerolab.networks.inference import NetworkEvaluator
from zerolab.play.selfplay import play_episodes
from zerolab.play.selfplay_settings import SelfPlaySettings
from zerolab.play.tournament import Tournament, TournamentSettings
from zerolab.rules.catalogue import parse_game
from zerolab.search.settings import SearchSettings

_NAME = "connect_four:6x7"
_NETWORK = {"blocks": 4, "filters": 32}
_NETWORKS = 4
_GAMES_PER_PAIR = 340
_SIMULATIONS = 8
_SAMPLED_PLIES = 14  # as many as self-play samples by default, so that games are alike


def measure_tournament(rounds: int) -> Iterator[Measurement]:
    """Measure a tournament without and with deduplication and cache."""
    evaluators = [_evaluator(seed) for seed in range(_NETWORKS)]
    for saving in (False, True):
        cache = {} if saving else {"cache": 0}
        search = SearchSettings(simulations=_SIMULATIONS, deduplicate=saving, **cache)
        subject = _Tournament(evaluators, search)
        limit = _SelfPlay(evaluators[0], search)
        rate, best = in_turns(subject.play, limit.play, rounds)
        label = f"tournament/resnet4x32/{_NAME}/{'deduplicated' if saving else 'plain'}"
        yield Measurement(label, "simulations/s", rate, best, "self-play of one of the networks")


def _evaluator(seed: int) -> NetworkEvaluator:
    game = parse_game(_NAME)
    settings = NETWORKS["resnet"].model_validate(_NETWORK)
    return NetworkEvaluator(build_network(settings, game, seed), game)


class _Tournament:
    """A whole tournament, stored in a folder."""

    def __init__(self, evaluators: Sequence[NetworkEvaluator], search: SearchSettings) -> None:
        self._game = parse_game(_NAME)
        self._players: list[SearchPlayer] = []
        self._agents = [self._agent(n, each, search) for n, each in enumerate(evaluators)]
        self._settings = TournamentSettings(
            game=_NAME,
            games=_GAMES_PER_PAIR,
            players={agent.name: "" for agent in self._agents},
        )

    def _agent(self, number: int, evaluator: NetworkEvaluator, search: SearchSettings) -> Agent:
        name = f"network {number}"

        def player() -> SearchPlayer:
            made = SearchPlayer(self._game, name, search, evaluator, _SAMPLED_PLIES)
            self._players.append(made)
            return made

        return Agent(name, player, search_bytes(self._game, search))

    def play(self) -> float:
        """Play all games; return the simulations done."""
        torch.set_num_threads(1)
        self._players.clear()
        with (
            tempfile.TemporaryDirectory() as folder,
            Tournament.locked(Path(folder), self._settings) as tournament,
        ):
            tournament.play(self._game, self._agents)
        return float(sum(player.search.counts["simulations"] for player in self._players))


class _SelfPlay:
    """As many games of one network against itself."""

    def __init__(self, evaluator: NetworkEvaluator, search: SearchSettings) -> None:
        self._game = parse_game(_NAME)
        self._evaluator = evaluator
        self._search = search
        episodes = _GAMES_PER_PAIR * _NETWORKS * (_NETWORKS - 1) // 2
        self._settings = SelfPlaySettings(episodes=episodes, threads=available_cores())
        self._iteration = 0

    def play(self) -> float:
        """Play all games; return the simulations done."""
        torch.set_num_threads(1)
        self._iteration += 1
        played = play_episodes(
            self._game, self._settings, self._search, self._evaluator, 0, self._iteration
        )
        return played.counts["simulations"]
