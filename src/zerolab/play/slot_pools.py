"""Game slots of the players of an engine thread, and the order in which players search."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.agent import Actions, Agent, AsyncPlayer, LeafPlayer, PerGamePlayer, Player
from zerolab.play.pairings import Pairing
from zerolab.search.evaluator import Evaluation, evaluate

Ints = NDArray[np.int64]

_FREE = -1
_SPARE = 2
"""Ratio of a player's slots to its equal share of all slots."""
_PATIENCE = 4
"""Ratio of pending games in another group to pending games in the current group at which the
current group's turn ends."""


class Decision(NamedTuple):
    """Actions chosen by one player in n games."""

    pool: SlotPool
    player_slots: Ints
    """int64[n]: game slots of the player."""
    actions: Actions


class SlotPool:
    """A player's game slots: free ones, and those assigned to slots of the engine."""

    def __init__(self, agent_name: str, player: Player, slots: int) -> None:
        self.agent_name = agent_name
        self.player = player
        # Cached because isinstance with a protocol takes longer than a small batch.
        self.async_player = player if isinstance(player, AsyncPlayer) else None
        self.leaf_player = player if isinstance(player, LeafPlayer) else None
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


class SearchGroups:
    """Asynchronous players in groups with the same evaluator, which share batches."""

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

    def step(self) -> Iterator[Decision]:
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
                yield Decision(pool, slots, actions)


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
        evaluation = Evaluation(np.empty((0, 0), np.float32), np.empty(0, np.float32))
    for player, end, each in zip(leaf_players, ends, leaves, strict=True):
        rows = slice(end - len(each), end)
        yield player.expand_and_backup(evaluation.rows(rows))


def slots_by_agent(
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
