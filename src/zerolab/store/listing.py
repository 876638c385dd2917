"""Listings of runs and queries of their games."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeGuard

from zerolab.core.errors import UserError
from zerolab.store.checks import damaged_file_error, user_errors_on_read
from zerolab.store.folder import FINAL_STAGE_NAME, matches_or_is_unreadable
from zerolab.store.games import GameStore, source_run_folder
from zerolab.store.run_folder import RunFolder, is_run


class RunSummary(NamedTuple):
    """A run in a listing."""

    path: str
    """Run folder."""
    game: str
    """Name of the game."""
    preset: str
    """Preset of the settings."""
    iteration: int
    """Current iteration."""
    iterations: int
    """Total number of iterations."""
    next_stage: str
    """Next stage."""
    status: str
    """Status: running, stopped, finished, or damaged with the reason."""
    training_elo: float
    """Sum of the Elo gains of each network over its predecessor.

    It does not measure strength and is not comparable between runs.
    """
    start_network: str = ""
    """Network from which the run started, such as runs/demo@12; empty if untrained."""
    final_score_rates: Mapping[str, float] = MappingProxyType({})
    """Points per game against each opponent from outside the run, in the final evaluation.

    Empty if the run was extended after its evaluation.
    """
    accuracy: float | None = None
    """Latest share of solved positions where the search chose a best move; None if unmeasured."""


def find_runs(folders: Iterable[Path]) -> list[Path]:
    """Return the sorted paths of runs among the folders and directly inside them.

    Unreadable folders inside them are included; `summarise_run` gives the reason. Raises
    UserError if one of `folders` is not a folder or cannot be read.
    """
    runs: list[Path] = []
    for folder in folders:
        if not folder.is_dir():
            raise UserError(f"{folder} is not a folder: expected a run or a folder of runs")
        with user_errors_on_read(folder):
            if is_run(folder):
                runs.append(folder)
            else:
                runs += (
                    each for each in folder.iterdir() if matches_or_is_unreadable(is_run, each)
                )
    return sorted(set(runs))


def summarise_run(path: Path) -> RunSummary:
    """Return the summary of a run; an unreadable run has the status "damaged"."""
    try:
        run = RunFolder.open(path)
        metrics = run.metrics()
        with user_errors_on_read(path / "config.toml"):
            iterations = int(run.config.get("iterations", 0))
    except UserError as error:
        return RunSummary(str(path), "", "", 0, 0, "", f"damaged: {error}", 0.0)
    progress, config = run.progress, run.config
    status = "finished" if progress.finished else "running" if run.is_locked else "stopped"
    game, preset = str(config.get("game", "")), str(config.get("preset", ""))
    return RunSummary(
        str(path), game, preset, progress.current_iteration, iterations, progress.stage, status,
        progress.elo,
        _start_network(config.get("start")), _final_score_rates(metrics), _accuracy(metrics),
    )  # fmt: skip


def _final_score_rates(metrics: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Return the scores by opponent; empty if the run was extended after its evaluation."""
    lines = [line for line in metrics if isinstance(line.get("iteration"), int)]
    latest = max((line["iteration"] for line in lines), default=0)
    evaluation = (
        line
        for line in lines
        if line.get("stage") == FINAL_STAGE_NAME and line["iteration"] == latest
    )
    scores = {str(line.get("opponent", "@")): line.get("score_rate") for line in evaluation}
    return {
        opponent: score
        for opponent, score in scores.items()
        if _is_finite(score) and not opponent.startswith("@")
    }


def _accuracy(metrics: Iterable[Mapping[str, Any]]) -> float | None:
    accuracies = [line.get("search_strong") for line in metrics if line.get("stage") == "accuracy"]
    latest = accuracies[-1] if accuracies else None
    return latest if _is_finite(latest) else None


def _is_finite(number: Any) -> TypeGuard[float]:
    """Return whether a value of a metrics file is a number that JSON can represent."""
    return isinstance(number, float | int) and abs(number) <= sys.float_info.max


def _start_network(start: Any) -> str:
    """Return the network from which a run started, according to its settings."""
    if not isinstance(start, Mapping):
        return ""
    source, iteration = str(start.get("source", "")), start.get("iteration")
    return source if iteration is None else f"{source_run_folder(source, iteration)}@{iteration}"


