"""The schedules of self-play that ask a service for the searches of positions."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from zerolab.core.config import Choice


class Service(Choice):
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


class Retry(Service):
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


class BigTree(Service):
    """One tree over whole games, whose priors are themselves results of searches [Clausen2021].

    A simulation of this tree descends from the first position to the end of a game, always to the
    action of the highest Q(s, a) + c * P(s, a) * sqrt(N(s)) / (1 + N(s, a)), where P is the policy
    that the service's search of the position found; the result is backed up along it. So each of
    the `selfplay.episodes` simulations is a game, and all its positions are examples. The tree is
    a new one in every iteration. Equal positions are one node: Q is the mean result of all games
    that went through the position behind an action, whichever way they came. A draw counts 0, which
    is 0.5 on the paper's scale.

    Moves are explored rather than recommended, so they are no policy targets: `late_targets` has
    to be "visits" or "values". `selfplay.sampled_plies` does not change what is played.
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
