"""Records of finished stages: the schema of metrics.jsonl, with units.

A record class describes one kind of line; the default of `stage` is its name in the file. Fields
named ``wall_...`` are measured by a clock or by the process; all others are equal in all runs with
the same settings. docs/metrics.md and TensorBoard are made from these classes, so that a new metric
needs only a field here and a value in its stage. The console shows `Record.summary`; some fields
are drawn by training/panels.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from zerolab.store.games import SELF_PLAY


class Unit(NamedTuple):
    """The unit of a number."""

    name: str


Seconds = Annotated[float, Unit("s")]
Games = Annotated[int, Unit("games")]
Positions = Annotated[int, Unit("positions")]
Elo = Annotated[float, Unit("Elo, BayesElo's scale")]
Probability = Annotated[float, Unit("0 to 1")]
Share = Annotated[float, Unit("0 to 1")]
Network = Annotated[int, Unit("iteration")]


class Record(BaseModel):
    """A line of metrics.jsonl about a finished stage."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False
    )
    types: ClassVar[dict[str, type[Record]]] = {}
    """All kinds of records by stage."""

    stage: str
    """The stage that wrote the record."""
    iteration: Annotated[int, Unit("iteration")]
    """The iteration, counted from 1."""
    wall_seconds: Seconds
    """Duration of the stage; of a stage with several records, of the part for this one."""
    wall_memory: Annotated[int, Unit("MiB")] | None = None
    """Peak memory of the process since it began or resumed the run; like times, it differs between
    equal runs. Absent from runs of earlier versions."""

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        stage = cls.model_fields["stage"].default
        if isinstance(stage, str):
            cls.types[stage] = cls

    def line(self) -> dict[str, Any]:
        """Return the record as a line of metrics.jsonl, without fields that are None."""
        return self.model_dump(exclude_none=True)

    def numbers(self) -> Iterator[tuple[str, float]]:
        """Yield names, such as ``loss/policy``, and values of all numbers but the iteration."""
        for name, value in self.line().items():
            if isinstance(value, dict):
                yield from ((f"{name}/{key}", float(number)) for key, number in value.items())
            elif isinstance(value, int | float) and name != "iteration":
                yield name, float(value)

    @property
    def tag(self) -> str:
        """The group of the numbers in TensorBoard."""
        return self.stage

    def summary(self) -> str:
        """Return a line for the console."""
        return ", ".join(f"{name} {value:g}" for name, value in self.numbers())


class SelfPlayRecord(Record):
    """The games of an iteration and the work of their searches."""

    stage: str = SELF_PLAY
    games: Games
    """Games that were finished."""
    distinct_games: Games
    """Different sequences of moves among them."""
    positions: Positions
    """Examples: one per move of these games."""
    plies_per_game: Annotated[float, Unit("plies")] | None = None
    """Mean length of a game; absent if none was finished."""
    plies: Annotated[int, Unit("plies")] | None = None
    """Moves decided by searches in this iteration (random plies of episodic self-play have a
    simulation each and count, too). Present in modes where they may differ from the examples: games
    of continuous self-play span iterations, and retries begin with random moves or with the moves
    of another game."""
    unfinished: Games | None = None
    """Games that continue in the next iteration; only in continuous self-play."""
    full: Positions | None = None
    """Fully searched examples; absent with a fixed budget, where all are."""
    simulations_per_move: Annotated[float, Unit("simulations")] | None = None
    """Simulations per move decided; absent with a fixed budget. With a search service, where a
    search decides several moves, it is lower than the simulations of a search."""
    asked: Positions | None = None
    """Requests to the search service, one per move that it decides; for a big tree, one per new
    position. Absent without a service."""
    merged: Positions | None = None
    """Requests equal to another one in the same call."""
    remembered: Positions | None = None
    """Requests answered from the service's cache."""
    searched: Positions | None = None
    """Positions that the service searched for the other requests."""
    warm_start_weight: Share | None = None
    """The weight of the warm start in this iteration; absent without a warm start."""
    generation: Annotated[int, Unit("generations")] | None = None
    """Generation of the league in the last game, counted from 0; absent without a league."""
    simulations: Annotated[int, Unit("simulations")]
    """Simulations of all searches."""
    evaluated: Positions
    """Leaves evaluated by the network, including roots without children."""
    deduplicated: Positions
    """Leaves equal to another one of the same step, evaluated together."""
    cached: Positions
    """Leaves whose evaluation was in the cache."""
    terminal: Positions
    """Leaves at which the game was over or its result proven."""
    proven: Positions | None = None
    """Positions proven by searches, without finished games; absent without the solver."""
    wall_select_seconds: Seconds
    """Time for the selection of leaves, summed over the threads of self-play."""
    wall_evaluate_seconds: Seconds
    """Time in the network, summed over the threads of self-play."""
    wall_backup_seconds: Seconds
    """Time for expansion and backup, summed over the threads of self-play."""

    def summary(self) -> str:
        seconds = max(self.wall_seconds, 1e-9)
        played = self.positions if self.plies is None else self.plies
        full = "" if self.full is None else f" ({self.full} searched fully)"
        return (
            f"self-play  {self.games} games ({self.distinct_games} distinct),"
            f" {self.positions} positions{full}, {played / seconds:,.0f} positions/s,"
            f" {self.simulations / seconds:,.0f} simulations/s"
        )


