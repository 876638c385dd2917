"""Self-play by a search service, compared with plain self-play that keeps no trees either."""

from __future__ import annotations

from collections.abc import Iterator

from zerolab.bench.measure import Measurement, in_turns
from zerolab.bench.selfplay import SelfPlay
from zerolab.core.threads import available_cores
from zerolab.play.selfplay import Episodes
from zerolab.play.selfplay_settings import SelfPlaySettings
from zerolab.play.service.schedules import play_by_service
from zerolab.play.service.settings import Service
from zerolab.search.settings import SearchSettings

_GAME = "connect_four:6x7"
_NETWORK = {"name": "resnet", "blocks": 4, "filters": 32}
_GAMES = 1024
_AT_ONCE = 128  # far fewer than games: then a slot that is done has another position to search
_SEARCH = SearchSettings(simulations=32, reuse_tree=False)
_STARTS = (("random-starts", 24), ("one-start", 0))
"""Titles, and the most random plies that a game begins with: with many, positions hardly repeat."""


def measure_service(rounds: int) -> Iterator[Measurement]:
    """Measure the moves searched per second of games that repeat little, and of those that do."""
    for title, plies in _STARTS:
        served, plain = ServedSelfPlay(plies), PlainSelfPlay(plies)
        rate, limit = in_turns(served.play, plain.play, rounds)
        yield Measurement(
            f"service/resnet4x32/{_GAME}/{title}", "moves/s", rate, limit,
            "plain self-play's moves/s, without kept trees", served.shares(),
            f"{served.saved:.0%} of the searches saved",
        )  # fmt: skip


class PlainSelfPlay(SelfPlay):
    """Iterations of plain self-play, in moves that were searched."""

    def __init__(self, random_plies: int) -> None:
        super().__init__(_GAME, _NETWORK, _GAMES, _SEARCH)
        self._settings = SelfPlaySettings(
            episodes=_GAMES,
            random_plies=random_plies,
            threads=available_cores(),
            parallel_games=_AT_ONCE,
        )

    def play(self) -> float:
        """Play an iteration's games; return the number of moves that were searched."""
        self._iteration += 1
        episodes = self._play()
        self._seconds = episodes.seconds
        return float(episodes.examples.full.sum())


class ServedSelfPlay(PlainSelfPlay):
    """The same games by a service."""

    saved = 0.0
    """The share of the moves of the last iteration that needed no search of their own."""

    def __init__(self, random_plies: int) -> None:
        super().__init__(random_plies)
        self._settings = self._settings.model_copy(update={"schedule": Service()})

    def _play(self) -> Episodes:
        episodes = play_by_service(
            self._game, self._settings, self._search, self._evaluator, 0, self._iteration
        )
        self.saved = 1 - episodes.counts["searched"] / episodes.counts["asked"]
        return episodes
