"""Self-play in a league, whose players persist from iteration to iteration.

The league is not saved: it follows from the settings and the stored games of the run, so that a
resumed run has the same players.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import NamedTuple

from zerolab.league.league import LeagueState
from zerolab.league.league_settings import LeagueSettings
from zerolab.league.playing import play_league_games, player_number
from zerolab.league.population import draw_pairs, first_generation
from zerolab.play.selfplay import SelfPlayProgress, SelfPlayResult, merge_results
from zerolab.rules.catalogue import parse_game
from zerolab.search.evaluator import Evaluator
from zerolab.store.checks import damaged
from zerolab.store.games import SELF_PLAY, GameRecord, GameStore
from zerolab.training.settings import TrainSettings, league_settings


class LeagueEpisodes(NamedTuple):
    """The games of an iteration, and the generation that played the last one."""

    episodes: SelfPlayResult
    generation: int


class StoredLeague:
    """The league that results from the stored games of a run.

    Games are read once: an iteration reads those of the iteration before, a resumed run reads all.
    """

    def __init__(self, store: GameStore, settings: LeagueSettings) -> None:
        self.settings = settings
        self.game = parse_game(settings.game)
        self._store = store
        self._begin()

    def _begin(self) -> None:
        self._state = LeagueState(first_generation(self.settings))
        self._next = 1  # the first iteration whose games have not been read

    def before(self, iteration: int) -> LeagueState:
        """Return a copy of the league after all games before an iteration.

        Raises UserError for stored games that its pairings did not ask for.
        """
        if iteration < self._next:
            self._begin()
        while self._next < iteration:
            self._take_in(self._store.games(self._next, SELF_PLAY))
            self._next += 1
        return deepcopy(self._state)

    def _take_in(self, games: Sequence[GameRecord]) -> None:
        state = self._state
        while games and (numbers := state.next_games(self.settings, state.played + len(games))):
            part, games = games[: len(numbers)], games[len(numbers) :]
            met = draw_pairs(state.population, self.settings, numbers)
            try:
                found = [[player_number(name) for name in game[1:3]] for game in part]
            except ValueError as error:
                raise damaged(self._store.path, error) from None
            if found != met.tolist():
                why = f"games of iteration {self._next} are of another league"
                raise damaged(self._store.path, why)
            state.rate_records(self.game, self.settings, met, part)


def run_league(store: GameStore, settings: TrainSettings) -> StoredLeague | None:
    """Return the league of a run with these games, None for plain self-play."""
    if settings.league is None:
        return None
    return StoredLeague(store, league_settings(settings, settings.league))


def play_league(
    league: StoredLeague,
    episodes: int,
    evaluator: Evaluator,
    iteration: int,
    report: Callable[[SelfPlayProgress], None],
) -> LeagueEpisodes:
    """Play the games of an iteration after those that are stored (`play_games`)."""
    settings, state = league.settings, league.before(iteration)
    generation = state.population.generation
    end = state.played + episodes
    parts: list[SelfPlayResult] = []
    begin = 0
    while numbers := state.next_games(settings, end):
        generation = state.population.generation
        met = draw_pairs(state.population, settings, numbers)
        plies = sum(part.moves for part in parts)

        def progress(done: SelfPlayProgress, begin: int = begin, plies: int = plies) -> None:
            report(SelfPlayProgress(begin + done.games, plies + done.plies))

        parts.append(
            play_league_games(
                league.game, settings, evaluator, state.population, met, begin, progress,
                iteration=iteration,
            )
        )  # fmt: skip
        state.rate_records(league.game, settings, met, parts[-1].games)
        begin += len(numbers)
    return LeagueEpisodes(merge_results(parts), generation)
