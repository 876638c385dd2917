"""Engine that plays all games: it turns pairings into `GameRecord`s.

Matches, tournaments, gates, self-play and single-move decisions differ only in their pairings and
observers. A game occupies one slot of the engine and one slot of each of its players; when it ends,
another game takes over the slots. Searching players accept new games while other games are still
pending, which keeps network batches large.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.agent import FORFEIT_ACTION, Actions, Agent, Player, ProgramPlayer, close_player
from zerolab.core import streams
from zerolab.play.observers import ChosenMoves, GameHistories, GameObserver, MoveObserver
from zerolab.play.pairings import (
    EvaluatorGroups,
    Ints,
    Pairing,
    PlayerDecisions,
    SlotPool,
    slot_counts_by_agent,
)
from zerolab.rules import compiled_rules
from zerolab.rules.rules import LOSS, ONGOING, Game
from zerolab.store.games import GameRecord

_ENDLESS = 1 << 62


class EngineSetup(NamedTuple):
    """Data shared by all games that are played together."""

    game: Game
    agents: Sequence[Agent]
    """All agents of the pairings, with unique names."""
    seed: int
    iteration: int
    threads: int
    slots_per_thread: int
    """Maximum number of games in progress per thread."""
    move_stream_purposes: tuple[int, ...] = (streams.MATCH_MOVE,)
    """Purposes of the random streams of each move (see `core.streams`)."""
    game_stream_purposes: tuple[int, ...] = ()
    """Purposes of the random streams that stay the same throughout a game. If there are several
    purposes in total, players receive keys uint64[n, purposes] instead of uint64[n]."""


class EngineThread:
    """One thread of the engine, with its players and games in progress."""

    def __init__(
        self,
        setup: EngineSetup,
        batch: Sequence[Pairing],
        observers: Sequence[MoveObserver],
        finish: Callable[[GameRecord], object],
        stop: threading.Event,
        release_player: Callable[[Player], object] = lambda _: None,
    ) -> None:
        """Prepare to play `batch`; `finish` receives the record of every finished game.

        `release_player` receives each player when the thread ends.
        """
        slots = min(setup.slots_per_thread, len(batch))
        self.waiting_for: list[tuple[str, float]] = []
        """Agent for which the thread is waiting, and the time when that began; empty if none."""
        self._setup = setup
        self._observers = observers
        self._finish = finish
        self._release_player = release_player
        self._stop = stop
        self._queue = list(batch)
        self._players: list[Player] = []
        self._pools: list[SlotPool] = []
        self._free = list(range(slots))
        self._games: list[Pairing | None] = [None] * slots
        self._moves: list[list[int]] = [[] for _ in range(slots)]
        self._states = np.empty((slots, len(compiled_rules.start(setup.game))), np.uint64)
        self._sides = np.zeros((slots, 2), np.int64)  # index of the pool that plays each side
        self._player_slots = np.zeros((slots, 2), np.int64)  # slot of each side's player
        self._is_shared = np.zeros(slots, np.bool_)  # whether one player slot serves both sides
        self._numbers = np.zeros(slots, np.int64)
        self._streams = np.zeros(slots, np.int64)
        self._plies = np.zeros(slots, np.int64)
        self._limits = np.zeros(slots, np.int64)
        self._needs_move = np.zeros(slots, np.bool_)

    def play(self) -> None:
        """Play all games; once `stop` is set, return and leave the remaining games unfinished."""
        try:
            self._make_pools()
            groups = EvaluatorGroups(self._pools)
            self._open()
            while len(self._free) < len(self._games) and not self._stop.is_set():
                for decisions in [*self._request_moves(), *groups.step()]:
                    self._play(decisions)
                self._open()
        finally:
            for player in self._players:
                self._release_player(player)
                close_player(player)
            self._players, self._pools = [], []  # frees the networks

    def interrupt_programs(self) -> None:
        """Terminate programs for which the thread may be waiting."""
        for player in list(self._players):
            if isinstance(player, ProgramPlayer):
                player.interrupt()

    def _make_pools(self) -> None:
        """Create players with enough slots for their concurrent games."""
        agents = {agent.name: agent for agent in self._setup.agents}
        for name, slots in slot_counts_by_agent(agents, self._queue, len(self._games)).items():
            player = agents[name].new_player()
            # Registered before `start`, so that `interrupt_programs` can stop a program.
            self._players.append(player)
            self._pools.append(SlotPool(name, player, slots))
            with self._waiting(name):
                player.start(slots)

    @contextmanager
    def _waiting(self, agent: str) -> Iterator[None]:
        """Record in `waiting_for` that the thread is waiting for an agent."""
        self.waiting_for.append((agent, time.monotonic()))
        try:
            yield
        finally:
            self.waiting_for.clear()

    def _open(self) -> None:
        """Begin queued games while the engine and both players of a game have free slots."""
        if not self._free or not self._queue:
            return
        pool_index = {pool.agent_name: n for n, pool in enumerate(self._pools)}
        opened, postponed = [], []
        for at, game in enumerate(self._queue):
            if not self._free:
                postponed += self._queue[at:]
                break
            sides = pool_index[game.first], pool_index[game.second]
            if not all(self._pools[side].has_free_slot for side in sides):
                postponed.append(game)
            else:
                opened.append(self._place(game, sides))
        if opened:
            self._queue = postponed
            self._begin(np.array(opened))

    def _place(self, game: Pairing, sides: tuple[int, int]) -> int:
        slot = heapq.heappop(self._free)
        self._games[slot] = game
        self._moves[slot] = []
        self._sides[slot] = sides
        self._player_slots[slot] = self._pools[sides[0]].take(slot)
        self._is_shared[slot] = sides[0] == sides[1]
        if sides[0] != sides[1]:
            self._player_slots[slot, 1] = self._pools[sides[1]].take(slot)
        self._numbers[slot] = game.number
        self._streams[slot] = game.stream_number
        plies = len(game.opening) + game.max_plies if game.max_plies is not None else _ENDLESS
        self._limits[slot] = plies
        return slot

    def _begin(self, slots: Ints) -> None:
        """Set up the start positions and play the openings."""
        self._states[slots] = compiled_rules.start(self._setup.game)
        self._plies[slots] = 0
        for pool, player_slots, rows in self._by_pool(slots):
            if pool.per_game_player:
                pool.per_game_player.assign_games(player_slots, self._numbers[slots[rows]])
            pool.player.reset(player_slots)
        openings = [game.opening for slot in slots if (game := self._games[slot])]
        for ply in range(max(map(len, openings))):
            longer = [at for at, opening in enumerate(openings) if len(opening) > ply]
            self._advance(slots[longer], np.array([openings[at][ply] for at in longer]))
        self._needs_move[slots] = True

    def _request_moves(self) -> Iterator[PlayerDecisions]:
        """Request moves from the players; yield the decisions of synchronous players."""
        slots = np.flatnonzero(self._needs_move)
        if not slots.size:
            return
        self._needs_move[slots] = False
        turns = self._plies[slots] % 2
        movers, player_slots = self._sides[slots, turns], self._player_slots[slots, turns]
        keys = self._keys(slots)
        for number in np.unique(movers) if len(self._pools) > 1 else (0,):
            rows = movers == number
            pool = self._pools[number]
            request = player_slots[rows], self._states[slots[rows]], keys[rows]
            if pool.async_player:
                pool.async_player.submit(*request)
                pool.pending += len(request[0])
            else:
                with self._waiting(pool.agent_name):
                    actions = pool.player.choose(*request)
                yield PlayerDecisions(pool, player_slots[rows], actions)

    def _keys(self, slots: Ints) -> NDArray[np.uint64]:
        setup = self._setup
        games, plies = self._streams[slots], self._plies[slots]
        columns = [
            streams.stream_keys(setup.seed, setup.iteration, games, plies, purpose)
            for purpose in setup.move_stream_purposes
        ]
        columns += [
            streams.stream_keys(setup.seed, setup.iteration, games, np.zeros_like(plies), purpose)
            for purpose in setup.game_stream_purposes
        ]
        return columns[0] if len(columns) == 1 else np.stack(columns, axis=1)

    def _play(self, decisions: PlayerDecisions) -> None:
        """Play the moves of one player and finish the games that end."""
        slots, actions = decisions.pool.engine_slots(decisions.player_slots), decisions.actions
        self._observe(decisions, slots)
        forfeits = actions == FORFEIT_ACTION
        for slot in slots[forfeits].tolist():
            self._moves[slot].append(FORFEIT_ACTION)
            self._end(slot, LOSS)
        slots, actions = slots[~forfeits], actions[~forfeits]
        if not slots.size:
            return
        outcomes = self._advance(slots, actions)
        finished = (outcomes != ONGOING) | (self._plies[slots] >= self._limits[slots])
        self._needs_move[slots[~finished]] = True
        ended = slots[finished].tolist(), outcomes[finished].tolist()
        for slot, outcome in zip(*ended, strict=True):
            self._end(slot, outcome)

    def _observe(self, decisions: PlayerDecisions, slots: Ints) -> None:
        if not self._observers:
            return
        moves = ChosenMoves(
            decisions.pool.player, decisions.player_slots, self._numbers[slots],
            self._plies[slots], self._states[slots], GameHistories(self._moves, slots),
            decisions.actions,
        )  # fmt: skip
        for observer in self._observers:
            observer.on_moves_chosen(moves)

    def _advance(self, slots: Ints, actions: Actions) -> NDArray[np.int8]:
        """Play an action in each game, report it to both players, and return outcomes int8[n]."""
        outcomes = compiled_rules.apply_batch(self._setup.game, self._states, slots, actions)
        for pool, player_slots, rows in self._by_pool(slots):
            pool.player.advance(player_slots, actions[rows])
        self._plies[slots] += 1
        for slot, action in zip(slots.tolist(), actions.tolist(), strict=True):
            self._moves[slot].append(action)
        return outcomes

    def _by_pool(self, slots: Ints) -> Iterator[tuple[SlotPool, Ints, Ints]]:
        """Yield each pool with games in `slots`, and these games' player slots and row numbers."""
        if len(self._pools) == 1:  # an agent that plays both sides uses one slot for both
            yield self._pools[0], self._player_slots[slots, 0], np.arange(len(slots))
            return
        sides, player_slots = self._sides[slots], self._player_slots[slots]
        for number in np.unique(sides):
            is_in_pool = sides == number
            is_in_pool[:, 1] &= ~self._is_shared[slots]
            rows, columns = np.nonzero(is_in_pool)
            yield self._pools[number], player_slots[rows, columns], rows

    def _end(self, slot: int, outcome: int) -> None:
        """Report a finished game and free its slots; `outcome` is for the side to move."""
        game = self._games[slot]
        assert game is not None
        flip = self._plies[slot] % 2 == 1 and outcome != ONGOING
        result = -outcome if flip else outcome
        actions = tuple(self._moves[slot])
        self._finish(
            GameRecord(
                game.number, game.first, game.second, actions, result,
                given_plies=len(game.opening),
            )
        )  # fmt: skip
        if next_pairing := game.next_pairing(len(actions)):
            self._queue.append(next_pairing)
        self._games[slot] = None
        heapq.heappush(self._free, slot)
        sides = self._sides[slot].tolist()[: 1 if self._is_shared[slot] else 2]
        for side, player_slot in zip(sides, self._player_slots[slot].tolist(), strict=False):
            self._pools[side].release(player_slot)


