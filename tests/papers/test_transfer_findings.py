"""Transfer study: design, measures and findings on invented results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made_up_runs import accuracy_record, made_up_tournament

from zerolab.papers.transfer import analysis, findings, measures, similarity
from zerolab.papers.transfer.measures import BoardPair, planned_board_pairs
from zerolab.papers.transfer.study import source_and_target_boards
from zerolab.report.document import Picture
from zerolab.report.table import Table
from zerolab.rules import compiled_rules
from zerolab.rules.catalogue import parse_game
from zerolab.rules.rules import ONGOING
from zerolab.store.run_folder import RunFolder
from zerolab.studies.claims import MissingEstimate, judge_claims
from zerolab.studies.finished_work import TrainedRun
from zerolab.studies.looks import FIRST_SEED
from zerolab.studies.results import Results
from zerolab.studies.study import registered_studies
from zerolab.studies.study_folder import FinishedRun
from zerolab.training.records import SelfPlayRecord
from zerolab.training.transfer import NetworkWithGame, transfer_weights, untrained_network

STUDY = registered_studies()["transfer"]
MINI = STUDY.design("mini", list(range(FIRST_SEED, FIRST_SEED + 4)))
"""Design of `mini` with fewer seeds than planned, to save time."""
NEAR, FAR = 0.16, 0.08
"""Initial lead of fine-tuned runs from another size and another game, which falls to 0."""


def seed_deviation(seed):
    """Return the deviation of a seed, with mean 0 over four seeds."""
    return 0.002 * (seed - 1.5)


def accuracy(run, iteration):
    """Return an invented accuracy, which rises from 0.25 to 0.6 from scratch."""
    scratch, seed = 0.2 + 0.05 * iteration, run.factors["seed"] - FIRST_SEED
    if run.factors["way"] != "fine-tuned":
        return scratch
    lead = NEAR if BoardPair(run.factors["source"], run.part).is_near else FAR
    return (
        scratch + lead * (8 - iteration) / 8 + seed_deviation(seed) * (1.0 if lead == FAR else 1.5)
    )


def elo(run, stage):
    """Return an invented Elo: networks mapped between sizes lead, and frozen ones stay behind."""
    is_far = "source" in run.factors and not BoardPair(run.factors["source"], run.part).is_near
    mapped = -100.0 if is_far else 150.0
    at = {
        "scratch": 0.0, "fine-tuned": 10.0, "mapped": mapped - 18 * stage, "frozen": -60.0,
        "random-frozen": -200.0,
    }  # fmt: skip
    return (
        50 * stage
        + at[run.factors["way"]]
        + 1000
        * seed_deviation(run.factors["seed"] - FIRST_SEED)
        * (run.factors["way"] in ("fine-tuned", "mapped", "random-frozen"))
    )


def selfplay_record(iteration, seconds):
    fields = {name: 0 for name, field in SelfPlayRecord.model_fields.items() if field.is_required()}
    return SelfPlayRecord(**{**fields, "iteration": iteration, "wall_seconds": seconds})


def made_up(planned):
    records = [
        record
        for i in range(1, 9)
        for record in (selfplay_record(i, 2.0), accuracy_record(i, accuracy(planned, i)))
    ]
    return TrainedRun(planned, records)


@pytest.fixture(scope="module")
def results():
    """Invented results of the whole `mini` design."""
    groups = {}
    for each in MINI.tournaments:
        groups.setdefault(each.group_name, []).append(each)
    played = {
        group: made_up_tournament(
            tournaments,
            {
                name: elo(run, each.iteration_by_player[name])
                for each in tournaments
                for name, run in each.run_by_player.items()
            },
            20.0,
        )
        for group, tournaments in groups.items()
    }
    return Results("mini", MINI, [made_up(run) for run in MINI.runs], played)


@pytest.fixture
def known_trunks(monkeypatch):
    """Similarities of the trunks of the `mini` design."""
    pairs, seeds = planned_board_pairs(MINI), range(4)
    tuned = {
        pair: {seed: [0.95, 0.9, 0.8 + seed_deviation(seed)] for seed in seeds} for pair in pairs
    }
    scratch = {pair: {seed: [0.7, 0.68, 0.66] for seed in seeds} for pair in pairs}
    found = similarity.TrunkSimilarity(["stem", "block 1", "block 2"], tuned, scratch, {})
    monkeypatch.setattr(findings, "compare_trunks", lambda results: found)


def test_mini_has_all_pairs_ways_and_seeds():
    assert STUDY.planned_seeds("mini") == list(range(FIRST_SEED, FIRST_SEED + 12))
    assert len(MINI.runs) == 6 * 4 * 2 + 12 * 3 * 4
    every = planned_board_pairs(MINI)
    assert len(every) == 12
    assert sum(pair.is_near for pair in every) == 6
    first = {"othello-6x6", "connect_four-6x6", "gobang-6x6"}
    assert {frozenset(pair) for pair in every if not pair.is_near} == {
        frozenset((one, other)) for one in first for other in first if one != other
    }
    assert len(set(MINI.distinct_runs)) == len(MINI.runs)


def test_sources_are_scratch_runs_of_equal_seeds():
    for run in MINI.runs:
        if "source" in run.factors:
            start = run.start_run
            assert (start.part, start.factors["way"]) == (run.factors["source"], "scratch")
            assert start.factors["seed"] == run.factors["seed"]
            assert start.key in MINI.distinct_runs
        else:
            assert run.start_run is None
    # Boards have different seeds, so that their random trunks differ.
    seeds = [run.settings.seed for run in MINI.runs if run.factors["way"] == "scratch"]
    assert len(set(seeds)) == len(seeds)
    assert {run.settings.seed for run in MINI.runs} == set(seeds)


def test_ways_set_transfer_and_frozen_parts():
    found = {
        (run.factors["way"], run.start_run and BoardPair(run.start_run.part, run.part).is_near): (
            run.settings.start and run.settings.start.transfer, run.settings.learn.frozen
        )
        for run in MINI.runs
    }  # fmt: skip
    assert found == {
        ("scratch", None): (None, "none"),
        ("random-frozen", None): (None, "trunk"),
        **{("fine-tuned", near): ("trunk", "none") for near in (True, False)},
        **{("frozen", near): ("trunk", "trunk") for near in (True, False)},
        ("mapped", True): ("all", "none"),
        ("mapped", False): ("channels", "none"),
    }


def test_boards_of_a_game_with_one_size_have_no_near_pairs():
    games = {"othello": ("othello:6x6",), "gobang": ("gobang:6x6:4", "gobang:5x5:4")}
    assert source_and_target_boards(games) == [
        ("othello:6x6", "gobang:6x6"), ("gobang:6x6", "othello:6x6"),
        ("gobang:6x6", "gobang:5x5"), ("gobang:5x5", "gobang:6x6"),
    ]  # fmt: skip


def test_selected_board_includes_sources_of_others():
    chosen = MINI.restricted_to_parts(["gobang-5x5"])
    methods = {(run.part, run.factors["way"]) for run in chosen.runs if run.part != "gobang-5x5"}
    assert methods == {("gobang-6x6", "scratch")}
    assert {each.group_name for each in chosen.tournaments} == {"gobang-5x5"}


def test_positions_of_hard_boards_start_at_later_plies():
    first = {each.game: each.settings.first_ply for each in MINI.datasets}
    assert first == {
        "othello:6x6": 18, "connect_four:6x6": 10, "gobang:6x6": 8,
        "othello:5x5": 0, "connect_four:5x5": 0, "gobang:5x5": 8,
    }  # fmt: skip


def test_tournament_entrants():
    games = next(each for each in MINI.tournaments if each.group_name == "gobang-5x5")
    stages = {}
    for name, run in games.run_by_player.items():
        stages.setdefault(run.factors["way"], set()).add(games.iteration_by_player[name])
    assert stages == {
        "scratch": {0, 2, 4, 8}, "fine-tuned": {2, 4, 8}, "mapped": {0, 2, 4, 8},
        "frozen": {8}, "random-frozen": {8},
    }  # fmt: skip
    assert len(games.run_by_player) == 13


def test_curve_measures_agree_with_hand_computed_values():
    curve = [0.1, 0.3, 0.2, 0.5, 0.6, 0.7, 0.7, 0.9]
    assert measures.early_mean(curve) == pytest.approx(0.2)
    assert measures.late_mean(curve) == pytest.approx(0.8)
    assert measures.curve_mean(curve) == pytest.approx(0.5)
    assert measures.early_mean(curve[:2]) == pytest.approx(0.1)
    assert measures.iterations_to_reach(curve, 0.05) == 1.0
    assert measures.iterations_to_reach(curve, 0.25) == pytest.approx(1.75)
    assert measures.iterations_to_reach(curve, 0.4) == pytest.approx(3 + 2 / 3)
    assert measures.iterations_to_reach(curve, 0.95) is None


@pytest.mark.usefixtures("known_trunks")
def test_claims_recover_built_in_effects(results):
    found = findings.transfer_statistics(results)
    area = 3.5 / 8
    expected = {
        findings.HELPS_TRAINING_CLAIM: area * FAR,
        findings.SAVED_ITERATIONS_CLAIM: 4 - 3,  # 0.28 + 0.04 i reaches 0.4 after three iterations
        findings.STRONGER_AT_END_CLAIM: 10.0,
        findings.FROZEN_WORSE_CLAIM: 70.0,
        findings.NEAR_HELPS_MORE_CLAIM: area * (NEAR - FAR),
        findings.LEAD_DISAPPEARS_CLAIM: 10.0,
        findings.FROZEN_BEATS_RANDOM_TRUNK_CLAIM: 140.0,
        findings.MAPPED_SIZES_START_CLAIM: 150.0,
        findings.MAPPED_GAMES_START_CLAIM: -100.0,
        findings.FIRST_LAYERS_STAY_CLAIM: 0.15 - 0.04,
    }
    assert set(found) == set(expected) == set(findings.TRANSFER_CLAIMS)
    for claim, value in expected.items():
        assert found[claim].value == pytest.approx(value, abs=1e-9), claim.key
        # Seeds minus one, for any number of pairs.
        assert getattr(found[claim], "degrees_of_freedom", 3) == 3
    words = {verdict.claim.key: verdict.word for verdict in judge_claims(found)}
    assert words.pop("mapped-games-play-at-once") == "does not hold"
    assert set(words.values()) == {"holds"}
    assert [claim.key for claim in found if claim.is_primary] == [
        "helps-training", "saves-iterations",
    ]  # fmt: skip


@pytest.mark.usefixtures("known_trunks")
def test_unfinished_parts_are_missing_and_others_are_reported(results):
    some = replace(results, runs=results.runs[:-1])
    found = findings.transfer_statistics(some)
    assert {each.reason for each in found.values()} == {"1 of 192 runs is not finished"}
    unplayed = replace(results, tournaments={})
    found = findings.transfer_statistics(unplayed)
    missing = [claim.key for claim, each in found.items() if isinstance(each, MissingEstimate)]
    assert missing == [
        "stronger-at-the-end", "frozen-worse-late", "nothing-left", "frozen-not-random",
        "mapped-sizes-play-at-once", "mapped-games-play-at-once",
    ]  # fmt: skip
    assert "tournaments not finished" in found[findings.MAPPED_SIZES_START_CLAIM].reason
    shown = [
        block for block in analysis.learning_section(some) if isinstance(block, Picture | Table)
    ]
    assert {"accuracy", "gain", "gains", "saved", "times"} <= {each.name for each in shown}
    assert list(analysis.strength_section(unplayed)) == []
    assert list(analysis.learning_section(replace(results, runs=[]))) == []


def table(blocks, name):
    return next(each for each in blocks if isinstance(each, Table) and each.name == name)


def test_tables_have_all_pairs_and_methods(results):
    gains = table(analysis.learning_section(results), "gains")
    assert len(gains.rows) == 12 * 3 + 6
    (row,) = [
        row for row in gains.rows if row[:2] == ["Gobang 5x5 to Gobang 6x6", "fine-tuned trunk"]
    ]
    assert [round(each.value, 4) for each in row[3:]] == [0.13, 0.07, 0.01]
    times = table(analysis.learning_section(results), "times")
    (row,) = [row for row in times.rows if row[:2] == ["Gobang 5x5 to Gobang 6x6", "from scratch"]]
    # Four iterations of two seconds, excluding accuracy measurements.
    assert (row[2], row[3], row[4], row[5]) == (pytest.approx(0.4), "4 of 4", 4.0, 8.0)
    elos = table(analysis.strength_section(results), "elo-gains")
    found = {tuple(row[:3]): row[4].value for row in elos.rows}
    assert found["Gobang 5x5 to Gobang 6x6", "mapped", 0] == pytest.approx(150)
    assert found["Gobang 6x6", "random frozen trunk", 8] == pytest.approx(-200)
    assert ("Gobang 5x5 to Gobang 6x6", "fine-tuned trunk", 0) not in found


def test_run_that_never_reaches_a_level_counts_all_iterations(results):
    pair = next(pair for pair in planned_board_pairs(MINI) if pair.is_near)
    flat = [
        TrainedRun(run.planned, [accuracy_record(i, 0.1) for i in range(1, 9)])
        if run.factors["way"] == "frozen"
        else run
        for run in results.runs
    ]
    changed = replace(results, runs=flat)
    assert list(measures.iterations_saved(changed, pair, "frozen").values()) == pytest.approx(
        [4.0 - 8.0] * 4
    )
    assert list(measures.iterations_saved(changed, pair, "mapped").values()) == pytest.approx(
        [0.0] * 4
    )


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """Untrained runs at the smallest scale, so that fine-tuned trunks equal their sources."""
    folder, sides, finished = tmp_path_factory.mktemp("runs"), {}, {}

    class Untrained(FinishedRun):
        def other_run(self, planned):
            return finished[planned.key]

    design = STUDY.planned_design("smoke")
    every = design.runs
    methods = [
        [run for run in every if run.factors["way"] == method]
        for method in ("scratch", "fine-tuned")
    ]
    for planned in (*methods[0], *methods[1]):
        settings = planned.settings
        side = untrained_network(settings.network, parse_game(settings.game), settings.seed)
        if planned.start_run is not None:
            taken = transfer_weights("trunk", sides[planned.start_run.key], side)
            side = NetworkWithGame(side.game, side.network_settings, taken.weights)
        sides[planned.key] = side
        run = RunFolder.create(folder / planned.key, settings.model_dump())
        with run.locked():
            run.save_network(0, side.weights, {})
            run.commit(run.progress, [])
        finished[planned.key] = Untrained(planned, run, None, design)
    runs = [
        TrainedRun(run.planned, [], measurements=STUDY.measure_run(run))
        for run in finished.values()
    ]
    return Results("smoke", design, runs, {})


def test_unchanged_trunks_have_similarity_1(compared):
    found = similarity.compare_trunks(compared)
    assert found.layer_names == ["stem", "block 1"]
    assert len(found.fine_tuned_cka) == 4
    for pair, by_seed in found.fine_tuned_cka.items():
        assert by_seed[FIRST_SEED] == pytest.approx([1.0, 1.0], abs=1e-5)
        first, *_, last = found.scratch_cka[pair][FIRST_SEED]
        assert found.first_layer_cka_excess(pair)[FIRST_SEED] == pytest.approx(
            last - first, abs=1e-5
        )
        assert max(found.scratch_cka[pair][FIRST_SEED]) < 0.99
    one, other = ("gobang-4x4", "connect_four-4x4"), ("connect_four-4x4", "gobang-4x4")
    assert {one, other} <= set(found.between_boards_cka)
    assert not any(
        board == another for board, another in found.between_boards_cka
    )  # there is only one seed
    shown = similarity.similarity_section(compared, found)
    assert "cka-fine-tuned" in {each.name for each in shown if isinstance(each, Picture)}


@pytest.mark.parametrize("name", ["othello:5x5", "connect_four:4x4", "gobang:3x3:3"])
def test_random_positions_are_distinct_and_ongoing(name):
    game = parse_game(name)
    states = similarity.random_positions(game, 100)
    assert len(np.unique(states, axis=0)) == len(states) == 100
    assert all(compiled_rules.outcome(game, state) == ONGOING for state in states)
    assert np.array_equal(states, similarity.random_positions.__wrapped__(game, 100))


def test_seeds_without_cka_are_left_out_of_the_first_layers():
    pair = BoardPair("gobang-5x5", "gobang-6x6")
    nan = float("nan")
    tuned = {pair: {100: [0.9, 0.5], 101: [0.9, nan], 102: [0.9, 0.5], 103: [0.9, 0.5]}}
    scratch = {pair: {100: [0.6, 0.4], 101: [0.6, 0.4], 102: [nan, 0.4]}}
    found = similarity.TrunkSimilarity(["stem", "block 1"], tuned, scratch, {})
    assert found.first_layer_cka_excess(pair) == {100: pytest.approx(0.2)}


@pytest.mark.usefixtures("known_trunks")
def test_sizes_alone_have_no_pairs_of_games(results):
    some = replace(results, design=MINI.restricted_to_parts(["gobang-5x5"]))
    kept = [run for run in results.runs if run.planned.key in some.design.distinct_runs]
    found = findings.transfer_statistics(replace(some, runs=kept))
    assert found[findings.HELPS_TRAINING_CLAIM].reason == (
        "the selected boards include no pair that this claim is about"
    )
    assert found[findings.MAPPED_SIZES_START_CLAIM].value == pytest.approx(150.0)
