"""Cards of agents: TOML files that record training and strength, stored next to agent files.

A card records the settings and seed of every measurement, so anyone can repeat it (`remeasure`).
Instead of solved positions, a card records the `zerolab dataset` settings that collect them.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import tomli_w
from pydantic import Field, model_validator

from zerolab.agents.agent import Agent
from zerolab.agents.file_agents import CheckedAgent, StoredAgent, with_search_options
from zerolab.agents.specs import require_public_agent
from zerolab.core import __version__
from zerolab.core.config import Settings, validate
from zerolab.core.errors import UserError, quoted
from zerolab.core.files import write_text
from zerolab.core.nested_tables import read_toml
from zerolab.core.resources import ProgressBarFactory
from zerolab.evaluation.accuracy import AccuracyReport, agent_accuracy_reports
from zerolab.evaluation.collecting import DatasetSettings
from zerolab.evaluation.opponents import play_against_perfect, play_baseline
from zerolab.evaluation.position_statistics import MeanEstimate
from zerolab.evaluation.solved_sets import collect_cached_positions
from zerolab.oracles.solver import SolverBudget, oracle_for
from zerolab.play.pair_results import PairResult, pair_result
from zerolab.report.table import Cell, Interval
from zerolab.rules.catalogue import game_name
from zerolab.store.arrays import PrintableText
from zerolab.store.checks import check_schema_version
from zerolab.store.folder import RunEnvironment

SCHEMA = 1
_WIDTH_TOLERANCE = 0.02  # for shares near 0 and 1, where the widths of intervals vary
_DIGITS = 4  # decimals of shares, a hundredth of a percentage point
_Rate = Annotated[float, Field(ge=0, le=1)]
_Count = Annotated[int, Field(ge=0)]
_Seed = Annotated[int, Field(ge=0, lt=1 << 63)]


class MeasuredShare(Settings):
    """Share of positions, or points per game, with its 95 % interval."""

    value: _Rate
    low: _Rate
    high: _Rate
    samples: _Count
    """Number of positions, or effective number of games."""

    @classmethod
    def from_interval(cls, interval: Interval, samples: int) -> MeasuredShare:
        """Return a share rounded to a hundredth of a percentage point."""
        value, low, high = (round(each, _DIGITS) for each in interval)
        return cls(value=value, low=low, high=high, samples=samples)

    @property
    def interval(self) -> Interval:
        """Value and interval as a cell of a table."""
        return Interval(self.value, self.low, self.high)

    def agrees_with(self, measured: MeasuredShare) -> bool:
        """Return whether this share is plausible, given a measured one.

        The value of this share must be in this share's interval, the two intervals must overlap,
        and this share's interval must not be much wider than the other.
        """
        width, measured_width = self.high - self.low, measured.high - measured.low
        is_wide = width > 2 * measured_width + _WIDTH_TOLERANCE
        is_inside = self.low <= self.value <= self.high
        return self.low <= measured.high and measured.low <= self.high and is_inside and not is_wide


class GoodMoveShares(Settings):
    """Shares of positions in which a player chooses a good move (see `evaluation.accuracy`)."""

    strong: MeasuredShare
    """Share with a best move."""
    weak: MeasuredShare
    """Share with a move that preserves the result."""


class CardAccuracy(Settings):
    """Accuracy on solved positions, which `zerolab dataset` collects with these settings."""

    positions: int = Field(ge=1, le=1_000_000)  # number requested; small games have fewer
    dataset: DatasetSettings
    digest: PrintableText
    """Digest in the manifest of the positions."""
    seed: _Seed
    """Seed of the agent's random choices."""
    network: GoodMoveShares
    """Accuracy of the policy alone."""
    search: GoodMoveShares | None = None
    """Accuracy of the search; None if the agent plays without search."""


class CardMatch(Settings):
    """Match against an opponent, from the point of view of the agent."""

    opponent: PrintableText
    """Spec of the opponent."""
    games: int = Field(ge=2, le=1_000_000)
    openings: int = Field(ge=0, le=1000)
    """Number of random plies; each opening is played with both colours."""
    seed: _Seed
    wins: _Count
    draws: _Count
    losses: _Count
    score: MeasuredShare
    """Points per game; a draw counts half."""

    @model_validator(mode="after")
    def _check_counts(self) -> CardMatch:
        if self.wins + self.draws + self.losses != self.games or self.score.samples > self.games:
            raise ValueError(f"expected {self.games} games in total")
        points = (self.wins + self.draws / 2) / self.games
        if abs(points - self.score.value) > 10.0**-_DIGITS:
            raise ValueError("the score does not match the wins, draws and losses")
        return self


class CardPerfectPlay(Settings):
    """Games against perfect play, half of them as first player."""

    games: int = Field(ge=2, le=1_000_000)
    openings: int = Field(ge=0, le=1000)
    seed: _Seed
    nodes: int = Field(ge=1)
    """Maximum number of positions that the solver searches per move."""
    first: MeasuredShare
    """Points per game as first player."""
    second: MeasuredShare
    """Points per game as second player."""


