"""Listings of runs, and queries of their games."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from zerolab.core.errors import UserError
from zerolab.store.checks import damaged, reading
from zerolab.store.folder import may_be
from zerolab.store.games import GameStore, source_folder
from zerolab.store.run_folder import RunFolder, is_run


class RunSummary(NamedTuple):
    """One run in a listing."""

    path: str
    game: str
    preset: str
    iteration: int
    iterations: int
    stage: str
    status: str
    """running, stopped, finished, or damaged with the reason."""
    training_elo: float
    """Sum of gains over the predecessor of each network, which flatters and compares no runs."""
    source: str = ""
    """The network that it started from, such as runs/demo@12; empty for an untrained one."""
    scores: Mapping[str, float] = MappingProxyType({})
    """Points per game against each opponent of the final evaluation that other runs can share, so
    without networks of the run itself. Empty if the run was extended after its evaluation."""
    accuracy: float | None = None
    """Latest strong accuracy of the search on solved positions; None if never measured."""


def find_runs(folders: Iterable[Path]) -> list[Path]:
    """Return the runs among the folders and directly inside them, by name.

    What is inside them and cannot be looked into is among these; `summarise` tells why.
    """
    found: list[Path] = []
    for folder in folders:
        if not folder.is_dir():
            raise UserError(f"{folder} is not a folder: expected a run or a folder of runs")
        with reading(folder):
            if is_run(folder):
                found.append(folder)
            else:
                found += (each for each in folder.iterdir() if may_be(is_run, each))
    return sorted(set(found))


def summarise_run(path: Path) -> RunSummary:
    """Describe one run; a run that cannot be read is described as damaged."""
    try:
        run = RunFolder.open(path)
        metrics = run.metrics()
        with reading(path / "config.toml"):
            iterations = int(run.config.get("iterations", 0))
    except UserError as error:
        return RunSummary(str(path), "", "", 0, 0, "", f"damaged: {error}", 0.0)
    progress, config = run.progress, run.config
    status = "finished" if progress.finished else "running" if run.is_locked else "stopped"
    game, preset = str(config.get("game", "")), str(config.get("preset", ""))
    iteration = min(progress.iteration, iterations)
    return RunSummary(
        str(path), game, preset, iteration, iterations, progress.stage, status, progress.elo,
        _source(config.get("start")), _scores(metrics), _accuracy(metrics),
    )  # fmt: skip


def _scores(metrics: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Return the scores by opponent; empty if the run was extended after its evaluation.

    The stages that write the lines are layers above.
    """
    lines = [line for line in metrics if isinstance(line.get("iteration"), int)]
    latest = max((line["iteration"] for line in lines), default=0)
    played = (
        line
        for line in lines
        if line.get("stage") == "final_evaluation" and line["iteration"] == latest
    )
    found = {str(line.get("opponent", "@")): line.get("score_rate") for line in played}
    return {
        opponent: score
        for opponent, score in found.items()
        if isinstance(score, float | int) and not opponent.startswith("@")
    }


def _accuracy(metrics: Iterable[Mapping[str, Any]]) -> float | None:
    measured = [line.get("search_strong") for line in metrics if line.get("stage") == "accuracy"]
    latest = measured[-1] if measured else None
    return latest if isinstance(latest, float | int) else None


def _source(start: Any) -> str:
    """Return the network that a run started from, according to its settings."""
    if not isinstance(start, Mapping):
        return ""
    source, iteration = str(start.get("source", "")), start.get("iteration")
    return source if iteration is None else f"{source_folder(source, iteration)}@{iteration}"


Result = Literal["first", "second", "draw", "won", "lost"]
"""The winner; `won` and `lost` are those of the requested player."""

_RESULTS = {"first": "result = 1", "second": "result = -1", "draw": "result = 0"}
_SIGNS = {"won": 1, "lost": -1}
_PLIES = (  # actions are separated by blanks; a final -1 is no move
    "(CASE actions WHEN '' THEN 0"
    " ELSE length(actions) - length(replace(actions, ' ', '')) + 1 END"
    " - (actions = '-1' OR actions LIKE '% -1'))"
)
_COLUMNS = "iteration, stage, number, first, second, actions, result"


class GameFilter(NamedTuple):
    """Conditions for games; None or empty fields match any game."""

    iteration: int | None = None
    stage: str = ""
    number: int | None = None
    player: str = ""
    """The canonical name of a player on either side."""
    opponent: str = ""
    """The canonical name of the player on the other side."""
    result: Result | None = None
    fewest_plies: int | None = None
    most_plies: int | None = None
    opening: tuple[int, ...] = ()
    """The first actions."""


class FoundGame(NamedTuple):
    """A game and its place in the store."""

    iteration: int
    stage: str
    number: int
    first: str
    second: str
    actions: tuple[int, ...]
    """Without the -1 of a player who gave up."""
    forfeit: bool
    """True if the player to move gave up."""
    result: int
    """1, 0 or -1 for the first player."""


@dataclass(frozen=True)
class StageOfGames:
    """The games of one stage in all iterations."""

    stage: str
    first_iteration: int
    last_iteration: int
    games: int


