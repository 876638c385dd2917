"""Games: matches, tournaments, ratings, and PGN files with zerolab's usual move names."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from numbers import Real
from pathlib import Path
from typing import NamedTuple, cast

from zerolab.agents.agent import FORFEIT_ACTION, Agent
from zerolab.api.positions import (
    GAME_OPTION_EXAMPLE,
    agents_from_specs,
    game_from_name,
    require_callable,
    require_path,
    require_spec_strings,
)
from zerolab.core.config import validate
from zerolab.core.errors import UserError, checked_whole_number, quoted, require_type
from zerolab.core.files import check_output_path, read_file, write_text
from zerolab.play.game_files import (
    MAX_PGN_BYTES,
    ExportedGame,
    PgnGame,
    as_pgn,
    decode_pgn,
    move_names,
    result_of_tags,
    split_pgn,
)
from zerolab.play.match import Match, TestedMatch
from zerolab.play.match import play_match as play_match_of
from zerolab.play.match import play_sprt as play_sprt_of
from zerolab.play.tournament import (
    Tournament,
    TournamentSettings,
    needs_only_report,
    parse_tournament_agents,
    tournament_settings,
)
from zerolab.play.tournament_report import TournamentReport
from zerolab.ratings.bayes import rate as rate_games
from zerolab.ratings.ratings import Ratings
from zerolab.ratings.results import GameResult, RatedGame
from zerolab.ratings.sprt import Sprt
from zerolab.rules.catalogue import game_name, parse_game
from zerolab.rules.position import Position
from zerolab.rules.rules import Game

__all__ = [
    "Match", "Ratings", "RecordedGame", "TestedMatch", "TournamentReport", "format_pgn",
    "parse_pgn", "play_match", "play_sprt", "play_tournament", "rate", "read_pgn", "write_pgn",
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
    UserError for invalid specs, an odd number of games, or openings that are too long for the game.
    """
    require_callable("progress", progress)
    first, second = agents_from_specs([a, b], game)
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
    openings: int = 4,
    seed: int = 0,
    game: str | None = None,
    progress: Callable[[int], object] = lambda done: None,
) -> TestedMatch:
    """Play until a sequential test decides whether `a` leads `b` by `elo1` or only by `elo0` Elo.

    Each of the two wrong decisions has a probability of about 5 %. At most `games` games are
    played. See `play_match` for the other arguments. Raises UserError in the same cases, and also
    for invalid bounds and, without openings, for agents that play almost without randomness.
    """
    require_callable("progress", progress)
    for name, value in (("elo0", elo0), ("elo1", elo1)):
        require_type(name, value, Real, "a number of Elo points")
    first, second = agents_from_specs([a, b], game)
    settings = _settings([first, second], games, openings, seed)
    return play_sprt_of(
        first.game, first, second, Sprt(float(elo0), float(elo1)), settings.games, settings.seed,
        progress=lambda done, _: progress(done), openings=settings.openings,
    )  # fmt: skip


def play_tournament(
    agents: Sequence[str],
    *,
    games: int | None = None,
    openings: int | None = None,
    seed: int | None = None,
    game: str | None = None,
    folder: Path | str | None = None,
    progress: Callable[[int], object] = lambda done: None,
) -> TournamentReport:
    """Play a round robin with `games` games per pair, and return ratings and tables.

    If `folder` is given, the games are saved there, and an interrupted tournament is resumed. You
    can add agents when you resume it; the agents and settings of the saved tournament need not be
    repeated. Without a folder, the games are deleted together with the report. A new tournament has
    20 games per pair, no random opening plies and seed 0 by default. Raises UserError for invalid
    specs, fewer than two agents, settings that differ from the saved ones, or a folder with other
    files.
    """
    if isinstance(agents, str) or not isinstance(agents, Sequence):
        raise UserError(f'agents = {quoted(agents)}: expected a list such as ["random", "mcts:10"]')
    if folder is not None:
        require_path("folder", folder)
    require_callable("progress", progress)
    saved = Tournament.load(Path(folder)) if folder is not None else None
    options = {"games": games, "openings": openings, "seed": seed}
    if saved is not None and needs_only_report(saved, agents, (game, *options.values())):
        return TournamentReport.from_tournament(saved)
    specs = require_spec_strings(agents)
    parsed = parse_tournament_agents(
        saved, specs, game_from_name(game), game_example=GAME_OPTION_EXAMPLE
    )
    settings = tournament_settings(saved, parsed, options)
    opened = (
        Tournament.open_temporary(settings)
        if folder is None
        else Tournament.open_locked(Path(folder), settings)
    )
    with opened as tournament:
        tournament.play(parsed[0].game, parsed, lambda done, _: progress(done))
        return TournamentReport.from_tournament(tournament)


