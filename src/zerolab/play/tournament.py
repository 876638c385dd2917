"""Round-robin tournaments, stored in folders so that a killed tournament can be resumed.

``tournament.toml`` contains the settings and ``games.sqlite`` the games. A block (see
`play.pairings`) is stored in one transaction once all its games are finished.
"""

from __future__ import annotations

import shlex
import time
import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any

from pydantic import Field, field_validator

from zerolab.agents.agent import Agent, check_program_starts
from zerolab.agents.baselines import PERFECT_IDENTITY
from zerolab.agents.specs import GAME_OPTION_EXAMPLE, is_program_spec, parse_agents
from zerolab.core.config import Settings, validate
from zerolab.core.errors import UserError, quoted
from zerolab.core.processes import available_cores
from zerolab.oracles.oracle import NotSolvedError
from zerolab.play.engine import (
    EngineSetup,
    ProgressCallback,
    any_has_network,
    play_pairings,
    slots_per_thread_in_memory,
    useful_thread_count,
)
from zerolab.play.observers import GameRecorder
from zerolab.play.pairings import (
    GAMES_PER_BLOCK,
    PairBlock,
    Pairing,
    check_opening_length,
    require_even_games,
    round_robin_blocks,
    thread_batches,
    with_random_openings,
)
from zerolab.rules.catalogue import game_name, parse_game
from zerolab.rules.rules import Game
from zerolab.store.folder import FolderKind
from zerolab.store.games import GAMES_FILE_NAME, GameRecord, GameStore

TOURNAMENT_FOLDER_KIND = FolderKind("tournament", "tournament.toml", "--folder")

_STORE_SECONDS = 2.0
_SLICE_SLOTS = 256
"""Number of games in progress in a slice. If the last bits of network outputs depend on the batch,
changing this number can change games."""


class TournamentSettings(Settings):
    """Settings of a tournament."""

    game: str
    """Game specification, name:ROWSxCOLUMNS[:K]."""

    games: int = Field(default=20, ge=2, le=1_000_000)
    """Games per pair, half with each colour. [Wang2020a]: 10; [Wang2019], [Wang2020b]: 20."""

    openings: int = Field(default=0, ge=0, le=1000)
    """Random plies at the start of a game; games 2j and 2j + 1 of a pair share them."""

    seed: int = Field(default=0, ge=0, lt=1 << 63)
    """Seed of all random streams."""

    players: Mapping[str, str] = Field(default_factory=dict)
    """Agent identities by name; the identity of a network is derived from its weights."""

    @field_validator("games")
    @classmethod
    def _require_even(cls, games: int) -> int:
        return require_even_games(games)


