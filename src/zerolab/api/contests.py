"""Games between agents, and ratings."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import torch

from zerolab.agents.specs import parse_agents
from zerolab.core.config import require_even
from zerolab.core.errors import UserError
from zerolab.play.match import Match
from zerolab.play.match import play_match as play_match_of
from zerolab.play.report import TournamentReport
from zerolab.play.tournament import Tournament, TournamentSettings
from zerolab.ratings.bayes import Ratings
from zerolab.ratings.bayes import rate as rate_games
from zerolab.ratings.results import GameResult, RatedGame
from zerolab.rules.catalogue import game_name, parse_game

__all__ = [
    "Match", "Ratings", "TournamentReport", "play_match", "play_tournament", "rate",
]  # fmt: skip


def play_match(
    a: str,
    b: str,
    *,
    games: int = 100,
    openings: int = 0,
    seed: int = 0,
    game: str | None = None,
    progress: Callable[[int], object] = lambda done: None,
) -> Match:
    """Play a match between two agents, half of the games with each colour, on all cores.

    Games 2j and 2j + 1 begin with the same `openings` random plies. `game` is needed where neither
    agent is a run. `progress` is told how many games are over. Raises UserError for wrong specs, an
    odd number of games, and openings longer than games.
    """
    try:
        require_even(games)
    except ValueError as error:
        raise UserError(f"games: {error}") from None
    first, second = parse_agents([a, b], parse_game(game) if game is not None else None)
    with _one_core_per_thread():
        return play_match_of(
            first.game, first, second, games, seed, progress=lambda done, _: progress(done),
            openings=openings,
        )  # fmt: skip


def play_tournament(
    agents: Sequence[str],
    *,
    games: int = 20,
    openings: int = 0,
    seed: int = 0,
    game: str | None = None,
    folder: Path | str | None = None,
    progress: Callable[[int], object] = lambda done: None,
) -> TournamentReport:
    """Let everybody play everybody, `games` games per pair; return ratings and tables.

    With a `folder` the games are kept there, a stopped tournament is resumed, and agents may be
    added later. Raises UserError for wrong specs, fewer than two agents, and a folder that holds
    something else.
    """
    if len(agents) < 2:
        raise UserError(f"{len(agents)} agents: expected at least two")
    parsed = parse_agents(agents, parse_game(game) if game is not None else None)
    name = game_name(parsed[0].game)
    identities = {agent.name: agent.identity for agent in parsed}
    settings = TournamentSettings(
        game=name, games=games, openings=openings, seed=seed, players=identities
    )
    with tempfile.TemporaryDirectory(prefix="zerolab-") as temporary, _one_core_per_thread():
        place = Path(temporary) / "tournament" if folder is None else Path(folder)
        with Tournament.locked(place, settings) as tournament:
            tournament.play(parsed[0].game, parsed, lambda done, _: progress(done))
            return TournamentReport.of(tournament)


def rate(
    games: Iterable[RatedGame | tuple[str, str, int]],
    *,
    advantage: float | None = None,
    draw_elo: float | None = None,
) -> Ratings:
    """Rate players by Bayesian Elo [BayesElo] from games, such as those of matches.

    A game may also be (first player, second player, result), the result being 1, 0 or -1 for the
    first player. Repeated games count once where their moves are known. `advantage` and `draw_elo`
    are fitted unless given. Raises UserError without games, and where groups of players never met.
    """
    found = [_as_rated(game) for game in games]
    return rate_games(found, advantage=advantage, draw_elo=draw_elo)


def _as_rated(game: RatedGame | tuple[str, str, int]) -> RatedGame:
    if isinstance(game, tuple) and not hasattr(game, "result"):
        return GameResult(*game)
    return cast(RatedGame, game)


@contextmanager
def _one_core_per_thread() -> Iterator[None]:
    """Let torch compute on one core per thread: games are played by as many threads as cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