def rate(
    games: Iterable[RatedGame | RecordedGame | tuple[str, str, int]],
    *,
    advantage: float | None = None,
    draw_elo: float | None = None,
) -> Ratings:
    """Rate players based on their games, such as those of matches, with Bayesian Elo [BayesElo].

    A game can also be a game from a PGN file, or a tuple (first player, second player, result) with
    the result 1, 0 or -1 for the first player. Repeated games widen intervals if their moves are
    known. The parameters `advantage` and `draw_elo`, in Elo on the scale of the model, are fitted
    unless given. Raises UserError for invalid games, an empty list, or groups of players that have
    not played each other.
    """
    if isinstance(games, str) or not isinstance(games, Iterable):
        raise UserError(f"games = {quoted(games)}: expected a list of games")
    require_type("advantage", advantage, Real | None, "a number of Elo points")
    require_type("draw_elo", draw_elo, Real | None, "a number of Elo points")
    rated_games = [_as_rated(game) for game in games]
    return rate_games(rated_games, advantage=advantage, draw_elo=draw_elo)


def _settings(agents: Sequence[Agent], games: int, openings: int, seed: int) -> TournamentSettings:
    """Return the settings of a match or tournament; raise UserError if they are invalid."""
    data = {"game": game_name(agents[0].game), "games": games, "openings": openings, "seed": seed}
    players = {agent.name: agent.identity for agent in agents}
    return validate(TournamentSettings, {**data, "players": players})


def _as_rated(game: object) -> RatedGame:
    """Return a game with its moves, if known; raise UserError unless it is a finished game."""
    if isinstance(game, tuple) and not hasattr(game, "result") and len(game) == 3:
        game = GameResult(*game)
    first, second, result = (getattr(game, field, None) for field in ("first", "second", "result"))
    if not (isinstance(first, str) and isinstance(second, str)) or result not in (1, 0, -1):
        raise UserError(
            f"{quoted(game)} is not a finished game: expected (first player, second player, result)"
            " with the result 1, 0 or -1 for the first player"
        )
    if isinstance(game, RecordedGame):
        return GameResult(first, second, result, _recorded_actions(game))
    return cast(RatedGame, game) if hasattr(game, "actions") else GameResult(first, second, result)


_MOVE_NUMBER = re.compile(r"^\d+\.+")
_ANNOTATION = re.compile(r"\$\d+")
_RESULTS = ("1-0", "0-1", "1/2-1/2", "*")


class RecordedGame(NamedTuple):
    """A game as recorded in a PGN file."""

    last_position: Position
    """Last position; its `positions_so_far` method returns the whole game."""
    first: str = "?"
    """Name of the player who moved first, White in PGN."""
    second: str = "?"
    result: int | None = None
    """1, 0 or -1 for the first player; None if the game is not finished. If a player resigned, the
    last position is not final."""
    event: str = "?"
    given_plies: int = 0
    """Number of plies at the start that no player chose, such as those of a random opening."""

    def __repr__(self) -> str:
        return f"<RecordedGame {self.first} against {self.second}, {self.last_position.ply} plies>"


def _recorded_actions(game: RecordedGame) -> tuple[Hashable, ...]:
    """Return the moves of a finished game, in the form of `GameRecord.actions` if possible.

    A game from a PGN file then counts as a repetition of the same game in a match.
    """
    position = game.last_position
    require_type("last_position", position, Position, "a zerolab.Position")
    start = position.custom_start
    before = () if start is None else (start.state.tobytes(), start.first_to_move)
    end = (FORFEIT_ACTION,) if position.outcome is None else ()
    return (*before, *position.history, *end)


def format_pgn(games: Iterable[RecordedGame | Position]) -> str:
    """Return games as PGN; a position is written as the game that led to it.

    Raises UserError for a game that began from a custom position, is shorter than its given plies,
    or has a result that contradicts its last position.
    """
    if isinstance(games, str | tuple) or not isinstance(games, Iterable):
        raise UserError(f"games = {quoted(games)}: expected a list of games")
    texts: list[str] = []
    for number, each in enumerate(games, start=1):
        require_type(f"game {number}", each, (RecordedGame, Position), "a RecordedGame or Position")
        recorded = each if isinstance(each, RecordedGame) else _recorded(each)
        texts.extend(as_pgn(recorded.last_position.game, [_exported(recorded, number)]))
    return "".join(texts)


def write_pgn(path: Path | str, games: Iterable[RecordedGame | Position]) -> None:
    """Write games to a PGN file, replacing it if it exists; see `format_pgn`."""
    require_path("path", path)
    check_output_path(Path(path))
    write_text(Path(path), format_pgn(games))


