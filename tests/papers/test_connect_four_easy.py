"""Accuracy on easy positions, with players of known accuracy in place of networks."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest

from zerolab.agents.specs import parse_agents
from zerolab.evaluation.accuracy import random_move_grades
from zerolab.evaluation.dataset import make_dataset
from zerolab.evaluation.positions import read_positions
from zerolab.papers import solved_accuracy
from zerolab.papers.connect_four import smaller_findings
from zerolab.papers.connect_four.study import Connect4EfficiencyStudy, planned_easy_dataset
from zerolab.report.table import Table
from zerolab.rules.catalogue import parse_game
from zerolab.store.run_folder import RunFolder
from zerolab.studies import study_folder
from zerolab.studies.claims import MissingEstimate
from zerolab.studies.design import Design, PlannedRun
from zerolab.studies.finished_work import TrainedRun
from zerolab.studies.results import Results
from zerolab.studies.study_folder import FinishedRun, StudyFolder
from zerolab.training.configure import resolve_settings
from zerolab.training.records import AccuracyRecord
from zerolab.training.window_facts import split_by_game

BOARD = "connect_four:4x4"
PLAYERS = {"extended": "perfect", "baseline": "random"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Finished runs of two seeds, with networks that are never used."""
    root = tmp_path_factory.mktemp("easy")
    folder = StudyFolder(root, Connect4EfficiencyStudy.name, "mini")
    planned = planned_easy_dataset(BOARD, 150)
    path = folder.dataset_path(planned)
    path.parent.mkdir()
    make_dataset(parse_game(BOARD), planned.position_count, planned.settings, path, 1)
    design = Design([], report_datasets=[planned])
    runs = []
    for seed in range(2):
        for variant in PLAYERS:
            settings = resolve_settings(BOARD, "smoke", [f"seed={seed}"])
            run = RunFolder.create(root / f"{variant}-{seed}", settings.model_dump())
            run.save_network(0, {"weight": np.full(1, len(runs), np.float32)}, {})
            each = PlannedRun("training", {"variant": variant, "seed": seed}, settings)
            runs.append(FinishedRun(each, run, folder, design))
    return runs


@pytest.fixture
def results(finished, known_players):
    """Results with the measured accuracies and an invented one on hard positions."""
    hard = AccuracyRecord.model_construct(search_strong=0.25)
    runs = [
        TrainedRun(
            run.planned, [hard], measurements={"easy": smaller_findings.measure_easy_accuracy(run)}
        )
        for run in finished
    ]
    return Results("mini", Design([run.planned for run in finished]), runs, {})


@pytest.fixture
def known_players(monkeypatch):
    def agent(run, iteration):
        variant = run.path.name.rpartition("-")[0]
        return parse_agents([PLAYERS[variant]], parse_game(BOARD))[0]

    monkeypatch.setattr(smaller_findings, "agent_of_run", agent)


def test_networks_are_graded_on_easy_positions(results, finished):
    accuracies = smaller_findings.easy_position_accuracies(results)
    assert set(accuracies["extended"].values()) == {1.0}
    positions, _ = read_positions(easy_path(finished))
    chance = np.mean(random_move_grades(positions).is_best)
    for seed in range(2):
        assert accuracies["baseline"][seed] == pytest.approx(chance, abs=0.15)
    (table,) = smaller_findings.easy_position_section(results, accuracies)
    assert isinstance(table, Table)
    row = dict(zip(table.column_titles, table.rows[-1], strict=True))
    assert (row["variant"], row["published easy"]) == ("extended", 0.953)
    assert row["hard"].value == 0.25


