"""Matches, tournaments and ratings."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from numbers import Real
from pathlib import Path
from typing import cast

from zerolab.agents.agent import Agent
from zerolab.api.positions import (
    GAME_EXAMPLE,
    agents_of,
    checked_specs,
    game_of,
    require_callable,
    require_path,
)
from zerolab.core.config import validate
from zerolab.core.errors import UserError, quoted, require_type
from zerolab.play.match import Match, TestedMatch
from zerolab.play.match import play_match as play_match_of
from zerolab.play.match import play_sprt as play_sprt_of
from zerolab.play.tournament import Tournament, TournamentSettings, parse_tournament_agents
from zerolab.play.tournament_report import TournamentReport
from zerolab.ratings.bayes import Ratings
from zerolab.ratings.bayes import rate as rate_games
from zerolab.ratings.results import GameResult, RatedGame
from zerolab.ratings.sprt import Sprt
from zerolab.rules.catalogue import game_name

__all__ = [
    "Match", "Ratings", "TestedMatch", "TournamentReport", "play_match", "play_sprt",
    "play_tournament", "rate",
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
    """Play a match between two agents on all cores; each agent moves first in half of the games.

    Games 2j and 2j + 1 begin with the same `openings` random plies. `game` is required unless an
    agent determines it, as runs do. `progress` is called with the number of finished games. Raises
    UserError for invalid specs, an odd number of games, or openings longer than games.
    """
    require_callable("progress", progress)
    first, second = agents_of([a, b], game)
    settings = _settings([first, second], games, openings, seed)
    return play_match_of(
        first.game, first, second, settings.games, settings.seed,
        progress=lambda done, _: progress(done), openings=settings.openings,
    )  # fmt: skip


def play_sprt(
    a: str,
    b: str,
    *,
    elo0: float = 0.0,
    elo1: float = 50.0,
    games: int = 2000,
    openings: int = 2,
    seed: int = 0,
    game: str | None = None,
    progress: Callable[[int], object] = lambda done: None,
) -> TestedMatch:
    """Play until it is decided whether A leads B by `elo1` or only by `elo0`, at 5 % error each.

    At most `games` games are played. The other arguments are those of `play_match`. Raises
    UserError as it does, for invalid bounds, and for deterministic agents without openings.
    """
    require_callable("progress", progress)
    for name, value in (("elo0", elo0), ("elo1", elo1)):
        require_type(name, value, Real, "a number of Elo")
    first, second = agents_of([a, b], game)
    settings = _settings([first, second], games, openings, seed)
    return play_sprt_of(
        first.game, first, second, Sprt(float(elo0), float(elo1)), settings.games, settings.seed,
        progress=lambda done, _: progress(done), openings=settings.openings,
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
    """Play a round robin with `games` games per pair, and return ratings and tables.

    If `folder` is given, the games are saved there, and an interrupted tournament is resumed. You
    can add agents when you resume it; the agents of the saved tournament need not be listed again.
    Raises UserError for invalid specs, fewer than two agents, or a folder with other content.
    """
    if isinstance(agents, str) or not isinstance(agents, Sequence):
        raise UserError(f'agents = {quoted(agents)}: expected a list such as ["random", "mcts:10"]')
    if folder is not None:
        require_path("folder", folder)
    require_callable("progress", progress)
    saved = Tournament.load(Path(folder)) if folder is not None else None
    names = [] if saved is None else list(saved.settings.players)
    parsed_game = game_of(saved.settings.game if game is None and saved is not None else game)
    parsed = parse_tournament_agents(
        names, checked_specs(agents), parsed_game, game_example=GAME_EXAMPLE
    )
    settings = _settings(parsed, games, openings, seed)
    with tempfile.TemporaryDirectory(prefix="zerolab-") as temporary:
        path = Path(temporary) / "tournament" if folder is None else Path(folder)
        with Tournament.open_locked(path, settings) as tournament:
            tournament.play(parsed[0].game, parsed, lambda done, _: progress(done))
            return TournamentReport.of(tournament)


def rate(
    games: Iterable[RatedGame | tuple[str, str, int]],
    *,
    advantage: float | None = None,
    draw_elo: float | None = None,
) -> Ratings:
    """Rate players from games, such as those of matches, with Bayesian Elo [BayesElo].

    A game can also be a tuple (first player, second player, result), where the result is 1, 0 or -1
    for the first player. Repeated games count once if their moves are known. The parameters
    `advantage` and `draw_elo`, in Elo, are fitted unless given. Raises UserError for invalid games,
    an empty list, or groups of players that have not played each other.
    """
    if isinstance(games, str) or not isinstance(games, Iterable):
        raise UserError(f"games = {quoted(games)}: expected a list of games")
    require_type("advantage", advantage, Real | None, "a number of Elo")
    require_type("draw_elo", draw_elo, Real | None, "a number of Elo")
    rated_games = [_as_rated(game) for game in games]
    return rate_games(rated_games, advantage=advantage, draw_elo=draw_elo)


def _settings(agents: Sequence[Agent], games: int, openings: int, seed: int) -> TournamentSettings:
    """Return the settings of a match or tournament; raise UserError if they are invalid."""
    data = {"game": game_name(agents[0].game), "games": games, "openings": openings, "seed": seed}
    players = {agent.name: agent.identity for agent in agents}
    return validate(TournamentSettings, {**data, "players": players})


def _as_rated(game: object) -> RatedGame:
    """Return a game, converted if it is a tuple; raise UserError unless it is a finished game."""
    if isinstance(game, tuple) and not hasattr(game, "result") and len(game) == 3:
        game = GameResult(*game)
    names = [getattr(game, field, None) for field in ("first", "second")]
    has_names = all(isinstance(name, str) for name in names)
    if not has_names or getattr(game, "result", None) not in (1, 0, -1):
        raise UserError(
            f"{quoted(game)} is not a finished game: expected (first player, second player, result)"
            " with the result 1, 0 or -1 for the first player"
        )
    return cast(RatedGame, game)
