"""Players of an engine thread, with their game slots and search order."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.agent import Actions, Agent, AsyncPlayer, LeafPlayer, Player, SeatedPlayer
from zerolab.play.pairings import Pairing
from zerolab.search.evaluator import Evaluation, evaluate

Ints = NDArray[np.int64]

_FREE = -1
_SPARE = 2
"""Ratio of a player's slots to its share if all players have the same number of games."""
_PATIENCE = 4
"""Ratio of pending games in another group to those in the current group that ends its turn."""


class Decision(NamedTuple):
    """Actions chosen by a player in some of its games."""

    pool: PlayerPool
    slots: Ints
    """int64[n]: game slots of the player."""
    actions: Actions


class PlayerPool:
    """A player with its free slots and the engine slots assigned to the others."""

    def __init__(self, agent: str, player: Player, slots: int) -> None:
        self.agent = agent
        self.player = player
        # Cached because isinstance with a protocol takes longer than a small batch.
        self.async_player = player if isinstance(player, AsyncPlayer) else None
        self.leaf_player = player if isinstance(player, LeafPlayer) else None
        self.seated_player = player if isinstance(player, SeatedPlayer) else None
        self.pending = 0
        """Number of submitted games without a decision."""
        self._engine_slots = np.full(slots, _FREE, np.int64)
        self._free = list(range(slots))

    @property
    def is_full(self) -> bool:
        """True if there are no free slots."""
        return not self._free

    def take(self, engine_slot: int) -> int:
        """Assign the lowest free slot to an engine slot and return it."""
        slot = heapq.heappop(self._free)
        self._engine_slots[slot] = engine_slot
        return slot

    def release(self, slot: int) -> None:
        """Free a slot."""
        heapq.heappush(self._free, slot)

    def engine_slots(self, slots: Ints) -> Ints:
        """Return the engine slots, int64[n], of some player slots."""
        return self._engine_slots[slots]


class SearchGroups:
    """Groups of asynchronous players that share the batches of one evaluator."""

    def __init__(self, pools: Sequence[PlayerPool]) -> None:
        groups: dict[Hashable, list[PlayerPool]] = {}
        for pool in pools:
            if leaf_player := pool.leaf_player:
                key = id(leaf_player.evaluator), leaf_player.extra_outputs
                groups.setdefault(key, []).append(pool)
            elif pool.async_player:
                groups.setdefault(id(pool), []).append(pool)
        self._groups = list(groups.values())
        self._current: int | None = None

    def step(self) -> Iterator[Decision]:
        """Run one search step of one group; yield the decisions of its players.

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
                yield Decision(pool, slots, actions)


def _step_players(pools: Sequence[PlayerPool]) -> Iterator[tuple[Ints, Actions]]:
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
        evaluation = Evaluation(np.empty((0, 0), np.float32), np.empty(0, np.float32))
    for player, end, each in zip(leaf_players, ends, leaves, strict=True):
        rows = slice(end - len(each), end)
        yield player.expand_and_backup(evaluation.rows(rows))


def slots_needed(
    agents: Mapping[str, Agent], games: Sequence[Pairing], slots: int
) -> dict[str, int]:
    """Return the number of slots per agent for some games, `slots` of them in parallel."""
    counts = Counter(name for game in games for name in {game.first, game.second})
    share = -(-_SPARE * 2 * slots // len(counts)) if counts else 0
    order = {name: number for number, name in enumerate(agents)}
    return {
        name: min(counts[name], slots, share, agents[name].max_games)
        for name in sorted(counts, key=order.__getitem__)
    }
