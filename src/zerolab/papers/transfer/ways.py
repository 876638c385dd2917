"""Boards, pairs of them, and ways to transfer a network.

A part of the study is a board. Its runs without a source are baselines; all others start from a run
of another board that was trained from scratch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import permutations
from typing import NamedTuple

from zerolab.papers.elo import GAME_TITLES
from zerolab.rules.catalogue import canonical_game_name
from zerolab.studies.design import Design, PlannedRun

SCRATCH = "scratch"
RANDOM_FROZEN = "random-frozen"
FINE_TUNED = "fine-tuned"
FROZEN = "frozen"
MAPPED = "mapped"

WAY_TITLES: Mapping[str, str] = {
    SCRATCH: "from scratch",
    FINE_TUNED: "fine-tuned trunk",
    FROZEN: "frozen trunk",
    MAPPED: "mapped",
    RANDOM_FROZEN: "random frozen trunk",
}
"""By the levels of the factor ``way``."""
TRANSFERRED = (FINE_TUNED, FROZEN, MAPPED)
"""The ways that need a source, which is the factor ``source``: a part of the study."""

PLAY_AT_ONCE = (SCRATCH, MAPPED)
"""The ways whose network 0 plays, too: the others begin with untrained heads, as scratch does."""
PLAY_IN_THE_END = (FROZEN, RANDOM_FROZEN)
"""The ways of which the last network alone plays: of them, the end is the question."""


class Pair(NamedTuple):
    """Two boards, by the names of their parts."""

    source: str
    target: str

    @property
    def is_near(self) -> bool:
        """Whether both are sizes of one game."""
        return _game(self.source) == _game(self.target)

    @property
    def title(self) -> str:
        """What people call it."""
        return f"{board_title(self.source)} to {board_title(self.target)}"


def part_of(board: str) -> str:
    """Return the part of a board: ``gobang:5x5:4`` is ``gobang-5x5``."""
    name, size, *_ = board.split(":")
    return f"{name}-{size}"


def board_title(part: str) -> str:
    """Return what people call a board: ``Gobang 5x5``."""
    return f"{GAME_TITLES[_game(part)]} {part.rpartition('-')[2]}"


def board_pairs(games: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    """Return which boards start from which ones, as (source, target).

    `games` are boards by game, the one that games are compared on first: every ordered pair of
    those, and both directions between the sizes of each game.
    """
    first = [canonical_game_name(boards[0]) for boards in games.values()]
    far = list(permutations(first, 2))
    near = [
        pair
        for boards in games.values()
        for pair in permutations(map(canonical_game_name, boards), 2)
    ]
    return [*far, *near]


def pairs(design: Design) -> list[Pair]:
    """Return the pairs of a design, by target, in the order of its parts."""
    found = dict.fromkeys(
        Pair(str(run.factors["source"]), run.part) for run in design.runs if "source" in run.factors
    )
    return sorted(found, key=lambda pair: design.parts.index(pair.target))


def targets_of_both_kinds(every: Iterable[Pair]) -> dict[str, tuple[list[Pair], list[Pair]]]:
    """Return the pairs of near and of far sources, of every target that has both kinds."""
    found: dict[str, tuple[list[Pair], list[Pair]]] = {}
    for pair in every:
        near, far = found.setdefault(pair.target, ([], []))
        (near if pair.is_near else far).append(pair)
    return {target: kinds for target, kinds in found.items() if all(kinds)}


def _game(part: str) -> str:
    return part.rpartition("-")[0]


def player_name(run: PlannedRun, iteration: int) -> str:
    """Return the name under which a run's network after an iteration plays."""
    return f"{run.label}@{iteration}"
