"""The engine that plays all games: pairings become `GameRecord`s.

Matches, tournaments, gates, self-play and "decide one move in each of these positions" differ in
their pairings and observers alone. A game occupies a slot of the engine and one of each of its
players; when it ends, the next one takes them. Players that search accept new games while others
are still pending, so that the batches of networks stay large.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.agent import FORFEIT, Actions, Agent, Player, ProgramPlayer
from zerolab.core import streams
from zerolab.play.observers import GameObserver, Histories, MoveObserver, Moves
from zerolab.play.pairings import Pairing
from zerolab.play.player_pools import Decision, Ints, PlayerPool, SearchGroups, slots_needed
from zerolab.rules import python
from zerolab.rules.rules import LOSS, ONGOING, Game
from zerolab.store.games import GameRecord

_ENDLESS = 1 << 62


class EngineSetup(NamedTuple):
    """The common data of all games that are played together."""

    game: Game
    agents: Sequence[Agent]
    """All agents that the pairings name, with different names."""
    seed: int
    iteration: int
    threads: int
    slots: int
    """Games in progress at once in each thread."""
    purposes: tuple[int, ...] = (streams.ARENA_MOVE,)
    """Purposes of the random streams (see `core.streams`). With several, players get keys
    uint64[n, purposes] instead of uint64[n]."""
    game_purposes: tuple[int, ...] = ()
    """Further purposes, whose streams stay the same throughout a game."""


class EngineThread:
    """A thread of the engine: its games in progress, and the players that play them."""

    def __init__(
        self,
        setup: EngineSetup,
        batch: Sequence[Pairing],
        observers: Sequence[MoveObserver],
        finish: Callable[[GameRecord], object],
        stop: threading.Event,
    ) -> None:
        slots = min(setup.slots, len(batch))
        self.asked: list[tuple[str, float]] = []
        """The agent whose answer the thread awaits, and since when."""
        self._setup = setup
        self._observers = observers
        self._finish = finish
        self._stop = stop
        self._waiting = list(batch)
        self._players: list[Player] = []
        self._pools: list[PlayerPool] = []
        self._free = list(range(slots))
        self._games: list[Pairing | None] = [None] * slots
        self._moves: list[list[int]] = [[] for _ in range(slots)]
        self._states = np.empty((slots, len(python.start(setup.game))), np.uint64)
        self._sides = np.zeros((slots, 2), np.int64)  # which pool plays each side
        self._taken = np.zeros((slots, 2), np.int64)  # and in which of its slots
        self._is_shared = np.zeros(slots, np.bool_)  # one slot for both sides
        self._numbers = np.zeros(slots, np.int64)
        self._streams = np.zeros(slots, np.int64)
        self._plies = np.zeros(slots, np.int64)
        self._limits = np.zeros(slots, np.int64)
        self._to_ask = np.zeros(slots, np.bool_)

    def play(self) -> None:
        """Play all games; stop early, leaving games unfinished, once `stop` is set."""
        try:
            self._make_pools()
            groups = SearchGroups(self._pools)
            self._open()
            while len(self._free) < len(self._games) and not self._stop.is_set():
                for decision in [*self._ask(), *groups.step()]:
                    self._play(decision)
                self._open()
        finally:
            for player in self._players:
                if isinstance(player, ProgramPlayer):
                    player.close()
            self._players, self._pools = [], []  # and their networks

    def interrupt(self) -> None:
        """End the programs for which the thread may be waiting."""
        for player in list(self._players):
            if isinstance(player, ProgramPlayer):
                player.interrupt()

    def _make_pools(self) -> None:
        """Make players with slots for the games that they may have at once."""
        agents = {agent.name: agent for agent in self._setup.agents}
        for name, slots in slots_needed(agents, self._waiting, len(self._games)).items():
            player = agents[name].new_player()
            self._players.append(
                player
            )  # first, so that `interrupt` finds a program that never answers
            self._pools.append(PlayerPool(name, player, slots))
            with self._asking(self._pools[-1]):
                player.start(slots)

    def _asking(self, pool: PlayerPool) -> _Asking:
        return _Asking(self.asked, pool.agent)

    def _open(self) -> None:
        """Begin waiting games while the engine and both players have a slot for them."""
        if not self._free or not self._waiting:
            return
        number = {pool.agent: n for n, pool in enumerate(self._pools)}
        opened, postponed = [], []
        for at, game in enumerate(self._waiting):
            if not self._free:
                postponed += self._waiting[at:]
                break
            sides = number[game.first], number[game.second]
            if any(self._pools[side].is_full for side in sides):
                postponed.append(game)
            else:
                opened.append(self._place(game, sides))
        if opened:
            self._waiting = postponed
            self._begin(np.array(opened))

    def _place(self, game: Pairing, sides: tuple[int, int]) -> int:
        slot = heapq.heappop(self._free)
        self._games[slot] = game
        self._moves[slot] = []
        self._sides[slot] = sides
        self._taken[slot] = self._pools[sides[0]].take(slot)
        self._is_shared[slot] = sides[0] == sides[1]
        if sides[0] != sides[1]:
            self._taken[slot, 1] = self._pools[sides[1]].take(slot)
        self._numbers[slot] = game.number
        self._streams[slot] = game.stream
        plies = len(game.opening) + game.plies if game.plies is not None else _ENDLESS
        self._limits[slot] = plies
        return slot

    def _begin(self, slots: Ints) -> None:
        """Set up the first position, and play the openings."""
        self._states[slots] = python.start(self._setup.game)
        self._plies[slots] = 0
        for pool, taken, rows in self._by_pool(slots):
            if pool.seated_player:
                pool.seated_player.seat(taken, self._numbers[slots[rows]])
            pool.player.reset(taken)
        openings = [game.opening for slot in slots if (game := self._games[slot])]
        for ply in range(max(map(len, openings))):
            longer = [at for at, opening in enumerate(openings) if len(opening) > ply]
            self._advance(slots[longer], np.array([openings[at][ply] for at in longer]))
        self._to_ask[slots] = True

    def _ask(self) -> Iterator[Decision]:
        """Ask the players to move; yield the decisions of those that answer at once."""
        asked = np.flatnonzero(self._to_ask)
        if not asked.size:
            return
        self._to_ask[asked] = False
        turns = self._plies[asked] % 2
        movers, taken = self._sides[asked, turns], self._taken[asked, turns]
        keys = self._keys(asked)
        for number in np.unique(movers) if len(self._pools) > 1 else (0,):
            mine = movers == number
            pool = self._pools[number]
            question = taken[mine], self._states[asked[mine]], keys[mine]
            if pool.async_player:
                pool.async_player.submit(*question)
                pool.pending += len(question[0])
            else:
                with self._asking(pool):
                    actions = pool.player.choose(*question)
                yield Decision(pool, taken[mine], actions)

    def _keys(self, slots: Ints) -> NDArray[np.uint64]:
        setup = self._setup
        games, plies = self._streams[slots], self._plies[slots]
        columns = [
            streams.streams(setup.seed, setup.iteration, games, plies, purpose)
            for purpose in setup.purposes
        ]
        columns += [
            streams.streams(setup.seed, setup.iteration, games, np.zeros_like(plies), purpose)
            for purpose in setup.game_purposes
        ]
        return columns[0] if len(columns) == 1 else np.stack(columns, axis=1)

    def _play(self, decision: Decision) -> None:
        """Play the moves that a player chose; finish the games that they end."""
        slots, actions = decision.pool.engine_slots(decision.slots), decision.actions
        self._observe(decision, slots)
        given_up = actions == FORFEIT
        for slot in slots[given_up].tolist():
            self._moves[slot].append(FORFEIT)
            self._end(slot, LOSS)
        slots, actions = slots[~given_up], actions[~given_up]
        if not slots.size:
            return
        outcomes = self._advance(slots, actions)
        over = (outcomes != ONGOING) | (self._plies[slots] >= self._limits[slots])
        self._to_ask[slots[~over]] = True
        for slot, outcome in zip(slots[over].tolist(), outcomes[over].tolist(), strict=True):
            self._end(slot, outcome)

    def _observe(self, decision: Decision, slots: Ints) -> None:
        if not self._observers:
            return
        moves = Moves(
            decision.pool.player,
            decision.slots,
            self._numbers[slots],
            self._plies[slots],
            self._states[slots],
            Histories(self._moves, slots),
            decision.actions,
        )
        for observer in self._observers:
            observer.decided(moves)

    def _advance(self, slots: Ints, actions: Actions) -> NDArray[np.int8]:
        """Play an action in each game, report it to both players; return the outcomes int8[n]."""
        outcomes = python.apply_batch(self._setup.game, self._states, slots, actions)
        for pool, taken, rows in self._by_pool(slots):
            pool.player.advance(taken, actions[rows])
        self._plies[slots] += 1
        for slot, action in zip(slots.tolist(), actions.tolist(), strict=True):
            self._moves[slot].append(action)
        return outcomes

    def _by_pool(self, slots: Ints) -> Iterator[tuple[PlayerPool, Ints, Ints]]:
        """Yield each pool with its player's slots in the given games, and the rows of these."""
        if len(self._pools) == 1:  # an agent that plays both sides has one slot for them
            yield self._pools[0], self._taken[slots, 0], np.arange(len(slots))
            return
        sides, taken = self._sides[slots], self._taken[slots]
        for number in np.unique(sides):
            mine = sides == number
            mine[:, 1] &= ~self._is_shared[slots]
            rows, columns = np.nonzero(mine)
            yield self._pools[number], taken[rows, columns], rows

    def _end(self, slot: int, outcome: int) -> None:
        """Report a finished game, `outcome` for the player to move, and free its slots."""
        game = self._games[slot]
        assert game is not None
        flip = self._plies[slot] % 2 == 1 and outcome != ONGOING
        result = -outcome if flip else outcome
        actions = tuple(self._moves[slot])
        self._finish(GameRecord(game.number, game.first, game.second, actions, result))
        if following := game.following(len(actions)):
            self._waiting.append(following)
        self._games[slot] = None
        heapq.heappush(self._free, slot)
        sides = self._sides[slot].tolist()[: 1 if self._is_shared[slot] else 2]
        for side, taken in zip(sides, self._taken[slot].tolist(), strict=False):
            self._pools[side].release(taken)


