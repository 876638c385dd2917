"""A league in its folder, resumed after an interruption.

``league.toml`` holds the settings, ``games.sqlite`` the games, and ``population.safetensors`` the
state of the league, replaced in one step after every batch of games.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.specs import parse_agent
from zerolab.core.config import assign, parse_assignments, validate
from zerolab.core.errors import UserError, quoted
from zerolab.league.league_settings import SPEED_ALONE, LeagueSettings
from zerolab.league.playing import play_league_games
from zerolab.league.population import (
    Population,
    count_games,
    draw_pairs,
    first_generation,
    new_positions,
    next_generation,
    novelty_credits,
    rate_novelty,
    rate_results,
)
from zerolab.play.game_files import ReachedPositions, reached_positions
from zerolab.play.selfplay import SelfPlayResult
from zerolab.rules import rules
from zerolab.rules.catalogue import game_name
from zerolab.rules.rules import Game
from zerolab.search.evaluator import Evaluator, UniformEvaluator
from zerolab.store.arrays import load_arrays, save_arrays
from zerolab.store.checks import reading
from zerolab.store.folder import FolderKind
from zerolab.store.games import GameRecord, GameStore

_OPTIONS = {
    "game": "GAME", "seed": "--seed", "network": "--agent", "identity": "--agent"
}  # fmt: skip
"""Settings given by other options than --set."""


class LeagueNetwork(NamedTuple):
    """Network with which all individuals of a league search."""

    evaluator: Callable[[], Evaluator]
    """Loads the network."""
    name: str = ""
    """``runs/demo@12``; empty without a network."""
    identity: str = ""
    """Identity of the weights."""
    settings: dict[str, Any] | None = None
    """Settings of the network."""
    predicts_draws: bool = False
    """True if one of its heads predicts the probability of a draw."""


def league_network(spec: str | None, game: Game) -> LeagueNetwork:
    """Return the network of the run that `spec` names, or equal priors if it is None.

    Raises UserError for agents without a network, for search options, since these are the league's,
    and for networks of other games.
    """
    if spec is None:
        return LeagueNetwork(lambda: UniformEvaluator(rules.actions(game)))
    agent = parse_agent(spec, game)
    if agent.evaluator is None or agent.network is None:
        raise UserError(f"{agent.name} has no network: expected a run such as runs/demo@12")
    if "?" in agent.name:
        raise UserError(
            f"{agent.name}: a league has its own search settings; expected a run such as"
            " runs/demo@12, and --set search.KEY=VALUE"
        )
    predicts_draws = any("draws" in head.outputs for head in agent.network.heads)
    return LeagueNetwork(
        agent.evaluator, agent.name, agent.identity, agent.network.model_dump(), predicts_draws
    )


def resolve_settings(
    game: Game, network: LeagueNetwork, seed: int, assignments: Sequence[str]
) -> LeagueSettings:
    """Return the settings of a league; raise UserError for every mistake.

    Without a network, leaves are evaluated by playouts unless assignments change that. The draw
    value is among the parameters if the network predicts draws.
    """
    default = LeagueSettings(game=game_name(game))
    data = default.model_dump(include={"search", "clock", "ranges"})
    data |= {"game": game_name(game), "seed": seed}
    data |= {"network": network.name, "identity": network.identity}
    if network.predicts_draws:
        data["parameters"] = [*default.parameters, "draw_value"]
    if not network.name:
        data["search"]["leaf_evaluator"] = {"name": "playout"}
    for path, value in parse_assignments(assignments):
        if path[0] in _OPTIONS:
            raise UserError(f"{path[0]} is set by another option: expected {_OPTIONS[path[0]]}")
        assign(data, path, value)
    settings = validate(LeagueSettings, data)
    if "draws" in settings.extra_outputs and not network.predicts_draws:
        owner = network.name or "a search without a network"
        asked = quoted("draw_value")
        raise UserError(
            f"parameters = {asked}: {owner} does not predict draws; expected a network"
            ' with the head "outcome"'
        )
    return settings


LEAGUE = FolderKind("league", "league.toml", "--out")

_KIND = "league"
_STATE = "population.safetensors"
_POPULATION = ("values", "sigmas", "ratings", "games", "points", "generations", "parents")

Progress = Callable[["LeagueState", int, str], object]
"""Called with the league as last saved, the number of finished games, and a note to show."""


@dataclass
class LeagueState:
    """Progress of a league: its population and the games played."""

    population: Population
    played: int = 0
    """Games played."""
    stages: int = 0
    """Batches of games in the file of games."""
    seen: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))
    """uint64[S]: sorted hashes of the positions of all games, if fitness is novelty."""

    def rate(
        self,
        settings: LeagueSettings,
        met: NDArray[np.int64],
        results: NDArray[np.int8],
        found: ReachedPositions | None = None,
    ) -> None:
        """Rate individuals by the results of the next games, int8[games] for the first players.

        `met`, int64[games, 2], are the individuals that played them, all in one generation. Their
        positions, `found`, are needed if fitness is novelty. After the last game of a generation,
        the next one is born.
        """
        count_games(self.population, met, results)
        if settings.fitness == "results":
            rate_results(self.population, settings, met, results)
        else:
            assert found is not None
            counts, self.seen = new_positions(found, len(met), self.seen)
            earned = novelty_credits(counts, results, settings.fitness == "novelty_of_winner")
            rate_novelty(self.population, settings, met, earned)
        self.played += len(met)
        if self.played % settings.generation == 0:
            self.population = next_generation(self.population, settings)

    def rate_records(
        self,
        game: Game,
        settings: LeagueSettings,
        met: NDArray[np.int64],
        games: Sequence[GameRecord],
    ) -> None:
        """Rate individuals by the records of the next games; see `rate`."""
        results = np.array([each.result for each in games], np.int8)
        found = None if settings.fitness == "results" else reached_positions(game, games)
        self.rate(settings, met, results, found)

    def next_games(self, settings: LeagueSettings, total: int) -> range:
        """Return the numbers of the games up to the next save, of `total` games in all."""
        into = self.played % settings.generation
        end = min(into + settings.batch, settings.generation) - into + self.played
        return range(self.played, min(end, total))


class League:
    """A league in its folder; everything that writes happens within `locked`."""

    def __init__(self, path: Path, settings: LeagueSettings) -> None:
        self.path = path
        self.settings = settings
        self.games = GameStore(path / "games.sqlite")
        self.state = LeagueState(first_generation(settings))

    @classmethod
    def saved(cls, path: Path) -> League | None:
        """Return the league in a folder, None without one; raise UserError if it is damaged."""
        if not path.is_dir() or not LEAGUE.is_in(path):
            return None
        source = str(path / LEAGUE.settings_file)
        league = cls(path, validate(LeagueSettings, LEAGUE.read_settings(path), source))
        if (path / _STATE).exists():
            league.state = _load(path / _STATE)
        return league

    @classmethod
    @contextmanager
    def locked(cls, path: Path, settings: LeagueSettings) -> Iterator[League]:
        """Begin or resume a league.

        Raises UserError if another process works on it, if settings differ other than those that
        change the speed alone, or if the folder holds something else.
        """
        with LEAGUE.locked(path):
            league = cls.saved(path)
            if league is None:
                LEAGUE.write_settings(path, settings.model_dump())
                league = cls(path, settings)
            else:
                former, wanted = league.settings.model_dump(), settings.model_dump()
                LEAGUE.require_equal(path, former, wanted, SPEED_ALONE)
                league.settings = settings
            league.games.rewind(league.state.stages)
            yield league

    def play(
        self,
        game: Game,
        evaluator: Evaluator,
        total: int,
        progress: Progress = lambda state, done, note: None,
        watch: Callable[[SelfPlayResult], object] = lambda episodes: None,
    ) -> None:
        """Play until the league has `total` games; `watch` gets every batch with its examples.

        After an exception, such as KeyboardInterrupt in `progress`, saved batches stay saved.
        Raises UserError for an odd number of games where fitness is novelty.
        """
        settings = self.settings
        if settings.fitness != "results" and total % 2:
            raise UserError(
                f"games = {total} is odd: expected an even number, since novelty compares two games"
            )
        began, first = time.monotonic(), self.state.played
        while numbers := self.state.next_games(settings, total):
            met = draw_pairs(self.state.population, settings, numbers)
            before = self.state.played

            def report(games: int, before: int = before) -> None:
                minutes = max(1e-9, time.monotonic() - began) / 60
                rate = (before + games - first) / minutes
                progress(self.state, before + games, f"{rate:,.0f} games/min")

            episodes = play_league_games(
                game, settings, evaluator, self.state.population, met, numbers.start,
                lambda done, report=report: report(done.games),  # type: ignore[misc]
            )  # fmt: skip
            self._commit(game, met, episodes.games)
            watch(episodes)

    def _commit(self, game: Game, met: NDArray[np.int64], games: Sequence[GameRecord]) -> None:
        """Rate games and save: first the games, then the state, which holds how many count."""
        state = self.state
        self.games.record(state.population.generation, f"from {state.played}", games)
        state.rate_records(game, self.settings, met, games)
        state.stages += 1
        _save(self.path / _STATE, state)


def _save(path: Path, state: LeagueState) -> None:
    population = state.population
    arrays = {name: getattr(population, name) for name in _POPULATION}
    arrays |= {"active": np.stack(population.active), "seen": state.seen}
    save_arrays(path, _KIND, arrays, played=state.played, stages=state.stages)


def _load(path: Path) -> LeagueState:
    arrays, about = load_arrays(path, _KIND)
    with reading(path):
        kept = {name: arrays[name] for name in _POPULATION}
        population = Population(**kept, active=list(arrays["active"]))
        return LeagueState(population, int(about["played"]), int(about["stages"]), arrays["seen"])
