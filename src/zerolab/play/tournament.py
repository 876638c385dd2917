"""Round-robin tournaments, stored in a folder so that a killed tournament can be resumed.

``tournament.toml`` contains the settings and ``games.sqlite`` the games. A block (see
`play.pairings`) is stored in one transaction when all its games are finished.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from types import TracebackType

from pydantic import Field, field_validator

from zerolab.agents.agent import Agent
from zerolab.agents.specs import GAME_EXAMPLE, parse_agents, runs_program
from zerolab.core.config import Settings, validate
from zerolab.core.errors import UserError
from zerolab.core.processes import available_cores
from zerolab.play.engine import EngineSetup, Progress, play_pairings, slots_within_memory
from zerolab.play.observers import Recorder
from zerolab.play.pairings import (
    Block,
    Pairing,
    check_openings,
    round_robin,
    thread_batches,
    with_openings,
)
from zerolab.rules.catalogue import parse_game
from zerolab.rules.rules import Game
from zerolab.store.folder import FolderKind
from zerolab.store.games import GameRecord, GameStore

TOURNAMENT = FolderKind("tournament", "tournament.toml", "--folder")

_STORE_SECONDS = 2.0
_SLICE_SLOTS = 256
"""Number of games in progress in a slice. If network outputs depend on the batch in their last
bits, changing this number can change games."""


class TournamentSettings(Settings):
    """Settings of a tournament."""

    game: str
    """Game specification, name:ROWSxCOLUMNS[:K]."""

    games: int = Field(default=20, ge=2, le=1_000_000)
    """Games per pair, half with each colour. [Wang2020a]: 10; [Wang2019], [Wang2020b]: 20."""

    openings: int = Field(default=0, ge=0, le=1000)
    """Random plies at the start of a game, shared by games 2j and 2j + 1 of a pair."""

    seed: int = Field(default=0, ge=0, lt=1 << 63)
    """Seed of all random streams."""

    players: Mapping[str, str] = Field(default_factory=dict)
    """Agent identities by name; the identity of a network is derived from its weights."""

    @field_validator("games")
    @classmethod
    def _even(cls, games: int) -> int:
        if games % 2:
            raise ValueError(
                f"{games} is odd: expected an even number, such as {games + 1}, so that both"
                " players of a pair move first equally often"
            )
        return games


class Tournament:
    """A tournament stored in a folder; writing requires the context manager `locked`."""

    def __init__(self, path: Path, settings: TournamentSettings) -> None:
        self.path = path
        self.settings = settings
        self.store = GameStore(path / "games.sqlite")

    @classmethod
    def saved(cls, path: Path) -> Tournament | None:
        """Return the tournament stored in a folder, or None; raise UserError if it is damaged."""
        if not TOURNAMENT.is_in(path):
            return None
        source = str(path / TOURNAMENT.settings_file)
        return cls(path, validate(TournamentSettings, TOURNAMENT.read_settings(path), source))

    @classmethod
    @contextmanager
    def locked(cls, path: Path, settings: TournamentSettings) -> Iterator[Tournament]:
        """Begin or resume a tournament, adding any new players in `settings`.

        Raises UserError if the tournament is in use by another process, if other settings differ,
        or if the folder contains anything else.
        """
        if not TOURNAMENT.is_in(path):  # before the folder is created
            check_openings(parse_game(settings.game), settings.openings)
        with TOURNAMENT.locked(path):
            saved = cls.saved(path)
            if saved is not None:
                settings = _with_new_players(path, saved.settings, settings)
            if saved is None or saved.settings != settings:
                TOURNAMENT.write_settings(path, settings.model_dump())
            yield cls(path, settings)

    def blocks(self) -> list[Block]:
        """Return all blocks of the tournament."""
        return round_robin(self.settings.players, self.settings.games)

    def blocks_left(self) -> list[Block]:
        """Return the blocks not yet stored."""
        played = set(self.store.stages())
        return [block for block in self.blocks() if (block.part, block.stage) not in played]

    def slices_left(self) -> list[tuple[int, list[Pairing]]]:
        """Return the remaining slices with their numbers; any machine can play a slice.

        The division into slices depends only on the settings, not on machines or finished games.
        Play a slice with `play_slice` and store its games with `record`.
        """
        remaining = set(self.blocks_left())
        slices = thread_batches(self.blocks(), self.settings.games, _SLICE_SLOTS, threads=1)
        return [
            (number, games)
            for number, games in enumerate(slices, start=1)
            if any(_block_of(game) in remaining for game in games)
        ]

    def record(self, games: Sequence[GameRecord]) -> int:
        """Store the games of a slice, skipping stored blocks; return the number of new games."""
        blocks: dict[Block, list[GameRecord]] = {}
        for game in games:
            if (block := _block_of(game)) in self._unrecorded:
                blocks.setdefault(block, []).append(game)
        self.store.record_all(
            [(block.part, block.stage, played) for block, played in blocks.items()]
        )
        self._unrecorded.difference_update(blocks)
        return sum(map(len, blocks.values()))

    @cached_property
    def _unrecorded(self) -> set[Block]:
        """Blocks that `record` has yet to store; the caller must hold the lock."""
        return set(self.blocks_left())

    def games_left(self) -> int:
        """Return the number of games in blocks not yet stored."""
        return sum(len(block.numbers(self.settings.games)) for block in self.blocks_left())

    def games(self) -> list[GameRecord]:
        """Return all stored games by pair and number; raise UserError if they are damaged."""
        stages = sorted(self.store.stages(), key=lambda stage: (stage[1], stage[0]))
        return [game for stage in stages for game in self.store.games(*stage)]

    def play(
        self,
        game: Game,
        agents: Sequence[Agent],
        progress: Progress = lambda done, note: None,
    ) -> None:
        """Play and store the remaining games; `progress` receives the number of finished games.

        The agents must have the names in the settings. Finished blocks are stored even after an
        exception, such as KeyboardInterrupt in `progress`.
        """
        settings, threads = self.settings, available_cores()
        slots = slots_within_memory(agents, threads)
        batches = [
            with_openings(game, batch, settings.openings, settings.seed)
            for batch in thread_batches(self.blocks_left(), settings.games, slots, threads)
        ]
        setup = EngineSetup(game, agents, settings.seed, 0, threads, slots)
        with _BlockRecorder(self.store, settings.games) as recorder:
            play_pairings(setup, batches, games=[recorder], progress=progress)


def play_slice(
    agents: Sequence[Agent], games: Sequence[Pairing], openings: int, seed: int
) -> list[GameRecord]:
    """Play a slice of a tournament in one thread and return its games.

    The agents must have the names used in the tournament. Raises UserError if games are too short
    for `openings` random plies.
    """
    game = agents[0].game
    recorder = Recorder()
    setup = EngineSetup(game, agents, seed, 0, 1, _SLICE_SLOTS)
    play_pairings(setup, [with_openings(game, games, openings, seed)], games=[recorder])
    return recorder.games


def _block_of(game: Pairing | GameRecord) -> Block:
    return Block.of(game.first, game.second, game.number)


def gather_agents(
    stored: Sequence[str],
    specs: Sequence[str],
    game: Game | None,
    *,
    game_example: str = GAME_EXAMPLE,
) -> list[Agent]:
    """Return the agents stored in a tournament folder and those of `specs`.

    Raises UserError for fewer than two agents, and for programs named only in the folder: an
    untrusted folder must not be able to start programs.
    """
    for name in stored:
        if runs_program(name) and name not in specs:
            raise UserError(
                f"the folder names the program {name}, which runs only if the command line names it"
                f" too: expected zerolab tournament {shlex.quote(name)} --folder FOLDER"
            )
    parse = partial(parse_agents, game_example=game_example)
    agents: dict[str, Agent] = {}
    for names in (stored, specs):
        agents |= {agent.name: agent for agent in parse(names, game)} if names else {}
        game = next(iter(agents.values())).game if agents else game
    if len(agents) < 2:
        raise UserError(
            f"a tournament of {len(agents)} players: expected at least two,"
            " as in zerolab tournament runs/demo random mcts:100"
        )
    return list(agents.values())


class _BlockRecorder:
    """`GameObserver` that stores finished blocks every few seconds and on exit."""

    def __init__(self, store: GameStore, games: int) -> None:
        self._store = store
        self._games = games
        self._partial: dict[Block, list[GameRecord]] = {}
        self._ready: list[tuple[int, str, list[GameRecord]]] = []
        self._stored = time.monotonic()

    def __enter__(self) -> _BlockRecorder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._flush()

    def finished(self, games: Sequence[GameRecord]) -> None:
        for game in games:
            block = _block_of(game)
            played = self._partial.setdefault(block, [])
            played.append(game)
            if len(played) == len(block.numbers(self._games)):
                self._ready.append((block.part, block.stage, self._partial.pop(block)))
        if time.monotonic() - self._stored > _STORE_SECONDS:
            self._flush()

    def _flush(self) -> None:
        if self._ready:
            self._store.record_all(self._ready)
        self._ready = []
        self._stored = time.monotonic()


def _with_new_players(
    path: Path, saved: TournamentSettings, requested: TournamentSettings
) -> TournamentSettings:
    """Add the players in `requested` to `saved`; raise UserError if other settings differ."""
    before, after = (each.model_dump(exclude={"players"}) for each in (saved, requested))
    TOURNAMENT.require_equal(path, before, after, note=" (only players can be added)")
    for name, identity in requested.players.items():
        if saved.players.get(name, identity) != identity:
            raise UserError(
                f"{name} differs from the player with that name in {path}: its weights have"
                " changed; choose a different --folder"
            )
    return saved.model_copy(update={"players": {**saved.players, **requested.players}})
