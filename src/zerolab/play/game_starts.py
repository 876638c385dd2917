"""Starts of self-play games: the initial position, random plies, or positions from earlier games.

The setting `selfplay.start` selects one of the types in `GAME_STARTS`. Other packages can add a
type by registering it in a module named in the ``zerolab.play`` entry-point group.

A game that begins at a position of an earlier game contains the moves that lead there. These moves
are recorded like the other moves, but neither searched nor used for training.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from zerolab.agents.agent import Actions, Slots
from zerolab.core import streams
from zerolab.core.compiled import kernel
from zerolab.core.config import VariantSettings
from zerolab.core.registry import Registry
from zerolab.replay.rows import empty_hash_table, find_or_insert_rows
from zerolab.rules import compiled_rules, rules
from zerolab.rules.facts import SearchFacts
from zerolab.rules.rules import Game
from zerolab.store.examples import Examples
from zerolab.store.games import GameRecord


class Openings(Protocol):
    """Openings for the games of an iteration; plain data that can be sent to other processes."""

    def opening(self, game_number: int) -> tuple[int, ...]:
        """Return the actions with which game `game_number` begins.

        The game must not be over after these actions.
        """
        ...


class NoOpenings(NamedTuple):
    """Openings without moves."""

    def opening(self, game_number: int) -> tuple[int, ...]:
        return ()


NO_OPENINGS = NoOpenings()


ExamplesLoader = Callable[[int], Examples]
"""Function that returns the examples of an earlier iteration."""


class GameStart(VariantSettings):
    """Base class of rules for the positions from which self-play games begin."""

    def new_openings(
        self, load_examples: ExamplesLoader, discount: float, seed: int, iteration: int
    ) -> Openings:
        """Return the openings of the games of an iteration.

        The searches of earlier iterations discounted their values by `discount` per ply. The
        openings must depend only on the settings and these arguments, so that a resumed run plays
        the same games.
        """
        return NO_OPENINGS


GAME_STARTS: Registry[type[GameStart]] = Registry("start of games")


class InitialStart(GameStart):
    """Start at the initial position, with up to `selfplay.random_opening_plies` random plies."""

    name: Literal["initial"] = "initial"


GAME_STARTS.add("initial", InitialStart)


class ArchiveStart(GameStart):
    """Start some games at positions of earlier games, as in Go-Exploit [Trudeau2023].

    The archive contains the latest fully searched positions of self-play. Every distinct position
    is drawn with a probability proportional to |v - z|, where v is the root value of its search and
    z is the result of its game, both for the side to move and discounted by `search.discount`. For
    a position that occurred several times, the mean of v - z is used. Games thus continue from
    mistakes and from positions that the network misjudges. Weighting by disagreement is zerolab's
    variant.

    The other games begin as with `initial`. Available only in the episodic and continuous modes.
    """

    name: Literal["archive"] = "archive"

    share: float = Field(default=0.5, gt=0, le=1)
    """Share of games that begin at a position in the archive."""

    size: int = Field(default=10_000, ge=1, le=1_000_000)
    """Number of positions in the archive, counting repetitions. Every iteration reads the examples
    of as many earlier iterations as this requires."""

    weighting: Literal["disagreement", "uniform"] = "disagreement"
    """Probability of a position: proportional to the disagreement between value and result, or the
    same for all distinct positions."""

    def new_openings(
        self, load_examples: ExamplesLoader, discount: float, seed: int, iteration: int
    ) -> Openings:
        parts: list[Examples] = []
        missing = self.size
        for earlier in range(iteration - 1, 0, -1):
            parts.append(load_examples(earlier))
            missing -= int(parts[-1].full.sum())
            if missing <= 0:
                break
        if not parts:
            return NO_OPENINGS
        examples = Examples.concatenate(parts[::-1])
        rows = np.flatnonzero(examples.full)[-self.size :]
        rows, disagreements = _distinct_positions(examples.take(rows), rows, discount)
        weights = np.ones(len(rows)) if self.weighting == "uniform" else disagreements
        rows, weights = rows[weights > 0], weights[weights > 0]
        if not rows.size:
            return NO_OPENINGS
        return ArchiveOpenings(
            seed, iteration, self.share, examples.actions, rows, examples.plies[rows],
            np.cumsum(weights),
        )  # fmt: skip


GAME_STARTS.add("archive", ArchiveStart)


def _distinct_positions(
    examples: Examples, rows: NDArray[np.int64], discount: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the row of each distinct position, int64[P], and |mean of v - z|, float64[P].

    `rows`, int64[N], are the rows of the examples. For equal positions, the last row is returned.
    """
    count = len(rows)
    positions = np.empty(count, np.int32)
    distinct_count = find_or_insert_rows(
        empty_hash_table(max(1, count)), np.empty_like(examples.states), examples.states,
        np.arange(count, dtype=np.int32), positions,
    )  # fmt: skip
    last = np.empty(distinct_count, np.int64)
    last[positions] = rows
    # Rounded like the root values, so that a value equal to its result differs by exactly 0.
    results = examples.discounted_outcomes(discount).astype(examples.root_values.dtype)
    differences = examples.root_values.astype(np.float64) - results
    sums = np.bincount(positions, differences, distinct_count)
    return last, np.abs(sums / np.bincount(positions, minlength=distinct_count))


