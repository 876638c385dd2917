"""Many games between many players in parallel_games: the one way in which games are played here.

A game occupies a lane, and a slot of each of its two players. A game that ends makes room for the
next one. Players that are to move think about all their games at once; one that searches goes on
with what it was asked before, so that the batches of its network stay large.
"""

from __future__ import annotations

import heapq
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.interface import FORFEIT, Agent, AsyncPlayer, Closable, Player
from zerolab.core import streams
from zerolab.rules import host
from zerolab.rules.interface import LOSS, ONGOING, Game

Ints = NDArray[np.int64]

_FREE = -1
_SPARE = 2
"""A player gets this times the slots it needs if all have equally many games in progress."""
_PATIENCE = 4
"""A player's turn to search ends when another has more than this times its games to think about."""


class ScheduledGame(NamedTuple):
    """A game that is to be played."""

    number: int
    """What tells its result from others'."""
    first: int
    second: int
    """The players, by their place among the agents."""
    stream: int
    """What its random streams are keyed by, beside (seed, iteration, ply)."""
    opening: tuple[int, ...] = ()
    """Actions that are played before the players choose."""


class FinishedGame(NamedTuple):
    """A game that is over."""

    number: int
    actions: tuple[int, ...]
    """All of them, the opening included; FORFEIT at the end where its mover gave up."""
    result: int
    """The outcome for the first player: 1, 0 or -1."""


class Task(NamedTuple):
    """What all games have in common."""

    game: Game
    agents: Sequence[Agent]
    seed: int
    iteration: int
    lanes: int
    """Games in progress at once in a batch of schedule."""


def play_schedule(
    task: Task,
    schedule: Sequence[ScheduledGame],
    finish: Callable[[FinishedGame], object],
    stop: threading.Event,
) -> None:
    """Play games in the calling thread, with players of its own.

    `finish` is told of every game as it ends. A set `stop` ends early with games unfinished. What
    is played depends on the schedule, the seed and the iteration alone: neither on the number of
    lanes nor on the order of the schedule.
    """
    lanes = _Lanes(task, schedule, finish)
    try:
        lanes.open()
        while lanes.busy and not stop.is_set():
            lanes.play([*lanes.ask(), *lanes.think()])
            lanes.open()
    finally:
        lanes.close()


class _Choice(NamedTuple):
    """What a player chose in some lanes."""

    lanes: Ints
    actions: Ints


class _PlayerPool:
    """A player, its free slots, and the lanes that its other slots belong to."""

    def __init__(self, player: Player, slots: int) -> None:
        self.player = player
        self.thinker = player if isinstance(player, AsyncPlayer) else None
        self.lanes = np.full(slots, _FREE, np.int64)
        self.free = list(range(slots))
        self.thinking = 0
        player.start(slots)

    def take(self, lane: int) -> int:
        """Occupy the lowest free slot."""
        slot = heapq.heappop(self.free)
        self.lanes[slot] = lane
        return slot

    def leave(self, slot: int) -> None:
        """Make a slot free again."""
        heapq.heappush(self.free, slot)


