"""Finished runs and tournaments of a study, as used in reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np

from zerolab.ratings.bayes import rate_tally
from zerolab.ratings.ratings import Rating, Ratings
from zerolab.ratings.results import (
    EffectiveScore,
    MatchScore,
    combined_effective_games,
    tally_of_scores,
)
from zerolab.store.folder import RunEnvironment
from zerolab.studies.design import Design, FactorLevel, PlannedRun, PlannedTournament
from zerolab.studies.ledger import PairScore
from zerolab.training.records import GateRecord, LearnRecord, Record, SelfPlayRecord

TRAINING_TIME_STAGES = ("selfplay", "learn", "gate")
"""Stages whose times add up to the training time [Wang2020a, eq. 2]."""


@dataclass(frozen=True)
class TrainedRun:
    """Finished run with the records of its stages."""

    planned: PlannedRun
    records: Sequence[Record]
    weights_digest: str = ""
    """Digest of the final network."""
    environments: Sequence[RunEnvironment] = ()
    """Hardware and software used for training."""
    measurements: Mapping[str, Any] = field(default_factory=dict)
    """Further measurements for the report; see `Study.measure_run`."""

    @property
    def factors(self) -> Mapping[str, FactorLevel]:
        """Levels that distinguish the run, including the seed."""
        return self.planned.factors

    @property
    def seed(self) -> FactorLevel:
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
    def has_processor_times(self) -> bool:
        """True if the processor time of every stage of `TRAINING_TIME_STAGES` is recorded."""
        return all(
            record.wall_processor_seconds is not None
            for record in self.records
            if record.stage in TRAINING_TIME_STAGES
        )

    def record_seconds(self, record: Record) -> float:
        """Return the processor time of a record of `TRAINING_TIME_STAGES`, or its duration.

        For a run begun by an earlier version, all times are durations, so the two kinds are never
        mixed.
        """
        recorded = record.wall_processor_seconds
        if recorded is None or not self.has_processor_times:
            return record.wall_seconds
        return recorded

    @cached_property
    def seconds_by_stage(self) -> dict[str, float]:
        """Seconds of self-play, learning and gates, by stage; see `record_seconds`."""
        totals = dict.fromkeys(TRAINING_TIME_STAGES, 0.0)
        for record in self.records:
            if record.stage in totals:
                totals[record.stage] += self.record_seconds(record)
        return totals

    @property
    def training_seconds(self) -> float:
        """Total seconds of self-play, learning and gates."""
        return sum(self.seconds_by_stage.values())

    @property
    def accepted_candidate_count(self) -> int:
        """Number of candidates that became the best network."""
        return sum(record.accepted for record in self.records_of(GateRecord))

    @property
    def selfplay_position_count(self) -> int:
        """Number of self-play positions."""
        return sum(record.positions for record in self.records_of(SelfPlayRecord))


@dataclass(frozen=True)
class PlayedTournament:
    """Finished tournament, or finished tournaments of several seeds."""

    planned_tournaments: Sequence[PlannedTournament]
    """The tournament, or one tournament per seed."""
    scores: Mapping[str, Sequence[PairScore]]
    """Score of every player against every opponent, by key of the tournament."""

    @cached_property
    def ratings(self) -> dict[str, Ratings]:
        """Bayesian Elo of all players, by key of the tournament."""
        return {each.key: _rate(self.scores[each.key]) for each in self.planned_tournaments}

    @cached_property
    def rating_by_player(self) -> dict[str, Rating]:
        """Ratings of all networks by name; names include the seed."""
        return {
            rating.player: rating
            for planned in self.planned_tournaments
            for rating in self.ratings[planned.key].player_ratings
            if rating.player in planned.run_by_player
        }

    def ratings_of_agent(self, spec: str) -> list[Rating]:
        """Return, for each tournament, the rating of an agent that has no run."""
        return [
            next(each for each in ratings.player_ratings if each.player == spec)
            for ratings in self.ratings.values()
        ]

    @cached_property
    def run_by_player(self) -> dict[str, PlannedRun]:
        """Run of each network by name."""
        return {
            name: run
            for each in self.planned_tournaments
            for name, run in each.run_by_player.items()
        }

    @cached_property
    def iteration_by_player(self) -> dict[str, int]:
        """Iteration whose best network plays, by name; see `PlannedTournament`."""
        return {
            name: iteration
            for each in self.planned_tournaments
            for name, iteration in each.iteration_by_player.items()
        }

    @cached_property
    def _final_player_by_run(self) -> dict[tuple[str, str], str]:
        """First-listed network of each run, by part and label."""
        players: dict[tuple[str, str], str] = {}
        for name, run in self.run_by_player.items():
            players.setdefault((run.part, run.label), name)
        return players

    def includes_run(self, run: TrainedRun) -> bool:
        """Return whether a run plays in the tournament."""
        return (run.planned.part, run.planned.label) in self._final_player_by_run

    def final_rating(self, run: TrainedRun | PlannedRun) -> Rating:
        """Return the rating of a run's final network; raise KeyError if the run does not play."""
        planned = run.planned if isinstance(run, TrainedRun) else run
        return self.rating_by_player[self._final_player_by_run[planned.part, planned.label]]

    def rating_after(self, run: TrainedRun, iteration: int) -> Rating:
        """Return the rating of a run's best network after `iteration`.

        The iteration must be one of those in `iteration_by_player`.
        """
        return self.rating_by_player[f"{run.planned.label}@{iteration}"]

    def elo_above_agent(self, run: TrainedRun | PlannedRun, spec: str = "random") -> float:
        """Return the Elo of a run's final network relative to an agent in the same tournament."""
        rating = self.final_rating(run)
        ratings = self._ratings_with(rating.player).player_ratings
        return rating.elo - next(each.elo for each in ratings if each.player == spec)

    def error_above_agent(self, run: TrainedRun | PlannedRun, spec: str = "random") -> float:
        """Return the standard error of `elo_above_agent` in Elo, for comparing runs of a setting.

        If each seed has its own tournament, it includes the error of the agent's rating, which
        differs between seeds. In a single tournament, that error shifts all runs equally, so it
        does not add to their spread and is left out.
        """
        rating = self.final_rating(run)
        if self.planned_tournaments[0].seed is None:
            return rating.standard_error
        ratings = self._ratings_with(rating.player)
        return ratings.elo_difference(rating.player, spec).standard_error

    def error_of_deviation(self, run: TrainedRun, runs: Sequence[TrainedRun]) -> float:
        """Return the standard error of a run's Elo relative to the mean over `runs`.

        All runs play in the same tournament.
        """
        player = self.final_rating(run).player
        weights = dict.fromkeys((self.final_rating(each).player for each in runs), -1 / len(runs))
        weights[player] = weights.get(player, 0.0) + 1.0
        return self._ratings_with(player).standard_error(weights)

    def _ratings_with(self, player: str) -> Ratings:
        """Return the ratings of the tournament with a network."""
        return next(
            self.ratings[planned.key]
            for planned in self.planned_tournaments
            if player in planned.run_by_player
        )

    def pair_total(self, player: str, opponent: str) -> PairTotal:
        """Return the score of a player against an opponent over both colours."""
        (pair,) = (
            each
            for scores in self.scores.values()
            for each in scores
            if (each.player, each.opponent) == (player, opponent)
        )
        return _total(pair)


