"""Pairings of agents, their random openings, and the distribution of games to threads and slots.

A block consists of up to twenty games of one pair, which a tournament stores in one transaction.
Each batch involves only a few agents with many games each, so that network batches are large and
only a few networks are in memory.
"""

from __future__ import annotations

import hashlib
import heapq
import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.agent import (
    Actions,
    Agent,
    AsyncPlayer,
    PerGamePlayer,
    Player,
    SharedBatchPlayer,
)
from zerolab.core import streams
from zerolab.core.compiled import kernel
from zerolab.core.errors import UserError
from zerolab.play.game_starts import NO_OPENINGS, Openings
from zerolab.rules import compiled_rules, rules
from zerolab.rules.catalogue import game_name
from zerolab.rules.rules import ONGOING, Game
from zerolab.search.evaluator import NO_EVALUATIONS, evaluate

GAMES_PER_BLOCK = 20
"""Block size, which is part of the format of stored tournaments."""

_CELLS_PER_THREAD = 3  # minimum that keeps all threads busy until shortly before the end


class Pairing(NamedTuple):
    """A game to play; with a `number_stride`, also the later games of its slot."""

    number: int
    """Game number, unique among the games of the same agents."""
    first: str
    second: str
    """Agent names; an agent that plays both sides uses a single game slot."""
    stream_number: int
    """Key of the random streams, in addition to (seed, iteration, ply)."""
    opening: tuple[int, ...] = ()
    """Actions played before the agents move."""
    max_plies: int | None = None
    """Maximum number of plies after the opening; None for no limit."""
    number_stride: int = 0
    """Increment of `number` and `stream_number` from this game to the next one in its slot, or 0 if
    there is no next game. `max_plies` limits all games of a slot together."""
    later_openings: Openings = NO_OPENINGS
    """Openings of the next games in the slot."""

    def next_pairing(self, played_plies: int) -> Pairing | None:
        """Return the next game in the slot, if any; this game had `played_plies` plies."""
        remaining = (
            None if self.max_plies is None else self.max_plies - (played_plies - len(self.opening))
        )
        if not self.number_stride or remaining == 0:
            return None
        number, stream_number = (
            self.number + self.number_stride,
            self.stream_number + self.number_stride,
        )
        opening = self.later_openings.opening(number)
        return self._replace(
            number=number, stream_number=stream_number, opening=opening, max_plies=remaining
        )


def alternating_pairings(first: str, second: str, game_numbers: Iterable[int]) -> list[Pairing]:
    """Return pairings of two agents; `first` moves first in even-numbered games."""
    return [
        Pairing(number, *((second, first) if number % 2 else (first, second)), number)
        for number in game_numbers
    ]


