"""Players of one engine thread: their game slots, and the order in which they search."""

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
"""Factor of a player's slots over those it needs if all have equally many games in progress."""
_PATIENCE = 4
"""A group's turn ends when another group has more than this many times its pending games."""


class Decision(NamedTuple):
    """A player's choices in some of its games."""

    pool: PlayerPool
    slots: Ints
    """int64[n]: the player's game slots."""
    actions: Actions


class PlayerPool:
    """A player, its free slots, and the engine's slots that its other slots belong to."""

    def __init__(self, agent: str, player: Player, slots: int) -> None:
        self.agent = agent
        self.player = player
        # Checked once: isinstance of a protocol takes longer than a small batch.
        self.async_player = player if isinstance(player, AsyncPlayer) else None
        self.leaf_player = player if isinstance(player, LeafPlayer) else None
        self.seated_player = player if isinstance(player, SeatedPlayer) else None
        self.pending = 0
        """Games submitted and not decided yet."""
        self._engine_slots = np.full(slots, _FREE, np.int64)
        self._free = list(range(slots))

    @property
    def is_full(self) -> bool:
        """True if no slot is free."""
        return not self._free

    def take(self, engine_slot: int) -> int:
        """Occupy the lowest free slot."""
        slot = heapq.heappop(self._free)
        self._engine_slots[slot] = engine_slot
        return slot

    def release(self, slot: int) -> None:
        """Free a slot."""
        heapq.heappush(self._free, slot)

    def engine_slots(self, slots: Ints) -> Ints:
        """Return the engine's slots, int64[n], for slots of the player."""
        return self._engine_slots[slots]


class SearchGroups:
    """Asynchronous players in groups that share the batches of one evaluator."""

    def __init__(self, pools: Sequence[PlayerPool]) -> None:
        groups: dict[Hashable, list[PlayerPool]] = {}
        for pool in pools:
            if leaf_player := pool.leaf_player:
                shared = id(leaf_player.evaluator), leaf_player.extra_outputs
                groups.setdefault(shared, []).append(pool)
            elif pool.async_player:
                groups.setdefault(id(pool), []).append(pool)
        self._groups = list(groups.values())
        self._current: int | None = None

    def step(self) -> Iterator[Decision]:
        """Let one group search one step; yield the decisions of its players.

        The group with the most pending games keeps its turn for a while, and meanwhile games gather
        at the others. If all took turns, their batches would be half as large.
        """
        if not self._groups:
            return
        pending = [sum(pool.pending for pool in group) for group in self._groups]
        fullest = max(range(len(pending)), key=pending.__getitem__)
        if self._current is None or _PATIENCE * pending[self._current] < pending[fullest]:
            self._current = fullest
        busy = [pool for pool in self._groups[self._current] if pool.pending]
        for pool, (slots, actions) in zip(busy, _poll(busy), strict=True):
            pool.pending -= len(slots)
            if len(slots):
                yield Decision(pool, slots, actions)


def _poll(pools: Sequence[PlayerPool]) -> Iterator[tuple[Ints, Actions]]:
    """Run one step of every player; several have their leaves evaluated in one batch."""
    players = [pool.async_player for pool in pools if pool.async_player]
    if not players:
        return
    if len(players) == 1:
        yield players[0].poll()
        return
    together = [pool.leaf_player for pool in pools if pool.leaf_player]
    leaves = [player.select_leaves() for player in together]
    ends = np.cumsum([len(each) for each in leaves])
    states = np.concatenate(leaves)
    if len(states):
        evaluation = evaluate(together[0].evaluator, states, together[0].extra_outputs)
    else:
        evaluation = Evaluation(np.empty((0, 0), np.float32), np.empty(0, np.float32))
    for player, end, each in zip(together, ends, leaves, strict=True):
        rows = slice(end - len(each), end)
        yield player.expand_and_backup(evaluation.rows(rows))


def slots_needed(
    agents: Mapping[str, Agent], games: Sequence[Pairing], slots: int
) -> dict[str, int]:
    """Return the game slots that each agent's player needs for games, `slots` of them at a time."""
    counts = Counter(name for game in games for name in {game.first, game.second})
    fair = -(-_SPARE * 2 * slots // len(counts)) if counts else 0
    order = {name: number for number, name in enumerate(agents)}
    return {
        name: min(counts[name], slots, fair, agents[name].max_games)
        for name in sorted(counts, key=order.__getitem__)
    }
