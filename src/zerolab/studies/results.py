"""Results of a study, from which its report is generated.

Results are read from a ledger, so a report needs neither the runs nor the machine that made them.
It can be generated at any time and lists the unfinished parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import permutations
from typing import Any, NamedTuple

from zerolab.core.code_digests import current_versions
from zerolab.core.errors import UserError
from zerolab.ratings.bayes import Rating, Ratings, rate_tallies
from zerolab.ratings.results import MatchScore, tally_of_scores
from zerolab.report.claims import Verdict
from zerolab.report.document import Provenance
from zerolab.store.state import Environment
from zerolab.studies.claims import Look, Statistics, judge_claims
from zerolab.studies.design import Design, Level, PlannedRun, PlannedTournament
from zerolab.studies.ledger import Ledger, LedgerRow, PairScore
from zerolab.studies.looks import TakenLook
from zerolab.studies.machines import (
    describe_machine,
    describe_this_machine,
    gpu_name,
    join_distinct,
)
from zerolab.studies.seeds import format_seeds
from zerolab.training.records import GateRecord, LearnRecord, Record, SelfPlayRecord

STAGES = ("selfplay", "learn", "gate")
"""Stages whose times add up to the training time [Wang2020a, eq. 2]."""


@dataclass(frozen=True)
class TrainedRun:
    """Finished run with the records of its stages."""

    planned: PlannedRun
    records: Sequence[Record]
    weights_digest: str = ""
    """Digest of the final network."""
    environments: Sequence[Environment] = ()
    """Hardware and software of the training."""
    measurements: Mapping[str, Any] = field(default_factory=dict)
    """Further measurements for the report, see `Study.measure`."""

    @property
    def factors(self) -> Mapping[str, Level]:
        """Levels that distinguish the run, including the seed."""
        return self.planned.factors

    @property
    def seed(self) -> Level:
        """Seed of the run."""
        return self.factors["seed"]

    def records_of(self, record_type: type[Record]) -> list[Any]:
        """Return the records of one type, ordered by iteration."""
        return [record for record in self.records if isinstance(record, record_type)]

    @cached_property
    def last_epoch_losses(self) -> list[dict[str, float]]:
        """Losses by name in the last epoch of each iteration."""
        return [record.loss for record in self.records_of(LearnRecord)]

    @cached_property
    def epoch_losses(self) -> list[list[dict[str, float]]]:
        """Losses by name in each epoch of each iteration."""
        return [record.epoch_losses or [record.loss] for record in self.records_of(LearnRecord)]

    @cached_property
    def training_elos(self) -> list[float]:
        """Training Elo of the best network after each iteration; the untrained network has 0."""
        return [record.elo for record in self.records_of(GateRecord)]

    @cached_property
    def seconds_by_stage(self) -> dict[str, float]:
        """Seconds of self-play, learning and gates, by stage."""
        totals = dict.fromkeys(STAGES, 0.0)
        for record in self.records:
            if record.stage in totals:
                totals[record.stage] += record.wall_seconds
        return totals

    @property
    def total_seconds(self) -> float:
        """Total seconds of self-play, learning and gates."""
        return sum(self.seconds_by_stage.values())

    @property
    def accepted_count(self) -> int:
        """Number of candidates that became the best network."""
        return sum(record.accepted for record in self.records_of(GateRecord))

    @property
    def position_count(self) -> int:
        """Number of self-play positions."""
        return sum(record.positions for record in self.records_of(SelfPlayRecord))


@dataclass(frozen=True)
class PlayedTournament:
    """Finished tournament, or finished tournaments of several seeds."""

    planned: Sequence[PlannedTournament]
    """The tournament, or one tournament per seed."""
    scores: Mapping[str, Sequence[PairScore]]
    """Score of every player against every opponent, by key of the tournament."""

    @cached_property
    def ratings(self) -> dict[str, Ratings]:
        """Bayesian Elo of all players, from distinct games, by key of the tournament."""
        return {each.key: _rate(self.scores[each.key]) for each in self.planned}

    @cached_property
    def rating_by_player(self) -> dict[str, Rating]:
        """Ratings of all networks by name; names include the seed."""
        return {
            rating.player: rating
            for planned in self.planned
            for rating in self.ratings[planned.key].players
            if rating.player in planned.run_by_player
        }

    def agent_ratings(self, spec: str = "random") -> list[Rating]:
        """Return the rating of an agent in each tournament."""
        return [
            next(each for each in ratings.players if each.player == spec)
            for ratings in self.ratings.values()
        ]

    @cached_property
    def run_by_player(self) -> dict[str, PlannedRun]:
        """Run of each network by name."""
        return {name: run for each in self.planned for name, run in each.run_by_player.items()}

    @cached_property
    def iteration_by_player(self) -> dict[str, int]:
        """Iteration whose best network plays, by name; see `PlannedTournament`."""
        return {
            name: iteration
            for each in self.planned
            for name, iteration in each.iteration_by_player.items()
        }

    @cached_property
    def _player_by_run(self) -> dict[tuple[str, str], str]:
        """First player of each run, by part and label."""
        players: dict[tuple[str, str], str] = {}
        for name, run in self.run_by_player.items():
            players.setdefault((run.part, run.label), name)
        return players

    def plays(self, run: TrainedRun) -> bool:
        """Return whether a run plays in the tournament."""
        return (run.planned.part, run.planned.label) in self._player_by_run

    def final_rating(self, run: TrainedRun | PlannedRun) -> Rating:
        """Return the rating of a run's final network; KeyError if the run does not play."""
        planned = run.planned if isinstance(run, TrainedRun) else run
        return self.rating_by_player[self._player_by_run[planned.part, planned.label]]

    def elo_above_agent(self, run: TrainedRun | PlannedRun, spec: str = "random") -> float:
        """Return the Elo of a run's final network above an agent in the same tournament."""
        rating = self.final_rating(run)
        for ratings in self.ratings.values():
            by_player = {each.player: each for each in ratings.players}
            if rating.player in by_player:
                return rating.elo - by_player[spec].elo
        raise KeyError(rating.player)

    def pair(self, player: str, opponent: str) -> PairTotal:
        """Return the score of a player against an opponent over both colours."""
        (pair,) = (
            each
            for scores in self.scores.values()
            for each in scores
            if (each.player, each.opponent) == (player, opponent)
        )
        return PairTotal(
            _sum(pair.first, pair.second), _sum(pair.distinct_first, pair.distinct_second)
        )


