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
    """Games of an iteration in lockstep, ply by ply, by one player that asks for all searches.

    A position is searched once for each network, whatever games it occurs in, with root noise and
    playouts of its own and without the trees of earlier moves. Of the "games as trees" of
    [Clausen2021], this is what they have in common.
    """

    name: Literal["service"] = "service"

    cache: int = Field(default=1 << 17, ge=0, le=1 << 26)
    """Answers kept within an iteration; beyond that the oldest one makes room, and its position is
    searched again when it is asked for. 0 keeps none. Changes nothing but the work on the same
    condition as `search.deduplicate`."""

    actors: int = Field(default=0, ge=0, le=4096)
    """Ray actors that search in place of this process's threads (the extra `cluster`), each with an
    equal share of the cluster's cores and GPUs, and the cache of its own positions. The cluster is
    that at RAY_ADDRESS, a variable of the environment as HOST:PORT, else one that is started on
    this machine and ends with the process. An actor that is lost begins again. 0: none. Changes
    nothing but the work, on the same condition."""


class RetryMode(ServiceMode):
    """Games that begin at random, and go back to where the loser lost most [Clausen2021].

    A game begins with `opening_plies` random plies. Once it is lost, its largest drop is looked
    for: of what the searches said of the loser's positions, win + 0.5 draw, from one to the next,
    the end counting 0. From there the best untried moves are played, one in a new game each. These
    games are gone back into in their turn, `rounds` times.

    The paper leaves open what follows. Untried are moves that no game of the iteration has played
    in this position, and which its search gave weight; the best ones are those of most weight.
    Where none are left, the next largest drop is taken. Drawn games are not gone back into.
    `selfplay.episodes` games are played in all: openings as many as that leaves room for, and
    further ones where too few games were lost. A position is learnt from in the game in which it
    was first reached: what a game takes over from another one is recorded, but not learnt from
    again, and so are random plies and the moves that were branched.
    """

    name: Literal["retry"] = "retry"  # type: ignore[assignment]

    opening_plies: int = Field(default=16, ge=0, le=1000)
    """Random plies that a game begins with; fewer where one more would end it. [Clausen2021]:
    16."""

    branches: int = Field(default=2, ge=1, le=1000)
    """Untried moves that are played at most where a game was lost."""

    rounds: int = Field(default=3, ge=1, le=1000)
    """How often an opening's games are gone back into: 1 leaves retries alone."""


class BigTreeMode(ServiceMode):
    """One tree over whole games, whose priors are themselves results of searches [Clausen2021].

    A simulation of this tree descends from the first position to the end of a game, always to the
    action of the highest Q(s, a) + c * P(s, a) * sqrt(N(s)) / (1 + N(s, a)), where P is the policy
    that the service's search of the position found; the result is backed up along it. So each of
    the `selfplay.episodes` simulations is a game, and all its positions are examples. The tree is
    a new one in every iteration. Equal positions are one node: Q is the mean result of all games
    that went through the position behind an action, whichever way they came. A draw counts 0, which
    is 0.5 on the paper's scale.

    Moves are explored rather than recommended, so they are no policy targets: `late_policy_target`
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
    """Simulations that descend together, so that many searches are asked for at once. Those under
    way count as lost for the players who chose to go there: virtual loss [Chaslot2008]. Other than
    `selfplay.parallel_games` this changes which games are played."""


import_module("zerolab.search.budgets")
load_plugins("search")

_MOST_THREADS = 64


class EpisodicMode(Variant):
    """`selfplay.episodes` games per iteration, each of them played to its end by one network."""

    name: Literal["episodic"] = "episodic"


class ContinuousMode(Variant):
    """Games that go on from one iteration to the next, so that batches stay full to the end.

    Each of `selfplay.parallel_games` lanes plays equally many plies per iteration. A game that ends
    is followed by the next one in its lane; one that does not end goes on in the next iteration,
    with the network and the search then in force and with new trees. It gives examples in the
    iteration in which it ends. `selfplay.episodes` has no effect.
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
    """How the games of an iteration are played."""

    episodes: int = Field(default=50, ge=1, le=1_000_000)
    """E: games per iteration. [Wang2019], [Wang2020a], [Wang2020b]: 50 ([Wang2020a] sweeps 10 to
    100)."""

    mode: variant_among(_MODES) = Field(default_factory=EpisodicMode)  # type: ignore[valid-type]
    """Which games an iteration plays. [Wang2019], [Wang2020a], [Wang2020b]: episodes."""

    budget: variant_among(BUDGETS) = Field(default_factory=BUDGETS["fixed"])  # type: ignore[valid-type]
    """How many simulations a move gets. [Wang2019], [Wang2020a], [Wang2020b]: fixed."""

    temperature_plies: int = Field(default=14, ge=0)
    """Plies at the start of a game whose moves are drawn in proportion to the visits; later moves
    are the most visited ones. The papers' T' counts plies from 1 and samples while ply < T', so
    this is T' - 1. [Wang2019], [Wang2020a], [Wang2020b]: 14, T' = 15 ([Wang2020a] sweeps 9 to 19,
    T' = 10 to 20); [Clausen2021]: 30."""

    random_opening_plies: int = Field(default=0, ge=0, le=1000)
    """Most plies at the start of a game that are played at random, with a search of one simulation,
    and are never learnt from; each game draws its number of them evenly from 0 to this. A network
    then learns positions that good play would never reach. [Wang2019], [Wang2020a], [Wang2020b],
    [Clausen2021]: 0."""

    policy_target: Literal["visits", "values"] = "visits"
    """The policy target of sampled plies: the visit distribution ([Wang2019], [Wang2020a],
    [Wang2020b]), or the values (Q + 1) / 2 of visited actions, normalised, as line 3 of
    [Wang2019, Alg. 4] may mean."""

    late_policy_target: Literal["move", "visits", "values"] = "move"
    """The policy target of later plies: the move played alone, as in [WangCode] and [AZG], or one
    of those above."""

    parallel_games: int = Field(default=512, ge=1)
    """Games in progress at once, in all threads together. Does not change which episodes are played
    where the network answers a position equally in every batch: in bfloat16, but not in float32
    (docs/decisions/0002). In continuous mode it is the number of lanes; with a service, of
    positions searched at once."""

    threads: int = Field(
        default_factory=lambda: min(_MOST_THREADS, available_cores()),
        ge=1,
        le=_MOST_THREADS,
        json_schema_extra={"default": "one per core"},
    )
    """Threads that play, so that search and network overlap; by default one for each core that this
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