def test_easy_positions_are_compared_with_hard_ones(results):
    """The hard accuracy is 0.25 for all runs, and perfect play is always right on easy ones."""
    found = smaller_findings.easy_position_statistics(results)[
        smaller_findings.EASY_POSITIONS_EASIER_CLAIM
    ]
    baseline = smaller_findings.easy_position_accuracies(results)["baseline"].values()
    assert found.value == pytest.approx((1.0 + np.mean([*baseline])) / 2 - 0.25)
    bare = replace(results, runs=[replace(run, measurements={}) for run in results.runs])
    assert isinstance(
        smaller_findings.easy_position_statistics(bare)[
            smaller_findings.EASY_POSITIONS_EASIER_CLAIM
        ],
        MissingEstimate,
    )


def easy_path(finished):
    return finished[0].study_folder.dataset_path(finished[0].design.report_datasets[0])


class _Measuring:
    """Study that measures accuracy on easy positions."""

    name, measurement_version = "connect4-efficiency", 1

    def measure_run(self, run):
        return {"easy": smaller_findings.measure_easy_accuracy(run)}


@pytest.mark.usefixtures("known_players")
def test_network_is_measured_once(finished, monkeypatch):
    first = study_folder._measured(_Measuring(), finished[0])
    chosen = Mock(side_effect=solved_accuracy.player_choices)
    monkeypatch.setattr(solved_accuracy, "player_choices", chosen)
    assert study_folder._measured(_Measuring(), finished[0]) == first
    chosen.assert_not_called()
    (stored,) = (finished[0].study_folder.root / "computed").iterdir()
    stored.write_text("damaged")
    for _ in range(2):
        assert study_folder._measured(_Measuring(), finished[0]) == first
    chosen.assert_called_once()


def test_final_accuracy_of_policy_and_search(finished, monkeypatch):
    """The policy alone plays at random, and its search is perfect."""

    def agent(run, iteration, options=None):
        assert options is None or options.simulations == 0
        return parse_agents(["random" if options else "perfect"], parse_game(BOARD))[0]

    monkeypatch.setattr(solved_accuracy, "agent_of_run", agent)
    found = solved_accuracy.measure_final_accuracy(finished[0])
    assert (found["search"], found["regret"]) == (1.0, 0.0)
    positions, _ = read_positions(easy_path(finished))
    assert found["policy"] == pytest.approx(
        np.mean(random_move_grades(positions).is_best), abs=0.15
    )


def test_policy_is_graded_by_ply_on_the_test_part(finished, monkeypatch):
    """The policy, without search, is perfect and therefore always right."""

    def agent(folder, iteration, options):
        assert options.simulations == 0
        return parse_agents(["perfect"], parse_game(BOARD))[0]

    monkeypatch.setattr(solved_accuracy, "agent_of_run", agent)
    easy = finished[0].design.report_datasets[0]
    planned = Mock(datasets=[easy], settings=finished[0].planned.settings)
    run = Mock(planned=planned, folder=finished[0].folder, study_folder=finished[0].study_folder)
    found = solved_accuracy.measure_test_accuracy(run)
    test = split_by_game(read_positions(easy_path(finished))[0]).test
    plies = test.plies.tolist()
    assert found == {str(ply): [plies.count(ply), 1.0] for ply in plies}
    assert len(found) > 1
    run.study_folder = Mock(dataset_path=lambda dataset: easy_path(finished).with_name("none"))
    assert solved_accuracy.measure_test_accuracy(run) is None


@pytest.mark.usefixtures("known_players")
def test_unsolved_positions_are_measured_later(finished):
    path = easy_path(finished)
    path.rename(path.with_suffix(".away"))
    assert study_folder._measured(_Measuring(), finished[1]) == {}
    unknown = solved_accuracy.measure_final_accuracy(finished[1])
    assert unknown == {"policy": None, "search": None, "regret": None}
    path.with_suffix(".away").rename(path)
    assert study_folder._measured(_Measuring(), finished[1]).keys() == {"easy"}


def test_missing_positions_give_no_table(results):
    bare = replace(results, runs=[replace(run, measurements={}) for run in results.runs])
    assert smaller_findings.easy_position_accuracies(bare) == {}
    assert not list(smaller_findings.easy_position_section(bare, {}))