def _rate(scores: Sequence[PairScore]) -> Ratings:
    distinct = {(each.player, each.opponent): each.distinct_first for each in scores}
    played = {(each.player, each.opponent): each.first for each in scores}
    return rate_tallies(tally_of_scores(distinct), tally_of_scores(played))


class PairTotal(NamedTuple):
    """Score of a player against an opponent."""

    score: MatchScore
    """Score over all games."""
    distinct_score: MatchScore
    """Score over distinct games."""


def _sum(one: MatchScore, other: MatchScore) -> MatchScore:
    return MatchScore(*(a + b for a, b in zip(one, other, strict=True)))


@dataclass(frozen=True)
class Results:
    """Finished part of a study."""

    scale: str
    design: Design
    runs: Sequence[TrainedRun]
    tournaments: Mapping[str, PlayedTournament]
    """Finished tournaments by group; a group is finished if it is for all seeds of the design."""
    computation_results: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Results of finished computations by title, such as ``part: label``."""
    looks: Sequence[TakenLook] = ()
    """Looks at the claims so far; empty if the seeds of the design are one look."""
    planned_count: int = 0
    """Number of seeds at the last look; 0 if the seeds of the design are all."""
    damage_messages: Sequence[str] = ()
    """Messages about unreadable files, which do not count as finished, and about seeds that are not
    part of a look yet."""

    def __iter__(self) -> Iterator[TrainedRun]:
        return iter(self.runs)

    def runs_where(self, part: str | None = None, **factors: Level) -> list[TrainedRun]:
        """Return the finished runs with the given levels of factors, of one part or all parts."""
        return [
            run for run in self.runs
            if part in (None, run.planned.part)
            and all(run.factors.get(name) == level for name, level in factors.items())
        ]  # fmt: skip

    def levels(self, factor: str, part: str | None = None) -> list[Level]:
        """Return the planned levels of a factor, in the order of the design."""
        runs = (run for run in self.design.runs if part in (None, run.part))
        return list(dict.fromkeys(run.factors[factor] for run in runs if factor in run.factors))

    def unfinished_message(self, part: str | None = None) -> str:
        """Return a message about unfinished work of one part or all parts, or an empty string."""
        if part not in (None, *self.design.parts):
            return f"{part} is not studied at this scale"
        planned = [run for run in self.design.runs if part in (None, run.part)]
        untrained = len(planned) - len(self.runs_where(part))
        tournaments = [each for each in self.design.tournaments if part in (None, each.part)]
        unplayed = dict.fromkeys(
            each.group for each in tournaments if each.group not in self.tournaments
        )
        messages = []
        if untrained:
            messages.append(f"{untrained} of {len(planned)} runs are not finished")
        uncomputed = [
            each.label for each in self.design.computations
            if part in (None, each.part) and each.title not in self.computation_results
        ]  # fmt: skip
        if uncomputed:
            messages.append(f"{len(uncomputed)} computations are not finished")
        if unplayed:
            messages.append(f"tournaments not finished: {', '.join(unplayed)}")
        return "; ".join(messages)

    def missing_runs_message(self) -> str:
        """Return a message about runs that are missing, or an empty string."""
        missing = len(self.design.runs) - len(self.runs)
        return f"{missing} of {len(self.design.runs)} runs are missing" if missing else ""

    @property
    def training_seconds(self) -> float:
        """Total training time of all distinct runs, in seconds."""
        return sum({run.planned.key: run.total_seconds for run in self.runs}.values())

    def of_seeds(self, seeds: Iterable[int]) -> Results:
        """Return the results of the runs with the given seeds, and of their tournaments."""
        chosen = set(seeds)
        design = self.design.of_seeds(chosen)
        scores = {
            key: scores for each in self.tournaments.values() for key, scores in each.scores.items()
        }
        return replace(
            self,
            design=design,
            runs=[run for run in self.runs if run.seed in chosen],
            tournaments=_finished_groups(design, scores),
        )

    def judge(self, statistics: Callable[[Results], Statistics]) -> list[Verdict]:
        """Return the verdicts on the claims of a study.

        `statistics` computes the statistic of each claim. Decisions are made at the looks only, in
        order, and stay. A finished study without recorded looks is a single look at all its seeds;
        before its first look, nothing is tested. A study without seeds cannot grow, so its finished
        part is tested.
        """
        if not self.looks:
            look = Look((), len(self.design.seeds), self.training_seconds / 3600)
            unfinished = self.unfinished_message()
            if not unfinished and len(self.design.seeds) < self.planned_count:
                unfinished = f"{len(self.design.seeds)} of {self.planned_count} planned seeds"
            if unfinished and self.design.seeds:
                look = look._replace(untested_note=unfinished)
            return judge_claims(statistics(self), look)
        verdicts: list[Verdict] = []
        for number, taken in enumerate(self.looks, start=1):
            is_whole = taken.seeds == self.design.seeds
            part = self if is_whole else self.of_seeds(taken.seeds)
            look = Look(
                tuple(self.looks[:number]), len(taken.seeds), part.training_seconds / 3600,
                part.missing_runs_message(),
            )  # fmt: skip
            verdicts = judge_claims(statistics(part), look, verdicts)
        return verdicts


def read_results(design: Design, ledger: Ledger) -> Results:
    """Return the results in a ledger of a study with the given design.

    After the first look, the results are those of the latest look: nothing is seen in between.
    Raises UserError if a run of the ledger has other settings than planned.
    """
    messages = []
    if ledger.looks and ledger.looks[-1].seeds != list(ledger.seeds):
        design = design.of_seeds(ledger.looks[-1].seeds)
        unseen = sorted(set(ledger.seeds) - set(ledger.looks[-1].seeds))
        messages.append(f"seeds {format_seeds(unseen)}, which wait for their look")
    rows = {row.identity: row for row in ledger.rows}
    runs = [
        _trained_run(planned, row)
        for planned in design.runs
        if (row := rows.get(("run", planned.part, planned.label)))
    ]
    scores: dict[str, list[PairScore]] = {}
    for row in ledger.rows:
        for score in row.scores:
            scores.setdefault(score.tournament, []).append(score)
    computed = {
        planned.title: row.numbers
        for planned in design.computations
        if (row := rows.get(("computation", planned.part, planned.label)))
        and row.key == planned.key
    }
    played = _finished_groups(design, scores)
    return Results(
        ledger.header.scale, design, runs, played, computed, ledger.looks, ledger.planned_count,
        messages,
    )  # fmt: skip


def with_only_look(ledger: Ledger, results: Results) -> Ledger:
    """Return a ledger with a look at all seeds if its results are finished and have no look."""
    seeds = list(ledger.seeds)
    is_finished = seeds and not results.unfinished_message() and len(seeds) == ledger.planned_count
    if ledger.looks or not is_finished:
        return ledger
    return replace(ledger, looks=[TakenLook(seeds, ledger.planned_count, [])])


def _finished_groups(
    design: Design, scores: Mapping[str, Sequence[PairScore]]
) -> dict[str, PlayedTournament]:
    """Return the tournaments of which all pairs of all seeds have scores, by group."""
    groups: dict[str, list[PlannedTournament]] = {}
    for planned in design.tournaments:
        groups.setdefault(planned.group, []).append(planned)
    return {
        group: PlayedTournament(each, {planned.key: scores[planned.key] for planned in each})
        for group, each in groups.items()
        if all(_is_played(planned, scores.get(planned.key, ())) for planned in each)
    }


def _is_played(planned: PlannedTournament, scores: Sequence[PairScore]) -> bool:
    """Return whether all pairs of players of a tournament have scores."""
    pairs = sorted((score.player, score.opponent) for score in scores)
    return pairs == sorted(permutations(planned.players, 2))


def _trained_run(planned: PlannedRun, row: LedgerRow) -> TrainedRun:
    if row.key != planned.key:
        raise UserError(
            f"{planned.title} was trained with settings of another version of the study"
            f" ({row.key}): expected {planned.key}"
        )
    return TrainedRun(planned, row.records, row.weights, row.environments, row.numbers)


def provenance(results: Results) -> Provenance:
    """Return the provenance of results.

    Versions and machines are those that trained the runs, or those of this process without runs.
    """
    runs = {run.planned.key: run for run in results.runs}
    environments = [each for run in runs.values() for each in run.environments]
    machine = join_distinct(map(describe_machine, environments))
    return Provenance(
        run_count=len(runs),
        run_digests=[f"{key} {run.weights_digest}" for key, run in runs.items()],
        versions={
            name: join_distinct(getattr(each, name) for each in environments) or version
            for name, version in current_versions().items()
        },
        seeds=[run.planned.settings.seed for run in runs.values()],
        machine=machine or describe_this_machine(gpu_name()),
        training_hours=results.training_seconds / 3600,
    )
