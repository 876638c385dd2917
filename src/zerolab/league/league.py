"""Leagues stored in folders, so that interrupted leagues can be resumed.

``league.toml`` contains the settings and ``games.sqlite`` the games. ``population.safetensors``
contains the state of the league and is replaced atomically after every batch of games. The league
of a training run is reconstructed from the run's settings and games.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.specs import parse_agent
from zerolab.core.config import validate
from zerolab.core.errors import UserError, quoted
from zerolab.core.nested_tables import assign, flatten, parse_assignments
from zerolab.league.league_settings import (
    CHANGEABLE_LEAGUE_SETTINGS,
    LeagueSettings,
    require_effects,
)
from zerolab.league.playing import play_league_games, player_number
from zerolab.league.population import (
    COLUMN_NAMES,
    Population,
    check_population,
    count_new_positions,
    draw_pairs,
    first_generation,
    next_generation,
    novelty_credits,
    rate_by_novelty,
    rate_by_results,
    update_totals,
)
from zerolab.play.executors import THREAD_EXECUTOR, Executor, PlayProgress, PlayProgressCallback
from zerolab.play.game_files import ReachedPositions, reached_positions
from zerolab.play.selfplay import SelfPlayResult, merge_results
from zerolab.rules import rules
from zerolab.rules.catalogue import game_name, parse_game
from zerolab.rules.rules import Game
from zerolab.search.evaluator import Evaluator, UniformEvaluator
from zerolab.store.arrays import load_arrays, save_arrays
from zerolab.store.checks import damaged_file_error, user_errors_on_read
from zerolab.store.folder import FolderKind
from zerolab.store.games import GAMES_FILE_NAME, SELF_PLAY_STAGE, GameRecord, GameStore

_OPTIONS = {
    "game": "GAME", "seed": "--seed", "network": "--agent", "identity": "--agent"
}  # fmt: skip
"""Settings with a separate command-line option instead of --set."""


class LeagueNetwork(NamedTuple):
    """Network shared by all players of a league."""

    load_evaluator: Callable[[], Evaluator]
    """Function that loads the network."""
    name: str = ""
    """Canonical name, such as ``runs/demo@12``; empty if there is no network."""
    identity: str = ""
    """Identity of the run's agent, which depends on the network's weights."""
    network_settings: dict[str, Any] | None = None
    """Network settings; None if there is no network."""
    predicts_draws: bool = False
    """True if a head predicts the probability of a draw."""


def league_network(spec: str | None, game: Game) -> LeagueNetwork:
    """Return the network of the run named by `spec`; if `spec` is None, all priors are equal.

    Raises UserError for agents without a network, for networks for other games, and for search
    options in the spec, because a league has separate search settings.
    """
    if spec is None:
        return LeagueNetwork(lambda: UniformEvaluator(rules.action_count(game)))
    agent = parse_agent(spec, game)
    if agent.load_evaluator is None or agent.network_settings is None:
        raise UserError(f"{agent.name} has no network: expected a run such as runs/demo@12")
    if "?" in agent.name:
        raise UserError(
            f"{agent.name}: options do not apply to a league; expected a run such as runs/demo@12,"
            " and --set search.KEY=VALUE"
        )
    predicts_draws = any("draws" in head.evaluator_outputs for head in agent.network_settings.heads)
    return LeagueNetwork(
        agent.load_evaluator,
        agent.name,
        agent.identity,
        agent.network_settings.model_dump(),
        predicts_draws,
    )


def resolve_settings(
    game: Game, network: LeagueNetwork, seed: int, assignments: Sequence[str]
) -> LeagueSettings:
    """Return the settings of a league; raise UserError for invalid assignments.

    Without a network, leaves are evaluated with playouts by default. If the network predicts draws,
    the default parameters include the draw value.
    """
    default = LeagueSettings(game=game_name(game))
    data = default.model_dump(include={"search", "clock", "ranges"})
    data |= {"game": game_name(game), "seed": seed}
    data |= {"network": network.name, "identity": network.identity}
    if network.predicts_draws:
        data["parameters"] = [*default.parameters, "draw_value"]
    if not network.name:
        data["search"]["leaf_evaluator"] = {"name": "playout"}
    assigned = parse_assignments(assignments)
    for path, value in assigned:
        if path[0] in _OPTIONS:
            raise UserError(f"--set {path[0]} is not supported: expected {_OPTIONS[path[0]]}")
        assign(data, path, value)
    settings = validate(LeagueSettings, data)
    tables = ({".".join(path): value} for path, value in assigned)
    require_effects(settings, (key for table in tables for key, _ in flatten(table)))
    if "draws" in settings.extra_outputs and not network.predicts_draws:
        source = network.name or "a search without a network"
        raise UserError(
            f"parameters = {quoted('draw_value')}: {source} does not predict draws; expected a"
            ' network with an "outcome" head'
        )
    return settings


LEAGUE_FOLDER_KIND = FolderKind("league", "league.toml", "--out")

_KIND = "league"
_STATE = "population.safetensors"

LeagueProgressCallback = Callable[["LeagueState", int, str], object]
"""Callback that receives the last saved state, the number of finished games, and a note."""


@dataclass
class LeagueState:
    """State of a league: population and progress."""

    population: Population
    game_count: int = 0
    """Number of games played."""
    batch_count: int = 0
    """Number of batches in the game store."""
    seen_hashes: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))
    """uint64[S]: sorted hashes of the positions in all games, if fitness is based on novelty."""

    def rate_games(
        self,
        settings: LeagueSettings,
        pairs: NDArray[np.int64],
        results: NDArray[np.int8],
        positions: ReachedPositions | None = None,
    ) -> None:
        """Rate players by the results of the next games.

        `pairs`, int64[games, 2], are the players, and `results`, int8[games], are from the first
        players' point of view. All games must be in one generation; after its last game, the next
        generation is created. `positions` are required if fitness is based on novelty.
        """
        update_totals(self.population, pairs, results)
        if settings.fitness == "results":
            rate_by_results(self.population, settings, pairs, results)
        else:
            assert positions is not None
            counts, self.seen_hashes = count_new_positions(positions, len(pairs), self.seen_hashes)
            credits = novelty_credits(counts, results, settings.fitness == "novelty_of_winner")
            rate_by_novelty(self.population, settings, pairs, credits)
        self.game_count += len(pairs)
        if self.game_count % settings.generation == 0:
            self.population = next_generation(self.population, settings)

    def rate_records(
        self,
        game: Game,
        settings: LeagueSettings,
        pairs: NDArray[np.int64],
        games: Sequence[GameRecord],
    ) -> None:
        """Rate players by the records of the next games; see `rate_games`."""
        results = np.array([each.result for each in games], np.int8)
        positions = None if settings.fitness == "results" else reached_positions(game, games)
        self.rate_games(settings, pairs, results, positions)

    def next_game_numbers(self, settings: LeagueSettings, total: int) -> range:
        """Return the game numbers of the next batch in a league of `total` games."""
        played_in_generation = self.game_count % settings.generation
        remaining = settings.generation - played_in_generation
        return range(self.game_count, min(self.game_count + min(settings.batch, remaining), total))


class League:
    """A league stored in a folder; writing requires the `open_locked` context manager."""

    def __init__(self, path: Path, settings: LeagueSettings) -> None:
        self.path = path
        self.settings = settings
        self.store = GameStore(path / GAMES_FILE_NAME)
        self.state = LeagueState(first_generation(settings))

    @classmethod
    def load(cls, path: Path) -> League | None:
        """Return the league stored in a folder, or None; raise UserError if it is damaged."""
        if not path.is_dir() or not LEAGUE_FOLDER_KIND.matches(path):
            return None
        source = str(path / LEAGUE_FOLDER_KIND.settings_file)
        league = cls(path, validate(LeagueSettings, LEAGUE_FOLDER_KIND.read_settings(path), source))
        if (path / _STATE).exists():
            league.state = _load(path / _STATE, len(league.settings.parameters))
        elif len(league.store.stages()) > 1:  # one stage may precede the first state
            raise UserError(f"{path / _STATE} is missing; restore it from a backup")
        return league

    @classmethod
    @contextmanager
    def open_locked(cls, path: Path, settings: LeagueSettings) -> Iterator[League]:
        """Begin or resume a league.

        Raises UserError if another process is using the league, if settings other than
        `CHANGEABLE_LEAGUE_SETTINGS` differ, or if the folder contains anything other than a league.
        """
        with LEAGUE_FOLDER_KIND.locked(path):
            league = cls.load(path)
            if league is None:
                LEAGUE_FOLDER_KIND.write_settings(path, settings.model_dump())
                league = cls(path, settings)
            else:
                saved, requested = league.settings.model_dump(), settings.model_dump()
                LEAGUE_FOLDER_KIND.require_equal_settings(
                    path, saved, requested, CHANGEABLE_LEAGUE_SETTINGS
                )
                league.settings = settings
            league.store.rewind(league.state.batch_count)
            yield league

    def play(
        self,
        game: Game,
        evaluator: Evaluator,
        total: int,
        progress: LeagueProgressCallback = lambda state, done, note: None,
        on_batch: Callable[[SelfPlayResult], object] = lambda episodes: None,
    ) -> None:
        """Play until the league has `total` games; `on_batch` receives each batch with examples.

        Finished batches are saved even after an exception, such as KeyboardInterrupt in `progress`.
        Raises UserError for an odd number of games if fitness is based on novelty.
        """
        settings = self.settings
        check_game_count(settings, total)
        start, first = time.monotonic(), self.state.game_count
        while numbers := self.state.next_game_numbers(settings, total):
            pairs = draw_pairs(self.state.population, settings, numbers)
            before = self.state.game_count

            def report(part: PlayProgress, before: int = before) -> None:
                done = before + part.game_count
                minutes = max(1e-9, time.monotonic() - start) / 60
                progress(self.state, done, f"{(done - first) / minutes:,.0f} games/min")

            episodes = play_league_games(
                game, settings, evaluator, self.state.population, pairs, numbers.start, report
            )
            self._commit(game, pairs, episodes.games)
            on_batch(episodes)

    def _commit(self, game: Game, pairs: NDArray[np.int64], games: Sequence[GameRecord]) -> None:
        """Save and rate games; then save the state, which determines how many games are valid."""
        state = self.state
        self.store.write_stage(state.population.generation, f"from {state.game_count}", games)
        state.rate_records(game, self.settings, pairs, games)
        state.batch_count += 1
        _save(self.path / _STATE, state)


def check_game_count(settings: LeagueSettings, total: int) -> None:
    """Raise UserError if a league with these settings cannot have `total` games."""
    if settings.fitness != "results" and total % 2:
        raise UserError(
            f"games = {total} is odd: expected an even number, because novelty compares games in"
            " pairs"
        )


def _save(path: Path, state: LeagueState) -> None:
    population = state.population
    arrays = {name: getattr(population, name) for name in COLUMN_NAMES}
    arrays |= {"active": np.stack(population.active), "seen": state.seen_hashes}
    save_arrays(path, _KIND, arrays, played=state.game_count, stages=state.batch_count)


def _load(path: Path, parameter_count: int) -> LeagueState:
    arrays, metadata = load_arrays(path, _KIND)
    with user_errors_on_read(path):
        columns = {name: arrays[name] for name in COLUMN_NAMES}
        population = Population(**columns, active=list(arrays["active"]))
        check_population(population, parameter_count)
        return LeagueState(
            population, int(metadata["played"]), int(metadata["stages"]), arrays["seen"]
        )


class LeagueSelfPlayResult(NamedTuple):
    """The games of an iteration, and the generation in which the last game was played."""

    selfplay: SelfPlayResult
    generation: int


class ReconstructedLeague:
    """The league of a run, reconstructed from the settings and the stored games.

    Each game is read once: an iteration reads the games of the previous iteration, and a resumed
    run starts by reading all games.
    """

    def __init__(self, store: GameStore, settings: LeagueSettings) -> None:
        self.settings = settings
        self.game = parse_game(settings.game)
        self._store = store
        self._reset()

    def _reset(self) -> None:
        self._state = LeagueState(first_generation(self.settings))
        self._next_iteration = 1  # the first iteration with unread games

    def state_before(self, iteration: int) -> LeagueState:
        """Return a copy of the league's state before the first game of an iteration.

        Raises UserError if the stored games do not match the pairings of the league.
        """
        if iteration < self._next_iteration:
            self._reset()
        while self._next_iteration < iteration:
            self._replay(self._store.stage_games(self._next_iteration, SELF_PLAY_STAGE))
            self._next_iteration += 1
        return deepcopy(self._state)

    def _replay(self, games: Sequence[GameRecord]) -> None:
        state = self._state
        while games and (
            numbers := state.next_game_numbers(self.settings, state.game_count + len(games))
        ):
            batch, games = games[: len(numbers)], games[len(numbers) :]
            pairs = draw_pairs(state.population, self.settings, numbers)
            try:
                players = [[player_number(name) for name in game[1:3]] for game in batch]
            except ValueError as error:
                raise damaged_file_error(self._store.path, error) from None
            if players != pairs.tolist():
                reason = f"games of iteration {self._next_iteration} belong to a different league"
                raise damaged_file_error(self._store.path, reason)
            state.rate_records(self.game, self.settings, pairs, batch)


def play_league_iteration(
    league: ReconstructedLeague,
    state: LeagueState,
    game_count: int,
    evaluator: Evaluator,
    iteration: int,
    report: PlayProgressCallback,
    *,
    executor: Executor = THREAD_EXECUTOR,
    chunks: int | None = None,
) -> LeagueSelfPlayResult:
    """Play the next `game_count` games of a league in an iteration, and update `state`."""
    settings = league.settings
    generation = state.population.generation
    end = state.game_count + game_count
    parts: list[SelfPlayResult] = []
    begin = 0
    while numbers := state.next_game_numbers(settings, end):
        generation = state.population.generation
        pairs = draw_pairs(state.population, settings, numbers)
        plies = sum(part.searched_move_count for part in parts)

        def report_part(part: PlayProgress, begin: int = begin, plies: int = plies) -> None:
            played = plies + part.ply_count
            report(part._replace(game_count=begin + part.game_count, ply_count=played))

        parts.append(
            play_league_games(
                league.game, settings, evaluator, state.population, pairs, begin, report_part,
                iteration=iteration, executor=executor, chunks=chunks,
            )
        )  # fmt: skip
        state.rate_records(league.game, settings, pairs, parts[-1].games)
        begin += len(numbers)
    return LeagueSelfPlayResult(merge_results(parts), generation)
