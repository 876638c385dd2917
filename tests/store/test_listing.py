"""Listing and summaries of runs."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from store.toy import CONFIG, in_child, train
from zerolab.core.errors import UserError
from zerolab.store.listing import find_runs, summarise_run
from zerolab.store.run_folder import RunFolder


def test_runs_are_found_by_name_or_folder(tmp_path):
    for name in ("b", "a"):
        RunFolder.create(tmp_path / name, CONFIG)
    (tmp_path / "other").mkdir()
    (tmp_path / "notes.txt").write_text("")
    assert find_runs([tmp_path]) == [tmp_path / "a", tmp_path / "b"]
    assert find_runs([tmp_path / "b", tmp_path]) == [tmp_path / "a", tmp_path / "b"]
    assert find_runs([tmp_path / "other"]) == []
    with pytest.raises(UserError, match=r"notes.txt is not a folder"):
        find_runs([tmp_path / "notes.txt"])


def test_summary_has_progress_and_status(tmp_path):
    run = train(tmp_path / "run", iterations=1)
    summary = summarise_run(run.path)
    began = (str(run.path), "othello:4x4", "toy", 2, 2, "selfplay", "stopped", 10.0, "")
    assert summary == (*began, {}, None)
    with run.locked():
        assert summarise_run(run.path).status == "running"
        run.commit(
            run.progress.model_copy(update={"iteration": 3, "stage": "final_evaluation"}), []
        )
        run.commit(run.progress.model_copy(update={"finished": True}), [])
    assert summarise_run(run.path).status == "finished"
    assert summarise_run(run.path).iteration == 2


def test_summary_has_latest_accuracy_and_scores(tmp_path):
    run = train(tmp_path / "run", iterations=1)
    lines = [
        {"stage": "accuracy", "iteration": 1, "search_strong": 0.5},
        {"stage": "final_evaluation", "iteration": 1, "opponent": "mcts:9", "score_rate": 0.25},
        {"stage": "accuracy", "iteration": 2, "search_strong": 0.75},
        {"stage": "final_evaluation", "iteration": 2, "opponent": "mcts:9", "score_rate": 1.0},
        {"stage": "final_evaluation", "iteration": 2, "opponent": "@0", "score_rate": 0.5},
    ]
    with run.locked():
        run.commit(run.progress, lines)
    summary = summarise_run(run.path)
    assert (summary.accuracy, summary.final_score_rates) == (0.75, {"mcts:9": 1.0})
    with run.locked():
        run.commit(run.progress, [{"stage": "selfplay", "iteration": 3}])
    summary = summarise_run(run.path)  # the run has been extended
    assert (summary.accuracy, summary.final_score_rates) == (0.75, {})


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 10**400, "0.5", None])
def test_measurements_that_are_no_finite_numbers_are_left_out(tmp_path, number):
    run = train(tmp_path / "run", iterations=1)
    evaluation = {"stage": "final_evaluation", "iteration": 2, "opponent": "mcts:9"}
    with run.locked():
        run.commit(run.progress, [{"stage": "accuracy", "search_strong": number}])
        run.commit(run.progress, [{**evaluation, "score_rate": number}])
    summary = summarise_run(run.path)
    assert (summary.accuracy, summary.final_score_rates) == (None, {})


@pytest.mark.parametrize("name", ["state.json", "config.toml", "metrics.jsonl"])
def test_damaged_run_is_listed_with_reason(tmp_path, name):
    run = train(tmp_path / "run", iterations=1)
    (run.path / name).write_bytes(b"?")
    (summary,) = map(summarise_run, find_runs([tmp_path]))
    assert summary.status.startswith("damaged: ")
    assert name in summary.status
    (run.path / name).unlink()
    (summary,) = map(summarise_run, find_runs([tmp_path]))
    assert f"{name} is " in summary.status


@pytest.mark.parametrize("iterations", ["many", [1], {"a": 1}, float("inf")], ids=str)
def test_settings_of_wrong_type_are_damage(tmp_path, iterations):
    run = train(tmp_path / "run", iterations=1)
    run.save_settings({**CONFIG, "iterations": iterations})
    assert summarise_run(run.path).status.startswith(f"damaged: {run.path}/config.toml is damaged")


def test_unreadable_folder_is_listed_with_reason():
    """Other runs in the folder are still listed."""
    with tempfile.TemporaryDirectory() as temporary:  # pytest's folders are private to one user
        folder = Path(temporary)
        folder.chmod(0o755)
        train(folder / "run", iterations=1)
        (folder / "secret").mkdir(mode=0)

        def check_listing() -> None:
            if os.geteuid() == 0:
                os.seteuid(65534)
            one, other = map(summarise_run, find_runs([folder]))
            assert (one.path, one.status) == (str(folder / "run"), "stopped")
            assert other.path == str(folder / "secret")
            assert other.status == f"damaged: cannot read {other.path}: Permission denied"

        try:
            assert in_child(check_listing) == ""
        finally:
            (folder / "secret").chmod(0o755)
