"""Class of pupils, with their tokens, agents and tournament.

The class is stored in one file, which is replaced atomically, next to a folder for each tournament.
If the server is killed, the next server therefore continues with the same class.

A separate process plays the games and stores them a few pairs at a time. If this process or the
server is killed, the next server plays the missing games.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from unicodedata import normalize

from pebble import ProcessPool
from pydantic import Field

from zerolab.agents.agent import Agent
from zerolab.core.config import Settings, validate
from zerolab.core.errors import UserError, quoted
from zerolab.core.files import make_folder, read_text, write_private_text
from zerolab.core.processes import process_pool
from zerolab.play.tournament import Tournament, TournamentSettings, play_slice
from zerolab.rules.catalogue import parse_game
from zerolab.store.arrays import AGENT_SUFFIX
from zerolab.store.checks import hex_digest
from zerolab.web.folders import Folders, folder_secret
from zerolab.web.live_search import find_agent
from zerolab.web.requests import NotFoundError, error_message

MAX_PUPILS = 100
_MAX_ABSENT = 400
_MAX_NAME = 40  # characters
_MAX_NAMES_FILE = 1 << 16
_MAX_CLASS_FILE = 1 << 20
_TOKEN_BYTES = 24
_PAIR_MARK = " vs "  # separates the two names of a pair in tournaments


class TokenHolder(NamedTuple):
    """Person who holds a token."""

    name: str
    """Name of a pupil; empty for the teacher, and for the owner of a server without a class."""

    @property
    def is_pupil(self) -> bool:
        """True for a pupil, who has fewer permissions."""
        return bool(self.name)


class Pupil(Settings):
    """Pupil with a token and an agent."""

    name: str
    token: str = Field(min_length=_TOKEN_BYTES)
    agent: str = ""
    """Spec of the agent that the pupil enters; empty if there is none."""


class ClassTournament(Settings):
    """Tournament of a class, with the agents entered in it."""

    number: int = Field(ge=1)
    """Number of the tournament's folder."""
    game: str
    games: int = Field(ge=2)
    """Games per pair."""
    openings: int = Field(ge=0)
    """Random plies at the start of a game."""
    agents: Mapping[str, str]
    """Agent specs by pupil name."""
    is_playing: bool
    """True from the start of the tournament until it ends or the teacher stops it."""


class ClassState(Settings):
    """State of a class, as stored in the class file."""

    key: str
    """Digest of the user's secret for the folder. In another user's file, the digest differs."""
    teacher: str = Field(min_length=_TOKEN_BYTES)
    """Token of the teacher."""
    pupils: tuple[Pupil, ...]
    absent: tuple[Pupil, ...] = ()
    """Pupils on earlier lists of names, who have no access until their names are added again."""
    game: str = "connect_four:5x5"
    """Game for which pupils enter agents."""
    tournament: ClassTournament | None = None
    """Latest tournament; None before the first."""


