"""The tournaments of a study, played slice by slice by its workers."""

from __future__ import annotations

from contextlib import ExitStack

from zerolab.core.config import validate
from zerolab.core.errors import UserError
from zerolab.play.schedule import ScheduledGame
from zerolab.play.tournament import Tournament, TournamentSettings
from zerolab.store.games import GameRecord
from zerolab.studies.design import PlannedTournament
from zerolab.studies.engine.estimate import tournament_seconds
from zerolab.studies.engine.layout import Failures, StudyFolder
from zerolab.studies.engine.tasks import Entrant, SliceTask, entrant_agent

_SEED = 0
"""Of all random streams of the games."""


class TournamentWork:
    """A tournament under way; `stack` ends the lock on its folder."""

    def __init__(self, folder: StudyFolder, planned: PlannedTournament, stack: ExitStack) -> None:
        self.planned = planned
        self.games = planned.pairs * planned.games
        self.games_left = self.games
        self.seconds = tournament_seconds(planned)
        self._path = folder.tournament_path(planned)
        self._entrants = {
            name: Entrant(name, str(folder.run_path(run)), planned.options, planned.after.get(name))
            for name, run in planned.entrants.items()
        }
        self._stack = stack
        self._tournament: Tournament | None = None
        self._slices: list[tuple[int, list[ScheduledGame]]] = []
        self.failures: Failures = {}
        """By title, if what is stored of it is damaged."""
        try:
            if saved := Tournament.saved(self._path) if self._path.is_dir() else None:
                self.games_left = saved.games_left()
        except UserError as error:
            self.failures[self.title] = str(error).splitlines()

    @property
    def title(self) -> str:
        """What people call it."""
        return f"{self.planned.part}: games{f' {self.planned.name}' if self.planned.name else ''}"

    @property
    def seconds_left(self) -> float:
        """About how long the rest takes on one core."""
        return self.seconds * self.games_left / max(1, self.games)

    def next(self) -> SliceTask | None:
        """Return the next slice to play, if one is left; all players must be trained.

        Raises UserError if the folder holds another tournament.
        """
        if not self.games_left:
            return None
        if self._tournament is None:
            self._begin()
        if not self._slices:
            return None
        number, games = self._slices.pop(0)
        names = {name for game in games for name in (game.first, game.second)}
        return SliceTask(
            title=f"{self.title}, slice {number}",
            tournament=self.planned.key,
            game=self.planned.game,
            entrants=[self._entrants[name] for name in sorted(names)],
            games=games,
            openings=self.planned.openings,
            seed=_SEED,
        )

    def _begin(self) -> None:
        """Begin the tournament or go on with it; raise UserError if it was another one."""
        for spec in self.planned.agents:
            agent = entrant_agent(Entrant(spec), self.planned.game)
            self._entrants[agent.name] = Entrant(agent.name)
        agents = [entrant_agent(each, self.planned.game) for each in self._entrants.values()]
        settings = {
            "game": self.planned.game,
            "games": self.planned.games,
            "openings": self.planned.openings,
            "seed": _SEED,
            "players": {agent.name: agent.identity for agent in agents},
        }
        locked = Tournament.locked(self._path, validate(TournamentSettings, settings))
        self._tournament = self._stack.enter_context(locked)
        self._slices = self._tournament.slices_left()
        self.games_left = self._tournament.games_left()

    def record(self, games: list[GameRecord]) -> None:
        """Store the games of a slice."""
        assert self._tournament is not None
        self.games_left -= self._tournament.record(games)