class _Lanes:
    """The games in progress."""

    def __init__(
        self,
        task: Task,
        schedule: Sequence[ScheduledGame],
        finish: Callable[[FinishedGame], object],
    ) -> None:
        lanes = min(task.lanes, len(schedule))
        self._task = task
        self._finish = finish
        self._waiting = list(schedule)
        self._pools = _make_pools(task.agents, schedule, lanes)
        self._current: _PlayerPool | None = None
        self._free = list(range(lanes))
        self._schedule: list[ScheduledGame | None] = [None] * lanes
        self._moves: list[list[int]] = [[] for _ in range(lanes)]
        self._states = np.empty((lanes, len(host.start(task.game))), np.uint64)
        self._players = np.zeros((lanes, 2), np.int64)
        self._slots = np.zeros((lanes, 2), np.int64)
        self._streams = np.zeros(lanes, np.int64)
        self._plies = np.zeros(lanes, np.int64)
        self._to_ask = np.zeros(lanes, np.bool_)

    @property
    def busy(self) -> bool:
        """Whether any game is in progress."""
        return len(self._free) < len(self._schedule)

    def open(self) -> None:
        """Begin games that wait while there is a lane for them and a slot of both players."""
        if not self._free:
            return
        opened, postponed = [], []
        for at, scheduled in enumerate(self._waiting):
            if not self._free:
                postponed += self._waiting[at:]
                break
            if all(self._pools[p].free for p in (scheduled.first, scheduled.second)):
                opened.append(self._seat(scheduled))
            else:
                postponed.append(scheduled)
        if opened:
            self._waiting = postponed
            self._begin(np.array(opened))

    def _seat(self, scheduled: ScheduledGame) -> int:
        lane = heapq.heappop(self._free)
        players = scheduled.first, scheduled.second
        self._schedule[lane] = scheduled
        self._moves[lane] = []
        self._players[lane] = players
        self._slots[lane] = [self._pools[player].take(lane) for player in players]
        self._streams[lane] = scheduled.stream
        return lane

    def _begin(self, lanes: Ints) -> None:
        """Set up the first position, and play the openings."""
        self._states[lanes] = host.start(self._task.game)
        self._plies[lanes] = 0
        for seats, slots, _ in self._by_player(lanes):
            seats.player.reset(slots)
        openings = [scheduled.opening for lane in lanes if (scheduled := self._schedule[lane])]
        for ply in range(max(map(len, openings))):
            longer = [at for at, opening in enumerate(openings) if len(opening) > ply]
            self._play(lanes[longer], np.array([openings[at][ply] for at in longer]))
        self._to_ask[lanes] = True

    def ask(self) -> Iterator[_Choice]:
        """Ask the players that are to move; yield what they answer at once."""
        asked = np.flatnonzero(self._to_ask)
        if not asked.size:
            return
        self._to_ask[asked] = False
        sides = self._plies[asked] % 2
        movers, slots = self._players[asked, sides], self._slots[asked, sides]
        keys = streams.streams(
            self._task.seed, self._task.iteration, self._streams[asked], self._plies[asked],
            streams.ARENA_MOVE,
        )  # fmt: skip
        for number in np.unique(movers):
            mine = movers == number
            seats, lanes = self._pools[number], asked[mine]
            question = slots[mine], self._states[lanes], keys[mine]
            if seats.thinker is None:
                yield _Choice(lanes, seats.player.choose(*question))
            else:
                seats.thinker.submit(*question)
                seats.thinking += len(lanes)

    def think(self) -> Iterator[_Choice]:
        """Let one player that searches go on a little; yield what it has decided.

        It is the one with most games to think about, and stays so for a while. Meanwhile games
        gather at the others: if all took turns, their batches would be half as large.
        """
        fullest = max(self._pools.values(), key=lambda seats: seats.thinking)
        if self._current is None or _PATIENCE * self._current.thinking < fullest.thinking:
            self._current = fullest
        seats = self._current
        if seats.thinker is not None and seats.thinking:
            slots, actions = seats.thinker.poll()
            seats.thinking -= len(slots)
            yield _Choice(seats.lanes[slots], actions)

    def play(self, choices: Sequence[_Choice]) -> None:
        """Play what players chose; end the games that end by it."""
        lanes, actions = (np.concatenate(column) for column in zip(*choices, strict=True))
        given_up = actions == FORFEIT
        for lane in lanes[given_up]:
            self._moves[lane].append(FORFEIT)
            self._end(lane, LOSS)
        lanes, actions = lanes[~given_up], actions[~given_up]
        if not lanes.size:
            return
        outcomes = self._play(lanes, actions)
        over = outcomes != ONGOING
        self._to_ask[lanes[~over]] = True
        for lane, outcome in zip(lanes[over], outcomes[over], strict=True):
            self._end(lane, int(outcome))

    def _play(self, lanes: Ints, actions: Ints) -> NDArray[np.int8]:
        """Play an action in each lane, and tell both players; return the outcomes int8[n]."""
        outcomes = host.apply_batch(self._task.game, self._states, lanes, actions)
        for seats, slots, rows in self._by_player(lanes):
            seats.player.advance(slots, actions[rows])
        self._plies[lanes] += 1
        for lane, action in zip(lanes.tolist(), actions.tolist(), strict=True):
            self._moves[lane].append(action)
        return outcomes

    def _by_player(self, lanes: Ints) -> Iterable[tuple[_PlayerPool, Ints, Ints]]:
        """Yield players with their slots in some lanes, and the lanes' places in `lanes`."""
        players, slots = self._players[lanes], self._slots[lanes]
        for number in np.unique(players):
            rows, sides = np.nonzero(players == number)
            yield self._pools[number], slots[rows, sides], rows

    def close(self) -> None:
        """Let players that hold more than memory, such as outside programs, give it up."""
        for seats in self._pools.values():
            if isinstance(seats.player, Closable):
                seats.player.close()

    def _end(self, lane: int, outcome: int) -> None:
        """Report a game, `outcome` being the mover's, and leave its lane and slots."""
        scheduled = self._schedule[lane]
        assert scheduled is not None
        result = outcome if self._plies[lane] % 2 == 0 else -outcome
        self._finish(FinishedGame(scheduled.number, tuple(self._moves[lane]), result))
        self._schedule[lane] = None
        heapq.heappush(self._free, int(lane))
        for player, slot in zip(self._players[lane], self._slots[lane], strict=True):
            self._pools[player].leave(int(slot))


def _make_pools(
    agents: Sequence[Agent], schedule: Sequence[ScheduledGame], lanes: int
) -> dict[int, _PlayerPool]:
    """Make the players of some schedule, with slots for as many games as they may have at once."""
    games = Counter(player for each in schedule for player in (each.first, each.second))
    share = -(-_SPARE * 2 * lanes // len(games)) if games else 0
    return {
        number: _PlayerPool(
            agents[number].new_player(), min(count, lanes, share, agents[number].max_games)
        )
        for number, count in sorted(games.items())
    }