class PairBlock(NamedTuple):
    """A block of games of one pair of agents; `first` moves first in even-numbered games."""

    first: str
    second: str
    """Name of the other agent, which sorts after `first`."""
    block_index: int
    """Index of the block, whose first game has the number 20 * block_index."""

    @classmethod
    def containing(cls, one: str, other: str, game_number: int) -> PairBlock:
        """Return the block that contains game `game_number` of two agents."""
        return cls(min(one, other), max(one, other), game_number // GAMES_PER_BLOCK)

    @property
    def stage_name(self) -> str:
        """Stage name that, together with `block_index`, identifies the block in the game store."""
        return f"{self.first} vs {self.second}"

    def game_numbers(self, games: int) -> range:
        """Return the game numbers of the block if the pair plays `games` games in total."""
        return range(
            self.block_index * GAMES_PER_BLOCK, min(games, (self.block_index + 1) * GAMES_PER_BLOCK)
        )

    def pairings(self, game_numbers: Iterable[int]) -> list[Pairing]:
        """Return the pairings of the games with the given numbers.

        Their streams depend only on the two names and the game number. Games 2j and 2j + 1 have
        streams 2k and 2k + 1.
        """
        names = f"{self.first}\n{self.second}".encode()
        pair = int.from_bytes(hashlib.blake2b(names, digest_size=8).digest(), "little")
        games = alternating_pairings(self.first, self.second, game_numbers)
        return [game._replace(stream_number=(pair >> 3 << 1) + game.number) for game in games]


def round_robin_blocks(agents: Iterable[str], games: int) -> list[PairBlock]:
    """Return all blocks of a tournament in which every pair of agents plays `games` games."""
    indices = range(-(-games // GAMES_PER_BLOCK))
    pairs = list(combinations(sorted(agents), 2))
    return [PairBlock(*pair, index) for index in indices for pair in pairs]


def thread_batches(
    blocks: Sequence[PairBlock], games: int, slots: int, threads: int
) -> list[list[Pairing]]:
    """Divide the games of some blocks into batches, each played by one thread.

    Agents are divided into teams. All games between two teams form a cell, whose size is about
    twice the number of `slots` per thread. If there are only a few cells, each cell is divided
    among the threads. Games 2j and 2j + 1 of a pair stay together.
    """
    cells: dict[tuple[int, int], list[PairBlock]] = {}
    team = _teams(blocks, games, slots)
    for block in blocks:
        cells.setdefault((team[block.first], team[block.second]), []).append(block)
    parts = threads if len(cells) < _CELLS_PER_THREAD * threads else 1
    divided = [_divide(cell, games, parts) for _, cell in sorted(cells.items())]
    return [batch for cell in divided for batch in cell if batch]


def _teams(blocks: Sequence[PairBlock], games: int, slots: int) -> dict[str, int]:
    agents = sorted({agent for block in blocks for agent in (block.first, block.second)})
    size = max(2, math.ceil(math.sqrt(2 * slots / games)))
    if len(agents) <= 2 * size:
        size = len(agents)
    return {agent: number // size for number, agent in enumerate(agents)}


def _divide(cell: Sequence[PairBlock], games: int, parts: int) -> list[list[Pairing]]:
    """Divide a cell into `parts` batches so that all pairs of agents progress evenly."""
    game_pairs = sorted(
        (number, block) for block in cell for number in block.game_numbers(games)[::2]
    )
    return [
        [
            game
            for number, block in game_pairs[part::parts]
            for game in block.pairings((number, number + 1))
        ]
        for part in range(parts)
    ]


@kernel
def _draw_opening(game, key, actions):
    """Write random actions, int64[plies]; return how many of them leave the game ongoing."""
    state = np.empty(rules.word_count(game), np.uint64)
    rules.start(game, state)
    for ply in range(actions.shape[0]):
        actions[ply] = rules.random_action(game, state, streams.random_bits(key, ply))
        rules.apply(game, state, actions[ply], state)
        if rules.outcome(game, state) != ONGOING:
            return ply
    return actions.shape[0]


def random_opening(game: Game, plies: int, key: np.uint64) -> tuple[int, ...]:
    """Return `plies` uniformly random actions; fewer if the next one would end the game."""
    actions = np.empty(plies, np.int64)
    return tuple(actions[: _draw_opening(game, key, actions)].tolist())


_MAX_ATTEMPTS = 1000
_SAMPLES = 400
_MIN_ONGOING = 20
"""Minimum number of openings among `_SAMPLES` that must leave the game ongoing. If one opening in
twenty leaves it ongoing, a thousand attempts almost certainly suffice."""


@kernel
def _draw_openings(game, keys, openings):
    """Write openings that leave the game ongoing, int64[n, plies]; return False if one is missing.

    An opening that ends the game is drawn again, up to `_MAX_ATTEMPTS` times.
    """
    plies = openings.shape[1]
    for i in range(keys.shape[0]):
        drawn = 0
        for attempt in range(_MAX_ATTEMPTS):
            drawn = _draw_opening(game, streams.fold_in(keys[i], attempt), openings[i])
            if drawn == plies:
                break
        if drawn < plies:
            return False
    return True


def with_random_openings(
    game: Game, games: Sequence[Pairing], plies: int, seed: int, iteration: int = 0
) -> list[Pairing]:
    """Return the pairings with random openings of `plies` plies each.

    Games with streams 2j and 2j + 1 share an opening, which depends on (seed, iteration, j). Raises
    UserError if games are too short for `plies` random plies.
    """
    if not plies:
        return list(games)
    pairs = np.array([each.stream_number // 2 for each in games], np.int64)
    keys = streams.stream_keys(seed, iteration, pairs, np.zeros_like(pairs), streams.MATCH_OPENING)
    openings = random_openings(game, plies, keys).tolist()
    return [
        each._replace(opening=tuple(opening)) for each, opening in zip(games, openings, strict=True)
    ]


def random_openings(game: Game, plies: int, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return random actions int64[n, plies] that leave the game ongoing, one row per stream.

    `keys` uint64[n] are the random streams. Raises UserError if games are too short for `plies`
    random plies.
    """
    openings = np.empty((len(keys), plies), np.int64)
    if not _draw_openings(game, keys, openings):
        raise _too_long_error(game, plies, "fewer")
    return openings


def require_even_games(games: int) -> int:
    """Return `games`; raise ValueError unless both players can move first in half of them."""
    if games % 2:
        raise ValueError(
            f"{games} is odd: expected an even number such as {games + 1}, so that each side moves"
            " first in half of the games"
        )
    return games


def check_opening_length(game: Game, plies: int) -> None:
    """Raise UserError if games are too short for random openings of `plies` plies."""
    if not plies:
        return
    numbers = np.arange(_SAMPLES)
    keys = streams.stream_keys(0, 0, numbers, np.zeros_like(numbers), streams.MATCH_OPENING)
    longest = min(plies, compiled_rules.max_plies(game))
    lengths = sorted(len(random_opening(game, longest, key)) for key in keys)
    if plies > (limit := lengths[-_MIN_ONGOING]):
        raise _too_long_error(game, plies, f"at most {limit}")


def _too_long_error(game: Game, plies: int, expected: str) -> UserError:
    return UserError(
        f"openings of {plies} plies: {game_name(game)} almost always ends earlier; expected"
        f" {expected}"
    )


Ints = NDArray[np.int64]

_FREE = -1
_SPARE = 2
"""Ratio of a player's slots to its equal share of all slots."""
_PATIENCE = 4
"""The current group's turn ends when another group has more than this many times as many pending
games."""


class PlayerDecisions(NamedTuple):
    """Actions chosen by one player in n games."""

    pool: SlotPool
    player_slots: Ints
    """int64[n]: game slots of the player."""
    actions: Actions


class SlotPool:
    """A player's game slots, each of which is free or assigned to a slot of the engine."""

    def __init__(self, agent_name: str, player: Player, slots: int) -> None:
        self.agent_name = agent_name
        self.player = player
        # Cached because isinstance with a protocol takes longer than a small batch.
        self.async_player = player if isinstance(player, AsyncPlayer) else None
        self.leaf_player = player if isinstance(player, SharedBatchPlayer) else None
        self.per_game_player = player if isinstance(player, PerGamePlayer) else None
        self.pending = 0
        """Number of submitted games without a decision."""
        self._engine_slots = np.full(slots, _FREE, np.int64)
        self._free = list(range(slots))

    @property
    def has_free_slot(self) -> bool:
        """True if the player can take another game."""
        return bool(self._free)

    def take(self, engine_slot: int) -> int:
        """Assign the lowest free player slot to an engine slot, and return the player slot."""
        slot = heapq.heappop(self._free)
        self._engine_slots[slot] = engine_slot
        return slot

    def release(self, slot: int) -> None:
        """Free a player slot."""
        heapq.heappush(self._free, slot)

    def engine_slots(self, player_slots: Ints) -> Ints:
        """Return the engine slots, int64[n], of the given player slots."""
        return self._engine_slots[player_slots]


class EvaluatorGroups:
    """Asynchronous players, grouped by evaluator; the players of a group share batches."""

    def __init__(self, pools: Sequence[SlotPool]) -> None:
        groups: dict[Hashable, list[SlotPool]] = {}
        for pool in pools:
            if leaf_player := pool.leaf_player:
                key = id(leaf_player.evaluator), leaf_player.extra_outputs
                groups.setdefault(key, []).append(pool)
            elif pool.async_player:
                groups.setdefault(id(pool), []).append(pool)
        self._groups = list(groups.values())
        self._current: int | None = None

    def step(self) -> Iterator[PlayerDecisions]:
        """Run one search step of one group; yield the decisions of the group's players.

        The group with the most pending games keeps its turn for a while, so that games accumulate
        in the other groups. Strictly alternating turns would halve the batch size.
        """
        if not self._groups:
            return
        pending = [sum(pool.pending for pool in group) for group in self._groups]
        fullest = max(range(len(pending)), key=pending.__getitem__)
        if self._current is None or _PATIENCE * pending[self._current] < pending[fullest]:
            self._current = fullest
        busy = [pool for pool in self._groups[self._current] if pool.pending]
        for pool, (slots, actions) in zip(busy, _step_players(busy), strict=True):
            pool.pending -= len(slots)
            if len(slots):
                yield PlayerDecisions(pool, slots, actions)


def _step_players(pools: Sequence[SlotPool]) -> Iterator[tuple[Ints, Actions]]:
    """Run one step of every player; the leaves of several players are evaluated in one batch."""
    players = [pool.async_player for pool in pools if pool.async_player]
    if not players:
        return
    if len(players) == 1:
        yield players[0].step()
        return
    leaf_players = [pool.leaf_player for pool in pools if pool.leaf_player]
    leaves = [player.select_leaves() for player in leaf_players]
    ends = np.cumsum([len(each) for each in leaves])
    states = np.concatenate(leaves)
    if len(states):
        evaluation = evaluate(leaf_players[0].evaluator, states, leaf_players[0].extra_outputs)
    else:
        evaluation = NO_EVALUATIONS
    for player, end, each in zip(leaf_players, ends, leaves, strict=True):
        rows = slice(end - len(each), end)
        yield player.expand_and_backup(evaluation.take(rows))


def slot_counts_by_agent(
    agents: Mapping[str, Agent], games: Sequence[Pairing], slots: int
) -> dict[str, int]:
    """Return the number of player slots by agent name, for games in `slots` engine slots."""
    counts = Counter(name for game in games for name in {game.first, game.second})
    share = -(-_SPARE * 2 * slots // len(counts)) if counts else 0
    order = {name: number for number, name in enumerate(agents)}
    return {
        name: min(counts[name], slots, share, agents[name].max_games_per_player)
        for name in sorted(counts, key=order.__getitem__)
    }
