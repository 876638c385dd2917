"""Networks on easy positions, for players whose accuracy is known."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from zerolab.agents.specs import parse_agents
from zerolab.evaluation.dataset import make_dataset
from zerolab.evaluation.grading import expected_of_random
from zerolab.evaluation.positions import read_positions
from zerolab.rules.catalogue import parse_game
from zerolab.store.run_folder import RunFolder
from zerolab.studies.analyses.efficiency import easy
from zerolab.studies.claims import Missing
from zerolab.studies.connect4_efficiency import Connect4Efficiency
from zerolab.studies.design import Design, PlannedRun
from zerolab.studies.engine.layout import StudyFolder
from zerolab.studies.report.document import DataTable
from zerolab.studies.results import Results, TrainedRun
from zerolab.training.configure import resolve
from zerolab.training.records import AccuracyRecord

BOARD = "connect_four:4x4"
PLAYERS = {"extended": "perfect", "baseline": "random"}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    path = tmp_path_factory.mktemp("easy")
    planned = easy.easy_positions(BOARD, 150)
    make_dataset(parse_game(BOARD), planned.count, planned.settings, path / planned.file, 1)
    hard = AccuracyRecord.model_construct(search_strong=0.25)
    runs = []
    for seed in range(2):
        for variant in PLAYERS:
            settings = resolve(BOARD, "smoke", [f"seed={seed}"])
            folder = RunFolder.create(path / f"{variant}-{seed}", settings.model_dump())
            folder.save_network(0, {"weight": np.full(1, len(runs), np.float32)}, {})
            run = PlannedRun("training", {"variant": variant, "seed": seed}, settings)
            runs.append(TrainedRun(run, folder.path, [hard]))
    design = Design([run.planned for run in runs], solved=[planned])
    return Results("mini", design, runs, {}, solved={planned.title: path / planned.file})


@pytest.fixture
def known_players(monkeypatch):
    def agent(run, iteration):
        variant = run.path.name.rpartition("-")[0]
        return parse_agents([PLAYERS[variant]], parse_game(BOARD))[0]

    monkeypatch.setattr(easy, "run_agent", agent)


@pytest.mark.usefixtures("known_players")
def test_networks_are_graded_by_the_strongest_moves_of_easy_positions(results):
    accuracies = easy.measured(results)
    assert set(accuracies["extended"].values()) == {1.0}
    positions, _ = read_positions(next(iter(results.solved.values())))
    chance = np.mean(expected_of_random(positions).strong)
    for seed in range(2):
        assert accuracies["baseline"][seed] == pytest.approx(chance, abs=0.15)
    claim = easy.found(results, accuracies)[easy.EASY_CLAIM]
    assert claim.value == pytest.approx(1 - np.mean(list(accuracies["baseline"].values())))
    (table,) = easy.blocks(results, accuracies)
    assert isinstance(table, DataTable)
    row = dict(zip(table.titles, table.rows[-1], strict=True))
    assert (row["variant"], row["published easy"]) == ("extended", 0.953)
    assert row["hard"].value == 0.25


@pytest.mark.usefixtures("known_players")
def test_a_network_is_measured_once(results, tmp_path, monkeypatch):
    folder = StudyFolder(tmp_path, Connect4Efficiency.name, "mini")
    kept = replace(results, folder=folder)
    first = easy.measured(kept)
    assert first == easy.measured(results)
    chosen = Mock(side_effect=easy.player_choices)
    monkeypatch.setattr(easy, "player_choices", chosen)
    assert easy.measured(kept) == first
    chosen.assert_not_called()
    for content in ("{}", '{"schema_version": 1, "result": {}}'):
        next((tmp_path / "computed").iterdir()).write_text(content)
        chosen.reset_mock()
        assert easy.measured(kept) == easy.measured(kept) == first
        chosen.assert_called_once()


@pytest.mark.usefixtures("known_players")
def test_other_weights_and_other_positions_are_measured_anew(results, tmp_path, monkeypatch):
    solved = {title: Path(shutil.copy(file, tmp_path)) for title, file in results.solved.items()}
    run = results.runs[0]
    path = shutil.copytree(run.path, tmp_path / run.path.name)
    folder = StudyFolder(tmp_path / "studies", Connect4Efficiency.name, "mini")
    runs = [replace(run, path=path), *results.runs[1:]]
    kept = replace(results, folder=folder, runs=runs, solved=solved)
    easy.measured(kept)
    chosen = Mock(side_effect=easy.player_choices)
    monkeypatch.setattr(easy, "player_choices", chosen)
    RunFolder.open(path).save_network(0, {"weight": np.full(1, -1, np.float32)}, {})
    easy.measured(kept)
    chosen.assert_called_once()
    chosen.reset_mock()
    (title,) = solved
    planned = easy.easy_positions(BOARD, 40)
    make_dataset(parse_game(BOARD), 40, planned.settings, tmp_path / "other.parquet", 1)
    easy.measured(replace(kept, solved={title: tmp_path / "other.parquet"}))
    assert chosen.call_count == len(runs)


@pytest.mark.usefixtures("known_players")
def test_what_cannot_be_kept_is_reported_all_the_same(results, tmp_path):
    (tmp_path / "computed").write_text("a file in the place of the folder")
    folder = StudyFolder(tmp_path, Connect4Efficiency.name, "mini")
    assert easy.measured(replace(results, folder=folder)) == easy.measured(results)


def test_without_the_positions_there_is_no_claim_and_no_table(results):
    bare = Results("mini", results.design, results.runs, {})
    assert easy.measured(bare) == {}
    assert isinstance(easy.found(bare, {})[easy.EASY_CLAIM], Missing)
    assert not list(easy.blocks(bare, {}))