class ArchiveOpenings(NamedTuple):
    """Openings drawn at random from the moves of earlier games."""

    seed: int
    iteration: int
    opening_probability: float
    """Probability that a game has an opening."""
    moves: NDArray[np.int16]
    """int16[M]: moves of earlier games, game by game."""
    opening_ends: NDArray[np.int64]
    """int64[P]: for each opening, the index in `moves` of the move that follows it."""
    opening_lengths: NDArray[np.int16]
    """int16[P]: length of each opening."""
    cumulative_weights: NDArray[np.float64]
    """float64[P]: cumulative sums of the openings' weights, which are positive."""

    def opening(self, game_number: int) -> tuple[int, ...]:
        """Return the opening of game `game_number`, or no moves if the game has none."""
        game = np.array([game_number])
        keys = streams.stream_keys(
            self.seed, self.iteration, game, np.zeros_like(game), streams.SELF_PLAY_ARCHIVE
        )
        draws = np.empty(2)
        _draw_uniform(keys, draws)
        if draws[0] >= self.opening_probability:
            return ()
        weights = self.cumulative_weights
        drawn = int(np.searchsorted(weights, draws[1] * weights[-1], side="right"))
        opening = min(drawn, len(weights) - 1)  # the product can be rounded up
        end = int(self.opening_ends[opening])
        return tuple(self.moves[end - int(self.opening_lengths[opening]) : end].tolist())


@kernel
def _draw_uniform(keys, draws):
    """Write uniform numbers in [0, 1) from the stream `keys`, uint64[1], to `draws`, float64[n]."""
    for number in range(draws.shape[0]):
        draws[number] = streams.uniform(keys[0], number)


def unsearched_examples(
    states: NDArray[np.uint64],
    game_numbers: NDArray[np.int64],
    plies: NDArray[np.int64],
    actions: Actions,
    action_count: int,
) -> Examples:
    """Return an example for each of N moves made without a search; none is used for training.

    The policies put all weight on the moves, and the other search columns are NaN. Columns that
    depend on the end of the game are 0.
    """
    count = len(actions)
    facts = SearchFacts.nan_columns(count, action_count)
    facts["policies"][:] = 0
    facts["policies"][np.arange(count), actions] = 1
    return Examples(
        **facts,
        states=states,
        outcomes=np.zeros(count, np.int8),
        plies_left=np.zeros(count, np.int16),
        games=game_numbers.astype(np.int32),
        plies=plies.astype(np.int16),
        actions=actions.astype(np.int16),
        full=np.zeros(count, np.bool_),
    )


def given_ply_examples(game: Game, games: Sequence[GameRecord]) -> Iterator[Examples]:
    """Yield `unsearched_examples` for the given plies of games, in ply order."""
    games = [each for each in games if each.given_plies]
    states = np.repeat(compiled_rules.start(game)[None], len(games), axis=0)
    numbers = np.array([each.number for each in games])
    for ply in range(max((each.given_plies for each in games), default=0)):
        rows = np.array([row for row, each in enumerate(games) if each.given_plies > ply])
        actions = np.array([games[row].actions[ply] for row in rows])
        plies = np.full(len(rows), ply)
        yield unsearched_examples(
            states[rows], numbers[rows], plies, actions, rules.action_count(game)
        )
        compiled_rules.apply_batch(game, states, rows, actions)


NO_ACTION = -1


@kernel
def _random_ply_count(key, max_plies):
    """Return the number of random plies of a game, uniform from 0 to `max_plies`."""
    return streams.random_below(streams.random_bits(key, 0), max_plies + 1)


@kernel
def draw_random_ply_counts(keys, max_plies, counts):
    """Write the number of random plies of n games with streams `keys`, uint64[n], to `counts`."""
    for i in range(keys.shape[0]):
        counts[i] = _random_ply_count(keys[i], max_plies)


@kernel
def _draw_random_plies(game, states, max_plies, plies, keys, actions):
    """Write random actions, int64[n], where the next ply is random, and NO_ACTION elsewhere."""
    for i in range(keys.shape[0]):
        actions[i] = NO_ACTION
        if plies[i] < _random_ply_count(keys[i], max_plies):
            random = streams.random_bits(keys[i], 1 + plies[i])
            actions[i] = rules.random_action(game, states[i], random)


class RandomOpeningPlies:
    """Source of random plies at the start of each game."""

    def __init__(self, game: Game, max_plies: int, slots: int) -> None:
        """Allocate `slots` game slots; a game begins with at most `max_plies` random plies."""
        self._game = game
        self._max_plies = max_plies
        self._actions = np.full(slots, NO_ACTION, np.int64)

    def draw(
        self,
        slots: Slots,
        states: NDArray[np.uint64],
        plies: NDArray[np.int64],
        keys: NDArray[np.uint64],
    ) -> NDArray[np.bool_]:
        """Draw moves for games whose next ply is random; return a mask of these games, bool[n].

        `keys` uint64[n] are the random streams of the games.
        """
        actions = np.empty(len(slots), np.int64)
        _draw_random_plies(self._game, states, self._max_plies, plies, keys, actions)
        self._actions[slots] = actions
        return actions != NO_ACTION

    def with_random_actions(self, slots: Slots, actions: Actions) -> Actions:
        """Return the actions, replaced by the drawn actions in games whose next move is random."""
        drawn = self._actions[slots]
        return np.where(drawn != NO_ACTION, drawn, actions)

    def is_random(self, slots: Slots) -> NDArray[np.bool_]:
        """Return for each slot whether the last call to `draw` drew a random move, bool[n]."""
        return self._actions[slots] != NO_ACTION
