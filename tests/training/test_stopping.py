"""Runs that end early."""

from __future__ import annotations

import pytest

from evaluation.exhaustive import exhaustive
from zerolab.core.errors import UserError
from zerolab.evaluation.collecting import DatasetSettings
from zerolab.evaluation.dataset import collect_in_memory
from zerolab.evaluation.positions import write_positions
from zerolab.rules.catalogue import parse_game
from zerolab.store.run_folder import RunFolder
from zerolab.training.configure import resolve_settings
from zerolab.training.criteria import STOP_RULES
from zerolab.training.records import AccuracyRecord, BaselineRecord, SelfPlayRecord
from zerolab.training.reporting import read_records
from zerolab.training.trainer import Trainer

GAME = parse_game("gobang:3x3:3")


def measured(iteration, search_strong, network_strong=0.5):
    return AccuracyRecord.model_construct(
        stage="accuracy",
        iteration=iteration,
        search_strong=search_strong,
        network_strong=network_strong,
    )


def after(iteration):
    return SelfPlayRecord.model_construct(stage="selfplay", iteration=iteration)


def test_no_gain_counts_iterations_since_the_best_measurement():
    rule = STOP_RULES["no_gain"](iterations=3)
    records = [measured(1, 0.6), measured(2, 0.8), measured(3, 0.7), measured(4, 0.8)]
    assert not rule.is_met([])
    assert not rule.is_met([after(7)])
    assert not rule.is_met(records)
    assert rule.is_met([*records, measured(5, 0.79)])
    assert not rule.is_met([*records, after(9)])  # nothing has been measured since
    assert not rule.is_met([*records, measured(5, 0.81)])
    by_network = STOP_RULES["no_gain"](iterations=3, accuracy="network_strong")
    assert by_network.is_met(records)
    assert not STOP_RULES["never"]().is_met(records)


def test_spent_counts_the_evaluations_of_self_play():
    rule = STOP_RULES["spent"](evaluations=100)

    def played(iteration, evaluated):
        record = SelfPlayRecord.model_construct(stage="selfplay", iteration=iteration)
        return record.model_copy(update={"evaluated": evaluated})

    assert not rule.is_met([])
    assert not rule.is_met([played(1, 60), measured(1, 0.5), played(2, 39)])
    assert rule.is_met([played(1, 60), measured(1, 0.5), played(2, 40)])


@pytest.fixture(scope="module")
def positions(tmp_path_factory):
    path = tmp_path_factory.mktemp("positions") / "solved.parquet"
    solved = collect_in_memory(GAME, 20, DatasetSettings(), exhaustive(GAME))
    write_positions(path, solved.positions, {})
    return path


def train(folder, positions, *assignments):
    settings = resolve_settings(
        None,
        "smoke",
        [
            "selfplay.episodes=4",
            "final_evaluation.games=2",
            "accuracy.every=1",
            f"accuracy.positions='{positions}'",
            "stop={name='no_gain', iterations=1}",
            *assignments,
        ],
    )
    if folder.exists():
        run = RunFolder.open(folder)
    else:
        run = RunFolder.create(folder, settings.model_dump(mode="json"))
    with run.locked():
        Trainer(run, settings).train()
    return run


def test_a_run_without_gain_ends_with_its_final_evaluation_and_stays_ended(tmp_path, positions):
    """With a gate that rejects every candidate, there is no gain."""
    reject = "gate={name='win_rate', games=2, threshold=1}"
    run = train(tmp_path / "run", positions, "iterations=9", reject, "learn.learning_rate=1e-9")
    records = read_records(run)
    accuracies = [each for each in records if isinstance(each, AccuracyRecord)]
    last = accuracies[-1].iteration
    assert last < 9
    assert accuracies[-2].search_strong >= accuracies[-1].search_strong
    finals = [each for each in records if isinstance(each, BaselineRecord)]
    assert {each.iteration for each in finals} == {last}
    assert run.progress.finished
    before = (tmp_path / "run" / "state.json").read_bytes()
    train(tmp_path / "run", positions, "iterations=9", reject, "learn.learning_rate=1e-9")
    assert (tmp_path / "run" / "state.json").read_bytes() == before


def test_a_rule_that_looks_at_accuracy_needs_it():
    with pytest.raises(UserError, match=r"expected accuracy\.every of at least 1"):
        resolve_settings(None, "smoke", ["stop=no_gain"])