ResultFilter = Literal["first", "second", "draw", "won", "lost"]
"""Winner of a game; `won` and `lost` refer to the player of the filter."""

_RESULTS = {"first": "result = 1", "second": "result = -1", "draw": "result = 0"}
_SIGNS = {"won": 1, "lost": -1}
_PLIES = (  # actions are separated by spaces; a final -1 is not a move
    "(CASE actions WHEN '' THEN 0"
    " ELSE length(actions) - length(replace(actions, ' ', '')) + 1 END"
    " - (actions = '-1' OR actions LIKE '% -1'))"
)
_COLUMNS = "iteration, stage, number, first, second, actions, result, given_plies"


class GameFilter(NamedTuple):
    """Conditions on games; a field that is None or empty matches any game."""

    iteration: int | None = None
    stage: str = ""
    number: int | None = None
    player: str = ""
    """Canonical name of a player on either side."""
    opponent: str = ""
    """Canonical name of the player on the other side."""
    result: ResultFilter | None = None
    fewest_plies: int | None = None
    most_plies: int | None = None
    opening: tuple[int, ...] = ()
    """First actions of the game."""


class FoundGame(NamedTuple):
    """A game that matches a filter."""

    iteration: int
    stage: str
    number: int
    first: str
    """Canonical name of the player who moved first."""
    second: str
    """Canonical name of the player who moved second."""
    actions: tuple[int, ...]
    """Actions, without the -1 of a forfeit or resignation."""
    is_forfeited: bool
    """True if the player to move forfeited or resigned the game."""
    result: int
    """Outcome for the first player: 1, 0 or -1."""
    given_plies: int
    """Number of plies at the start that no player chose in this game, such as a random opening."""


@dataclass(frozen=True)
class StageSummary:
    """Number of games of a stage in all iterations."""

    stage: str
    first_iteration: int
    last_iteration: int
    games: int


def count_matching_games(store: GameStore, game_filter: GameFilter) -> int:
    """Return the number of games that match a filter.

    Raises UserError like `list_matching_games`.
    """
    where, arguments = _where_clause(store, game_filter)
    rows = store.select_rows(f"SELECT count(*) FROM games WHERE {where}", [int], arguments)
    return int(rows[0][0]) if rows else 0


_KEY = ("iteration", "stage", "number")


def list_matching_games(
    store: GameStore,
    game_filter: GameFilter,
    offset: int = 0,
    limit: int = 50,
    *,
    latest_first: bool = False,
) -> list[FoundGame]:
    """Return the games that match a filter, ordered by iteration, stage and number.

    With `latest_first`, the order is reversed, and `offset` counts from the last game. Raises
    UserError for an invalid filter or a damaged file.
    """
    numbers = [limit, offset]
    return _select(store, game_filter, "LIMIT ? OFFSET ?", numbers, latest_first=latest_first)


def iterate_matching_games(
    store: GameStore, game_filter: GameFilter, page_size: int = 1000
) -> Iterator[FoundGame]:
    """Yield all games that match a filter; raise UserError like `list_matching_games`.

    Each query reads `page_size` games that follow the last game of the previous query. This is
    faster than an offset, for which SQLite would scan all earlier games.
    """
    page = _select(store, game_filter, "LIMIT ?", [page_size])
    while page:
        yield from page
        last = page[-1]
        last_key = last.iteration, last.stage, last.number
        page = _select(store, game_filter, "LIMIT ?", [page_size], after=last_key)


def _select(
    store: GameStore,
    game_filter: GameFilter,
    limits: str,
    numbers: Sequence[int],
    after: tuple[int, str, int] | None = None,
    *,
    latest_first: bool = False,
) -> list[FoundGame]:
    """Return matching games ordered by (iteration, stage, number), starting after a given key.

    With `latest_first`, the order is reversed.
    """
    order = ", ".join(f"{key} DESC" if latest_first else key for key in _KEY)
    where, arguments = _where_clause(store, game_filter)
    if after is not None:
        where += " AND (iteration, stage, number) > (?, ?, ?)"
        arguments += after
    return _games_of_rows(
        store, f"games WHERE {where} ORDER BY {order} {limits}", [*arguments, *numbers]
    )


