"""Self-play in a league whose players persist across iterations.

The league is not saved. It is reconstructed from the run's settings and stored games, so that a
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
from zerolab.store.checks import damaged_file_error
from zerolab.store.games import SELF_PLAY, GameRecord, GameStore
from zerolab.training.train_settings import TrainSettings, league_settings


class LeagueSelfPlayResult(NamedTuple):
    """The games of an iteration, and the generation that played the last game."""

    selfplay: SelfPlayResult
    generation: int


class ReconstructedLeague:
    """The league of a run, reconstructed from the stored games.

    Each game is read once: an iteration reads the games of the previous iteration, and a resumed
    run begins by reading all games.
    """

    def __init__(self, store: GameStore, settings: LeagueSettings) -> None:
        self.settings = settings
        self.game = parse_game(settings.game)
        self._store = store
        self._reset()

    def _reset(self) -> None:
        self._state = LeagueState(first_generation(self.settings))
        self._next_iteration = 1  # the first iteration with unread games

    def state_before(self, iteration: int) -> LeagueState:
        """Return a copy of the league's state before the first game of an iteration.

        Raises UserError if the stored games do not match the pairings of the league.
        """
        if iteration < self._next_iteration:
            self._reset()
        while self._next_iteration < iteration:
            self._replay(self._store.stage_games(self._next_iteration, SELF_PLAY))
            self._next_iteration += 1
        return deepcopy(self._state)

    def _replay(self, games: Sequence[GameRecord]) -> None:
        state = self._state
        while games and (
            numbers := state.next_game_numbers(self.settings, state.game_count + len(games))
        ):
            batch, games = games[: len(numbers)], games[len(numbers) :]
            pairs = draw_pairs(state.population, self.settings, numbers)
            try:
                players = [[player_number(name) for name in game[1:3]] for game in batch]
            except ValueError as error:
                raise damaged_file_error(self._store.path, error) from None
            if players != pairs.tolist():
                reason = f"games of iteration {self._next_iteration} belong to another league"
                raise damaged_file_error(self._store.path, reason)
            state.rate_records(self.game, self.settings, pairs, batch)


def reconstruct_league(store: GameStore, settings: TrainSettings) -> ReconstructedLeague | None:
    """Return the league of the run with these games; None for plain self-play."""
    if settings.league is None:
        return None
    return ReconstructedLeague(store, league_settings(settings, settings.league))


def play_league_iteration(
    league: ReconstructedLeague,
    game_count: int,
    evaluator: Evaluator,
    iteration: int,
    report: Callable[[SelfPlayProgress], None],
) -> LeagueSelfPlayResult:
    """Play the next `game_count` games of a league in an iteration."""
    settings, state = league.settings, league.state_before(iteration)
    generation = state.population.generation
    end = state.game_count + game_count
    parts: list[SelfPlayResult] = []
    begin = 0
    while numbers := state.next_game_numbers(settings, end):
        generation = state.population.generation
        pairs = draw_pairs(state.population, settings, numbers)
        plies = sum(part.searched_move_count for part in parts)

        def report_part(part: SelfPlayProgress, begin: int = begin, plies: int = plies) -> None:
            played = plies + part.ply_count
            report(SelfPlayProgress(begin + part.game_count, played, part.latest_game))

        parts.append(
            play_league_games(
                league.game, settings, evaluator, state.population, pairs, begin, report_part,
                iteration=iteration,
            )
        )  # fmt: skip
        state.rate_records(league.game, settings, pairs, parts[-1].games)
        begin += len(numbers)
    return LeagueSelfPlayResult(merge_results(parts), generation)
