"""Settings of self-play and its modes, with the papers' values."""

from __future__ import annotations

from importlib import import_module
from typing import Literal

from pydantic import Field, model_validator

from zerolab.core.config import Settings, Variant, variant_among
from zerolab.core.processes import available_cores
from zerolab.core.registry import load_plugins
from zerolab.search.budgets import BUDGETS


class ServiceMode(Variant):
    """Games of an iteration in lockstep, ply by ply; a service searches their positions.

    A position is searched once for each network, for all games it occurs in, with its own root
    noise and playouts and without the trees of earlier moves. This is the common part of the "games
    as trees" of [Clausen2021].
    """

    name: Literal["service"] = "service"

    cache: int = Field(default=1 << 17, ge=0, le=1 << 26)
    """Results kept within an iteration; the oldest ones are dropped first, and their positions
    searched again on request. 0 keeps none. Changes the work alone, on the same condition as
    `search.deduplicate`."""

    actors: int = Field(default=0, ge=0, le=4096)
    """Ray actors that search instead of this process's threads (the extra `cluster`), each with an
    equal share of the cluster's cores and GPUs and its own cache. The cluster is that at the
    environment variable RAY_ADDRESS, HOST:PORT; without it, one is started on this machine and ends
    with the process. A lost actor starts again. 0: none. Changes the work alone, on the same
    condition."""


class RetryMode(ServiceMode):
    """Games from random openings, retried from where the loser lost most [Clausen2021].

    A game begins with `opening_plies` random plies. Once it is lost, the largest drop of the
    loser's prospects is found: win + 0.5 draw by the searches of its positions, from one to the
    next, with 0 at the end. From there the best untried moves are played, each in a new game. Lost
    ones among these games are retried in turn, `rounds` times.

    The paper leaves the rest open. Untried moves are those that no game of the iteration has played
    in the position and that its search gave weight; the best ones have the most weight. If none is
    left, the next largest drop is taken. Drawn games are not retried. `selfplay.episodes` is the
    number of all games: there are as many openings as leave room for the retries, and further ones
    if too few games are lost. A position is learnt from in the game that first reached it: plies
    taken over from another game, random plies and branched moves are recorded, but not learnt from.
    """

    name: Literal["retry"] = "retry"  # type: ignore[assignment]

    opening_plies: int = Field(default=16, ge=0, le=1000)
    """Random plies at the start of a game; fewer where one more would end it. [Clausen2021]:
    16."""

    branches: int = Field(default=2, ge=1, le=1000)
    """Largest number of untried moves played from a lost game."""

    rounds: int = Field(default=3, ge=1, le=1000)
    """Rounds of retries of an opening's games; with 1, retries are not retried again."""


class BigTreeMode(ServiceMode):
    """One tree over whole games, whose priors are results of searches [Clausen2021].

    A simulation of this tree descends from the first position to the end of a game, always along
    the action of highest Q(s, a) + c * P(s, a) * sqrt(N(s)) / (1 + N(s, a)), where P is the policy
    found by the service's search of the position; its result is backed up. So each of the
    `selfplay.episodes` simulations is a game, and all its positions are examples. Every iteration
    begins a new tree. Equal positions are one node: Q is the mean result of all games through the
    position behind an action, on any path. A draw counts 0, which is 0.5 on the paper's scale.

    Moves explore rather than recommend, so they are no policy targets: `late_policy_target`
    has to be "visits" or "values". `selfplay.temperature_plies` does not change what is played.
    """

    name: Literal["big_tree"] = "big_tree"  # type: ignore[assignment]

    c: float = Field(default=10.0, ge=0)
    """Exploration constant for Q in [-1, 1]. [Clausen2021]: 3, 10 and 30, published as 1.5, 5 and
    15 for Q in [0, 1]."""

    first_play: float = Field(default=-1.0, ge=-1, le=1)
    """Q of actions that lead to a position without games. [Clausen2021]: -1, published as 0 for Q
    in [0, 1]."""

    games_at_once: int = Field(default=64, ge=1, le=1_000_000)
    """Simulations that descend together, so that many positions are searched at once. Unfinished
    ones count as lost for the players who chose them: virtual loss [Chaslot2008]. Unlike
    `selfplay.parallel_games` this changes the games."""


import_module("zerolab.search.budgets")
load_plugins("search")