_COMBINED = ("sum", "product", "weighted", "total")
"""Losses that combine those of several heads."""


class LearnRecord(Record):
    """The training of a network."""

    stage: str = "learn"
    examples_seen: Annotated[int, Unit("examples")]
    """Examples seen, repetitions and symmetries included."""
    window: Positions
    """Examples in the window, without symmetries; merged positions count once."""
    merged: Positions | None = None
    """Positions of the iteration's games that were merged into equal ones; absent without
    merging."""
    parameters: Annotated[int, Unit("weights")] | None = None
    """Weights and biases of the network; absent if it never grows."""
    loss: dict[str, float]
    """Means over the last epoch, by name: the error of every head, the loss of policy and value
    (`sum`, `product`, `weighted`) and, with further heads, the `total`. An epoch is a pass over the
    window; with `learn.replay_ratio` the last one may end early."""
    epoch_losses: list[dict[str, float]] | None = None
    """The same means for every epoch, in order; absent if there is only one."""
    learning_rate: float | None = None
    """The learning rate of the last step; absent, like the next field, if it is constant."""
    peak_learning_rate: float | None = None
    """The highest learning rate of a step."""
    gradient_norm: float | None = None
    """Mean norm of the gradients before clipping; absent without clipping."""

    @property
    def heads(self) -> list[str]:
        """The names of heads in `loss`."""
        return [name for name in self.loss if name not in _COMBINED]

    def summary(self) -> str:
        losses = ", ".join(f"{name} loss {self.loss[name]:.3f}" for name in self.heads)
        rate = self.examples_seen / max(self.wall_seconds, 1e-9)
        return f"learn      {losses}, {self.examples_seen} examples, {rate:,.0f} examples/s"


class GateRecord(Record):
    """The verdict on a candidate, and the results of its games.

    Games are counted from the candidate's side. Elo and likelihood are estimated from distinct
    games, since a repeated game is no new evidence.
    """

    stage: str = "gate"
    accepted: bool
    """True if the candidate replaced the best network."""
    elo: Elo
    """Training Elo of the best network after the gate; the untrained network has 0."""
    wins: Games | None = None
    """Games won; absent, like all fields below, if the gate plays none."""
    draws: Games | None = None
    """Games drawn."""
    losses: Games | None = None
    """Games lost."""
    distinct_games: Games | None = None
    """Different games among them; the same moves with colours exchanged count separately."""
    candidate_elo: Elo | None = None
    """Training Elo of the candidate: that of the best network plus the estimated difference."""
    candidate_elo_low: Elo | None = None
    """Lower end of its 95 % interval, with the best network's Elo taken as known."""
    candidate_elo_high: Elo | None = None
    """Upper end of that interval."""
    los: Probability | None = None
    """Likelihood that the candidate is stronger than the best network before the gate."""

    def summary(self) -> str:
        verdict = "accepted" if self.accepted else "rejected"
        if self.wins is None:
            return f"gate       {verdict}"
        score = f"{self.wins} won, {self.draws} drawn, {self.losses} lost"
        return f"gate       {verdict}: {score}, training Elo {self.elo:+.0f}"


class WarmStartMatchRecord(Record):
    """Plain search against the search of the warm start, both with the best network.

    Games are counted from the side of plain search.
    """

    stage: str = "warm_start_match"
    wins: Games
    """Games won."""
    draws: Games
    """Games drawn."""
    losses: Games
    """Games lost."""
    distinct_games: Games
    """Different games among them; the same moves with colours exchanged count separately."""
    los: Probability
    """Likelihood that plain search is stronger, from distinct games."""
    over: bool
    """True if the warm start ends here."""

    def summary(self) -> str:
        verdict = "ends" if self.over else "continues"
        return (
            f"warm start {verdict}: plain search {self.wins} won, {self.draws} drawn,"
            f" {self.losses} lost; stronger with a likelihood of {self.los:.1%}"
        )


