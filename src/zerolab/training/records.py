"""Records of finished stages, which define the schema and units of metrics.jsonl.

Each record class describes one kind of line, named by the default of its `stage` field. Fields
named ``wall_...`` are measurements of time or memory; all other fields are reproducible from the
settings. docs/metrics.md and TensorBoard's events are derived from these fields.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from zerolab.core.setting_docs import Unit
from zerolab.report.table import percent
from zerolab.store.games import SELF_PLAY_STAGE

Seconds = Annotated[float, Unit("s")]
GameCount = Annotated[int, Unit("games")]
PositionCount = Annotated[int, Unit("positions")]
Elo = Annotated[float, Unit("Elo, BayesElo's scale")]
Share = Annotated[float, Unit("0 to 1")]
NetworkIteration = Annotated[int, Unit("iteration")]

_COMBINED = ("sum", "product", "weighted", "total")
"""Losses that combine the errors of several heads."""


class Record(BaseModel):
    """A line of metrics.jsonl for a finished stage."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False
    )
    class_by_stage: ClassVar[dict[str, type[Record]]] = {}
    """Record class by stage name."""

    stage: str
    """The stage that wrote the record."""
    iteration: Annotated[int, Unit("iteration")]
    """The iteration, counted from 1."""
    wall_seconds: Seconds
    """Duration of the stage, or of the part of the stage that this record describes."""
    wall_elapsed_seconds: Seconds | None = None
    """Time since the previous record, or since training started or was resumed if that is later.
    Absent if the stage has several records, and in runs of earlier versions."""
    wall_processor_seconds: Seconds | None = None
    """Processor time of this process, hardly affected by other load; absent in the same cases."""
    wall_memory: Annotated[int, Unit("MiB")] | None = None
    """Peak memory of the process since it began or resumed the run; absent in old runs."""

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        stage = cls.model_fields["stage"].default
        if isinstance(stage, str):
            cls.class_by_stage[stage] = cls

    def as_dict(self) -> dict[str, Any]:
        """Return the record as a line of metrics.jsonl, omitting fields that are None."""
        return self.model_dump(exclude_none=True)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of iteration {self.iteration}>"

    def numbers(self) -> Iterator[tuple[str, float]]:
        """Yield names, such as ``loss/policy``, and values of all numbers except the iteration."""
        for name, value in self.as_dict().items():
            if isinstance(value, dict):
                yield from ((f"{name}/{key}", float(number)) for key, number in value.items())
            elif isinstance(value, int | float) and name != "iteration":
                yield name, float(value)

    @property
    def log_group(self) -> str:
        """Group of the record's numbers in TensorBoard."""
        return self.stage

    def summary(self) -> str:
        """Return a summary for the console, in one line."""
        return ", ".join(f"{name} {value:g}" for name, value in self.numbers())


class SelfPlayRecord(Record):
    """The self-play games of an iteration, and the work of the searches."""

    stage: str = SELF_PLAY_STAGE
    games: GameCount
    """Finished games."""
    distinct_games: GameCount
    """Distinct move sequences among the finished games."""
    positions: PositionCount
    """Examples, one per move of the finished games."""
    plies_per_game: Annotated[float, Unit("plies")] | None = None
    """Mean game length; absent if no game finished."""
    plies: Annotated[int, Unit("plies")] | None = None
    """Searched moves in this iteration, including random plies, which have one simulation each.
    Absent where it always equals the number of examples."""
    unfinished: GameCount | None = None
    """Games to be continued in the next iteration; only in continuous self-play."""
    full: PositionCount | None = None
    """Fully searched examples; absent if all moves of self-play are fully searched."""
    simulations_per_move: Annotated[float, Unit("simulations")] | None = None
    """Mean simulations per move; absent with a fixed budget. With a search service, one search can
    decide several moves."""
    full_simulations: Annotated[int, Unit("simulations")] | None = None
    """Simulations of a full search in this iteration; only with `selfplay.progressive`."""
    asked: PositionCount | None = None
    """Requests to the search service: one per move or, with a big tree, one per new position.
    Absent without a service."""
    merged: PositionCount | None = None
    """Requests identical to another request in the same call."""
    remembered: PositionCount | None = None
    """Requests answered from the cache of the search service."""
    searched: PositionCount | None = None
    """Positions searched by the search service for the remaining requests."""
    resignations: dict[str, float] | None = None
    """Numbers of games: `resigned` ended in a resignation, `played_on` continued although a player
    would have resigned, and `false` counts those of `played_on` that this player did not lose.
    `false_rate` is `false` / `played_on`, if defined. Absent without `selfplay.resignation`."""
    warm_start_weight: Share | None = None
    """Weight of the warm start in this iteration; absent without a warm start."""
    generation: Annotated[int, Unit("generations")] | None = None
    """League generation of the last game, counted from 0; absent without a league."""
    simulations: Annotated[int, Unit("simulations")]
    """Simulations of all searches."""
    evaluated: PositionCount
    """Leaves evaluated by the network, including roots without children."""
    deduplicated: PositionCount
    """Leaves identical to another leaf of the same step, evaluated only once."""
    cached: PositionCount
    """Leaves with a cached evaluation."""
    terminal: PositionCount
    """Leaves with a finished game or a proven result."""
    proven: PositionCount | None = None
    """Positions proven by searches, except finished games; only with `search.proven_values`."""
    wall_select_seconds: Seconds
    """Time spent selecting leaves, summed over the self-play threads."""
    wall_evaluate_seconds: Seconds
    """Time spent in the network, summed over the self-play threads."""
    wall_backup_seconds: Seconds
    """Time spent on expansion and backup, summed over the self-play threads."""

    @property
    def searched_move_count(self) -> int:
        """Number of moves searched in this iteration."""
        return self.positions if self.plies is None else self.plies

    def summary(self) -> str:
        seconds = max(self.wall_seconds, 1e-9)
        full = "" if self.full is None else f" ({self.full} fully searched)"
        each = "" if self.full_simulations is None else f", {self.full_simulations} per search"
        return (
            f"self-play  {self.games} games ({self.distinct_games} distinct), {self.positions}"
            f" positions{full}, {self.searched_move_count / seconds:,.0f} positions/s,"
            f" {self.simulations / seconds:,.0f} simulations/s{each}"
        )


