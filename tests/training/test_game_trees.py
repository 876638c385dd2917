"""Runs whose self-play asks a service for searches."""

from __future__ import annotations

import os
import signal
import time

from training.test_resume import contents, started, wait_for_stage
from zerolab.cli.main import main
from zerolab.store.run_folder import RunFolder
from zerolab.training.costs import run_costs
from zerolab.training.records import SelfPlayRecord
from zerolab.training.reporting import read_records


def arguments(folder, mode):
    given = [
        "iterations=2",
        "search.simulations=40",
        "selfplay.episodes=24",
        "selfplay.late_policy_target=visits",
        f"selfplay.mode={mode}",
        "final_evaluation.games=0",
    ]
    return ["train", "--run", str(folder), "--preset", "smoke", *(f"--set={a}" for a in given)]


def test_a_run_with_a_big_tree_that_is_killed_ends_with_the_same_bytes(tmp_path):
    mode = '{name = "big_tree", games_at_once = 4}'
    undisturbed, folder = tmp_path / "undisturbed", tmp_path / "run"
    assert main(arguments(undisturbed, mode)) == 0
    process = started(arguments(folder, mode), tmp_path / "output")
    assert wait_for_stage(folder, "2 selfplay", process)
    time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert main(arguments(folder, mode)) == 0
    assert contents(folder) == contents(undisturbed)


def test_what_the_service_did_is_in_the_metrics(tmp_path):
    given = arguments(tmp_path / "run", '{name = "retry", opening_plies = 3}')
    assert main([*given, "--set=iterations=1"]) == 0
    run = RunFolder.open(tmp_path / "run")
    record = next(each for each in read_records(run) if isinstance(each, SelfPlayRecord))
    assert record.games == 24
    assert record.asked == record.full == run.load_examples(1).full.sum()
    assert record.plies == record.asked < record.positions
    assert record.simulations_per_move == record.simulations / record.plies
    assert run_costs(run)[-1].moves == record.plies
    assert record.asked == record.merged + record.remembered + record.searched
    assert record.simulations == 40 * record.searched