class Tournament:
    """A tournament stored in a folder; writing requires the `open_locked` context manager."""

    def __init__(self, path: Path, settings: TournamentSettings) -> None:
        self.path = path
        self.settings = settings
        self.is_temporary = False
        """True if the folder is deleted together with this object."""
        self.store = GameStore(path / GAMES_FILE_NAME)

    @classmethod
    def load(cls, path: Path) -> Tournament | None:
        """Return the tournament in a folder, if there is one; raise UserError if it is damaged."""
        if not TOURNAMENT_FOLDER_KIND.matches(path):
            return None
        source = str(path / TOURNAMENT_FOLDER_KIND.settings_file)
        return cls(
            path, validate(TournamentSettings, TOURNAMENT_FOLDER_KIND.read_settings(path), source)
        )

    @classmethod
    @contextmanager
    def open_locked(cls, path: Path, settings: TournamentSettings) -> Iterator[Tournament]:
        """Begin or resume a tournament, adding any new players in `settings`.

        Raises UserError if the tournament is in use by another process, if other settings differ,
        or if the folder contains anything other than a tournament. After a NotSolvedError, which
        means that perfect play is too hard, new players without stored games are removed again, and
        so is `perfect`, even if an interrupted command added it.
        """
        if not TOURNAMENT_FOLDER_KIND.matches(path):  # before the folder is created
            check_opening_length(parse_game(settings.game), settings.openings)
        with TOURNAMENT_FOLDER_KIND.locked(path):
            saved = cls.load(path)
            if saved is not None:
                settings = _with_new_players(path, saved.settings, settings)
            if saved is None or saved.settings != settings:
                TOURNAMENT_FOLDER_KIND.write_settings(path, settings.model_dump())
            tournament = cls(path, settings)
            try:
                yield tournament
            except NotSolvedError:
                known = saved.settings.players if saved else {}
                removable = {
                    name
                    for name, identity in settings.players.items()
                    if name not in known or identity == PERFECT_IDENTITY
                }
                with suppress(UserError, OSError):  # the first error is the one to report
                    tournament._remove_players_without_games(removable)
                raise

    @classmethod
    @contextmanager
    def open_temporary(cls, settings: TournamentSettings) -> Iterator[Tournament]:
        """Begin a tournament in a temporary folder, which exists as long as the tournament.

        After an exception, the folder is deleted at once. Raises UserError like `open_locked`.
        """
        with ExitStack() as stack:
            folder = stack.enter_context(TemporaryDirectory(prefix="zerolab-"))
            with cls.open_locked(Path(folder) / "tournament", settings) as tournament:
                tournament.is_temporary = True
                yield tournament
            weakref.finalize(tournament, stack.pop_all().close)

    def _remove_players_without_games(self, names: Collection[str]) -> None:
        """Remove those of the named players that have no stored games.

        If no players remain, the folder is no longer a tournament.
        """
        have_played = {name for game in self.games() for name in (game.first, game.second)}
        players = {
            name: identity
            for name, identity in self.settings.players.items()
            if name not in names or name in have_played
        }
        if players:
            settings = self.settings.model_copy(update={"players": players})
            TOURNAMENT_FOLDER_KIND.write_settings(self.path, settings.model_dump())
        else:
            for name in (TOURNAMENT_FOLDER_KIND.settings_file, GAMES_FILE_NAME):
                (self.path / name).unlink(missing_ok=True)

    def blocks(self) -> list[PairBlock]:
        """Return all blocks of the tournament."""
        return round_robin_blocks(self.settings.players, self.settings.games)

    def remaining_blocks(self) -> list[PairBlock]:
        """Return the blocks that are not yet stored."""
        played = set(self.store.stages())
        return [
            block for block in self.blocks() if (block.block_index, block.stage_name) not in played
        ]

    def remaining_slices(self) -> list[tuple[int, list[Pairing]]]:
        """Return the numbers and games of the remaining slices; any machine can play a slice.

        The division into slices depends only on the settings, not on machines or finished games.
        `play_slice` plays a slice, and `record_games` stores its games.
        """
        remaining = set(self.remaining_blocks())
        slices = thread_batches(self.blocks(), self.settings.games, _SLICE_SLOTS, threads=1)
        return [
            (number, games)
            for number, games in enumerate(slices, start=1)
            if any(_block_of(game) in remaining for game in games)
        ]

    def record_games(self, games: Sequence[GameRecord]) -> int:
        """Store those games of a slice that are not yet stored; return their number."""
        blocks: dict[PairBlock, list[GameRecord]] = {}
        for game in games:
            if (block := _block_of(game)) in self._unrecorded:
                blocks.setdefault(block, []).append(game)
        self.store.write_stages(
            [(block.block_index, block.stage_name, played) for block, played in blocks.items()]
        )
        self._unrecorded.difference_update(blocks)
        return sum(map(len, blocks.values()))

    @cached_property
    def _unrecorded(self) -> set[PairBlock]:
        """Blocks that `record_games` has not yet stored; the caller must hold the lock."""
        return set(self.remaining_blocks())

    def remaining_game_count(self) -> int:
        """Return the number of games in blocks that are not yet stored."""
        return sum(
            len(block.game_numbers(self.settings.games)) for block in self.remaining_blocks()
        )

    def games(self) -> list[GameRecord]:
        """Return all stored games, sorted by pair and number; raise UserError if damaged."""
        stages = sorted(self.store.stages(), key=lambda stage: (stage[1], stage[0]))
        return self.store.games_of_stages(stages)

    def require_agents(self, agents: Sequence[Agent]) -> None:
        """Raise UserError unless `agents` contains all players of the remaining games."""
        names = {name for block in self.remaining_blocks() for name in (block.first, block.second)}
        if missing := sorted(names - {agent.name for agent in agents}):
            raise UserError(
                f"another command has added players to {quoted(self.path)}"
                f" ({', '.join(missing)}): repeat this command"
            )

    def play(
        self,
        game: Game,
        agents: Sequence[Agent],
        progress: ProgressCallback = lambda done, note: None,
    ) -> None:
        """Play and store the remaining games; `progress` receives the number of finished games.

        The agents must have the names in the settings. Finished blocks are stored even after an
        exception, such as KeyboardInterrupt in `progress`. Raises UserError if a player has no
        agent.
        """
        self.require_agents(agents)
        settings, blocks = self.settings, self.remaining_blocks()
        games = len(blocks) * min(settings.games, GAMES_PER_BLOCK)
        threads = useful_thread_count(available_cores(), games, any_has_network(agents))
        slots = slots_per_thread_in_memory(agents, threads)
        batches = [
            with_random_openings(game, batch, settings.openings, settings.seed)
            for batch in thread_batches(blocks, settings.games, slots, threads)
        ]
        setup = EngineSetup(game, agents, settings.seed, 0, threads, slots)
        with _BlockRecorder(self.store, settings.games) as recorder:
            play_pairings(setup, batches, game_observers=[recorder], progress=progress)


