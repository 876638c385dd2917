"""Records of the stages of a run: the lines of metrics.jsonl, typed and with units.

They stand in one file, however long: it is the schema of metrics.jsonl.

A record class stands for one kind of line; its name in the file is the default of `stage`. Fields
named ``wall_...`` were read off a clock, or off the process; all others are equal in every run with
the same settings. docs/metrics.md and TensorBoard are made from these classes alone, so that a new
metric is a new field here and a value in its stage. The console shows `Record.summary`, and
training/curves.py draws chosen fields in panels of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from zerolab.store.games import SELF_PLAY


class Unit(NamedTuple):
    """What a number counts or is measured in."""

    name: str


Seconds = Annotated[float, Unit("s")]
Games = Annotated[int, Unit("games")]
Positions = Annotated[int, Unit("positions")]
Elo = Annotated[float, Unit("Elo, BayesElo's scale")]
Probability = Annotated[float, Unit("0 to 1")]
Share = Annotated[float, Unit("0 to 1")]
Network = Annotated[int, Unit("iteration")]


class Record(BaseModel):
    """What one line of metrics.jsonl says about a finished stage."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False
    )
    types: ClassVar[dict[str, type[Record]]] = {}
    """Every kind of record by its stage."""

    stage: str
    """The stage that wrote the record."""
    iteration: Annotated[int, Unit("iteration")]
    """The iteration, counted from 1."""
    wall_seconds: Seconds
    """How long the stage took; where a stage writes several records, its part for this one."""
    wall_memory: Annotated[int, Unit("MiB")] | None = None
    """The most memory that the process had used by then, since it began or resumed the run; absent
    from runs of earlier versions. It is no more the same in equal runs than what a clock says."""

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        stage = cls.model_fields["stage"].default
        if isinstance(stage, str):
            cls.types[stage] = cls

    def line(self) -> dict[str, Any]:
        """Return the record as metrics.jsonl has it; what is None is left out."""
        return self.model_dump(exclude_none=True)

    def numbers(self) -> Iterator[tuple[str, float]]:
        """Yield the names and values of all numbers but the iteration, such as ``loss/policy``."""
        for name, value in self.line().items():
            if isinstance(value, dict):
                yield from ((f"{name}/{key}", float(number)) for key, number in value.items())
            elif isinstance(value, int | float) and name != "iteration":
                yield name, float(value)

    @property
    def tag(self) -> str:
        """What TensorBoard groups the numbers under."""
        return self.stage

    def summary(self) -> str:
        """Return what people want to know, in one line."""
        return ", ".join(f"{name} {value:g}" for name, value in self.numbers())


class SelfPlayRecord(Record):
    """The games of an iteration, and what their searches did."""

    stage: str = SELF_PLAY
    games: Games
    """Games that were finished."""
    distinct_games: Games
    """Different sequences of moves among them."""
    positions: Positions
    """Examples: one per move of these games."""
    plies_per_game: Annotated[float, Unit("plies")] | None = None
    """Mean length of a game; absent where none was finished."""
    plies: Annotated[int, Unit("plies")] | None = None
    """Moves that searches have decided in this iteration (in plain self-play random plies, too,
    which have a simulation each), where examples may be others: with
    continuous self-play some games began before it and others go on after it; retries begin with
    random moves, or with those of another game."""
    unfinished: Games | None = None
    """Games that go on in the next iteration, by continuous self-play alone."""
    full: Positions | None = None
    """Examples that were searched fully; absent where all were, with a fixed budget."""
    simulations_per_move: Annotated[float, Unit("simulations")] | None = None
    """Simulations divided by the moves that they have decided; absent with a fixed budget. With a
    search service, where a search decides several moves, it is less than a search has."""
    asked: Positions | None = None
    """Questions to the search service, one per move that it decides; of a big tree, one per new
    position. Absent without a service."""
    merged: Positions | None = None
    """Questions equal to another one of their call."""
    remembered: Positions | None = None
    """Questions answered from the service's cache."""
    searched: Positions | None = None
    """Positions that the service has searched, for the other questions."""
    warm_start_weight: Share | None = None
    """The weight of the warm start in this iteration; absent without a warm start."""
    generation: Annotated[int, Unit("generations")] | None = None
    """Of the league's players who played the last game, counted from 0; absent without a league."""
    simulations: Annotated[int, Unit("simulations")]
    """Simulations of all searches."""
    evaluated: Positions
    """Leaves that the network evaluated, bare roots included."""
    deduplicated: Positions
    """Leaves equal to another one of their step, evaluated once."""
    cached: Positions
    """Leaves whose evaluation was found in the cache."""
    terminal: Positions
    """Leaves where the game was over, or whose result was proven."""
    proven: Positions | None = None
    """Positions whose result the searches proved, finished games not counted; absent without proven
    values."""
    wall_select_seconds: Seconds
    """Time spent selecting leaves, summed over the threads of self-play."""
    wall_evaluate_seconds: Seconds
    """Time spent in the network, summed over the threads of self-play."""
    wall_backup_seconds: Seconds
    """Time spent expanding and backing up, summed over the threads of self-play."""

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
"""Losses that are not those of a head."""