class TrainingSummary(Settings):
    """Training of a network, without the names of folders and machines."""

    preset: PrintableText
    settings: dict[str, Any] = Field(default_factory=dict)
    """Settings that differ from the preset, by dotted key."""
    command: Annotated[str, Field(max_length=10_000)]
    """Command that trains a network with the same settings."""
    iterations: _Count
    """Iteration of the run that trained the network."""
    games: _Count
    """Number of self-play games."""
    positions: _Count
    """Number of self-play positions."""
    hours: float = Field(ge=0)
    """Wall-clock hours of training, excluding measurements."""
    environments: tuple[RunEnvironment, ...] = ()
    """Hardware and library versions."""


class AgentCard(Settings):
    """Card of an agent in a file."""

    digest: PrintableText
    """Digest of the agent file."""
    game: PrintableText
    options: PrintableText = ""
    """Difference between the agent's search and that of training, such as simulations=400."""
    simulations: _Count
    """Simulations per move."""
    measured: date
    zerolab: PrintableText
    """Version of zerolab that measured the agent."""
    training: TrainingSummary
    accuracy: CardAccuracy | None = None
    """None if not measured, for example because the game is too hard to solve."""
    perfect_play: CardPerfectPlay | None = None
    matches: tuple[CardMatch, ...] = ()

    @model_validator(mode="after")
    def _check_opponents(self) -> AgentCard:
        opponents = [each.opponent for each in self.matches]
        if len(set(opponents)) < len(opponents):
            raise ValueError("matches: expected different opponents")
        return self


def card_path(agent_file: Path) -> Path:
    """Return the path of an agent file's card, which is in the same folder."""
    return agent_file.with_suffix(".toml")


def read_card(agent_file: Path, agent: CheckedAgent) -> AgentCard | None:
    """Return the card of an agent, or None if there is none.

    Raises a one-line UserError for a damaged card or the card of another agent.
    """
    path = card_path(agent_file)
    if not path.exists():
        return None
    table = read_toml(path)
    check_schema_version(path, table.pop("schema", None), SCHEMA)
    try:
        card = validate(AgentCard, table)
    except UserError as error:
        reason, *others = str(error).splitlines()
        more = f", and {len(others)} more error{'s' * (len(others) > 1)}" if others else ""
        raise UserError(f"{quoted(path)} is not a card of an agent: {reason}{more}") from None
    if (card.digest, card.game) != (agent.digest, game_name(agent.game)):
        raise UserError(
            f"{quoted(path)} is the card of another agent, {card.digest[:8]} of {card.game}:"
            f" {quoted(agent_file)} is {agent.digest[:8]} of {game_name(agent.game)}"
        )
    origin, training = agent.header.origin, card.training
    stated = training.iterations, training.games, training.positions
    search = agent.search_settings
    try:
        named = with_search_options(agent, card.options).search_settings if card.options else search
    except UserError as error:
        raise UserError(f"{quoted(path)}: options: {error}") from None
    are_equal = (named, card.simulations) == (search, search.simulations)
    if not are_equal or stated != (origin.iteration, origin.games, origin.positions):
        other = "its training or options differ"
        raise UserError(f"{quoted(path)} does not describe {quoted(agent_file)}: {other}")
    return card


def write_card(agent_file: Path, card: AgentCard) -> Path:
    """Write the card of an agent file to the file's folder; return the card's path."""
    path = card_path(agent_file)
    write_text(path, tomli_w.dumps({"schema": SCHEMA, **card.model_dump()}))
    return path


def measure_accuracy(
    agent: Agent, position_count: int, dataset: DatasetSettings, seed: int,
    new_bar: ProgressBarFactory,
) -> CardAccuracy:  # fmt: skip
    """Measure an agent on solved positions, which are collected first if they are not cached.

    Raises NotSolvedError, a kind of UserError, if the game is too hard to solve.
    """
    with new_bar(f"solving {game_name(agent.game)}", position_count, "positions") as update:
        solved, digest = collect_cached_positions(
            agent.game, position_count, dataset,
            lambda progress: update(progress.position_count, f"{progress.counts.games} games"),
        )  # fmt: skip
    with new_bar("choosing moves", len(solved), "positions") as update:
        reports = agent_accuracy_reports(agent, solved, seed, update)
    shares = {report.name: _move_shares(report) for report in reports}
    return CardAccuracy(
        positions=position_count, dataset=dataset, digest=digest, seed=seed,
        network=shares["network"], search=shares.get("search"),
    )  # fmt: skip


def _move_shares(report: AccuracyReport) -> GoodMoveShares:
    def share(estimate: MeanEstimate | None) -> MeasuredShare:
        assert estimate is not None  # there is at least one position
        return MeasuredShare.from_interval(estimate.interval, estimate.sample_count)

    accuracy = report.all_positions
    return GoodMoveShares(strong=share(accuracy.strong), weak=share(accuracy.weak))