def play_slice(
    agents: Sequence[Agent], games: Sequence[Pairing], openings: int, seed: int
) -> list[GameRecord]:
    """Play a slice of a tournament in one thread, and return the played games.

    The agents must have the names used in the tournament. Raises UserError if games are too short
    for `openings` random plies.
    """
    game = agents[0].game
    recorder = GameRecorder()
    setup = EngineSetup(game, agents, seed, 0, 1, _SLICE_SLOTS)
    play_pairings(
        setup, [with_random_openings(game, games, openings, seed)], game_observers=[recorder]
    )
    return recorder.games


def _block_of(game: Pairing | GameRecord) -> PairBlock:
    return PairBlock.containing(game.first, game.second, game.number)


def resume_command(folder: Path, settings: TournamentSettings) -> str:
    """Return the command that resumes a tournament; it must name the agents that run programs."""
    programs = [name for name in settings.players if is_program_spec(name)]
    return shlex.join(["zerolab", "tournament", *programs, "--folder", str(folder)])


def parse_tournament_agents(
    saved: Tournament | None,
    specs: Sequence[str],
    game: Game | None,
    *,
    game_example: str = GAME_OPTION_EXAMPLE,
) -> list[Agent]:
    """Return the agents of a saved tournament, if there is one, and those named by `specs`.

    The default of `game` is the saved one. Raises UserError for fewer than two agents, and for new
    programs that do not start. Also raises UserError for programs named only in the folder, because
    an untrusted folder must not be able to start programs.
    """
    stored: Collection[str] = ()
    if saved is not None:
        stored = saved.settings.players
        game = parse_game(saved.settings.game) if game is None else game
    parse = partial(parse_agents, game_example=game_example)
    named = {agent.name: agent for agent in parse(specs, game)} if specs else {}
    for name in stored:
        if saved is not None and is_program_spec(name) and name not in named:
            raise UserError(
                f"the folder names the program {name}, which runs only if the command line names it"
                f" too: expected {resume_command(saved.path, saved.settings)}"
            )
    unnamed = [name for name in stored if name not in named]
    agents = {agent.name: agent for agent in parse(unnamed, game)} if unnamed else {}
    agents |= named
    if len(agents) < 2:
        raise UserError(
            f"number of players = {len(agents)}: expected at least two,"
            " as in zerolab tournament runs/demo random mcts:100"
        )
    for name, agent in agents.items():
        if is_program_spec(name) and name not in stored:
            check_program_starts(agent)
    return list(agents.values())


def needs_only_report(saved: Tournament, specs: Sequence[str], options: Iterable[object]) -> bool:
    """Return whether a tournament is finished and a command with these arguments changes nothing.

    Such a command only reports the stored games. It must not load the agents, whose files may have
    been moved. An option that is not given is None.
    """
    is_changed = bool(specs) or any(value is not None for value in options)
    return not is_changed and not saved.remaining_blocks()


def tournament_settings(
    saved: Tournament | None, agents: Sequence[Agent], options: Mapping[str, int | None]
) -> TournamentSettings:
    """Return the settings for a tournament of `agents`, which may resume a saved one.

    An option that is None takes the saved value or, in a new tournament, its default. Raises
    UserError for invalid values.
    """
    fields: dict[str, Any] = {} if saved is None else saved.settings.model_dump()
    fields |= {name: value for name, value in options.items() if value is not None}
    fields["game"] = game_name(agents[0].game)
    fields["players"] = {agent.name: agent.identity for agent in agents}
    return validate(TournamentSettings, fields)


class _BlockRecorder:
    """`GameObserver` that stores finished blocks every few seconds and on exit."""

    def __init__(self, store: GameStore, games: int) -> None:
        self._store = store
        self._games = games
        self._partial: dict[PairBlock, list[GameRecord]] = {}
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

    def on_games_finished(self, games: Sequence[GameRecord]) -> None:
        for game in games:
            block = _block_of(game)
            played = self._partial.setdefault(block, [])
            played.append(game)
            if len(played) == len(block.game_numbers(self._games)):
                self._ready.append((block.block_index, block.stage_name, self._partial.pop(block)))
        if time.monotonic() - self._stored > _STORE_SECONDS:
            self._flush()

    def _flush(self) -> None:
        if self._ready:
            self._store.write_stages(self._ready)
        self._ready = []
        self._stored = time.monotonic()


def _with_new_players(
    path: Path, saved: TournamentSettings, requested: TournamentSettings
) -> TournamentSettings:
    """Return `saved` with the players in `requested`; raise UserError if other settings differ."""
    before, after = (each.model_dump(exclude={"players"}) for each in (saved, requested))
    TOURNAMENT_FOLDER_KIND.require_equal_settings(
        path, before, after, note=" (only players can be added)"
    )
    for name, identity in requested.players.items():
        if saved.players.get(name, identity) != identity:
            raise UserError(
                f"{name} differs from the player with that name in {path}: its weights have"
                " changed; choose a different --folder"
            )
    return saved.model_copy(update={"players": {**saved.players, **requested.players}})