class Classroom:
    """Class stored in a folder. All methods can be called from several threads."""

    def __init__(self, folder: Path, state: ClassState) -> None:
        self.folder = folder
        self._state = state
        self.has_new_links = False
        """True if the stored class came from elsewhere, so that all links have been replaced."""
        self.lock = threading.RLock()
        """Lock for changes to the state and to the uploads."""

    @classmethod
    def open(cls, folder: Path, names: Sequence[str]) -> Classroom:
        """Return the class stored in a folder, with the pupils in `names`; create it if necessary.

        Returning pupils keep their tokens and agents, even after an absence. If the folder was
        moved or written by another user, who knows its tokens, all members get new tokens, and its
        tournament is stopped. Raises UserError if the file is damaged or cannot be written.
        """
        path, key = folder / "class.json", hex_digest(folder_secret(folder).encode())
        state = ClassState(key=key, teacher=_new_token(), pupils=())
        has_new_links = False
        if path.exists():
            state = _read(path)
            if has_new_links := state.key != key:
                state = _with_new_tokens(state, key)
        known = {normalize("NFC", pupil.name): pupil for pupil in (*state.pupils, *state.absent)}
        pupils = tuple(known.get(name) or Pupil(name=name, token=_new_token()) for name in names)
        make_folder(folder)
        classroom = cls(folder, state)
        classroom.has_new_links = has_new_links
        absent = tuple(pupil for name, pupil in known.items() if name not in names)
        classroom.update_state(pupils=pupils, absent=absent[:_MAX_ABSENT])
        return classroom

    @property
    def state(self) -> ClassState:
        """Current state, as in the class file."""
        return self._state

    @property
    def upload_folder(self) -> Path:
        """Folder of the agent files that pupils have uploaded."""
        return self.folder / "agents"

    def next_tournament_number(self) -> int:
        """Return a number higher than that of any tournament of this class or of an earlier one."""
        last = self._state.tournament
        folders = (self.folder / "tournaments").glob("*")
        taken = [int(each.name) for each in folders if each.name.isdecimal()]
        return 1 + max([0 if last is None else last.number, *taken])

    def tournament_folder(self, number: int) -> Path:
        """Return the folder of a tournament."""
        return self.folder / "tournaments" / str(number)

    def holder_of(self, token: str) -> TokenHolder | None:
        """Return the holder of a token, or None, taking equally long for every token."""
        holders = [TokenHolder("")] + [TokenHolder(each.name) for each in self._state.pupils]
        tokens = [self._state.teacher] + [each.token for each in self._state.pupils]
        given = token.encode("utf-8", "replace")
        matches = [hmac.compare_digest(given, each.encode()) for each in tokens]
        return holders[matches.index(True)] if any(matches) else None

    def pupil(self, name: str) -> Pupil:
        """Return a pupil; raise NotFoundError if nobody has this name."""
        found = next((each for each in self._state.pupils if each.name == name), None)
        if found is None:
            raise NotFoundError(f"{quoted(name)} is not a pupil: expected a pupil's link")
        return found

    def set_agent(self, name: str, agent: str) -> None:
        """Store a pupil's agent, and remove uploads that are no longer used."""
        self.pupil(name)
        with self.lock:
            pupils = tuple(
                each.model_copy(update={"agent": agent}) if each.name == name else each
                for each in self._state.pupils
            )
            self._replace({"pupils": pupils})
            self._remove_unused_uploads()

    def update_state(self, **fields: object) -> None:
        """Replace fields of the state, and store the new state."""
        with self.lock:
            self._replace(fields)

    def _replace(self, fields: Mapping[str, object]) -> None:
        state = self._state.model_copy(update=dict(fields))
        text = json.dumps(state.model_dump(mode="json"), indent=1) + "\n"
        write_private_text(self.folder / "class.json", text)
        self._state = state

    def _remove_unused_uploads(self) -> None:
        played = self._state.tournament.agents.values() if self._state.tournament else ()
        pupils = (*self._state.pupils, *self._state.absent)
        specs = [*(each.agent for each in pupils), *played]
        for path in self.upload_folder.glob(f"*{AGENT_SUFFIX}"):
            if not any(path.name in spec for spec in specs):
                path.unlink(missing_ok=True)


def parse_pupil_names(option: str) -> list[str]:
    """Return the names in a file, one per line; for a number, return that many numbered names.

    Raises UserError for names that are too long, repeated or not printable, or that contain " vs ".
    """
    if option.isascii() and option.isdecimal():
        count = int(option) if len(option) < 10 else MAX_PUPILS + 1
        _require_count(count, f"--class {option[:12]}")
        return [f"Pupil {number}" for number in range(1, count + 1)]
    lines = read_text(Path(option), _MAX_NAMES_FILE).splitlines()
    names = [normalize("NFC", " ".join(line.split())) for line in lines if line.strip()]
    _require_count(len(names), f"{option}: {len(names)} names")
    for name in names:
        if len(name) > _MAX_NAME or not name.isprintable() or _PAIR_MARK in name:
            raise UserError(
                f"{option}: {quoted(name)}: expected a name of at most {_MAX_NAME} printable"
                f' characters without "{_PAIR_MARK}"'
            )
        if names.count(name) > 1:
            raise UserError(f"{option}: {quoted(name)} appears twice: expected different names")
    return names


def link_table(state: ClassState, address: str) -> str:
    """Return a table of the teacher's and the pupils' links, one per line, for printing."""
    rows = [("Teacher", f"{address}class?token={state.teacher}")]
    rows += [(each.name, f"{address}pupil?token={each.token}") for each in state.pupils]
    width = max(len(name) for name, _ in rows)
    return "".join(f"{name:<{width}}  {link}\n" for name, link in rows)


def _require_count(count: int, source: str) -> None:
    if not 2 <= count <= MAX_PUPILS:
        raise UserError(f"{source}: expected 2 to {MAX_PUPILS} pupils")


def _new_token() -> str:
    return secrets.token_urlsafe(_TOKEN_BYTES)


def _with_new_tokens(state: ClassState, key: str) -> ClassState:
    """Return a class whose earlier tokens are void and whose tournament is stopped."""

    def renewed(pupils: Sequence[Pupil]) -> tuple[Pupil, ...]:
        return tuple(each.model_copy(update={"token": _new_token()}) for each in pupils)

    tournament = state.tournament
    stopped = tournament and tournament.model_copy(update={"is_playing": False})
    return state.model_copy(update={
        "key": key, "teacher": _new_token(), "tournament": stopped,
        "pupils": renewed(state.pupils), "absent": renewed(state.absent),
    })  # fmt: skip


def _read(path: Path) -> ClassState:
    try:
        table = json.loads(read_text(path, _MAX_CLASS_FILE))
    except (ValueError, RecursionError):
        raise UserError(f"{quoted(path)} is damaged: delete it to start a new class") from None
    return validate(ClassState, table, str(path))


_NICENESS = 10  # so that pages take precedence over the tournament
_JOIN_SECONDS = 5
_PAIRS_AT_ONCE = 12