class LearnRecord(Record):
    """The training of a network."""

    stage: str = "learn"
    examples_seen: Annotated[int, Unit("examples")]
    """Training examples, including repetitions and symmetries."""
    window: PositionCount
    """Examples in the window, excluding symmetries; merged positions count once."""
    merged: PositionCount | None = None
    """New positions that were merged with equal positions; absent without merging."""
    parameters: Annotated[int, Unit("weights")] | None = None
    """Trainable weights and biases of the network; absent if the network never grows."""
    loss: dict[str, float]
    """Means over the last epoch, by name: the error of every head, the losses of policy and value
    (`sum`, `product`, `weighted`) and, with other heads, the `total`. An epoch is a pass over the
    window; with `learn.replay_ratio`, the last pass can be incomplete."""
    epoch_losses: list[dict[str, float]] | None = None
    """The same means for every epoch, in order; absent if there is only one epoch."""
    learning_rate: float | None = None
    """Learning rate of the last step; absent with a constant rate."""
    peak_learning_rate: float | None = None
    """Highest learning rate of all steps; absent with a constant rate."""
    gradient_norm: float | None = None
    """Mean norm of the gradients before clipping; absent without clipping."""

    @property
    def head_names(self) -> list[str]:
        """Names of the heads in `loss`, and of scalars that only another package's loss logs."""
        return [name for name in self.loss if name not in _COMBINED]

    def summary(self) -> str:
        losses = ", ".join(f"{name} loss {self.loss[name]:.3f}" for name in self.head_names)
        rate = self.examples_seen / max(self.wall_seconds, 1e-9)
        return f"learn      {losses}, {self.examples_seen} examples, {rate:,.0f} examples/s"


class GateRecord(Record):
    """The gate's verdict on a candidate and the results of its games.

    Wins and losses are the candidate's. Elo and likelihood are estimated from the effective number
    of games, because a repeated game provides no new evidence.
    """

    stage: str = "gate"
    accepted: bool
    """True if the candidate replaced the best network."""
    elo: Elo
    """Training Elo of the best network after the gate; the initial network has Elo 0."""
    wins: GameCount | None = None
    """Wins. This field and those below are absent if the gate plays no games."""
    draws: GameCount | None = None
    """Draws."""
    losses: GameCount | None = None
    """Losses."""
    distinct_games: GameCount | None = None
    """Distinct games; the same moves with colours swapped count separately."""
    candidate_elo: Elo | None = None
    """Training Elo of the candidate: the best network's Elo plus the estimated difference."""
    candidate_elo_low: Elo | None = None
    """Lower end of the 95 % confidence interval, which treats the best network's Elo as exact."""
    candidate_elo_high: Elo | None = None
    """Upper end of the 95 % confidence interval of the candidate's Elo."""
    los: Share | None = None
    """Likelihood that the candidate is stronger than the best network before the gate."""

    def summary(self) -> str:
        verdict = "accepted" if self.accepted else "rejected"
        if self.wins is None:
            return f"gate       {verdict}"
        score = f"{self.wins} won, {self.draws} drawn, {self.losses} lost"
        return f"gate       {verdict}: {score}, training Elo {self.elo:+.0f}"