ProgressCallback = Callable[[int, str], object]
"""Callback that receives the number of finished games and a note, a few times per second."""

_POLL_SECONDS = 0.2
_SLOW_SECONDS = 1.0  # waiting time after which the note names an agent
_MAX_SLOTS = 1024
_MIN_SLOTS = 16
_MEMORY = 1 << 30


def slots_per_thread_in_memory(agents: Sequence[Agent], threads: int) -> int:
    """Return the number of games per thread that fit in about 1 GiB across all threads.

    The number is at least 16 and at most 1024. Both sides of a game need memory. More games allow
    larger network batches.
    """
    largest = max((agent.bytes_per_game for agent in agents), default=0)
    return max(_MIN_SLOTS, min(_MAX_SLOTS, _MEMORY // (2 * threads * max(1, largest))))


def any_has_network(agents: Iterable[Agent]) -> bool:
    """Return True if any agent evaluates positions with a network."""
    return any(agent.load_evaluator for agent in agents)


def useful_thread_count(threads: int, games: int, has_networks: bool) -> int:
    """Return the useful number of threads, at most `threads`, to play `games` games in parallel.

    Networks on a GPU need only one thread: a GPU evaluates a hundred positions about as fast as
    one, and several threads would mostly wait for the interpreter (docs/decisions/0082).
    """
    if has_networks:
        from zerolab.networks.inference import default_device  # noqa: PLC0415

        if default_device().type == "cuda":
            return 1
    return max(1, min(threads, games))


def play_pairings(
    setup: EngineSetup,
    batches: Sequence[Sequence[Pairing]],
    *,
    move_observers: Sequence[MoveObserver] = (),
    game_observers: Sequence[GameObserver] = (),
    progress: ProgressCallback = lambda done, note: None,
    release_player: Callable[[Player], object] = lambda _: None,
) -> None:
    """Play batches of games, each in one thread with separate players.

    `release_player` receives each player after its last game, in the thread that played it.

    Games depend only on the pairings, the seed and the iteration, not on slots, threads or the
    order of games, provided that network outputs do not depend on the batch (docs/decisions/0002).
    An exception, such as KeyboardInterrupt in `progress`, stops everything immediately: programs
    are terminated, and games in progress remain unfinished.
    """
    finished: deque[GameRecord] = deque()
    stop = threading.Event()
    workers = [
        EngineThread(setup, batch, move_observers, finished.append, stop, release_player)
        for batch in batches
    ]
    done = 0
    executor = ThreadPoolExecutor(setup.threads, thread_name_prefix="play")
    with limit_threads_to_one_core(any_has_network(setup.agents)), executor as pool:
        try:
            running = {pool.submit(worker.play) for worker in workers}
            while running:
                completed, running = wait(running, timeout=_POLL_SECONDS)
                for future in completed:
                    future.result()
                records = [finished.popleft() for _ in range(len(finished))]
                done += len(records)
                for observer in game_observers:
                    observer.on_games_finished(records)
                progress(done, _waiting_note(workers))
        finally:
            stop.set()
            for worker in workers:
                worker.interrupt_programs()
            pool.shutdown(cancel_futures=True)


def limit_threads_to_one_core(has_networks: bool) -> AbstractContextManager[None]:
    """Return a context that prevents the networks of several threads from competing for cores.

    If `has_networks` is false, the context does nothing and does not load torch, which would take
    seconds.
    """
    if not has_networks:
        return nullcontext()
    from zerolab.networks.inference import limit_torch_threads  # noqa: PLC0415

    return limit_torch_threads(1)


def _waiting_note(workers: Iterable[EngineThread]) -> str:
    """Return a note that names slow agents for which threads are waiting."""
    latest = time.monotonic() - _SLOW_SECONDS
    names = {name for worker in workers for name, since in worker.waiting_for if since < latest}
    return f"waiting for {', '.join(sorted(names))}" if names else ""