def count_games(store: GameStore, wanted: GameFilter) -> int:
    """Return the number of games that match a filter; raise UserError as `find_games`."""
    where, arguments = _condition(store, wanted)
    rows = store.select(f"SELECT count(*) FROM games WHERE {where}", [int], arguments)
    return int(rows[0][0]) if rows else 0


def find_games(
    store: GameStore, wanted: GameFilter, offset: int = 0, limit: int = 50
) -> list[FoundGame]:
    """Return the games that match a filter, by iteration, stage and number.

    Raises UserError for a filter that makes no sense and for a file that is damaged.
    """
    return _select(store, wanted, "LIMIT ? OFFSET ?", [limit, offset])


def every_game(store: GameStore, wanted: GameFilter, at_once: int = 1000) -> Iterator[FoundGame]:
    """Yield all games that match a filter; raise UserError as `find_games`.

    Reads `at_once` at a time, each time after the last game of the read before. With an offset,
    SQLite would walk over all earlier games.
    """
    found = _select(store, wanted, "LIMIT ?", [at_once])
    while found:
        yield from found
        last = found[-1]
        place = last.iteration, last.stage, last.number
        found = _select(store, wanted, "LIMIT ?", [at_once], after=place)


def _select(
    store: GameStore,
    wanted: GameFilter,
    limits: str,
    numbers: Sequence[int],
    after: tuple[int, str, int] | None = None,
) -> list[FoundGame]:
    """Return games by iteration, stage and number, those after a given place if any."""
    where, arguments = _condition(store, wanted)
    if after is not None:
        where += " AND (iteration, stage, number) > (?, ?, ?)"
        arguments += after
    rows = store.select(
        f"SELECT {_COLUMNS} FROM games WHERE {where} ORDER BY iteration, stage, number {limits}",
        [int, str, int, str, str, str, int],
        [*arguments, *numbers],
    )
    try:
        return [_found(store, *row) for row in rows]
    except (ValueError, TypeError, AttributeError) as error:
        raise damaged(store.path, error) from error


def stages_of_games(store: GameStore) -> list[StageOfGames]:
    """Return the stages in the order of their first recording."""
    rows = store.select(
        "SELECT stages.stage, min(games.iteration), max(games.iteration), count(*)"
        " FROM stages JOIN games USING (iteration, stage)"
        " GROUP BY stages.stage ORDER BY min(stages.sequence)",
        [str, int, int, int],
    )
    return [StageOfGames(*row) for row in rows]


def players_of_games(store: GameStore) -> list[str]:
    """Return the canonical names of all players."""
    rows = store.select("SELECT first FROM games UNION SELECT second FROM games", [str])
    return sorted(store.named_outside(name) for (name,) in rows)


def _condition(store: GameStore, wanted: GameFilter) -> tuple[str, list[str | int]]:
    """Return the condition after WHERE, and the arguments of its question marks."""
    parts = list(_parts(store, wanted))
    arguments = [argument for _, given in parts for argument in given]
    return " AND ".join(f"({text})" for text, _ in parts) or "1", arguments


def _parts(store: GameStore, wanted: GameFilter) -> Iterator[tuple[str, Sequence[str | int]]]:
    if wanted.iteration is not None:
        yield "iteration = ?", [wanted.iteration]
    if wanted.stage:
        yield "stage = ?", [wanted.stage]
    if wanted.number is not None:
        yield "number = ?", [wanted.number]
    player, opponent = (store.named_inside(name) for name in (wanted.player, wanted.opponent))
    if player and opponent:
        both = [player, opponent]
        yield "first = ? AND second = ? OR second = ? AND first = ?", both + both
    elif player or opponent:
        yield "first = ? OR second = ?", [player or opponent] * 2
    if wanted.result in _SIGNS:
        if not player:
            raise UserError(f'result = "{wanted.result}": expected a player, whose result it is')
        sign = _SIGNS[wanted.result]
        yield "first = ? AND result = ? OR second = ? AND result = ?", [player, sign, player, -sign]
    elif wanted.result is not None:
        yield _RESULTS[wanted.result], []
    if wanted.fewest_plies is not None:
        yield f"{_PLIES} >= ?", [wanted.fewest_plies]
    if wanted.most_plies is not None:
        yield f"{_PLIES} <= ?", [wanted.most_plies]
    if wanted.opening:
        begun = " ".join(map(str, wanted.opening))
        yield "actions = ? OR actions >= ? AND actions < ?", [begun, f"{begun} ", f"{begun}!"]


def _found(
    store: GameStore, iteration: int, stage: str, number: int, first: str, second: str,
    text: str, result: int,
) -> FoundGame:  # fmt: skip
    actions = tuple(map(int, text.split()))
    if result not in (1, 0, -1):
        raise ValueError(f"game {number} has the result {result!r}")
    forfeit = actions[-1:] == (-1,)
    names = store.named_outside(first), store.named_outside(second)
    kept = actions[:-1] if forfeit else actions
    return FoundGame(iteration, stage, number, *names, kept, forfeit, result)