class ClassTournamentProcess:
    """Process that plays the tournament of a class."""

    def __init__(self, classroom: Classroom, folders: Folders) -> None:
        """Play with agents from `folders`; call `resume` to continue the latest tournament."""
        self._classroom = classroom
        self._folders = folders
        self._lock = threading.Lock()
        self._pool: ProcessPool | None = None
        self.problem = ""
        """Reason why games of the latest tournament are missing, or an empty string."""

    def resume(self) -> None:
        """Continue the tournament, if any, that was being played when the server stopped."""
        tournament = self._classroom.state.tournament
        if tournament is not None and tournament.is_playing:
            self.play(tournament)

    def play(self, tournament: ClassTournament) -> None:
        """Play the remaining games of a tournament; raise UserError if one is being played."""
        with self._classroom.lock, self._lock:
            if self._pool is not None:
                raise UserError("the tournament is already being played: stop it first")
            self.problem = ""
            tournament = tournament.model_copy(update={"is_playing": True})
            self._classroom.update_state(tournament=tournament)
            self._pool = pool = process_pool(1, __name__)
        folder = self._classroom.tournament_folder(tournament.number)
        future = pool.schedule(play_tournament, args=[folder, tournament, self._folders])
        future.add_done_callback(partial(self._finish, pool))

    def stop(self) -> None:
        """Stop the tournament; games that are not yet stored are played again later."""
        with self._classroom.lock, self._lock:
            pool, self._pool = self._pool, None
            self._record_end()
        _end(pool)

    def close(self) -> None:
        """End the process; the next server continues the tournament."""
        with self._lock:
            pool, self._pool = self._pool, None
        _end(pool)

    def _finish(self, pool: ProcessPool, future: Future[Any]) -> None:
        """Record the end of a tournament that was not stopped."""
        with self._classroom.lock, self._lock:
            if self._pool is not pool:
                return
            self._pool = None
            if error := future.exception():
                assert isinstance(error, Exception)
                self.problem = error_message(error)
            else:
                self.problem = future.result()
            self._record_end()
        threading.Thread(target=_end, args=[pool], daemon=True).start()

    def _record_end(self) -> None:
        tournament = self._classroom.state.tournament
        if tournament is not None:
            stopped = tournament.model_copy(update={"is_playing": False})
            self._classroom.update_state(tournament=stopped)


def play_tournament(folder: Path, tournament: ClassTournament, folders: Folders) -> str:
    """Play the remaining games of a tournament; return which agents were left out and why, or "".

    Agents that can no longer play are left out. Raises UserError if fewer than two remain. Pairs
    are played in a random order, a few at a time, so that the standings soon include all pupils and
    change often. A single thread plays, which leaves the other cores to the pages.
    """
    with suppress(OSError, AttributeError):
        os.nice(_NICENESS)
    stored = Tournament.load(folder) if folder.is_dir() else None
    agents, problems = playable_agents(
        tournament, folders, stored.settings.players if stored else {}
    )
    if len(agents) < 2:
        raise UserError("; ".join(["expected at least two agents that can play", *problems]))
    settings = TournamentSettings(
        game=tournament.game, games=tournament.games, openings=tournament.openings,
        seed=tournament.number, players={agent.name: agent.identity for agent in agents},
    )  # fmt: skip
    make_folder(folder.parent)
    with Tournament.open_locked(folder, settings) as opened:
        names = {agent.name for agent in agents}
        blocks = [each for each in opened.remaining_blocks() if {each.first, each.second} <= names]
        Random(settings.seed).shuffle(blocks)
        for begin in range(0, len(blocks), _PAIRS_AT_ONCE):
            games = [
                game
                for block in blocks[begin : begin + _PAIRS_AT_ONCE]
                for game in block.pairings(block.game_numbers(settings.games))
            ]
            opened.record_games(play_slice(agents, games, settings.openings, settings.seed))
    return "; ".join(problems)


def playable_agents(
    tournament: ClassTournament, folders: Folders, saved_identities: Mapping[str, str]
) -> tuple[list[Agent], list[str]]:
    """Return a tournament's agents that can play, and the problems of the other agents.

    Each agent is named after its pupil. `saved_identities`, by name, are those of the agents that
    have already played; an agent whose identity has changed cannot play.
    """
    game = parse_game(tournament.game)
    agents, problems = [], []
    for name, spec in tournament.agents.items():
        try:
            agent = replace(find_agent(spec, game, folders), name=name)
        except UserError as error:
            problems.append(f"{name} was left out: {error}")
            continue
        if saved_identities.get(name, agent.identity) == agent.identity:
            agents.append(agent)
        else:
            problems.append(f"{name} was left out: {quoted(spec)} has changed")
    return agents, problems


def _end(pool: ProcessPool | None) -> None:
    if pool is not None:
        pool.stop()  # type: ignore[no-untyped-call]
        pool.join(timeout=_JOIN_SECONDS)
