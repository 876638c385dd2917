"""A league beside self-play of one of its players, by games per minute."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from zerolab.bench.measure import Measurement, in_turns
from zerolab.bench.selfplay import make_evaluator
from zerolab.core.threads import available_cores
from zerolab.league.league import League
from zerolab.league.settings import LeagueSettings
from zerolab.networks.inference import NetworkEvaluator
from zerolab.play.selfplay import play_episodes
from zerolab.play.selfplay_settings import SelfPlaySettings
from zerolab.rules.catalogue import parse_game

_NAMES = ("connect_four:6x7", "gobang:6x6")
_NETWORK = {"name": "resnet", "blocks": 4, "filters": 32}
_GAMES = 500
_SAMPLED_PLIES = 14
_SEARCH: dict[str, Any] = {
    "simulations": 8,
    "selection": {"name": "puct", "c": 3.09},
    "fpu": {"name": "fixed", "value": 0.709},
}


def measure_league(rounds: int) -> Iterator[Measurement]:
    """Measure leagues whose players differ in c and first-play urgency, with equal simulations."""
    for name in _NAMES:
        evaluator = make_evaluator(name, _NETWORK)
        subject, limit = _League(name, evaluator), _SelfPlay(name, evaluator)
        rate, best = in_turns(subject.play, limit.play, rounds)
        yield Measurement(
            f"league/resnet4x32/{name}", "games/min", 60 * rate, 60 * best,
            "self-play, one tree for both sides",
            note=f"{subject.plies:.1f} plies a game, self-play {limit.plies:.1f}",
        )  # fmt: skip


class _League:
    """The first generation of one league after another, saved in a folder."""

    def __init__(self, name: str, evaluator: NetworkEvaluator) -> None:
        self._game = parse_game(name)
        self._evaluator = evaluator
        self._seed = 0
        self._given = {
            "game": name, "parameters": ("c", "fpu"), "search": _SEARCH, "generation": _GAMES,
            "batch": _GAMES, "sampled_plies": _SAMPLED_PLIES, "parallel_games": 512,
        }  # fmt: skip
        self.plies = 0.0
        """Of a game, in the latest league."""

    def play(self) -> float:
        """Play a league; return its games."""
        torch.set_num_threads(1)
        self._seed += 1
        settings = LeagueSettings.model_validate({**self._given, "seed": self._seed})
        moves: list[int] = []
        with (
            tempfile.TemporaryDirectory() as folder,
            League.locked(Path(folder), settings) as league,
        ):
            league.play(
                self._game, self._evaluator, _GAMES, watch=lambda each: moves.append(each.moves)
            )
        self.plies = sum(moves) / _GAMES
        return float(_GAMES)


class _SelfPlay:
    """As many games of one player against itself."""

    def __init__(self, name: str, evaluator: NetworkEvaluator) -> None:
        self._game = parse_game(name)
        self._evaluator = evaluator
        self._search = LeagueSettings(game=name, search=_SEARCH).search
        self._settings = SelfPlaySettings(
            episodes=_GAMES, sampled_plies=_SAMPLED_PLIES, threads=available_cores()
        )
        self._iteration = 0
        self.plies = 0.0
        """Of a game, in the latest iteration."""

    def play(self) -> float:
        """Play an iteration; return its games."""
        torch.set_num_threads(1)
        self._iteration += 1
        played = play_episodes(
            self._game, self._settings, self._search, self._evaluator, 0, self._iteration
        )
        self.plies = played.moves / _GAMES
        return float(_GAMES)
