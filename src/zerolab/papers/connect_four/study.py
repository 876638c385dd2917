"""Efficient training on Connect Four [Clausen2021]."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from zerolab.evaluation.collecting import DatasetSettings
from zerolab.papers.connect_four.variants import (
    ALL_POSITIONS,
    BASELINE,
    BASELINE_PRESET,
    EASY,
    EXTENDED,
    FEATURES,
    LEAGUE_BY_RESULTS,
    LEAGUE_VARIANTS,
    MOVE_TIMING_FUNCTION,
    ONE_PER_GAME,
    POLICY_FEATURES,
    POLICY_FEATURES_HEAD,
    SELF_PLAY_PART,
    SELFPLAY_CHANGES,
    SMALL,
    SUPERVISED_CHANGES,
    SUPERVISED_PART,
    TIMED_PLIES,
    VARIANTS,
    WITHOUT_FEATURES,
    SupervisedTargets,
    changes_for_scale,
    run_length_changes,
)
from zerolab.studies.design import (
    Design,
    FactorLevel,
    PlannedComputation,
    PlannedDataset,
    PlannedRun,
    plan_run,
    without_newer_settings,
)
from zerolab.studies.study import Scale, Study, register_study
from zerolab.training.move_times import ROUNDS_PER_MEASUREMENT, MoveKind, move_kind

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
    "mini": 50_000,
    "small": 200_000,
    "paper": 1_000_000,
}
"""Number of positions in each supervised data set."""
_MEASURED: Mapping[Scale, int] = {"smoke": 20, "mini": 1000, "small": 2000, "paper": 10_000}
"""Number of positions on which accuracy is measured after each iteration."""
_SECONDS = {False: 0.015, True: 0.035}
"""Seconds to solve a position, by `DatasetSettings.one_per_game`."""
_PERFECT = 0.9
"""Share of perfect plies in the games that produce easy positions."""
_EASY_SECONDS = 0.1  # most plies that lead to an easy position must also be solved

_VARIANTS: Mapping[Scale, tuple[str, ...]] = {
    "smoke": (BASELINE, EXTENDED, "service", "growing", "no-merging")
}
"""Variants at scales that omit some variants."""
MAIN_VARIANTS = (BASELINE, EXTENDED, "service", "growing", SMALL, FEATURES, LEAGUE_BY_RESULTS)
"""Variants in the study of extensions. `FEATURES` learns to predict the features of `SMALL`."""

_SEEDS: Mapping[Scale, int] = {"smoke": 1, "mini": 3, "small": 5, "paper": 5}
_EXTENSION_SEEDS: Mapping[Scale, int] = {"smoke": 1, "mini": 8, "small": 8, "paper": 5}
_FIRST_EXTENSION_SEED = 103
"""First new seed. Results of seeds 100 to 102 were known when the claims' statistics last changed.
"""
_BLOCKS: Mapping[Scale, tuple[int, ...]] = {
    "smoke": (1,),
    "mini": (5, 10, 20),
    "small": (5, 10, 20),
    "paper": (5, 10, 20),
}

_TIMED_THREADS = 2
_SECONDS_PER_SIMULATION = 1e-4
_WITHOUT_EFFECT: Mapping[str, Any] = {"device": True, "selfplay": {"chunks", "lag"}}
"""Settings that do not affect the time of a move on one machine."""


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

    def variants(self, scale: Scale) -> Sequence[str]:
        """Return the variants to train, in order."""
        return _VARIANTS.get(scale, tuple(VARIANTS))

    def design(self, scale: Scale, seeds: Sequence[int]) -> Design:
        trained = list(_selfplay_runs(scale, self.variants(scale), seeds))
        return Design(
            trained,
            computations=[planned_move_timing(trained)],
            report_datasets=[planned_easy_dataset(_BOARD[scale], _MEASURED[scale])],
        )

    def measure_run(self, run: FinishedRun) -> Mapping[str, Any]:
        from zerolab.evaluation.position_statistics import diversity_of_run
        from zerolab.papers.connect_four import diversity, smaller_findings

        variant = run.planned.factors.get("variant")
        measured: dict[str, Any] = {}
        if variant in diversity.DIVERSITY_VARIANTS:
            counts = diversity_of_run(run.folder.path)._replace(name=run.planned.label)
            measured["diversity"] = counts.as_dict()
        if variant in LEAGUE_VARIANTS:
            measured["league"] = league = diversity.measure_league(run)
            if variant == LEAGUE_BY_RESULTS:
                measured["evolved"] = smaller_findings.measure_evolved_accuracy(run, league)
                measured["evolved_score"] = smaller_findings.measure_evolved_score(run, league)
        if variant in smaller_findings.EASY_POSITION_VARIANTS:
            measured["easy"] = smaller_findings.measure_easy_accuracy(run)
        return measured

    def verdicts(self, results: Results) -> list[Verdict]:
        from zerolab.papers.connect_four.analysis import efficiency_statistics

        return results.judge(efficiency_statistics)

    def report(self, results: Results) -> Document:
        from zerolab.papers.connect_four.analysis import efficiency_report

        return efficiency_report(results)


@register_study
class Connect4ExtensionsStudy(Connect4EfficiencyStudy):
    """Compare, with more seeds, the main ways to train cheaply on Connect Four.

    Train the baseline, its extended version, and the extended version with each extension of the
    paper: games searched by a service, growing networks, features of a small network, and a league.
    The connect4-efficiency study adds further methods and also removes one ingredient at a time.

    Examples:
      zerolab study connect4-extensions
      zerolab study connect4-extensions --hours 1
    """

    name: ClassVar[str] = "connect4-extensions"

    def seed_count(self, scale: Scale) -> int:
        return _EXTENSION_SEEDS[scale]

    def planned_seeds(self, scale: Scale) -> list[int]:
        return [_FIRST_EXTENSION_SEED + number for number in range(self.seed_count(scale))]

    def variants(self, scale: Scale) -> Sequence[str]:
        return [name for name in super().variants(scale) if name in MAIN_VARIANTS]

    def verdicts(self, results: Results) -> list[Verdict]:
        from zerolab.papers.connect_four.analysis import extension_statistics

        return results.judge(extension_statistics)

    def report(self, results: Results) -> Document:
        from zerolab.papers.connect_four.analysis import extension_report

        return extension_report(results)


@register_study
class Connect4SupervisedStudy(Study):
    """Train networks of 5, 10 and 20 blocks on solved positions of Connect Four, as in Table 1.

    The sets contain all positions of each game, or one position per game. Other networks learn the
    published labels, some of which are wrong; give the outcome as much weight as the move; learn
    from games with fewer random moves; or also learn to predict the features of a small network
    trained by self-play. The accuracies on unseen positions show the limits of networks of these
    sizes.

    Examples:
      zerolab study connect4-supervised
      zerolab study connect4-supervised --scale paper --status
    """

    name: ClassVar[str] = "connect4-supervised"

    measurement_version: ClassVar[int] = 1

    def seed_count(self, scale: Scale) -> int:
        return _SEEDS[scale]

    def design(self, scale: Scale, seeds: Sequence[int]) -> Design:
        return Design(list(_supervised_runs(scale, seeds)))

    def measure_run(self, run: FinishedRun) -> Mapping[str, Any]:
        from zerolab.papers.connect_four.supervised import measure_accuracy_by_ply

        return measure_accuracy_by_ply(run)

    def verdicts(self, results: Results) -> list[Verdict]:
        from zerolab.papers.connect_four.supervised import supervised_statistics

        return results.judge(supervised_statistics)

    def report(self, results: Results) -> Document:
        from zerolab.papers.connect_four.supervised import supervised_report

        return supervised_report(results)


def _planned_dataset(scale: Scale, label: str, count: int, **settings: Any) -> PlannedDataset:
    dataset_settings = DatasetSettings(**settings)
    seconds = count * _SECONDS[dataset_settings.one_per_game]
    return PlannedDataset(label, _BOARD[scale], count, dataset_settings, seconds)


def planned_easy_dataset(game: str, count: int) -> PlannedDataset:
    """Plan the data set of easy positions on which the report measures accuracy."""
    settings = DatasetSettings(perfect=_PERFECT, one_per_game=True, seed=1)
    return PlannedDataset("easy", game, count, settings, count * _EASY_SECONDS, SELF_PLAY_PART)


def _selfplay_runs(
    scale: Scale, variants: Iterable[str], seeds: Sequence[int]
) -> Iterator[PlannedRun]:
    """Yield the self-play training runs; small networks come before those that learn from them."""
    small: dict[int, PlannedRun] = {}
    for name in variants:
        for seed in seeds:
            run = _selfplay_run(scale, name, seed, small[seed] if name == FEATURES else None)
            if name == SMALL:
                small[seed] = run
            yield run


def _selfplay_run(
    scale: Scale, name: str, seed: int, feature_run: PlannedRun | None = None
) -> PlannedRun:
    """Plan a self-play run of a variant."""
    variant, lengths = VARIANTS[name], run_length_changes(scale)
    hard = _planned_dataset(scale, "hard", _MEASURED[scale], one_per_game=True, seed=1)
    return plan_run(
        SELF_PLAY_PART,
        _BOARD[scale],
        variant.preset,
        {"variant": name},
        {
            **SELFPLAY_CHANGES[scale],
            **(lengths.baseline if variant.preset == BASELINE_PRESET else lengths.extended),
            **variant.changes_for(lengths),
            **changes_for_scale(scale, name),
            "accuracy.every": 1,
        },
        seed,
        datasets={"accuracy.positions": hard},
        feature_run=feature_run,
    )


class TimedMoveKind(NamedTuple):
    """Kind of move to time, with the first run and iteration in which it occurs."""

    kind: MoveKind
    run: PlannedRun
    iteration: int
    variant_titles: list[str]
    """Titles of all variants with such moves."""


def timed_move_kinds(runs: Iterable[PlannedRun]) -> dict[str, TimedMoveKind]:
    """Return all kinds of moves in `runs`, by the key of the kind."""
    by_key: dict[str, TimedMoveKind] = {}
    for run in runs:
        title = VARIANTS[str(run.factors["variant"])].title
        # The search settings are constant, so only a new network starts a new kind of move.
        for _, same in groupby(range(run.settings.iterations), run.settings.network_settings_at):
            iteration = next(same)
            kind = move_kind(run.settings, iteration)
            timed = by_key.setdefault(kind.key, TimedMoveKind(kind, run, iteration, []))
            if title not in timed.variant_titles:
                timed.variant_titles.append(title)
    return by_key


def planned_move_timing(runs: Iterable[PlannedRun]) -> PlannedComputation:
    """Return the computation that times all kinds of moves in `runs`."""
    networks: dict[str, Any] = {}
    simulations = 0
    for key, timed in timed_move_kinds(runs).items():
        play = timed.run.settings.selfplay.model_copy(update={"threads": _TIMED_THREADS})
        # These settings must be equal for all seeds and machines, so that their ledgers match.
        settings = timed.run.settings.model_copy(update={"seed": 0, "selfplay": play})
        networks[key] = {
            "settings": without_newer_settings(
                settings.model_dump(mode="json", exclude=_WITHOUT_EFFECT)
            ),
            "iteration": timed.iteration,
        }
        simulations += settings.selfplay.parallel_games * settings.search.simulations
    seconds = simulations * TIMED_PLIES * (ROUNDS_PER_MEASUREMENT + 1) * _SECONDS_PER_SIMULATION
    return PlannedComputation(
        SELF_PLAY_PART, "time of a move", MOVE_TIMING_FUNCTION, {"networks": networks}, seconds
    )


def _supervised_datasets(scale: Scale) -> dict[str, PlannedDataset]:
    """Plan the two sets of Table 1, and the set of easy positions."""
    count = _DATASET_SIZE[scale]
    return {
        ALL_POSITIONS: _planned_dataset(scale, ALL_POSITIONS, count),
        ONE_PER_GAME: _planned_dataset(
            scale, ONE_PER_GAME, count if scale != "smoke" else 60, one_per_game=True
        ),
        EASY: _planned_dataset(scale, EASY, count, perfect=_PERFECT),
    }


def _supervised_runs(scale: Scale, seeds: Sequence[int]) -> Iterator[PlannedRun]:
    """Yield the runs of Table 1, and runs with other labels, weights or features.

    Features are taken from set v1, because the games of set v2 have no later positions. Only the
    smallest networks learn from easy positions. The small networks that provide the features are
    runs of the efficiency study.
    """
    small = {seed: _selfplay_run(scale, SMALL, seed) for seed in seeds}
    yield from small.values()
    fewest = _BLOCKS[scale][0]
    for name, dataset in _supervised_datasets(scale).items():
        for blocks in _BLOCKS[scale] if name != EASY else [fewest]:
            choices = [SupervisedTargets()]
            if name != EASY and (blocks == fewest or scale != "mini"):  # deep ones are too slow
                choices.append(SupervisedTargets("published"))
            if name != EASY and blocks == fewest:
                choices.append(SupervisedTargets(weight=1.0))
            if blocks == fewest and name == ALL_POSITIONS:
                choices.append(SupervisedTargets(features=POLICY_FEATURES))
            for targets in choices:
                for seed in seeds:
                    yield _supervised_run(scale, name, dataset, blocks, targets, seed, small[seed])


def _supervised_run(
    scale: Scale,
    name: str,
    dataset: PlannedDataset,
    blocks: int,
    targets: SupervisedTargets,
    seed: int,
    small: PlannedRun,
) -> PlannedRun:
    """Plan a run on a set of solved positions; any features it learns come from the `small` run."""
    learns_features = targets.features != WITHOUT_FEATURES
    heads = {"network.heads": ["policy", "outcome", POLICY_FEATURES_HEAD]}
    factors: dict[str, FactorLevel] = {"set": name, "blocks": blocks, **targets._asdict()}
    changes = {
        **SUPERVISED_CHANGES[scale],
        **(heads if learns_features else {}),
        "network.blocks": blocks,
        "network.heads.outcome.weight": targets.weight,
        "published_bugs": ["losses_as_draws"] if targets.labels == "published" else [],
    }
    return plan_run(
        SUPERVISED_PART,
        _BOARD[scale],
        "supervised",
        factors,
        changes,
        seed,
        datasets={"supervised.positions": dataset},
        feature_run=small if learns_features else None,
    )