def _rate(scores: Sequence[PairScore]) -> Ratings:
    counts = tally_of_scores({(each.player, each.opponent): each.moving_first for each in scores})
    index = {name: i for i, name in enumerate(counts.players)}
    effective_games = np.zeros_like(counts.wins)
    for pair in scores:
        effective_games[index[pair.player], index[pair.opponent]] = _total(pair).effective_games
    return rate_tally(counts, effective_games)


class PairTotal(NamedTuple):
    """Score of a player against an opponent over both colours."""

    score: MatchScore
    effective_score: EffectiveScore

    @property
    def effective_games(self) -> float:
        """Effective number of games; see `EffectiveScore`."""
        return self.effective_score.total(self.score)


def _total(pair: PairScore) -> PairTotal:
    counts = list(zip(pair.moving_first, pair.moving_second, strict=True))
    effective = zip(pair.effective_moving_first, pair.effective_moving_second, strict=True)
    return PairTotal(
        MatchScore(*map(sum, counts)),
        EffectiveScore(*map(combined_effective_games, counts, effective)),
    )


def finished_tournaments(
    design: Design, scores: Mapping[str, Sequence[PairScore]]
) -> dict[str, PlayedTournament]:
    """Return the tournaments in which every pair of every seed has scores, by group."""
    groups: dict[str, list[PlannedTournament]] = {}
    for planned in design.tournaments:
        groups.setdefault(planned.group_name, []).append(planned)
    return {
        group: PlayedTournament(each, {planned.key: scores[planned.key] for planned in each})
        for group, each in groups.items()
        if all(_is_played(planned, scores.get(planned.key, ())) for planned in each)
    }


def _is_played(planned: PlannedTournament, scores: Sequence[PairScore]) -> bool:
    """Return whether all pairs of players of a tournament have scores."""
    pairs = sorted((score.player, score.opponent) for score in scores)
    return pairs == sorted(permutations(planned.players, 2))