def measure_match(
    agent: Agent, opponent: str, games: int, openings: int, seed: int, new_bar: ProgressBarFactory
) -> CardMatch:
    """Play a match between an agent and an opponent given by a spec.

    Raises UserError if the opponent is a program, run or file: a card can come from an unknown
    author, so its verification must not run programs.
    """
    require_public_agent(opponent)
    with new_bar(f"against {opponent}", games, "games") as update:
        pair = play_baseline(agent, opponent, games, openings, seed, update)
    return CardMatch(
        opponent=opponent, games=games, openings=openings, seed=seed,
        **pair.score._asdict(), score=_score(pair),
    )  # fmt: skip


def measure_perfect_play(
    agent: Agent, games: int, openings: int, seed: int, nodes: int, new_bar: ProgressBarFactory
) -> CardPerfectPlay:
    """Play games against perfect play; raise NotSolvedError if the game is too hard to solve."""
    oracle = oracle_for(agent.game, SolverBudget(nodes=nodes))
    with new_bar("against perfect play", games, "games") as update:
        played, _ = play_against_perfect(agent.game, agent, oracle, games, openings, seed, update)
    first, second = (
        pair_result(played[0].first, played[0].second, [x for x in played if x.number % 2 == side])
        for side in (0, 1)
    )
    return CardPerfectPlay(
        games=games, openings=openings, seed=seed, nodes=nodes,
        first=_score(first), second=_score(second),
    )  # fmt: skip


def _score(pair: PairResult) -> MeasuredShare:
    return MeasuredShare.from_interval(pair.interval, round(pair.effective_games))


def remeasure(card: AgentCard, agent: Agent, new_bar: ProgressBarFactory) -> AgentCard:
    """Repeat the measurements of a card with the same settings and seeds; return the new card."""
    old, perfect = card.accuracy, card.perfect_play
    accuracy = old and measure_accuracy(agent, old.positions, old.dataset, old.seed, new_bar)
    if perfect is not None:
        perfect = measure_perfect_play(
            agent, perfect.games, perfect.openings, perfect.seed, perfect.nodes, new_bar
        )
    matches = tuple(
        measure_match(agent, each.opponent, each.games, each.openings, each.seed, new_bar)
        for each in card.matches
    )
    return card.model_copy(update={
        "accuracy": accuracy, "perfect_play": perfect, "matches": matches,
        "simulations": getattr(agent.search_settings, "simulations", 0),
        "measured": date.today(), "zerolab": __version__,
    })  # fmt: skip


class AgentWithCard(NamedTuple):
    """Agent in a file, and its card if it has one."""

    stored_agent: StoredAgent
    card: AgentCard | None

    @property
    def name(self) -> str:
        """Name of the agent, taken from the file."""
        return self.stored_agent.path.stem

    @property
    def game(self) -> str:
        """Name of the game."""
        return game_name(self.stored_agent.agent.game)

    @property
    def size_bytes(self) -> int:
        """Size of the file."""
        return self.stored_agent.path.stat().st_size

    @property
    def simulations(self) -> int:
        """Simulations per move."""
        return self.stored_agent.agent.search_settings.simulations

    @property
    def measured_shares(self) -> dict[str, MeasuredShare]:
        """Measured shares on the card, by name."""
        return {} if self.card is None else dict(card_measured_shares(self.card))


def read_agent_with_card(stored: StoredAgent) -> AgentWithCard:
    """Return an agent with its card, if it has one; raise UserError like `read_card`."""
    return AgentWithCard(stored, read_card(stored.path, stored.agent))


class CardComparison(NamedTuple):
    """Statement on a card, compared with a repeated measurement."""

    quantity: str
    """Name of the number compared, such as "strong moves, search"."""
    stated: Cell
    measured: Cell
    agrees: bool
    """True if the texts are equal, or the intervals agree (see `MeasuredShare.agrees_with`)."""


def compare_cards(card: AgentCard, remeasured: AgentCard) -> list[CardComparison]:
    """Compare all numbers on a card with those from `remeasure`."""
    texts = {"simulations": (str(card.simulations), str(remeasured.simulations))}
    if card.accuracy is not None and remeasured.accuracy is not None:
        texts["digest of the positions"] = card.accuracy.digest, remeasured.accuracy.digest
    comparisons = [CardComparison(name, *pair, pair[0] == pair[1]) for name, pair in texts.items()]
    stated, measured = dict(card_measured_shares(card)), dict(card_measured_shares(remeasured))
    for quantity in stated | measured:
        old, new = stated.get(quantity), measured.get(quantity)
        cells = [each.interval if each else None for each in (old, new)]
        agrees = old is not None and new is not None and old.agrees_with(new)
        comparisons.append(CardComparison(quantity, cells[0], cells[1], agrees))
    return comparisons


def card_measured_shares(card: AgentCard) -> Iterator[tuple[str, MeasuredShare]]:
    """Yield the name and the value of each measured share on a card."""
    if card.accuracy is not None:
        for player in ("network", "search"):
            moves: GoodMoveShares | None = getattr(card.accuracy, player)
            if moves is not None:
                yield f"strong moves, {player}", moves.strong
                yield f"weak moves, {player}", moves.weak
    if card.perfect_play is not None:
        yield "first against perfect", card.perfect_play.first
        yield "second against perfect", card.perfect_play.second
    for match in card.matches:
        yield f"against {match.opponent}", match.score
