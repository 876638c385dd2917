"""Efficient training on Connect Four [Clausen2021]."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from zerolab.evaluation.collecting import DatasetSettings
from zerolab.papers.connect_four.variants import (
    BASELINE,
    BASELINE_PRESET,
    EXTENDED,
    FEATURES,
    LEAGUE,
    LEAGUE_BY_RESULTS,
    POLICY_FEATURES,
    SMALL,
    SUPERVISED,
    TRAINING,
    VARIANTS,
    WITHOUT_FEATURES,
    LengthChanges,
    changes_for_scale,
    planned_move_timing,
)
from zerolab.studies.design import Design, Level, PlannedDataset, PlannedRun, plan_run
from zerolab.studies.study import Scale, Study, register_study

if TYPE_CHECKING:
    from zerolab.report.claims import Verdict
    from zerolab.report.document import Document
    from zerolab.studies.results import Results
    from zerolab.studies.study_folder import FinishedRun

_BOARD: Mapping[Scale, str] = {
    "smoke": "connect_four:4x4",
    "mini": "connect_four:6x7",
    "small": "connect_four:6x7",
    "paper": "connect_four:6x7",
}

_DATASET_SIZE: Mapping[Scale, int] = {
    "smoke": 150,
    "mini": 200_000,
    "small": 200_000,
    "paper": 1_000_000,
}
"""Number of positions in each supervised data set."""
_MEASURED: Mapping[Scale, int] = {"smoke": 20, "mini": 1000, "small": 2000, "paper": 10_000}
"""Number of positions on which accuracy is measured after each iteration."""
_SECONDS = {False: 0.015, True: 0.055}
"""Seconds to solve a position, by `DatasetSettings.one_per_game`."""
_PERFECT = 0.9
"""Share of perfect plies in the games that produce easy positions."""
_EASY_SECONDS = 0.1  # most plies that lead to an easy position must also be solved

_VARIANTS: Mapping[Scale, tuple[str, ...]] = {
    "smoke": (BASELINE, EXTENDED, "service", "growing", "no-merging")
}
"""Variants at scales that omit some variants."""

_SEEDS: Mapping[Scale, int] = {"smoke": 1, "mini": 3, "small": 5, "paper": 5}
_BLOCKS: Mapping[Scale, tuple[int, ...]] = {
    "smoke": (1,),
    "mini": (5, 10, 20),
    "small": (5, 10, 20),
    "paper": (5, 10, 20),
}

_SUPERVISED_CHANGES: Mapping[Scale, Mapping[str, Any]] = {
    "smoke": {
        "iterations": 2, "network.filters": 4, "network.stem_filters": 2, "network.head_filters": 4,
        "search.simulations": 4, "learn.batch_size": 32, "learn.schedule": "constant",
    },
    "mini": {
        "iterations": 4, "network.filters": 16, "network.stem_filters": 8,
        "network.head_filters": 8,
        "learn.schedule": {"name": "steps", "iterations": [3, 4], "factor": 0.1},
    },
    "small": {
        "iterations": 8, "network.filters": 32, "network.stem_filters": 16,
        "network.head_filters": 16,
        "learn.schedule": {"name": "steps", "iterations": [5, 7], "factor": 0.1},
    },
    "paper": {},
}  # fmt: skip
"""Changes to the preset `supervised`, by dotted key."""

_POLICY_FEATURES_HEAD = {"name": "features", "heads": ["policy"], "plies": [0, 2], "weight": 1.0}
"""Features with the highest accuracy of ten choices in supervised learning [ClausenCode]: those of
the policy head, for the position and for the one two plies later."""

_SELFPLAY_CHANGES: Mapping[Scale, Mapping[str, Any]] = {
    "smoke": {
        "selfplay.parallel_games": 4, "search.simulations": 4, "network.blocks": 1,
        "network.filters": 4, "network.stem_filters": 2, "network.head_filters": 4,
        "learn.batch_size": 32,
    },
    "mini": {
        "selfplay.parallel_games": 128, "search.simulations": 32, "network.blocks": 2,
        "network.filters": 16, "network.stem_filters": 8, "network.head_filters": 8,
        "learn.batch_size": 128,
    },
    "small": {
        "selfplay.parallel_games": 256, "search.simulations": 80, "network.blocks": 3,
        "network.filters": 32, "network.stem_filters": 16, "network.head_filters": 16,
    },
    "paper": {},
}  # fmt: skip
"""Changes to the self-play presets, by dotted key."""


class _RunLength(NamedTuple):
    """Length of training runs and of their schedules."""

    iterations: int
    """Iterations of the baseline. The extended version has 5/3 as many."""
    plies: int
    """Plies per parallel game and baseline iteration. The extended version plays 3/5 as many."""
    steps: tuple[int, int]
    """Baseline iterations at which the learning rate drops (7 and 14 in [Clausen2021])."""
    window: tuple[int, int]
    """Iterations between which the slow window grows (5 and 15 in [Clausen2021])."""
    cycle: int
    """Iteration at which learning-rate cycles stop shrinking (20 in [Clausen2021])."""


_PUBLISHED = LengthChanges(
    baseline={
        "learn.window": {"name": "positions", "size": 2_000_000},
        "learn.schedule": {"name": "steps", "iterations": [7, 14], "factor": 0.1},
        "selfplay.mode": {"name": "continuous", "plies": 1172},
    },
    extended={
        "learn.window": {
            "name": "slow", "first": 500_000, "final": 2_000_000, "begin": 5, "end": 15,
        },
        "learn.schedule": {"name": "cycle", "anneal_iterations": 20},
    },
)  # fmt: skip
"""Settings of the two presets, which some variants combine."""

_LENGTHS: Mapping[Scale, _RunLength] = {
    "smoke": _RunLength(3, 10, (2, 3), (1, 2), 2),
    "mini": _RunLength(12, 40, (4, 8), (5, 15), 20),
    "small": _RunLength(24, 80, (7, 14), (5, 15), 20),
}


@register_study
class Connect4EfficiencyStudy(Study):
    """Compare ways to train cheaply on Connect Four: accuracy against cost.

    Train by self-play with the baseline, its extended version, the extended version without each of
    its ingredients in turn, and the other methods of the paper. Measure accuracy on solved
    positions after each iteration and compare the variants at equal cost.

    Examples:
      zerolab study connect4-efficiency
      zerolab study connect4-efficiency --scale paper --status
    """

    name: ClassVar[str] = "connect4-efficiency"

    measurement_version: ClassVar[int] = 3

    def seed_count(self, scale: Scale) -> int:
        return _SEEDS[scale]

    def design(self, scale: Scale, seeds: Sequence[int]) -> Design:
        trained = list(_selfplay_runs(scale, seeds))
        return Design(
            trained,
            computations=[planned_move_timing(trained)],
            report_datasets=[planned_easy_dataset(_BOARD[scale], _MEASURED[scale])],
        )

    def measure(self, run: FinishedRun) -> Mapping[str, Any]:
        from zerolab.evaluation.position_statistics import run_diversity
        from zerolab.papers.connect_four import diversity, smaller_findings

        variant = run.planned.factors.get("variant")
        measured: dict[str, Any] = {}
        if variant in diversity.DIVERSITY_VARIANTS:
            counts = run_diversity(run.folder.path)._replace(name=run.planned.label)
            measured["diversity"] = counts.as_dict()
        if variant in LEAGUE:
            measured["league"] = league = diversity.measure_league(run)
            if variant == LEAGUE_BY_RESULTS:
                measured["evolved"] = smaller_findings.measure_evolved_accuracy(run, league)
                measured["evolved_score"] = smaller_findings.measure_evolved_score(run, league)
        if variant in smaller_findings.EASY_VARIANTS:
            measured["easy"] = smaller_findings.measure_easy_accuracy(run)
        return measured

    def verdicts(self, results: Results) -> list[Verdict]:
        from zerolab.papers.connect_four.analysis import efficiency_statistics

        return results.judge(efficiency_statistics)

    def document(self, results: Results) -> Document:
        from zerolab.papers.connect_four.analysis import efficiency_report

        return efficiency_report(results)


@register_study
class Connect4SupervisedStudy(Study):
    """Train networks of 5, 10 and 20 blocks on solved positions of Connect Four, as in Table 1.

    The sets contain all positions of each game, or one position per game. Some further networks
    learn the published labels, which are partly wrong; others give the outcome as much weight as
    the move, or also learn the features of a small network trained by self-play. The accuracies on
    unseen positions are limits for networks of these sizes.

    Examples:
      zerolab study connect4-supervised
      zerolab study connect4-supervised --scale paper --status
    """

    name: ClassVar[str] = "connect4-supervised"

    def seed_count(self, scale: Scale) -> int:
        return _SEEDS[scale]

    def design(self, scale: Scale, seeds: Sequence[int]) -> Design:
        return Design(list(_supervised_runs(scale, seeds)))

    def verdicts(self, results: Results) -> list[Verdict]:
        from zerolab.papers.connect_four.supervised import supervised_statistics

        return results.judge(supervised_statistics)

    def document(self, results: Results) -> Document:
        from zerolab.papers.connect_four.supervised import supervised_report

        return supervised_report(results)


def _planned_dataset(scale: Scale, label: str, count: int, **settings: Any) -> PlannedDataset:
    dataset_settings = DatasetSettings(**settings)
    seconds = count * _SECONDS[dataset_settings.one_per_game]
    return PlannedDataset(label, _BOARD[scale], count, dataset_settings, seconds)


def planned_easy_dataset(game: str, count: int) -> PlannedDataset:
    """Plan the data set of easy positions on which the report measures accuracy."""
    settings = DatasetSettings(perfect=_PERFECT, one_per_game=True, seed=1)
    return PlannedDataset("easy", game, count, settings, count * _EASY_SECONDS, TRAINING)


def _selfplay_runs(scale: Scale, seeds: Sequence[int]) -> Iterator[PlannedRun]:
    """Yield the self-play training runs."""
    small: dict[int, PlannedRun] = {}
    for name in _VARIANTS.get(scale, VARIANTS):
        for seed in seeds:
            run = _selfplay_run(scale, name, seed, small[seed] if name == FEATURES else None)
            if name == SMALL:
                small[seed] = run
            yield run


def _selfplay_run(
    scale: Scale, name: str, seed: int, feature_run: PlannedRun | None = None
) -> PlannedRun:
    """Plan a self-play run of a variant."""
    variant, lengths = VARIANTS[name], _length_changes(scale)
    hard = _planned_dataset(scale, "hard", _MEASURED[scale], one_per_game=True, seed=1)
    return plan_run(
        TRAINING,
        _BOARD[scale],
        variant.preset,
        {"variant": name},
        {
            **_SELFPLAY_CHANGES[scale],
            **(lengths.baseline if variant.preset == BASELINE_PRESET else lengths.extended),
            **variant.changes_for(lengths),
            **changes_for_scale(scale, name),
            "accuracy.every": 1,
        },
        seed,
        datasets={"accuracy.positions": hard},
        feature_run=feature_run,
    )


def _length_changes(scale: Scale) -> LengthChanges:
    """Return the changes that set the length of runs.

    An iteration of the extended version plays 3/5 as many positions as one of the baseline
    [Clausen2021]. The extended version has 5/3 as many iterations, so both play the same number of
    positions.
    """
    if scale == "paper":
        return LengthChanges(*({"stop": "no_gain", **changes} for changes in _PUBLISHED))
    length = _LENGTHS[scale]
    unit = length.plies * _SELFPLAY_CHANGES[scale]["selfplay.parallel_games"]
    begin, end = length.window
    window = {"first": 5 * unit // 3, "final": 20 * unit // 3, "begin": begin, "end": end}
    return LengthChanges(
        baseline={
            "iterations": length.iterations,
            "selfplay.mode": {"name": "continuous", "plies": length.plies},
            "learn.window": {"name": "positions", "size": 20 * unit // 3},
            "learn.schedule": {"name": "steps", "iterations": list(length.steps), "factor": 0.1},
        },
        extended={
            "iterations": 5 * length.iterations // 3,
            "selfplay.mode": {"name": "continuous", "plies": 3 * length.plies // 5},
            "learn.window": {"name": "slow", **window},
            "learn.schedule": {"name": "cycle", "anneal_iterations": length.cycle},
        },
    )


def _supervised_datasets(scale: Scale) -> dict[str, PlannedDataset]:
    """Plan the sets of Table 1: every position of each game (v1), or one per game (v2)."""
    count = _DATASET_SIZE[scale]
    return {
        "v1": _planned_dataset(scale, "v1", count),
        "v2": _planned_dataset(scale, "v2", count if scale != "smoke" else 60, one_per_game=True),
    }


class _SupervisedWay(NamedTuple):
    """Targets of a network that learns from solved positions."""

    labels: str = "right"
    weight: float = 0.01
    """Weight of the outcome."""
    features: str = WITHOUT_FEATURES


def _supervised_runs(scale: Scale, seeds: Sequence[int]) -> Iterator[PlannedRun]:
    """Yield the runs of Table 1, and those with other labels, weights or features.

    Features are learnt from set v1, because the games of set v2 have no later positions. The small
    networks come from the efficiency study.
    """
    small = {seed: _selfplay_run(scale, SMALL, seed) for seed in seeds}
    yield from small.values()
    fewest = _BLOCKS[scale][0]
    for name, dataset in _supervised_datasets(scale).items():
        for blocks in _BLOCKS[scale]:
            ways = [_SupervisedWay()]
            if blocks == fewest or scale != "mini":  # too slow for deep networks
                ways.append(_SupervisedWay("published"))
            if blocks == fewest:
                ways.append(_SupervisedWay(weight=1.0))
            if blocks == fewest and name == "v1":
                ways.append(_SupervisedWay(features=POLICY_FEATURES))
            for way in ways:
                for seed in seeds:
                    yield _supervised_run(scale, name, dataset, blocks, way, seed, small[seed])


def _supervised_run(
    scale: Scale,
    name: str,
    dataset: PlannedDataset,
    blocks: int,
    way: _SupervisedWay,
    seed: int,
    small: PlannedRun,
) -> PlannedRun:
    """Plan a run on a set of solved positions; any features it learns come from the run `small`."""
    learns_features = way.features != WITHOUT_FEATURES
    heads = {"network.heads": ["policy", "outcome", _POLICY_FEATURES_HEAD]}
    factors: dict[str, Level] = {"set": name, "blocks": blocks, **way._asdict()}
    changes = {
        **_SUPERVISED_CHANGES[scale],
        **(heads if learns_features else {}),
        "network.blocks": blocks,
        "network.heads.outcome.weight": way.weight,
        "published_bugs": ["losses_as_draws"] if way.labels == "published" else [],
    }
    return plan_run(
        SUPERVISED,
        _BOARD[scale],
        "supervised",
        factors,
        changes,
        seed,
        datasets={"supervised.positions": dataset},
        feature_run=small if learns_features else None,
    )
