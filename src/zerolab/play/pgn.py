"""Games as PGN, which `play.records` and other programs read, or as lines of text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from zerolab.rules.catalogue import game_name, notation_of
from zerolab.rules.interface import Game

_RESULTS = {1: "1-0", -1: "0-1", 0: "1/2-1/2"}
_LINE = 79
"""Characters of a line of moves; PGN's export format has fewer than 80."""


class PlayedGame(NamedTuple):
    """A finished game as others read it."""

    event: str
    """Where and when it was played, such as "runs/demo, iteration 3, gate"."""
    round: int
    first: str
    second: str
    moves: tuple[str, ...]
    """By their names."""
    result: int
    """1, 0 or -1 for the first player."""
    forfeit: bool = False
    """Whether it ended because a player gave up."""


def move_names(game: Game, actions: Iterable[int]) -> tuple[str, ...]:
    """Return the names of actions, such as "c2" or "pass"."""
    notation = notation_of(game)
    return tuple(notation.action_name(game, action) for action in actions)


def as_pgn(game: Game, games: Iterable[PlayedGame]) -> Iterator[str]:
    """Yield the PGN of each game: White is who moves first, moves are named as zerolab does."""
    for each in games:
        result = _RESULTS[each.result]
        tags = {
            "Event": each.event,
            "Site": "?",
            "Date": "????.??.??",
            "Round": str(each.round),
            "White": each.first,
            "Black": each.second,
            "Result": result,
            "Variant": game_name(game),
            "PlyCount": str(len(each.moves)),
        }
        if each.forfeit:
            tags["Termination"] = "abandoned"
        yield f"{_tags(tags)}\n{_movetext(each.moves, result)}\n\n"


def as_lines(game: Game, games: Iterable[PlayedGame]) -> Iterator[str]:
    """Yield a line of headings and one per game, with tabs between; moves as commands take them."""
    yield "game\tevent\tround\tfirst\tsecond\tresult\tmoves\n"
    name = game_name(game)
    for each in games:
        ending = " (gave up)" if each.forfeit else ""
        cells = [
            name, each.event, str(each.round), each.first, each.second,
            _RESULTS[each.result] + ending, ",".join(each.moves),
        ]  # fmt: skip
        yield "\t".join(" ".join(cell.split()) for cell in cells) + "\n"


def _tags(tags: Mapping[str, str]) -> str:
    return "".join(f'[{name} "{_escaped(value)}"]\n' for name, value in tags.items())


def _escaped(value: str) -> str:
    return " ".join(value.split()).replace("\\", "\\\\").replace('"', '\\"')


def _movetext(moves: tuple[str, ...], result: str) -> str:
    words = [f"{ply // 2 + 1}. {move}" if ply % 2 == 0 else move for ply, move in enumerate(moves)]
    return textwrap.fill(
        " ".join([*words, result]), _LINE, break_long_words=False, break_on_hyphens=False
    )
