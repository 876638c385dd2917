"""Positions of random games, and their comparison with an independent implementation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from zerolab.rules import compiled_rules, rules
from zerolab.rules.compiled_rules import PerftCount, perft
from zerolab.rules.rules import MAX_PLIES, ONGOING, Game, State

_GAMES = 8


class SamplePosition(NamedTuple):
    """A position of a random game, and the actions that led to it."""

    game: Game
    state: State  # uint64[words], read only
    outcome: int
    history: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.game} after the actions {list(self.history)}"


def expect(condition: object, at: SamplePosition | Game, complaint: str) -> None:
    """Raise AssertionError with the position or game unless `condition` is true."""
    if not condition:
        raise AssertionError(f"{at}: {complaint}")


@lru_cache(maxsize=64, typed=True)
def random_games(game: Game) -> tuple[tuple[SamplePosition, ...], ...]:
    """Return the positions of eight random games, which are the same in every call."""
    return tuple(tuple(_random_game(game, seed)) for seed in range(_GAMES))


def sample_positions(game: Game) -> Iterator[SamplePosition]:
    """Yield every position of the random games."""
    for samples in random_games(game):
        yield from samples


def ongoing_sample_positions(game: Game) -> Iterator[SamplePosition]:
    """Yield the ongoing positions of the random games."""
    return (sample for sample in sample_positions(game) if sample.outcome == ONGOING)


def _random_game(game: Game, seed: int) -> Iterator[SamplePosition]:
    random = np.random.default_rng(seed)
    state = compiled_rules.start(game)
    sample = SamplePosition(game, state, compiled_rules.outcome(game, state), ())
    yield sample
    while sample.outcome == ONGOING:
        expect(len(sample.history) < MAX_PLIES, game, f"no end after {MAX_PLIES} random actions")
        mask = np.zeros(rules.action_count(game), np.bool_)
        compiled_rules.write_legal(game, sample.state, mask)
        choices = np.flatnonzero(mask)
        expect(len(choices), sample, "the game is ongoing, but no action is legal")
        action = int(random.choice(choices))
        state = compiled_rules.apply(game, sample.state, action)
        sample = SamplePosition(
            game, state, compiled_rules.outcome(game, state), (*sample.history, action)
        )
        yield sample


def evenly_spaced_samples(game: Game, count: int) -> list[SamplePosition]:
    """Return about `count` ongoing positions, distributed evenly over the random games."""
    ongoing = list(ongoing_sample_positions(game))
    return ongoing[:: max(1, len(ongoing) // count)]


def garbage_state(game: Game) -> State:
    """Return a state, uint64[words], with arbitrary content that rules must overwrite."""
    return np.full(rules.word_count(game), 0xDEAD_BEEF_DEAD_BEEF, np.uint64)


class Twin(Protocol):
    """A position of an independent implementation, which should be as simple as possible."""

    def legal_actions(self) -> Sequence[int]:
        """Return the legal actions of an ongoing game in ascending order."""
        ...

    def play(self, action: int) -> Twin:
        """Return the position after an action, without changing this one."""
        ...

    def result(self) -> int | None:
        """Return the result for the player who moved first: 1, 0 or -1; None if ongoing."""
        ...

    def board(self) -> NDArray[Any] | None:
        """Return [rows, columns] with 1 and -1 for the first and second player's pieces.

        Return None to skip the comparison of boards.
        """
        ...


def check_twin(game: Game, start: Callable[[], Twin], max_leaves: int = 500) -> None:
    """Compare random games move by move, and perft counts up to about `max_leaves` sequences."""
    for samples in random_games(game):
        twin = start()
        for sample in samples:
            if sample.history:
                twin = twin.play(sample.history[-1])
            _compare(sample, twin)
    _compare_counts(game, start, max_leaves)


def _compare(sample: SamplePosition, twin: Twin) -> None:
    game, sign = sample.game, 1 if len(sample.history) % 2 == 0 else -1
    result = twin.result()
    expected = ONGOING if result is None else sign * result
    is_equal = sample.outcome == expected
    expect(is_equal, sample, f"the outcome is {sample.outcome}, but the twin's is {expected}")
    if sample.outcome == ONGOING:
        legal = np.flatnonzero(compiled_rules.legal(game, sample.state)).tolist()
        twin_legal = list(twin.legal_actions())
        is_equal = legal == twin_legal
        expect(is_equal, sample, f"the legal actions are {legal}, but the twin's are {twin_legal}")
    board = twin.board()
    if board is not None:
        pieces = sign * compiled_rules.encode(game, sample.state)[0]
        different = np.argwhere(pieces != board).tolist()
        expect(
            not different,
            sample,
            f"plane 0 and the twin's board have different pieces in the cells {different}",
        )


def _compare_counts(game: Game, start: Callable[[], Twin], max_leaves: int) -> None:
    level: list[Twin] = [start()]
    branching = len(level[0].legal_actions())
    for count in perft(game, depth=20):
        level = [
            twin.play(action)
            for twin in level
            if twin.result() is None
            for action in twin.legal_actions()
        ]
        ended = sum(twin.result() is not None for twin in level)
        expected = PerftCount(count.depth, len(level), ended)
        expect(count == expected, game, f"perft returns {count}, but the twin has {expected}")
        if not level or len(level) * branching > max_leaves:
            return