_MAX_THREADS = 64


class EpisodicMode(Variant):
    """`selfplay.episodes` games per iteration, each of them played to its end by one network."""

    name: Literal["episodic"] = "episodic"


class ContinuousMode(Variant):
    """Games that continue from one iteration to the next, so that batches stay full to the end.

    Each of `selfplay.parallel_games` lanes plays the same number of plies per iteration. When a
    game ends, the next one begins in its lane; an unfinished game continues in the next iteration,
    with the new network and search and new trees. Its examples belong to the iteration in which it
    ends. `selfplay.episodes` has no effect.
    """

    name: Literal["continuous"] = "continuous"

    plies: int = Field(default=30, ge=1, le=1_000_000)
    """Plies per lane and iteration, so that an iteration has `selfplay.parallel_games` times as
    many positions."""


_MODES: dict[str, type[Variant]] = {
    "episodic": EpisodicMode,
    "continuous": ContinuousMode,
    "service": ServiceMode,
    "retry": RetryMode,
    "big_tree": BigTreeMode,
}


class SelfPlaySettings(Settings):
    """Settings of the games of an iteration."""

    episodes: int = Field(default=50, ge=1, le=1_000_000)
    """E: games per iteration. [Wang2019], [Wang2020a], [Wang2020b]: 50 ([Wang2020a] sweeps 10 to
    100)."""

    mode: variant_among(_MODES) = Field(default_factory=EpisodicMode)  # type: ignore[valid-type]
    """The games of an iteration and how they depend on each other. [Wang2019], [Wang2020a],
    [Wang2020b]: episodic."""

    budget: variant_among(BUDGETS) = Field(default_factory=BUDGETS["fixed"])  # type: ignore[valid-type]
    """The number of simulations of a move. [Wang2019], [Wang2020a], [Wang2020b]: fixed."""

    temperature_plies: int = Field(default=14, ge=0)
    """Plies at the start of a game whose moves are drawn in proportion to the visits; later moves
    are the most visited ones. The papers' T' counts plies from 1 and samples while ply < T', so
    this is T' - 1. [Wang2019], [Wang2020a], [Wang2020b]: 14, T' = 15 ([Wang2020a] sweeps 9 to 19,
    T' = 10 to 20); [Clausen2021]: 30."""

    random_opening_plies: int = Field(default=0, ge=0, le=1000)
    """Largest number of random plies at the start of a game, uniform from 0 for each game. They get
    a search of one simulation and are never learnt from, but lead to positions that good play would
    never reach. [Wang2019], [Wang2020a], [Wang2020b],
    [Clausen2021]: 0."""

    policy_target: Literal["visits", "values"] = "visits"
    """The policy target of sampled plies: the visit distribution ([Wang2019], [Wang2020a],
    [Wang2020b]), or the values (Q + 1) / 2 of visited actions, normalised, as line 3 of
    [Wang2019, Alg. 4] may mean."""

    late_policy_target: Literal["move", "visits", "values"] = "move"
    """The policy target of later plies: the move played alone, as in [WangCode] and [AZG], or one
    of those above."""

    parallel_games: int = Field(default=512, ge=1)
    """Games in progress at once, in all threads together. Does not change the games of episodic
    mode if a network's outputs do not depend on the batch: in bfloat16, but not in float32
    (docs/decisions/0002). In continuous mode the number of lanes; with a service, of positions
    searched at once."""

    threads: int = Field(
        default_factory=lambda: min(_MAX_THREADS, available_cores()),
        ge=1,
        le=_MAX_THREADS,
        json_schema_extra={"default": "one per core"},
    )
    """Threads that play, so that search and network overlap; by default one per core that this
    process may use, at most 64."""

    @model_validator(mode="after")
    def _mode_fits(self) -> SelfPlaySettings:
        mode = self.mode
        if isinstance(mode, RetryMode | BigTreeMode) and self.random_opening_plies:
            raise ValueError(
                f"random_opening_plies = {self.random_opening_plies}: games of mode = "
                f'"{mode.name}" begin in their own way; expected 0'
            )
        if isinstance(mode, BigTreeMode) and self.late_policy_target == "move":
            raise ValueError(
                'late_policy_target = "move": moves of mode = "big_tree" explore, so they are'
                ' no targets; expected late_policy_target = "visits" or "values"'
            )
        return self
