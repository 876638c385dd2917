"""Tournament of a class, played in a separate process.

The process stores the games of each pair as they finish. If it or the server is killed, the next
server continues with the games that are not stored.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from pebble import ProcessPool

from zerolab.agents.agent import Agent
from zerolab.core.errors import UserError, quoted
from zerolab.core.files import make_folder
from zerolab.core.processes import process_pool
from zerolab.play.tournament import Tournament, TournamentSettings, play_slice
from zerolab.rules.catalogue import parse_game
from zerolab.web.classroom import Classroom, ClassTournament
from zerolab.web.folders import Folders
from zerolab.web.live_search import find_agent
from zerolab.web.requests import error_message

_NICENESS = 10  # pages take precedence over the tournament
_JOIN_SECONDS = 5
_PAIRS_AT_ONCE = 12


class ClassPlay:
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
        """Continue the tournament that was being played when the server ended, if any."""
        tournament = self._classroom.record.tournament
        if tournament is not None and tournament.is_playing:
            self.play(tournament)

    def play(self, tournament: ClassTournament) -> None:
        """Play the remaining games of a tournament; raise UserError if one is being played."""
        with self._classroom.lock, self._lock:
            if self._pool is not None:
                raise UserError("the tournament is already being played: stop it first")
            self.problem = ""
            tournament = tournament.model_copy(update={"is_playing": True})
            self._classroom.change(tournament=tournament)
            self._pool = pool = process_pool(1, __name__)
        folder = self._classroom.tournament_folder(tournament.number)
        future = pool.schedule(play_tournament, args=[folder, tournament, self._folders])
        future.add_done_callback(partial(self._finish, pool))

    def stop(self) -> None:
        """Stop the tournament; the games of unfinished pairs are played again later."""
        self.close()
        tournament = self._classroom.record.tournament
        if tournament is not None:
            stopped = tournament.model_copy(update={"is_playing": False})
            self._classroom.change(tournament=stopped)

    def close(self) -> None:
        """End the process; the next server continues the tournament."""
        with self._lock:
            pool, self._pool = self._pool, None
        _end(pool)

    def _finish(self, pool: ProcessPool, future: Future[Any]) -> None:
        """Record the end of a tournament that nobody has stopped."""
        with self._lock:
            if self._pool is not pool:
                return
            self._pool = None
        if error := future.exception():
            assert isinstance(error, Exception)
            self.problem = error_message(error)
        else:
            self.problem = future.result()
        tournament = self._classroom.record.tournament
        assert tournament is not None
        self._classroom.change(tournament=tournament.model_copy(update={"is_playing": False}))
        threading.Thread(target=_end, args=[pool], daemon=True).start()


def play_tournament(folder: Path, tournament: ClassTournament, folders: Folders) -> str:
    """Play the remaining games of a tournament; return who was left out and why, or "".

    Agents that cannot play any more are left out. Raise UserError if fewer than two can. Pairs are
    played in a random order, a few at a time, so that the standings soon include all pupils and
    change often. One thread plays, which leaves other cores to pages.
    """
    with suppress(OSError, AttributeError):
        os.nice(_NICENESS)
    stored = Tournament.load(folder) if folder.is_dir() else None
    agents, problems = class_agents(tournament, folders, stored.settings.players if stored else {})
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


def class_agents(
    tournament: ClassTournament, folders: Folders, identities: Mapping[str, str]
) -> tuple[list[Agent], list[str]]:
    """Return the agents of a tournament that can play, and the problems of the others.

    Each agent has the name of its pupil. `identities` are those of the agents that have played.
    """
    game = parse_game(tournament.game)
    agents, problems = [], []
    for name, spec in tournament.agents.items():
        try:
            agent = replace(find_agent(spec, game, folders), name=name)
        except UserError as error:
            problems.append(f"{name} was left out: {error}")
            continue
        if identities.get(name, agent.identity) == agent.identity:
            agents.append(agent)
        else:
            problems.append(f"{name} was left out: {quoted(spec)} has changed")
    return agents, problems


def _end(pool: ProcessPool | None) -> None:
    if pool is not None:
        pool.stop()  # type: ignore[no-untyped-call]
        pool.join(timeout=_JOIN_SECONDS)