class AccuracyRecord(Record):
    """Accuracy of the best network and its search on solved positions.

    A *strong* choice keeps the exact score, a *weak* one the game value: won, drawn or lost.
    ``_low`` and ``_high`` are the ends of 95 % intervals.
    """

    stage: str = "accuracy"
    network: Network
    """The network measured."""
    positions: Positions
    """Solved positions."""
    network_strong: Share
    """Strong accuracy of the policy alone."""
    network_strong_low: Share
    network_strong_high: Share
    network_weak: Share
    """Weak accuracy of the policy alone."""
    network_weak_low: Share
    network_weak_high: Share
    network_value_error: Annotated[float, Unit("0 to 4")] | None = None
    """Mean squared difference between the network's value and the exact outcome -1, 0 or 1."""
    search_strong: Share
    """Strong accuracy of the network's search."""
    search_strong_low: Share
    search_strong_high: Share
    search_weak: Share
    """Weak accuracy of the network's search."""
    search_weak_low: Share
    search_weak_high: Share
    search_value_error: Annotated[float, Unit("0 to 4")] | None = None
    """Mean squared difference between the search's value and the exact outcome."""

    def summary(self) -> str:
        return (
            f"accuracy   {self.positions} solved positions: strong {self.network_strong:.1%}, with"
            f" search {self.search_strong:.1%}; weak {self.network_weak:.1%}, with search"
            f" {self.search_weak:.1%}"
        )


class SupervisedRecord(Record):
    """Predictions of the network for solved positions that it has not learnt from.

    ``_low`` and ``_high`` are the ends of 95 % intervals.
    """

    stage: str = "supervised"
    part: Literal["validation", "test"]
    """The part of the file; positions of one game are in the same part."""
    positions: Positions
    """Positions of this part."""
    policy_error: float
    """Mean cross-entropy of the priors with the uniform policy over the best moves."""
    value_error: Annotated[float, Unit("0 to 4")]
    """Mean squared difference between the network's value and the exact outcome -1, 0 or 1."""
    strong: Share
    """Share of positions where the move with the highest prior keeps the exact score."""
    strong_low: Share
    strong_high: Share
    weak: Share
    """Share of positions where it keeps the game value: won, drawn or lost."""
    weak_low: Share
    weak_high: Share
    label: Share
    """Share where the most probable outcome is the label; with right labels, equal to `result`."""
    label_low: Share
    label_high: Share
    result: Share
    """Share where the most probable outcome is the exact one."""
    result_low: Share
    result_high: Share

    @property
    def tag(self) -> str:
        return f"{self.stage}/{self.part}"

    def summary(self) -> str:
        return (
            f"{self.part:10} {self.positions} positions: best move {self.strong:.1%}"
            f" ({self.strong_low:.1%} to {self.strong_high:.1%}), result kept {self.weak:.1%},"
            f" result known {self.result:.1%}"
        )


class BaselineRecord(Record):
    """Games of the best network against one baseline opponent, after training."""

    stage: str = "final_evaluation"
    network: Network
    """The network that played."""
    opponent: str
    """The baseline's spec; ``@0`` is network 0 of this run, the untrained one."""
    asked: str | None = None
    """Its spec in the settings if the number differs: ``@12`` is the best network after iteration
    12, which an earlier iteration trained if candidate 12 was rejected."""
    wins: Games
    """Games won by the network."""
    draws: Games
    """Games drawn."""
    losses: Games
    """Games lost."""
    distinct_games: Games
    """Different games among them; the same moves with colours exchanged count separately."""
    score_rate: Share
    """Points per game, a draw counting half."""
    low: Share
    """Lower end of Wilson's 95 % interval of the score rate."""
    high: Share
    """Upper end of that interval."""

    @property
    def tag(self) -> str:
        return f"{self.stage}/{self.opponent}"

    def summary(self) -> str:
        asked = f" (for {self.asked})" if self.asked else ""
        return (
            f"against {self.opponent}{asked}: {self.score_rate:.1%} (95 % interval"
            f" {self.low:.1%} to {self.high:.1%}), {self.wins} won, {self.draws} drawn,"
            f" {self.losses} lost, {self.distinct_games} distinct games"
        )


class UnplayedRecord(Record):
    """A baseline opponent that cannot finish its games, even if they are repeated."""

    stage: str = "unplayed_baseline"
    network: Network
    """The network that was to play."""
    opponent: str
    """The baseline's spec."""
    reason: str
    """The reason, such as a position that perfect play has not solved."""

    @property
    def tag(self) -> str:
        return f"{self.stage}/{self.opponent}"

    def summary(self) -> str:
        return f"against {self.opponent}: not played, {self.reason}"


FINAL_RECORDS = (BaselineRecord, UnplayedRecord)
"""Records of the final evaluation's games."""
