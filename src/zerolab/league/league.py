"""A league in its folder, from which one that was stopped or killed goes on.

``league.toml`` says who plays, ``players.safetensors`` is how far the league has come, and replaced
in one step after every batch of games; ``games.sqlite`` holds the games.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from zerolab.core.config import validate
from zerolab.core.errors import UserError
from zerolab.league.fitness import (
    count_games,
    credits,
    new_positions,
    rate_novelty,
    rate_results,
)
from zerolab.league.players import Players, first_players, multiply, pairs
from zerolab.league.playing import play_games
from zerolab.league.settings import SPEED_ALONE, LeagueSettings
from zerolab.play.reached import Reached, reached
from zerolab.play.selfplay import Episodes
from zerolab.rules.interface import Game
from zerolab.search.interface import Evaluator
from zerolab.store.arrays import load_arrays, save_arrays
from zerolab.store.checks import reading
from zerolab.store.folder import FolderKind
from zerolab.store.games import GameRecord, GameStore

LEAGUE = FolderKind("league", "league.toml", "--out")

_KIND = "league"
_STATE = "players.safetensors"
_PLAYERS = ("values", "sigmas", "ratings", "games", "points", "generations", "parents")

Progress = Callable[["LeagueState", int, str], object]
"""Takes the league as it was last saved, the games that are over, and what else is worth saying."""


@dataclass
class LeagueState:
    """How far a league has come."""

    players: Players
    played: int = 0
    """Games."""
    stages: int = 0
    """Batches of games that the file of games has."""
    seen: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))
    """uint64[S]: sorted hashes of the positions of all games, where fitness is novelty."""

    def rate(
        self,
        settings: LeagueSettings,
        met: NDArray[np.int64],
        results: NDArray[np.int8],
        found: Reached | None = None,
    ) -> None:
        """Take in the results int8[games] of the next games, those of the first players.

        `met` int64[games, 2] played them, all in one generation. Their positions, `found`, are
        needed where fitness is novelty. Once the generation has played its games, the next one is
        born.
        """
        count_games(self.players, met, results)
        if settings.fitness == "results":
            rate_results(self.players, settings, met, results)
        else:
            assert found is not None
            counts, self.seen = new_positions(found, len(met), self.seen)
            earned = credits(counts, results, settings.fitness == "novelty_of_winner")
            rate_novelty(self.players, settings, met, earned)
        self.played += len(met)
        if self.played % settings.generation == 0:
            self.players = multiply(self.players, settings)

    def take_in(
        self,
        game: Game,
        settings: LeagueSettings,
        met: NDArray[np.int64],
        games: Sequence[GameRecord],
    ) -> None:
        """Take in the next games as they were recorded; see `rate`."""
        results = np.array([each.result for each in games], np.int8)
        found = None if settings.fitness == "results" else reached(game, games)
        self.rate(settings, met, results, found)

    def next_games(self, settings: LeagueSettings, total: int) -> range:
        """Return the numbers of the games up to the next save, `total` being those of all."""
        into = self.played % settings.generation
        end = min(into + settings.batch, settings.generation) - into + self.played
        return range(self.played, min(end, total))


class League:
    """A league's folder; hold `locked` around everything that writes."""

    def __init__(self, path: Path, settings: LeagueSettings) -> None:
        self.path = path
        self.settings = settings
        self.games = GameStore(path / "games.sqlite")
        self.state = LeagueState(first_players(settings))

    @classmethod
    def saved(cls, path: Path) -> League | None:
        """Return the league in a folder, if there is one; raise UserError if it is damaged."""
        if not path.is_dir() or not LEAGUE.is_in(path):
            return None
        source = str(path / LEAGUE.settings_file)
        league = cls(path, validate(LeagueSettings, LEAGUE.read_settings(path), source))
        if (path / _STATE).exists():
            league.state = _load(path / _STATE)
        return league

    @classmethod
    @contextmanager
    def locked(cls, path: Path, settings: LeagueSettings) -> Iterator[League]:
        """Begin a league, or go on with one.

        Raises UserError if another process is at work on it, if it has other settings than those
        that change the speed alone, or if the folder holds something else.
        """
        with LEAGUE.locked(path):
            league = cls.saved(path)
            if league is None:
                LEAGUE.write_settings(path, settings.model_dump())
                league = cls(path, settings)
            else:
                former, wanted = league.settings.model_dump(), settings.model_dump()
                LEAGUE.require_equal(path, former, wanted, SPEED_ALONE)
                league.settings = settings
            league.games.rewind(league.state.stages)
            yield league

    def play(
        self,
        game: Game,
        evaluator: Evaluator,
        total: int,
        progress: Progress = lambda state, done, note: None,
        watch: Callable[[Episodes], object] = lambda episodes: None,
    ) -> None:
        """Play until the league has had `total` games; `watch` gets every batch with its examples.

        An exception, such as KeyboardInterrupt in `progress`, ends early; what has been saved stays
        so. Raises UserError for an odd number of games where fitness is novelty.
        """
        settings = self.settings
        if settings.fitness != "results" and total % 2:
            raise UserError(
                f"games = {total} is odd: expected an even number, since novelty compares two games"
            )
        began, first = time.monotonic(), self.state.played
        while numbers := self.state.next_games(settings, total):
            met = pairs(self.state.players, settings, numbers)
            before = self.state.played

            def report(games: int, before: int = before) -> None:
                minutes = max(1e-9, time.monotonic() - began) / 60
                rate = (before + games - first) / minutes
                progress(self.state, before + games, f"{rate:,.0f} games/min")

            episodes = play_games(
                game, settings, evaluator, self.state.players, met, numbers.start,
                lambda done, report=report: report(done.games),  # type: ignore[misc]
            )  # fmt: skip
            self._commit(game, met, episodes.games)
            watch(episodes)

    def _commit(self, game: Game, met: NDArray[np.int64], games: Sequence[GameRecord]) -> None:
        """Take in games and save: first the games, then the state, which says how many count."""
        state = self.state
        self.games.record(state.players.generation, f"from {state.played}", games)
        state.take_in(game, self.settings, met, games)
        state.stages += 1
        _save(self.path / _STATE, state)


def _save(path: Path, state: LeagueState) -> None:
    players = state.players
    arrays = {name: getattr(players, name) for name in _PLAYERS}
    arrays |= {"active": np.stack(players.active), "seen": state.seen}
    save_arrays(path, _KIND, arrays, played=state.played, stages=state.stages)


def _load(path: Path) -> LeagueState:
    arrays, about = load_arrays(path, _KIND)
    with reading(path):
        kept = {name: arrays[name] for name in _PLAYERS}
        players = Players(**kept, active=list(arrays["active"]))
        return LeagueState(players, int(about["played"]), int(about["stages"]), arrays["seen"])