def latest_games(store: GameStore, limit: int) -> list[FoundGame]:
    """Return the most recently stored games, latest first; raise UserError for a damaged file."""
    source = "stages JOIN games USING (iteration, stage)"
    return _games_of_rows(store, f"{source} ORDER BY sequence DESC, number DESC LIMIT ?", [limit])


def _games_of_rows(
    store: GameStore, source: str, arguments: Sequence[str | int]
) -> list[FoundGame]:
    """Return the games that ``SELECT ... FROM`` a source yields."""
    types = [int, str, int, str, str, str, int, int]
    rows = store.select_rows(f"SELECT {_COLUMNS} FROM {source}", types, arguments)
    try:
        return [_found_game(store, *row) for row in rows]
    except (ValueError, TypeError, AttributeError) as error:
        raise damaged_file_error(store.path, error) from error


def summarise_stages(store: GameStore) -> list[StageSummary]:
    """Return the stages, ordered by when they were first recorded."""
    rows = store.select_rows(
        "SELECT stages.stage, min(games.iteration), max(games.iteration), count(*)"
        " FROM stages JOIN games USING (iteration, stage)"
        " GROUP BY stages.stage ORDER BY min(stages.sequence)",
        [str, int, int, int],
    )
    return [StageSummary(*row) for row in rows]


def list_players(store: GameStore) -> list[str]:
    """Return the canonical names of all players."""
    rows = store.select_rows("SELECT first FROM games UNION SELECT second FROM games", [str])
    return sorted(store.full_agent_name(name) for (name,) in rows)


def _where_clause(store: GameStore, game_filter: GameFilter) -> tuple[str, list[str | int]]:
    """Return the SQL condition after WHERE, and the arguments for its question marks."""
    parts = list(_where_parts(store, game_filter))
    arguments = [argument for _, values in parts for argument in values]
    return " AND ".join(f"({text})" for text, _ in parts) or "1", arguments


def _where_parts(
    store: GameStore, game_filter: GameFilter
) -> Iterator[tuple[str, Sequence[str | int]]]:
    if game_filter.iteration is not None:
        yield "iteration = ?", [game_filter.iteration]
    if game_filter.stage:
        yield "stage = ?", [game_filter.stage]
    if game_filter.number is not None:
        yield "number = ?", [game_filter.number]
    player = store.relative_agent_name(game_filter.player)
    opponent = store.relative_agent_name(game_filter.opponent)
    if player and opponent:
        both = [player, opponent]
        yield "first = ? AND second = ? OR second = ? AND first = ?", both + both
    elif player or opponent:
        yield "first = ? OR second = ?", [player or opponent] * 2
    if game_filter.result in _SIGNS:
        if not player:
            raise UserError(
                f'result = "{game_filter.result}" is relative to a player: expected a player name'
            )
        sign = _SIGNS[game_filter.result]
        yield "first = ? AND result = ? OR second = ? AND result = ?", [player, sign, player, -sign]
    elif game_filter.result is not None:
        yield _RESULTS[game_filter.result], []
    if game_filter.fewest_plies is not None:
        yield f"{_PLIES} >= ?", [game_filter.fewest_plies]
    if game_filter.most_plies is not None:
        yield f"{_PLIES} <= ?", [game_filter.most_plies]
    if game_filter.opening:
        prefix = " ".join(map(str, game_filter.opening))
        yield "actions = ? OR actions >= ? AND actions < ?", [prefix, f"{prefix} ", f"{prefix}!"]


def _found_game(
    store: GameStore, iteration: int, stage: str, number: int, first: str, second: str,
    text: str, result: int, given_plies: int,
) -> FoundGame:  # fmt: skip
    actions = tuple(map(int, text.split()))
    if result not in (1, 0, -1):
        raise ValueError(f"game {number} has the result {result!r}")
    is_forfeited = actions[-1:] == (-1,)
    names = store.full_agent_name(first), store.full_agent_name(second)
    moves = actions[:-1] if is_forfeited else actions
    if min(iteration, number, *moves) < 0:
        raise ValueError(f"game {number} has a negative iteration, number or move")
    if not 0 <= given_plies <= len(moves):
        raise ValueError(f"game {number} has {given_plies} given plies")
    return FoundGame(iteration, stage, number, *names, moves, is_forfeited, result, given_plies)
