"""A league in its folder, resumed after an interruption.

``league.toml`` says who plays, ``players.safetensors`` is how far the league has come, and replaced
in one step after every batch of games; ``games.sqlite`` holds the games.
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
"""Settings that are given otherwise than by --set."""


class LeagueNetwork(NamedTuple):
    """What all players of a league search with."""

    evaluator: Callable[[], Evaluator]
    """Loads the network."""
    name: str = ""
    """``runs/demo@12``; empty without a network."""
    identity: str = ""
    """That of the weights."""
    settings: dict[str, Any] | None = None
    """Those of the network."""
    says_draws: bool = False
    """Whether one of its heads says how likely draws are."""


def league_network(spec: str | None, game: Game) -> LeagueNetwork:
    """Return the network of a run that `spec` names, or equal priors where it is None.

    Raises UserError for agents without a network, for search options, which are the league's, and
    for networks of other games.
    """
    if spec is None:
        return LeagueNetwork(lambda: UniformEvaluator(rules.actions(game)))
    agent = parse_agent(spec, game)
    if agent.evaluator is None or agent.network is None:
        raise UserError(f"{agent.name} has no network: expected a run such as runs/demo@12")
    if "?" in agent.name:
        raise UserError(
            f"{agent.name}: the searches of a league are its own; expected a run such as"
            " runs/demo@12, and --set search.KEY=VALUE"
        )
    says_draws = any("draws" in head.outputs for head in agent.network.heads)
    return LeagueNetwork(
        agent.evaluator, agent.name, agent.identity, agent.network.model_dump(), says_draws
    )


def resolve_settings(
    game: Game, network: LeagueNetwork, seed: int, assignments: Sequence[str]
) -> LeagueSettings:
    """Return the settings of a league; raise UserError for every mistake.

    Without a network, leaves are played out unless assignments say otherwise. The draw value is
    among the parameters where the network says how likely draws are.
    """
    default = LeagueSettings(game=game_name(game))
    data = default.model_dump(include={"search", "clock", "ranges"})
    data |= {"game": game_name(game), "seed": seed}
    data |= {"network": network.name, "identity": network.identity}
    if network.says_draws:
        data["parameters"] = [*default.parameters, "draw_value"]
    if not network.name:
        data["search"]["leaf_evaluator"] = {"name": "playout"}
    for path, value in parse_assignments(assignments):
        if path[0] in _OPTIONS:
            raise UserError(f"{path[0]} has an option of its own: expected {_OPTIONS[path[0]]}")
        assign(data, path, value)
    settings = validate(LeagueSettings, data)
    if "draws" in settings.extra_outputs and not network.says_draws:
        owner = network.name or "a search without a network"
        asked = quoted("draw_value")
        raise UserError(
            f"parameters = {asked}: {owner} does not know how likely draws are; expected a network"
            ' with the head "outcome"'
        )
    return settings


LEAGUE = FolderKind("league", "league.toml", "--out")

_KIND = "league"
_STATE = "players.safetensors"
_POPULATION = ("values", "sigmas", "ratings", "games", "points", "generations", "parents")

Progress = Callable[["LeagueState", int, str], object]
"""Takes the league as it was last saved, the games that are over, and what else is worth saying."""


@dataclass
class LeagueState:
    """How far a league has come."""

    players: Population
    played: int = 0
    """Games."""
    stages: int = 0
    """Batches of games that the file of games has."""
    seen: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))
    """uint64[S]: sorted hashes of the positions of all games, where fitness is novelty."""

    def rate(
        self,
        settings: LeagueSettings,
        met: NDArray[np.int64],
        results: NDArray[np.int8],
        found: ReachedPositions | None = None,
    ) -> None:
        """Take in the results int8[games] of the next games, those of the first players.

        `met` int64[games, 2] played them, all in one generation. Their positions, `found`, are
        needed where fitness is novelty. Once the generation has played its games, the next one is
        born.
        """
        count_games(self.players, met, results)
        if settings.fitness == "results":
            rate_results(self.players, settings, met, results)
        else:
            assert found is not None
            counts, self.seen = new_positions(found, len(met), self.seen)
            earned = novelty_credits(counts, results, settings.fitness == "novelty_of_winner")
            rate_novelty(self.players, settings, met, earned)
        self.played += len(met)
        if self.played % settings.generation == 0:
            self.players = next_generation(self.players, settings)

    def take_in(
        self,
        game: Game,
        settings: LeagueSettings,
        met: NDArray[np.int64],
        games: Sequence[GameRecord],
    ) -> None:
        """Take in the next games as they were recorded; see `rate`."""
        results = np.array([each.result for each in games], np.int8)
        found = None if settings.fitness == "results" else reached_positions(game, games)
        self.rate(settings, met, results, found)

    def next_games(self, settings: LeagueSettings, total: int) -> range:
        """Return the numbers of the games up to the next save, `total` being those of all."""
        into = self.played % settings.generation
        end = min(into + settings.batch, settings.generation) - into + self.played
        return range(self.played, min(end, total))


class League:
    """A league's folder; hold `locked` around everything that writes."""

    def __init__(self, path: Path, settings: LeagueSettings) -> None:
        self.path = path
        self.settings = settings
        self.games = GameStore(path / "games.sqlite")
        self.state = LeagueState(first_generation(settings))

    @classmethod
    def saved(cls, path: Path) -> League | None:
        """Return the league in a folder, if there is one; raise UserError if it is damaged."""
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
        """Begin a league, or go on with one.

        Raises UserError if another process is at work on it, if it has other settings than those
        that change the speed alone, or if the folder holds something else.
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
        """Play until the league has had `total` games; `watch` gets every batch with its examples.

        An exception, such as KeyboardInterrupt in `progress`, ends early; what has been saved stays
        so. Raises UserError for an odd number of games where fitness is novelty.
        """
        settings = self.settings
        if settings.fitness != "results" and total % 2:
            raise UserError(
                f"games = {total} is odd: expected an even number, since novelty compares two games"
            )
        began, first = time.monotonic(), self.state.played
        while numbers := self.state.next_games(settings, total):
            met = draw_pairs(self.state.players, settings, numbers)
            before = self.state.played

            def report(games: int, before: int = before) -> None:
                minutes = max(1e-9, time.monotonic() - began) / 60
                rate = (before + games - first) / minutes
                progress(self.state, before + games, f"{rate:,.0f} games/min")

            episodes = play_league_games(
                game, settings, evaluator, self.state.players, met, numbers.start,
                lambda done, report=report: report(done.games),  # type: ignore[misc]
            )  # fmt: skip
            self._commit(game, met, episodes.games)
            watch(episodes)

    def _commit(self, game: Game, met: NDArray[np.int64], games: Sequence[GameRecord]) -> None:
        """Take in games and save: first the games, then the state, which says how many count."""
        state = self.state
        self.games.record(state.players.generation, f"from {state.played}", games)
        state.take_in(game, self.settings, met, games)
        state.stages += 1
        _save(self.path / _STATE, state)


def _save(path: Path, state: LeagueState) -> None:
    players = state.players
    arrays = {name: getattr(players, name) for name in _POPULATION}
    arrays |= {"active": np.stack(players.active), "seen": state.seen}
    save_arrays(path, _KIND, arrays, played=state.played, stages=state.stages)


def _load(path: Path) -> LeagueState:
    arrays, about = load_arrays(path, _KIND)
    with reading(path):
        kept = {name: arrays[name] for name in _POPULATION}
        players = Population(**kept, active=list(arrays["active"]))
        return LeagueState(players, int(about["played"]), int(about["stages"]), arrays["seen"])
