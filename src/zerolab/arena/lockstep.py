"""Many games between many players in lockstep: the one way in which games are played here.

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

from zerolab.arena.players import FORFEIT, Closable, Entrant, Player, Thinker
from zerolab.core import streams
from zerolab.rules import calls
from zerolab.rules.interface import LOSS, ONGOING, Game

Ints = NDArray[np.int64]

_FREE = -1
_SPARE = 2
"""A player gets this times the slots it needs if all have equally many games in progress."""
_PATIENCE = 4
"""A player's turn to search ends when another has more than this times its games to think about."""


class Fixture(NamedTuple):
    """A game that is to be played."""

    number: int
    """What tells its result from others'."""
    first: int
    second: int
    """The players, by their place among the entrants."""
    stream: int
    """What its random streams are keyed by, beside (seed, iteration, ply)."""
    opening: tuple[int, ...] = ()
    """Actions that are played before the players choose."""


class Finished(NamedTuple):
    """A game that is over."""

    number: int
    actions: tuple[int, ...]
    """All of them, the opening included; FORFEIT at the end where its mover gave up."""
    result: int
    """The outcome for the first player: 1, 0 or -1."""


class Task(NamedTuple):
    """What all games have in common."""

    game: Game
    entrants: Sequence[Entrant]
    seed: int
    iteration: int
    lanes: int
    """Games in progress at once in a batch of fixtures."""


def play_fixtures(
    task: Task,
    fixtures: Sequence[Fixture],
    finish: Callable[[Finished], object],
    stop: threading.Event,
) -> None:
    """Play games in the calling thread, with players of its own.

    `finish` is told of every game as it ends. A set `stop` ends early with games unfinished. What
    is played depends on the fixtures, the seed and the iteration alone: neither on the number of
    lanes nor on the order of the fixtures.
    """
    lanes = _Lanes(task, fixtures, finish)
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


class _Seats:
    """A player, its free slots, and the lanes that its other slots belong to."""

    def __init__(self, player: Player, slots: int) -> None:
        self.player = player
        self.thinker = player if isinstance(player, Thinker) else None
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
        self, task: Task, fixtures: Sequence[Fixture], finish: Callable[[Finished], object]
    ) -> None:
        lanes = min(task.lanes, len(fixtures))
        self._task = task
        self._finish = finish
        self._waiting = list(fixtures)
        self._seats = _make_seats(task.entrants, fixtures, lanes)
        self._current: _Seats | None = None
        self._free = list(range(lanes))
        self._fixtures: list[Fixture | None] = [None] * lanes
        self._moves: list[list[int]] = [[] for _ in range(lanes)]
        self._states = np.empty((lanes, len(calls.start_state(task.game))), np.uint64)
        self._players = np.zeros((lanes, 2), np.int64)
        self._slots = np.zeros((lanes, 2), np.int64)
        self._streams = np.zeros(lanes, np.int64)
        self._plies = np.zeros(lanes, np.int64)
        self._to_ask = np.zeros(lanes, np.bool_)

    @property
    def busy(self) -> bool:
        """Whether any game is in progress."""
        return len(self._free) < len(self._fixtures)

    def open(self) -> None:
        """Begin games that wait while there is a lane for them and a slot of both players."""
        if not self._free:
            return
        opened, postponed = [], []
        for at, fixture in enumerate(self._waiting):
            if not self._free:
                postponed += self._waiting[at:]
                break
            if all(self._seats[p].free for p in (fixture.first, fixture.second)):
                opened.append(self._seat(fixture))
            else:
                postponed.append(fixture)
        if opened:
            self._waiting = postponed
            self._begin(np.array(opened))

    def _seat(self, fixture: Fixture) -> int:
        lane = heapq.heappop(self._free)
        players = fixture.first, fixture.second
        self._fixtures[lane] = fixture
        self._moves[lane] = []
        self._players[lane] = players
        self._slots[lane] = [self._seats[player].take(lane) for player in players]
        self._streams[lane] = fixture.stream
        return lane

    def _begin(self, lanes: Ints) -> None:
        """Set up the first position, and play the openings."""
        self._states[lanes] = calls.start_state(self._task.game)
        self._plies[lanes] = 0
        for seats, slots, _ in self._by_player(lanes):
            seats.player.reset(slots)
        openings = [fixture.opening for lane in lanes if (fixture := self._fixtures[lane])]
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
            seats, lanes = self._seats[number], asked[mine]
            question = slots[mine], self._states[lanes], keys[mine]
            if seats.thinker is None:
                yield _Choice(lanes, seats.player.choose(*question))
            else:
                seats.thinker.ask(*question)
                seats.thinking += len(lanes)

    def think(self) -> Iterator[_Choice]:
        """Let one player that searches go on a little; yield what it has decided.

        It is the one with most games to think about, and stays so for a while. Meanwhile games
        gather at the others: if all took turns, their batches would be half as large.
        """
        fullest = max(self._seats.values(), key=lambda seats: seats.thinking)
        if self._current is None or _PATIENCE * self._current.thinking < fullest.thinking:
            self._current = fullest
        seats = self._current
        if seats.thinker is not None and seats.thinking:
            slots, actions = seats.thinker.think()
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
        outcomes = calls.play_all(self._task.game, self._states, lanes, actions)
        for seats, slots, rows in self._by_player(lanes):
            seats.player.advance(slots, actions[rows])
        self._plies[lanes] += 1
        for lane, action in zip(lanes.tolist(), actions.tolist(), strict=True):
            self._moves[lane].append(action)
        return outcomes

    def _by_player(self, lanes: Ints) -> Iterable[tuple[_Seats, Ints, Ints]]:
        """Yield players with their slots in some lanes, and the lanes' places in `lanes`."""
        players, slots = self._players[lanes], self._slots[lanes]
        for number in np.unique(players):
            rows, sides = np.nonzero(players == number)
            yield self._seats[number], slots[rows, sides], rows

    def close(self) -> None:
        """Let players that hold more than memory, such as outside programs, give it up."""
        for seats in self._seats.values():
            if isinstance(seats.player, Closable):
                seats.player.close()

    def _end(self, lane: int, outcome: int) -> None:
        """Report a game, `outcome` being the mover's, and leave its lane and slots."""
        fixture = self._fixtures[lane]
        assert fixture is not None
        result = outcome if self._plies[lane] % 2 == 0 else -outcome
        self._finish(Finished(fixture.number, tuple(self._moves[lane]), result))
        self._fixtures[lane] = None
        heapq.heappush(self._free, int(lane))
        for player, slot in zip(self._players[lane], self._slots[lane], strict=True):
            self._seats[player].leave(int(slot))


def _make_seats(
    entrants: Sequence[Entrant], fixtures: Sequence[Fixture], lanes: int
) -> dict[int, _Seats]:
    """Make the players of some fixtures, with slots for as many games as they may have at once."""
    games = Counter(player for each in fixtures for player in (each.first, each.second))
    share = -(-_SPARE * 2 * lanes // len(games)) if games else 0
    return {
        number: _Seats(
            entrants[number].player(), min(count, lanes, share, entrants[number].most_slots)
        )
        for number, count in sorted(games.items())
    }
