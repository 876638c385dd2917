"""Settings of self-play and its modes, with values from the papers."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Literal

from pydantic import Field, model_validator

from zerolab.core.config import Settings, VariantSettings, variant_annotation
from zerolab.core.errors import UserError, quoted
from zerolab.core.processes import available_cores
from zerolab.core.registry import load_plugins
from zerolab.play.game_starts import GAME_STARTS
from zerolab.search.budgets import BUDGETS, BudgetSettings
from zerolab.search.search_settings import SearchSettings


class ServiceMode(VariantSettings):
    """Games of an iteration played ply by ply in lockstep, with a service that runs the searches.

    Each position is searched only once per network, even if it occurs in several games. Its root
    noise and playouts depend only on the position, and trees are not reused between moves. All
    variants of "games as trees" in [Clausen2021] have this in common.
    """

    name: Literal["service"] = "service"

    cache: int = Field(default=1 << 17, ge=0, le=1 << 26)
    """Maximum number of results cached within an iteration; 0 disables the cache. The oldest
    results are dropped first, and their positions are searched again if requested. Affects only the
    amount of work, under the same condition as `search.deduplicate`."""

    actors: int = Field(default=0, ge=0, le=4096)
    """Number of Ray actors that search in place of the threads of this process; 0 uses threads.
    Requires the `cluster` extra. Each actor has a separate cache and an equal share of the cores
    and GPUs of the cluster. The environment variable RAY_ADDRESS, HOST:PORT, selects the cluster;
    by default, a cluster is started on this machine and shut down when the process exits. Lost
    actors are restarted. Affects only the speed, under the same condition as
    `search.deduplicate`."""


class RetryMode(ServiceMode):
    """Games from random openings, retried from the loser's largest mistake [Clausen2021].

    A game begins with `opening_plies` random plies. If a side loses, its mistake is the largest
    drop in its expected score, P(win) + 0.5 P(draw), between consecutive searches; the score at the
    end counts as 0. The best untried moves before that drop are then played in new games. If such a
    game is decisive, it is retried in the same way, for up to `rounds` rounds.

    The paper does not specify further details. Untried moves are those to which the search gave
    some weight and which no game of the iteration has played in the position; the best ones have
    the largest weight. If there are none, the next largest drop is used. Drawn games are not
    retried.

    `selfplay.episodes` is the total number of games. The number of openings is chosen to leave room
    for retries, and more openings follow if there are too few decisive games. A position is used
    for training only in the game that first reached it. Plies copied from another game, random
    plies and branching moves are recorded but not used for training.
    """

    name: Literal["retry"] = "retry"  # type: ignore[assignment]

    opening_plies: int = Field(default=16, ge=0, le=1000)
    """Random plies at the start of a game; fewer if the next ply would end the game. [Clausen2021]:
    16."""

    branches: int = Field(default=2, ge=1, le=1000)
    """Maximum number of untried moves to play per retried game."""

    rounds: int = Field(default=3, ge=1, le=1000)
    """Rounds of retries per opening; with 1, retries are not themselves retried."""


class BigTreeMode(ServiceMode):
    """One tree over whole games, with search policies as priors [Clausen2021].

    Each simulation of this tree descends from the start position to the end of a game, choosing the
    action with the highest Q(s, a) + c * P(s, a) * sqrt(N(s)) / (1 + N(s, a)). P is the policy that
    the service's search returns for the position. The result of the game is backed up. Each of the
    `selfplay.episodes` simulations is therefore a game, and all its positions become examples.
    Every iteration begins a new tree. Equal positions share a node: Q is the mean result of all
    games that reach the position after the action, by any path. A draw counts as 0, which is 0.5 on
    the paper's scale.

    The moves are exploratory and thus unsuitable as policy targets: `late_policy_target` must be
    "visits" or "values". `selfplay.temperature_plies` does not affect the games.
    """

    name: Literal["big_tree"] = "big_tree"  # type: ignore[assignment]

    c: float = Field(default=10.0, ge=0)
    """Exploration constant for Q in [-1, 1]. [Clausen2021]: 3, 10 and 30, published as 1.5, 5 and
    15 for Q in [0, 1]."""

    first_play: float = Field(default=-1.0, ge=-1, le=1)
    """Q of actions that lead to a position that no game has reached. [Clausen2021]: -1, published
    as 0 for Q in [0, 1]."""

    games_at_once: int = Field(default=64, ge=1, le=1_000_000)
    """Simulations that descend together, so that many positions can be searched in parallel.
    At each of its positions, an unfinished simulation counts as a loss for the player who moved
    there: virtual loss [Chaslot2008]. Unlike `selfplay.parallel_games`, this setting changes the
    games."""


load_plugins("search")  # the settings below list all registered budgets and game starts
load_plugins("play")

MAX_THREADS = 64
"""Largest number of threads or processes that play games."""


class EpisodicMode(VariantSettings):
    """`selfplay.episodes` games per iteration, each played to the end with the same network."""

    name: Literal["episodic"] = "episodic"


class ContinuousMode(VariantSettings):
    """Games that continue from one iteration to the next, so that batches always stay full.

    Each of `selfplay.parallel_games` lanes plays the same number of plies per iteration. When a
    game ends, the next one begins in its lane. Unfinished games continue in the next iteration with
    the new network and search settings and with new trees. The examples of a game belong to the
    iteration in which it ends. `selfplay.episodes` has no effect.
    """

    name: Literal["continuous"] = "continuous"

    plies: int = Field(default=30, ge=1, le=1_000_000)
    """Plies per lane in each iteration; multiply by `selfplay.parallel_games` for the number of
    positions per iteration."""


_MODES: dict[str, type[VariantSettings]] = {
    "episodic": EpisodicMode,
    "continuous": ContinuousMode,
    "service": ServiceMode,
    "retry": RetryMode,
    "big_tree": BigTreeMode,
}


class ResignationSettings(Settings):
    """Resignation of the player to move after a search with a low value [Hongcharoen2018].

    The paper gives neither a threshold nor a way to check one. The check is that of [Silver2017]:
    some games are played to the end, and the record of an iteration shows how often a player that
    would have resigned did not lose. This includes draws, even those declared at `max_plies`.
    [Silver2017] keeps the share of games that such a player would have won below 5 %.
    """

    threshold: float = Field(default=-0.9, ge=-1, lt=0)
    """Root value, P(win) - P(loss), below which the player to move resigns. Quick searches and
    random plies never lead to a resignation. [Silver2017]: chosen automatically."""

    played_on: float = Field(default=0.1, ge=0, le=1)
    """Share of games, chosen at random, in which no player may resign. [Silver2017]: 0.1."""


class ProgressiveSettings(Settings):
    """Searches that become larger during a run: progressive simulation [Wu2023].

    Games played by the weak early networks are cheap, which leaves more time for games by later
    networks.

    The number of simulations of a full search depends on the fraction of the run completed before
    the iteration: the fraction of its iterations or, if larger, of the hours or evaluations to
    which `stop` limits the run. Matches and measurements always use `search.simulations`. A run
    with this setting cannot be extended later.
    """

    first: int = Field(ge=1, le=1_000_000)
    """Simulations of a full search at the start of the run; `search.simulations` is the number at
    its end. With the `playout_cap` budget, quick searches do not grow. [Wu2019]: 600 growing to
    1000, and quick searches from 100 to 200."""

    shape: Literal["linear", "geometric"] = "linear"
    """Growth during the run: by equal increments, or by equal factors, which keep searches small
    for longer."""

    def check(self, search: SearchSettings, budget: BudgetSettings) -> None:
        """Raise ValueError, naming the settings, if searches with this budget cannot grow."""
        if not budget.scales_with_simulations:
            raise ValueError(
                f"selfplay.progressive: selfplay.budget = {quoted(budget.name)} ignores"
                ' search.simulations; expected a different budget, such as "fixed"'
            )
        if self.first >= search.simulations:
            raise ValueError(
                f"selfplay.progressive.first = {self.first} is not below search.simulations ="
                f" {search.simulations}, the number at the end: expected fewer simulations"
            )

    def simulations_at(self, final: int, share: float) -> int:
        """Return the number of simulations, rounded, after a `share` of the run, in [0, 1]."""
        if self.shape == "geometric":
            return round(self.first * (final / self.first) ** share)
        return round(self.first + (final - self.first) * share)


class SelfPlaySettings(Settings):
    """Settings of the self-play games of an iteration."""

    episodes: int = Field(default=50, ge=1, le=1_000_000)
    """E: games per iteration. [Wang2019], [Wang2020a], [Wang2020b]: 50 ([Wang2020a] sweeps 10 to
    100)."""

    mode: variant_annotation(_MODES) = Field(default_factory=EpisodicMode)  # type: ignore[valid-type]
    """Scheme that determines the games of an iteration. [Wang2019], [Wang2020a], [Wang2020b]:
    episodic."""

    budget: variant_annotation(BUDGETS) = Field(default_factory=BUDGETS["fixed"])  # type: ignore[valid-type]
    """Number of simulations per move. [Wang2019], [Wang2020a], [Wang2020b]: fixed."""

    progressive: ProgressiveSettings | None = None
    """Growth of the number of simulations during the run; if unset, the number is always
    `search.simulations`. Setting any key of `selfplay.progressive` enables growth."""

    temperature_plies: int = Field(default=14, ge=0)
    """Number of initial plies whose moves are sampled in proportion to visits; later moves are the
    most visited ones. The papers' T' counts plies from 1 and samples while ply < T', so this is
    T' - 1. [Wang2019], [Wang2020a], [Wang2020b]: 14, T' = 15 ([Wang2020a] sweeps 9 to 19, T' = 10
    to 20); [Clausen2021]: 30."""

    random_opening_plies: int = Field(default=0, ge=0, le=1000)
    """Maximum number of random plies at the start of a game; the number is drawn uniformly from 0
    to this maximum. Random plies are searched with one simulation and never used for training, but
    they lead to positions that good play would not reach. [Wang2019], [Wang2020a], [Wang2020b],
    [Clausen2021]: 0."""

    start: variant_annotation(GAME_STARTS) = Field(default_factory=GAME_STARTS["initial"])  # type: ignore[valid-type]
    """Positions from which the games begin. Plies copied from earlier games count towards
    `temperature_plies`, `random_opening_plies` and `max_plies`. [Wang2019], [Wang2020a],
    [Wang2020b], [Clausen2021]: initial."""

    policy_target: Literal["visits", "values"] = "visits"
    """Policy target of sampled plies: the visit distribution ([Wang2019], [Wang2020a],
    [Wang2020b]), or the normalised values (Q + 1) / 2 of visited actions, one possible reading of
    [Wang2021b, Alg. 4, line 3]. Values require draws to be worth 0 (`search.draw_value`)."""

    late_policy_target: Literal["move", "visits", "values"] = "move"
    """Policy target of later plies: only the move played, as in [WangCode] and [AZG], or one of the
    targets of sampled plies."""

    policy_target_temperature: float = Field(default=1.0, ge=0.01, le=100)
    """Temperature t of the "visits" target, pi(a)^(1 / t) normalised over all actions, where pi is
    the visit distribution. Below 1, targets are sharper than the visits; above 1, flatter. Actions
    without visits have no weight at any temperature. [Wang2019], [Wang2020a], [Wang2020b],
    [Clausen2021]: 1."""

    resignation: ResignationSettings | None = None
    """Resignation, only in episodic mode; no player resigns if unset. Setting any key of
    `selfplay.resignation` enables it. [Hongcharoen2018]: enabled, with an unknown threshold."""

    max_plies: int | None = Field(default=None, ge=1)
    """Plies after which an unfinished game ends as a draw, only in episodic mode; no limit if
    unset. [Hongcharoen2018]: an unknown limit, at which the game is scored as won or lost; not all
    games can be scored in this way."""

    parallel_games: int = Field(default=512, ge=1)
    """Number of games in progress, over all threads. Does not affect the games in episodic mode if
    network outputs do not depend on the batch, which is true in bfloat16 but not in float32
    (docs/decisions/0002). In continuous mode, the number of lanes; with a service, the number of
    positions searched in parallel."""

    threads: int = Field(
        default_factory=lambda: min(MAX_THREADS, available_cores()),
        ge=1,
        le=MAX_THREADS,
        json_schema_extra={"default": "one per core"},
    )
    """Number of game threads; with more than one, search and network evaluation can overlap. By
    default, one per core available to this process, at most 64. With a network on a GPU, each
    process plays its games in one thread."""

    processes: int = Field(default=1, ge=1, le=MAX_THREADS)
    """Number of processes that play games, at most one per core. With more than one, each plays
    its share in one thread, which keeps a GPU busier than a single process can; on CPUs, threads
    are as fast. Can be changed when a run is resumed. Affects only the speed, under the same
    condition as `selfplay.parallel_games`. Ignored in studies and in modes with a service. With
    `--ray`, and in `zerolab tune` with several workers, this setting only determines the default of
    `selfplay.chunks`."""

    chunks: int | None = Field(default=None, ge=1, le=1_000_000)
    """Number of parts into which the games of self-play, matches and accuracy measurements are
    divided by number; by default, one per process or, with a single process, one per thread. With
    `--ray`, each actor plays one part per core at a time, or one part if it has a GPU, so several
    parts per actor balance the work. More parts mean smaller network batches. Can be changed when a
    run is resumed. Affects only the speed, under the same condition as `selfplay.parallel_games`.
    Ignored in modes with a service."""

    lag: int = Field(default=0, ge=0, le=1)
    """With 1, the games of iteration k + 1 are played by the best network of iteration k - 1
    instead of that of iteration k. With `--ray`, or with several `selfplay.processes` on a GPU,
    they are then played while iteration k is training and testing its candidate."""

    @property
    def chunk_count(self) -> int | None:
        """Number of chunks; None for one per thread."""
        has_processes = self.processes > 1 and not isinstance(self.mode, ServiceMode)
        return self.chunks or (self.processes if has_processes else None)

    def search_settings_at(self, share: float, search: SearchSettings) -> SearchSettings:
        """Return the self-play search after a `share` of the run, in [0, 1].

        `search.simulations` is the number at the end of the run.
        """
        if self.progressive is None:
            return search
        simulations = self.progressive.simulations_at(search.simulations, share)
        return search.model_copy(update={"simulations": simulations})

    def check_search(self, search: SearchSettings) -> None:
        """Raise ValueError, naming the settings, if self-play cannot use the search."""
        self.budget.check(search)
        if search.draw_value != 0:
            self.check_draw_value(f"search.draw_value = {search.draw_value}")

    def check_draw_value(self, setting: str) -> None:
        """Raise ValueError if a policy target ignores the value of a draw, set by `setting`."""
        for key in ("policy_target", "late_policy_target"):
            if getattr(self, key) == "values":
                raise ValueError(
                    f'selfplay.{key} = "values" ignores {setting}: expected another target, such as'
                    ' "visits", or draws worth 0'
                )

    @model_validator(mode="after")
    def _mode_fits(self) -> SelfPlaySettings:
        mode = self.mode
        for key in ("resignation", "max_plies"):
            if getattr(self, key) is not None and not isinstance(mode, EpisodicMode):
                raise ValueError(
                    f'{key}: not supported with mode = "{mode.name}"; expected mode = "episodic"'
                )
        if isinstance(mode, ServiceMode) and self.start.name != "initial":
            raise ValueError(
                f"start = {quoted(self.start.name)}: not supported with mode = {quoted(mode.name)};"
                ' expected start = "initial", or mode = "episodic" or "continuous"'
            )
        if isinstance(mode, RetryMode | BigTreeMode) and self.random_opening_plies:
            raise ValueError(
                f"random_opening_plies = {self.random_opening_plies}: not supported with mode = "
                f'"{mode.name}"; expected 0'
            )
        if isinstance(mode, BigTreeMode) and self.late_policy_target == "move":
            raise ValueError(
                'late_policy_target = "move": moves in mode = "big_tree" are exploratory and'
                ' unsuitable as targets; expected late_policy_target = "visits" or "values"'
            )
        return self


def require_ray_if_needed(mode: VariantSettings) -> None:
    """Raise UserError if a mode needs Ray actors and Ray is not installed."""
    if isinstance(mode, ServiceMode) and mode.actors:
        import_module("zerolab.core.ray_cluster")


def unsplittable_mode_remarks(settings: SelfPlaySettings) -> Iterator[str]:
    """Yield a remark if the games of this mode cannot be divided among machines.

    Raises UserError if the mode has actors, which would need a second cluster.
    """
    mode = settings.mode
    if not isinstance(mode, ServiceMode):
        return
    if mode.actors:
        raise UserError(
            f"selfplay.mode.actors = {mode.actors} already distributes the searches of mode ="
            f" {quoted(mode.name)}: expected no --ray; RAY_ADDRESS=HOST:PORT selects the cluster"
        )
    yield (
        f"selfplay.mode = {quoted(mode.name)} searches for all games together, so this machine"
        " plays them; the cluster handles the other stages"
    )
