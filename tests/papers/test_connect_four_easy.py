"""Accuracy on easy positions, with players of known accuracy in place of networks."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from zerolab.agents.specs import parse_agents
from zerolab.evaluation.accuracy import random_grades
from zerolab.evaluation.dataset import make_dataset
from zerolab.evaluation.positions import read_positions
from zerolab.papers.connect_four import solved_positions
from zerolab.papers.connect_four.study import Connect4EfficiencyStudy, planned_easy_dataset
from zerolab.report.table import Table
from zerolab.rules.catalogue import parse_game
from zerolab.store.run_folder import RunFolder
from zerolab.studies.claims import MissingEstimate
from zerolab.studies.design import Design, PlannedRun
from zerolab.studies.results import Results, TrainedRun
from zerolab.studies.study_folder import StudyFolder
from zerolab.training.configure import resolve_settings
from zerolab.training.records import AccuracyRecord

BOARD = "connect_four:4x4"
PLAYERS = {"extended": "perfect", "baseline": "random"}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    path = tmp_path_factory.mktemp("easy")
    planned = planned_easy_dataset(BOARD, 150)
    make_dataset(
        parse_game(BOARD), planned.position_count, planned.settings, path / planned.file_name, 1
    )
    hard = AccuracyRecord.model_construct(search_strong=0.25)
    runs = []
    for seed in range(2):
        for variant in PLAYERS:
            settings = resolve_settings(BOARD, "smoke", [f"seed={seed}"])
            folder = RunFolder.create(path / f"{variant}-{seed}", settings.model_dump())
            folder.save_network(0, {"weight": np.full(1, len(runs), np.float32)}, {})
            run = PlannedRun("training", {"variant": variant, "seed": seed}, settings)
            runs.append(TrainedRun(run, folder.path, [hard]))
    design = Design([run.planned for run in runs], report_datasets=[planned])
    return Results(
        "mini", design, runs, {}, dataset_paths={planned.title: path / planned.file_name}
    )


@pytest.fixture
def known_players(monkeypatch):
    def agent(run, iteration):
        variant = run.path.name.rpartition("-")[0]
        return parse_agents([PLAYERS[variant]], parse_game(BOARD))[0]

    monkeypatch.setattr(solved_positions, "agent_of_run", agent)


@pytest.mark.usefixtures("known_players")
def test_networks_are_graded_on_easy_positions(results):
    accuracies = solved_positions.measure_easy_accuracy(results)
    assert set(accuracies["extended"].values()) == {1.0}
    positions, _ = read_positions(next(iter(results.dataset_paths.values())))
    chance = np.mean(random_grades(positions).strong)
    for seed in range(2):
        assert accuracies["baseline"][seed] == pytest.approx(chance, abs=0.15)
    claim = solved_positions.easy_statistics(results, accuracies)[solved_positions.EASY_CLAIM]
    assert claim.value == pytest.approx(1 - np.mean(list(accuracies["baseline"].values())))
    (table,) = solved_positions.easy_blocks(results, accuracies)
    assert isinstance(table, Table)
    row = dict(zip(table.column_titles, table.rows[-1], strict=True))
    assert (row["variant"], row["published easy"]) == ("extended", 0.953)
    assert row["hard"].value == 0.25


@pytest.mark.usefixtures("known_players")
def test_network_is_measured_once(results, tmp_path, monkeypatch):
    folder = StudyFolder(tmp_path, Connect4EfficiencyStudy.name, "mini")
    saved_results = replace(results, folder=folder)
    first = solved_positions.measure_easy_accuracy(saved_results)
    assert first == solved_positions.measure_easy_accuracy(results)
    chosen = Mock(side_effect=solved_positions.player_choices)
    monkeypatch.setattr(solved_positions, "player_choices", chosen)
    assert solved_positions.measure_easy_accuracy(saved_results) == first
    chosen.assert_not_called()
    for content in ("{}", '{"schema_version": 1, "result": {}}'):
        next((tmp_path / "computed").iterdir()).write_text(content)
        chosen.reset_mock()
        assert (
            solved_positions.measure_easy_accuracy(saved_results)
            == solved_positions.measure_easy_accuracy(saved_results)
            == first
        )
        chosen.assert_called_once()


@pytest.mark.usefixtures("known_players")
def test_changed_weights_and_positions_are_measured_again(results, tmp_path, monkeypatch):
    solved = {
        title: Path(shutil.copy(file, tmp_path)) for title, file in results.dataset_paths.items()
    }
    run = results.runs[0]
    path = shutil.copytree(run.path, tmp_path / run.path.name)
    folder = StudyFolder(tmp_path / "studies", Connect4EfficiencyStudy.name, "mini")
    runs = [replace(run, path=path), *results.runs[1:]]
    saved_results = replace(results, folder=folder, runs=runs, dataset_paths=solved)
    solved_positions.measure_easy_accuracy(saved_results)
    chosen = Mock(side_effect=solved_positions.player_choices)
    monkeypatch.setattr(solved_positions, "player_choices", chosen)
    RunFolder.open(path).save_network(0, {"weight": np.full(1, -1, np.float32)}, {})
    solved_positions.measure_easy_accuracy(saved_results)
    chosen.assert_called_once()
    chosen.reset_mock()
    (title,) = solved
    planned = planned_easy_dataset(BOARD, 40)
    make_dataset(parse_game(BOARD), 40, planned.settings, tmp_path / "other.parquet", 1)
    solved_positions.measure_easy_accuracy(
        replace(saved_results, dataset_paths={title: tmp_path / "other.parquet"})
    )
    assert chosen.call_count == len(runs)


@pytest.mark.usefixtures("known_players")
def test_results_are_reported_even_if_they_cannot_be_saved(results, tmp_path):
    (tmp_path / "computed").write_text("a file in the place of the folder")
    folder = StudyFolder(tmp_path, Connect4EfficiencyStudy.name, "mini")
    assert solved_positions.measure_easy_accuracy(
        replace(results, folder=folder)
    ) == solved_positions.measure_easy_accuracy(results)


def test_missing_positions_give_no_claim_and_no_table(results):
    bare = Results("mini", results.design, results.runs, {})
    assert solved_positions.measure_easy_accuracy(bare) == {}
    assert isinstance(
        solved_positions.easy_statistics(bare, {})[solved_positions.EASY_CLAIM], MissingEstimate
    )
    assert not list(solved_positions.easy_blocks(bare, {}))