class LearnRecord(Record):
    """How the network was trained."""

    stage: str = "learn"
    examples_seen: Annotated[int, Unit("examples")]
    """Examples seen, repetitions and symmetries included."""
    window: Positions
    """Examples in the window, before symmetries; where equal positions are merged, each is one."""
    merged: Positions | None = None
    """Positions of the iteration's games that were merged into equal ones; absent without
    merging."""
    parameters: Annotated[int, Unit("weights")] | None = None
    """Weights and biases of the network; absent where it never grows."""
    loss: dict[str, float]
    """Means over the last epoch, by name: the error of every head, what the loss makes of those of
    policy and value (`sum`, `product`, `weighted`), and, with further heads, the `total`. An epoch
    is a pass over the window; with `learn.replay_ratio` the last one may end early."""
    epoch_losses: list[dict[str, float]] | None = None
    """The same means for every epoch, in order; absent where there is one epoch."""
    learning_rate: float | None = None
    """The learning rate of the last step; absent, as the next one, where it is constant."""
    peak_learning_rate: float | None = None
    """The highest learning rate of a step."""
    gradient_norm: float | None = None
    """Mean norm of the gradients before clipping; absent where they are not clipped."""

    @property
    def heads(self) -> list[str]:
        """The names under which `loss` has the errors of heads."""
        return [name for name in self.loss if name not in _COMBINED]

    def summary(self) -> str:
        losses = ", ".join(f"{name} loss {self.loss[name]:.3f}" for name in self.heads)
        rate = self.examples_seen / max(self.wall_seconds, 1e-9)
        return f"learn      {losses}, {self.examples_seen} examples, {rate:,.0f} examples/s"


class GateRecord(Record):
    """Whether the candidate became the best network, and what its games showed.

    Games are counted from the candidate's side. Elo and likelihood are estimated from distinct
    games: a repeated game is no new evidence.
    """

    stage: str = "gate"
    accepted: bool
    """Whether the candidate replaced the best network."""
    elo: Elo
    """Training Elo of the best network after the gate; the untrained network has 0."""
    wins: Games | None = None
    """Games won; absent, as all that follows, where the gate plays none."""
    draws: Games | None = None
    """Games drawn."""
    losses: Games | None = None
    """Games lost."""
    distinct_games: Games | None = None
    """Different games among them; the same moves with colours exchanged count separately."""
    candidate_elo: Elo | None = None
    """Training Elo of the candidate: that of the best network, plus the difference estimated."""
    candidate_elo_low: Elo | None = None
    """Lower end of its 95 % interval, the best network's Elo taken as known."""
    candidate_elo_high: Elo | None = None
    """Upper end of that interval."""
    los: Probability | None = None
    """Likelihood that the candidate is stronger than the best network was."""

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
    """Whether the warm start ends here."""

    def summary(self) -> str:
        verdict = "ends" if self.over else "continues"
        return (
            f"warm start {verdict}: plain search {self.wins} won, {self.draws} drawn,"
            f" {self.losses} lost; stronger with a likelihood of {self.los:.1%}"
        )


class AccuracyRecord(Record):
    """How often the best network and its search choose right on solved positions.

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
    """What the network says about solved positions that it has not learnt from.

    ``_low`` and ``_high`` are the ends of 95 % intervals.
    """

    stage: str = "supervised"
    part: Literal["validation", "test"]
    """Which part of the file was measured; no game has positions in two of them."""
    positions: Positions
    """Positions of this part."""
    policy_error: float
    """Mean cross-entropy of the priors with the policy that is uniform over the best moves."""
    value_error: Annotated[float, Unit("0 to 4")]
    """Mean squared difference between the network's value and the exact outcome -1, 0 or 1."""
    strong: Share
    """How often the move of the highest prior keeps the exact score."""
    strong_low: Share
    strong_high: Share
    weak: Share
    """How often it keeps the game value: won, drawn or lost."""
    weak_low: Share
    weak_high: Share
    label: Share
    """How often the most probable outcome is the label; with right labels the same as `result`."""
    label_low: Share
    label_high: Share
    result: Share
    """How often the most probable outcome is the exact one."""
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
    """The best network's games against one baseline opponent, once training is over."""

    stage: str = "final_evaluation"
    network: Network
    """The network that played."""
    opponent: str
    """The baseline's spec; ``@0`` is network 0 of this run, the untrained one."""
    asked: str | None = None
    """Its name in the settings, where its network has another number: ``@12`` is the best network
    after iteration 12, which an earlier iteration has trained where candidate 12 was rejected."""
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
    """A baseline opponent that cannot finish its games, however often they are repeated."""

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