def read_pgn(path: Path | str, game: str | None = None) -> list[RecordedGame]:
    """Return the games in a PGN file, replaying and checking every move; see `parse_pgn`."""
    require_path("path", path)
    return _games(decode_pgn(read_file(Path(path), MAX_PGN_BYTES), str(path)), game, str(path))


def parse_pgn(text: str, game: str | None = None) -> list[RecordedGame]:
    """Return the games in PGN text, replaying and checking every move.

    The Variant tag names the game, such as ``othello:6x6``; `game` is required without it. Comments
    and annotations are skipped. Raises UserError, with the number of the game, for illegal moves,
    variations, and unknown games or results.
    """
    require_type("text", text, str, "PGN")
    return _games(text, game, "the text")


def _games(text: str, game: str | None, source: str) -> list[RecordedGame]:
    default = game_from_name(game)
    games = [_replayed(each, default) for each in split_pgn(text, source)]
    if not games and text.strip():
        raise UserError(f"{source} has no games: expected PGN, which begins with tags")
    return games


def _recorded(position: Position) -> RecordedGame:
    return RecordedGame(position, result=position.first_player_outcome)


def _exported(game: RecordedGame, number: int) -> ExportedGame:
    position = game.last_position
    require_type(f"position of game {number}", position, Position, "a zerolab.Position")
    for name in (game.first, game.second, game.event):
        require_type(f"name in game {number}", name, str, "text")
    if game.result not in (1, 0, -1, None):
        raise UserError(
            f"result of game {number} = {quoted(game.result)}: expected 1, 0, -1 or None"
        )
    given = checked_whole_number(f"given_plies of game {number}", game.given_plies)
    if position.custom_start is not None:
        raise UserError(
            f"game {number} began from a custom position, which zerolab's PGN files cannot"
            " represent"
        )
    if given > position.ply:
        raise UserError(
            f"given_plies of game {number} = {given}: expected at most the {position.ply} plies of"
            " the game"
        )
    final = position.first_player_outcome
    if final is not None and game.result not in (final, None):
        raise UserError(
            f"result of game {number} = {game.result}: expected {final}, the result of its last"
            " position"
        )
    is_forfeited = game.result is not None and final is None
    moves = move_names(position.game, position.history)
    return ExportedGame(
        game.event, number, game.first, game.second, moves, game.result, is_forfeited, given
    )


def _replayed(pgn: PgnGame, default: Game | None) -> RecordedGame:
    tags = pgn.tags
    position = Position.start(_game_of_tags(pgn, default))
    for number, move in enumerate(_moves(pgn), start=1):
        try:
            position = position.play(move)
        except UserError as error:
            raise UserError(f"{pgn.location}, move {number}: {error}") from None
    result = result_of_tags(tags, pgn.location)
    final = position.first_player_outcome
    if final is not None and result not in (final, None):
        raise UserError(f"{pgn.location}: Result contradicts the position after the last move")
    first, second = (tags.get(name, "?") for name in ("White", "Black"))
    given = tags.get("GivenPlies", "0")
    if not (given.isdecimal() and len(given) < 4 and int(given) <= position.ply):
        raise UserError(
            f"{pgn.location}: GivenPlies {quoted(given)}: expected a number from 0 to"
            f" {position.ply}"
        )
    return RecordedGame(position, first, second, result, tags.get("Event", "?"), int(given))


def _game_of_tags(pgn: PgnGame, default: Game | None) -> Game:
    if "FEN" in pgn.tags:
        raise UserError(
            f"{pgn.location}: the FEN tag is not supported: expected a game from the start position"
        )
    variant = pgn.tags.get("Variant")
    if variant is None and default is not None:
        return default
    if variant is None:
        raise UserError(
            f'{pgn.location}: no Variant tag: expected game=..., as in game="othello:6x6"'
        )
    try:
        game = parse_game(variant)
    except UserError as error:
        raise UserError(f"{pgn.location}: Variant: {error}") from None
    if default not in (None, game):
        raise UserError(f"{pgn.location}: Variant {variant}: expected {game_name(default)}")
    return game


def _moves(pgn: PgnGame) -> Iterator[str]:
    for word in pgn.movetext.split():
        move = _MOVE_NUMBER.sub("", word).rstrip("!?")
        if "(" in move or ")" in move:
            raise UserError(
                f"{pgn.location}: {quoted(word)} belongs to a variation: expected only the moves"
                " that were played"
            )
        if move and move not in _RESULTS and not _ANNOTATION.fullmatch(move):
            yield move
