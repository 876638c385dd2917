"""Round-robin tournaments, kept in a folder that a killed tournament goes on from.

``tournament.toml`` says what is played, ``games.sqlite`` holds the games. A leg (see
`arena.schedule`) is stored in one step once all its games are over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from pydantic import Field, field_validator

from zerolab.agents.interface import Agent
from zerolab.core.config import Settings, validate
from zerolab.core.errors import UserError
from zerolab.core.files import make_folder
from zerolab.core.threads import available_cores
from zerolab.play.engine import FinishedGame, ScheduledGame, Task
from zerolab.play.match import paired_openings
from zerolab.play.schedule import Leg, Turn, batches, round_robin
from zerolab.play.workers import lanes_for, play_batches
from zerolab.rules.catalogue import parse_game
from zerolab.rules.interface import Game
from zerolab.store import lock
from zerolab.store.checks import reading
from zerolab.store.games import GameRecord, GameStore
from zerolab.store.state import read_config, write_config

_SETTINGS = "tournament.toml"
_OWNER = "tournament"
_STORE_SECONDS = 2.0


class TournamentSettings(Settings):
    """What is played."""

    game: str
    """name:ROWSxCOLUMNS[:K]"""

    games: int = Field(default=20, ge=2, le=1_000_000)
    """Games of every pair, half with each colour. H: 10; W, L: 20."""

    openings: int = Field(default=0, ge=0, le=1000)
    """Random plies at the start of a game. Games 2j and 2j + 1 of a pair share them."""

    seed: int = Field(default=0, ge=0, lt=1 << 63)
    """What all random streams derive from."""

    players: Mapping[str, str] = Field(default_factory=dict)
    """Names, and what tells a player from another of the same name."""

    @field_validator("games")
    @classmethod
    def _even(cls, games: int) -> int:
        if games % 2:
            raise ValueError(
                f"{games} is odd: expected an even number, so that both players of a pair move"
                f" first equally often, such as {games + 1}"
            )
        return games


class Tournament:
    """A tournament's folder; hold `locked` around everything that writes."""

    def __init__(self, path: Path, settings: TournamentSettings) -> None:
        self.path = path
        self.settings = settings
        self.store = GameStore(path / "games.sqlite")

    @classmethod
    def saved(cls, path: Path) -> Tournament | None:
        """Return the tournament in a folder, if there is one; raise UserError if damaged."""
        with reading(path):
            if not (path / _SETTINGS).is_file():
                return None
        config = read_config(path / _SETTINGS, _OWNER)
        return cls(path, validate(TournamentSettings, config, source=str(path / _SETTINGS)))

    @classmethod
    @contextmanager
    def locked(cls, path: Path, settings: TournamentSettings) -> Iterator[Tournament]:
        """Begin a tournament, or go on with one, its players and those of `settings`.

        Raises UserError if another process is at work on it, if it is played otherwise, or if the
        folder holds something else.
        """
        if settings.openings:  # too many are refused before there is a folder
            paired_openings(parse_game(settings.game), settings.openings, settings.seed, 0, [0])
        make_folder(path)
        _require_ours(path)  # before the lock's file is put into a folder that is not ours
        with lock.exclusive(path):
            former = cls.saved(path)
            if former is not None:
                settings = _united(path, former.settings, settings)
            if former is None or former.settings != settings:
                write_config(path / _SETTINGS, settings.model_dump(), _OWNER)
            yield cls(path, settings)

    def legs(self) -> list[Leg]:
        """Return all legs."""
        return round_robin(self.settings.players, self.settings.games)

    def left(self) -> list[Leg]:
        """Return the legs that are still to be played."""
        played = set(self.store.stages())
        return [leg for leg in self.legs() if (leg.part, leg.stage) not in played]

    def games_left(self) -> int:
        """Return how many games are still to be played."""
        return sum(len(leg.numbers(self.settings.games)) for leg in self.left())

    def games(self) -> list[GameRecord]:
        """Return all games stored, by pair and number; raise UserError if they are damaged."""
        stages = sorted(self.store.stages(), key=lambda stage: (stage[1], stage[0]))
        return [game for stage in stages for game in self.store.games(*stage)]

    def play(
        self,
        game: Game,
        agents: Sequence[Agent],
        report: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Play and store what is left; `report` is told how many games of it are over.

        The agents' names must be those of the settings. An exception, such as KeyboardInterrupt
        in `report`, ends early; finished legs are stored.
        """
        threads = available_cores()
        lanes = lanes_for(agents, threads)
        settings = self.settings
        dealt = batches(self.left(), settings.games, lanes, threads)
        turns = [turn for batch in dealt for turn in batch]
        numbers = {agent.name: number for number, agent in enumerate(agents)}
        schedule = iter(_schedule(game, settings, turns, numbers))
        task = Task(game, agents, settings.seed, 0, lanes)
        with _Scribe(self.store, turns, settings.games) as scribe:

            def receive(finished: list[FinishedGame]) -> None:
                scribe.add(finished)
                report(scribe.received)

            play_batches(task, [[next(schedule) for _ in b] for b in dealt], threads, receive)


def _schedule(
    game: Game, settings: TournamentSettings, turns: Sequence[Turn], numbers: Mapping[str, int]
) -> list[ScheduledGame]:
    """Return the games for the players' engine, numbered by their places in `turns`."""
    streams = [turn.leg.stream(turn.number) for turn in turns]
    openings = paired_openings(game, settings.openings, settings.seed, 0, streams)
    schedule = []
    for place, turn in enumerate(turns):
        first, second = (numbers[name] for name in turn.leg.colours(turn.number))
        schedule.append(ScheduledGame(place, first, second, streams[place], openings[place]))
    return schedule


class _Scribe:
    """Stores finished legs, now and then and at the end."""

    def __init__(self, store: GameStore, turns: Sequence[Turn], games: int) -> None:
        self.received = 0
        self._store = store
        self._turns = turns
        self._games = games
        self._open: dict[Leg, list[GameRecord]] = {}
        self._ready: list[tuple[int, str, list[GameRecord]]] = []
        self._stored = time.monotonic()

    def __enter__(self) -> _Scribe:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._flush()

    def add(self, finished: Sequence[FinishedGame]) -> None:
        """Take note of games."""
        self.received += len(finished)
        for each in finished:
            leg, number = self._turns[each.number]
            played = self._open.setdefault(leg, [])
            played.append(GameRecord(number, *leg.colours(number), each.actions, each.result))
            if len(played) == len(leg.numbers(self._games)):
                self._ready.append((leg.part, leg.stage, self._open.pop(leg)))
        if time.monotonic() - self._stored > _STORE_SECONDS:
            self._flush()

    def _flush(self) -> None:
        if self._ready:
            self._store.record_all(self._ready)
        self._ready = []
        self._stored = time.monotonic()


def _require_ours(path: Path) -> None:
    with reading(path):
        others = [entry.name for entry in path.iterdir() if not entry.name.startswith(".")]
        if others and not (path / _SETTINGS).is_file():
            raise UserError(f"{path} is no tournament and not empty: expected a new folder")


def _united(
    path: Path, former: TournamentSettings, wanted: TournamentSettings
) -> TournamentSettings:
    """Add the players of `wanted`; raise UserError if anything else differs."""
    saved: dict[str, Any] = former.model_dump()
    for key, value in wanted.model_dump(exclude={"players"}).items():
        if value != saved[key]:
            raise UserError(
                f"{key} = {value} differs from {saved[key]} in {path}: a tournament keeps its"
                " settings (only players may be added); choose another --folder"
            )
    for name, identity in wanted.players.items():
        if former.players.get(name, identity) != identity:
            raise UserError(
                f"{name} is not the player of that name in {path}: it was trained otherwise;"
                " choose another --folder"
            )
    return former.model_copy(update={"players": {**former.players, **wanted.players}})