class WarmStartMatchRecord(Record):
    """A match of plain search against warm-start search, both with the best network.

    Wins and losses are from the point of view of plain search.
    """

    stage: str = "warm_start_match"
    wins: GameCount
    """Wins."""
    draws: GameCount
    """Draws."""
    losses: GameCount
    """Losses."""
    distinct_games: GameCount
    """Distinct games; the same moves with colours swapped count separately."""
    los: Share
    """Likelihood that plain search is stronger, from the effective number of games."""
    over: bool
    """True if the warm start ends after this iteration."""

    def summary(self) -> str:
        verdict = "ends" if self.over else "continues"
        return (
            f"warm start {verdict}: plain search {self.wins} won, {self.draws} drawn,"
            f" {self.losses} lost; likelihood that plain search is stronger: {percent(self.los)}"
        )


class AccuracyRecord(Record):
    """Accuracy of the best network and its search on solved positions.

    Strong accuracy is the share of positions where the chosen move preserves the exact score. Weak
    accuracy is the share where it preserves the game value (win, draw or loss). ``_low`` and
    ``_high`` are the ends of 95 % confidence intervals.
    """

    stage: str = "accuracy"
    network: NetworkIteration
    """Iteration of the measured network."""
    positions: PositionCount
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
            f"accuracy   {self.positions} solved positions: strong"
            f" {percent(self.network_strong)}, with search {percent(self.search_strong)};"
            f" weak {percent(self.network_weak)}, with search {percent(self.search_weak)}"
        )


class HeldOutRecord(Record):
    """Predictions of the network on solved positions outside the training part.

    ``_low`` and ``_high`` are the ends of 95 % confidence intervals.
    """

    stage: str = "supervised"
    part: Literal["validation", "test"]
    """Part of the file; all positions of a game are in the same part."""
    positions: PositionCount
    """Positions in this part."""
    policy_error: float
    """Mean cross-entropy between the priors and the uniform policy over the best moves."""
    value_error: Annotated[float, Unit("0 to 4")]
    """Mean squared difference between the network's value and the exact outcome -1, 0 or 1."""
    strong: Share
    """Share of positions where the move with the highest prior preserves the exact score."""
    strong_low: Share
    strong_high: Share
    weak: Share
    """Share of positions where the move with the highest prior preserves the game value."""
    weak_low: Share
    weak_high: Share
    label: Share
    """Share of positions where the most probable outcome equals the label. With correct labels this
    equals `result`."""
    label_low: Share
    label_high: Share
    result: Share
    """Share of positions where the most probable outcome equals the exact outcome."""
    result_low: Share
    result_high: Share

    @property
    def log_group(self) -> str:
        return f"{self.stage}/{self.part}"

    def summary(self) -> str:
        return (
            f"{self.part:10} {self.positions} positions: best move {percent(self.strong)}"
            f" ({percent(self.strong_low)} to {percent(self.strong_high)}), game value preserved"
            f" {percent(self.weak)}, result predicted {percent(self.result)}"
        )


class OpponentRecord(Record):
    """Base class of records about one baseline opponent in the final evaluation."""

    network: NetworkIteration
    """Iteration of the best network."""
    opponent: str
    """Spec of the baseline; ``@0`` is the initial network of this run."""

    @property
    def log_group(self) -> str:
        return f"{self.stage}/{self.opponent}"


class BaselineRecord(OpponentRecord):
    """Games of the best network against one baseline opponent after training."""

    stage: str = "final_evaluation"
    asked: str | None = None
    """Spec in the settings, if it differs from `opponent`: ``@12`` is the best network after
    iteration 12, which an earlier iteration trained if candidate 12 was rejected."""
    wins: GameCount
    """Wins of the network."""
    draws: GameCount
    """Draws."""
    losses: GameCount
    """Losses of the network."""
    distinct_games: GameCount
    """Distinct games; the same moves with colours swapped count separately."""
    score_rate: Share
    """Points per game; a draw is half a point."""
    low: Share
    """Lower end of the Wilson 95 % confidence interval of the score rate."""
    high: Share
    """Upper end of the Wilson 95 % confidence interval of the score rate."""

    def summary(self) -> str:
        requested = f" (for {self.asked})" if self.asked else ""
        return (
            f"against {self.opponent}{requested}: {percent(self.score_rate)} (95 % interval"
            f" {percent(self.low)} to {percent(self.high)}), {self.wins} won, {self.draws} drawn,"
            f" {self.losses} lost, {self.distinct_games} distinct games"
        )


class UnplayedBaselineRecord(OpponentRecord):
    """A baseline opponent whose games could not be finished."""

    stage: str = "unplayed_baseline"
    reason: str
    """Cause of the failure, such as a position that the solver could not solve."""

    def summary(self) -> str:
        return f"against {self.opponent}: not played, {self.reason}"