class _Asking:
    """Context that records since when a player has been asked for an answer."""

    def __init__(self, asked: list[tuple[str, float]], agent: str) -> None:
        self._asked = asked
        self._agent = agent

    def __enter__(self) -> None:
        self._asked.append((self._agent, time.monotonic()))

    def __exit__(self, *_: object) -> None:
        self._asked.clear()


Progress = Callable[[int, str], object]
"""Called a few times per second with the number of finished games and a note to show."""

_POLL_SECONDS = 0.2
_LONG_SECONDS = 1.0  # of waiting for an agent, after which progress names it
_MAX_SLOTS = 1024
_MIN_SLOTS = 16
_MEMORY = 1 << 30


def slots_within_memory(agents: Sequence[Agent], threads: int) -> int:
    """Return the games that a thread may have in progress within about 1 GiB for all threads.

    Both sides of a game need memory; more games mean larger batches for the networks.
    """
    largest = max((agent.bytes_per_game for agent in agents), default=0)
    return max(_MIN_SLOTS, min(_MAX_SLOTS, _MEMORY // (2 * threads * max(1, largest))))


def play_pairings(
    setup: EngineSetup,
    batches: Sequence[Sequence[Pairing]],
    *,
    moves: Sequence[MoveObserver] = (),
    games: Sequence[GameObserver] = (),
    progress: Progress = lambda done, note: None,
) -> None:
    """Play batches of games, each in one thread with its own players.

    The games depend on the pairings, the seed and the iteration alone, neither on slots and threads
    nor on the order of the games, if a network's outputs do not depend on the batch
    (docs/decisions/0002). An exception, such as KeyboardInterrupt in `progress`, stops everything
    at once: programs end, games stay unfinished.
    """
    finished: deque[GameRecord] = deque()
    stop = threading.Event()
    workers = [EngineThread(setup, batch, moves, finished.append, stop) for batch in batches]
    done = 0
    executor = ThreadPoolExecutor(setup.threads, thread_name_prefix="play")
    networks = any(agent.evaluator for agent in setup.agents)
    with one_core_per_thread(networks), executor as pool:
        try:
            running = {pool.submit(worker.play) for worker in workers}
            while running:
                ended, running = wait(running, timeout=_POLL_SECONDS)
                for future in ended:
                    future.result()
                news = [finished.popleft() for _ in range(len(finished))]
                done += len(news)
                for observer in games:
                    observer.finished(news)
                progress(done, _waiting(workers))
        finally:
            stop.set()
            for worker in workers:
                worker.interrupt()
            pool.shutdown(cancel_futures=True)


def one_core_per_thread(networks: bool) -> AbstractContextManager[None]:
    """Return a context in which the networks of several threads do not compete for cores.

    Without `networks` it does nothing and does not load torch, which takes seconds.
    """
    if not networks:
        return nullcontext()
    from zerolab.networks.inference import torch_threads  # noqa: PLC0415

    return torch_threads(1)


def _waiting(workers: Iterable[EngineThread]) -> str:
    """Return a note that names the agents for which threads have been waiting long."""
    late = time.monotonic() - _LONG_SECONDS
    names = {name for worker in workers for name, since in worker.asked if since < late}
    return f"waiting for {', '.join(sorted(names))}" if names else ""
