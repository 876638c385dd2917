"""Reproducibility and resumption of killed and interrupted runs."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import time
from dataclasses import replace
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
import pytest
from tiny_training import killed_before_commit, train

from promised import contents
from zerolab.cli.main import main
from zerolab.core.errors import UserError
from zerolab.store.run_folder import RunFolder
from zerolab.training.configure import resolve_settings

SETTINGS = [
    "iterations=3",
    "selfplay.episodes=6",
    "search.simulations=20",
    "final_evaluation.games=2",
    'network.heads=["policy", "outcome", "reply", "action_values", "plies_left", "value"]',
    "search.discount=0.97",
    "learn.value_target_search_weight=0.25",
]


def arguments(folder: Path) -> list[str]:
    train = ["train", "--run", str(folder), "--preset", "smoke"]
    return [*train, *(f"--set={assignment}" for assignment in SETTINGS)]


# Fork processes from a server that has already done the slow imports.
_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["zerolab.cli.main", "zerolab.training.trainer"])


def _zerolab(command: list[str], output: Path) -> None:
    # zerolab's workers may have started the server with SIGINT blocked, which children inherit.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    with open(output, "wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    code = main(command)
    assert "torch._dynamo" not in sys.modules  # slower to import than torch itself
    sys.exit(code)


def started(command: list[str], output: Path) -> BaseProcess:
    """Start a killable zerolab process that writes its output into a file."""
    process = _SERVER.Process(target=_zerolab, args=(command, output))
    process.start()
    return process


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "undisturbed"
    assert main(arguments(folder)) == 0
    return contents(folder)


def test_runs_with_one_seed_are_identical(tmp_path, undisturbed):
    process = started(arguments(tmp_path / "run"), tmp_path / "output")
    process.join()
    assert process.exitcode == 0
    actual = contents(tmp_path / "run")
    assert actual == undisturbed
    assert len(undisturbed["metrics.jsonl"]) == 3 * 3 + 3


def test_repeatedly_killed_run_resumes_to_the_same_bytes(tmp_path, undisturbed):
    folder = tmp_path / "run"
    kills = 0
    for stage, delay in (
        ("1 selfplay", 0.05),
        ("1 learn", 0.1),
        ("2 gate", 0.0),
        ("3 learn", 0.02),
    ):
        process = started(arguments(folder), tmp_path / "output")
        if wait_for_stage(folder, stage, process):
            time.sleep(delay)
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.join()
    assert main(arguments(folder)) == 0
    assert contents(folder) == undisturbed
    assert kills >= 3


def wait_for_stage(folder: Path, stage: str, process: BaseProcess) -> bool:
    """Wait until a run reaches a stage; return False if its process ends first."""
    order = ["selfplay", "learn", "gate", "final_evaluation"]
    iteration, name = stage.split()
    while process.is_alive():
        try:
            state = json.loads((folder / "state.json").read_text())["progress"]
        except (OSError, ValueError):
            state = {"iteration": 0, "stage": "selfplay"}
        position = (state["iteration"], order.index(state["stage"]))
        if position >= (int(iteration), order.index(name)):
            return True
        time.sleep(0.005)
    return False


def test_interrupt_is_clean_and_explains_how_to_resume(tmp_path, undisturbed):
    folder = tmp_path / "run"
    process = started(arguments(folder), tmp_path / "output")
    assert wait_for_stage(folder, "1 learn", process)
    os.kill(process.pid, signal.SIGINT)
    process.join()
    output = (tmp_path / "output").read_text()
    assert process.exitcode == 130
    assert f"resume with: zerolab train --run {folder}" in output.replace("\n", "")
    assert "Traceback" not in output
    assert main(arguments(folder)) == 0
    assert contents(folder) == undisturbed


def test_second_process_on_one_run_is_refused(tmp_path, capfd):
    folder = tmp_path / "run"
    process = started([*arguments(folder), "--set=iterations=1000"], tmp_path / "output")
    try:
        assert wait_for_stage(folder, "1 learn", process)
        assert main(["train", "--run", str(folder)]) == 2
        assert "is in use" in capfd.readouterr().err
    finally:
        process.kill()
        process.join()


def test_finished_run_continues_with_more_iterations(tmp_path, undisturbed, monkeypatch, capsys):
    """The device may also change."""
    folder = tmp_path / "run"
    assert main([*arguments(folder), "--set=iterations=2"]) == 0
    resumed = ["train", "--run", str(folder), "--set=iterations=3"]
    monkeypatch.setenv("ZEROLAB_DEVICE", "cuda:99")
    assert main(resumed) == 2
    assert "ZEROLAB_DEVICE" in capsys.readouterr().err
    assert main([*resumed, "--set=device=cpu"]) == 0
    assert RunFolder.open(folder).config["device"] == "cpu"
    extended = contents(folder)
    for name in undisturbed:
        if name.startswith(("checkpoints", "examples")):
            assert extended[name] == undisturbed[name], name
    stages = ("selfplay", "learn", "gate")
    lines = [
        [line for line in run["metrics.jsonl"] if line["stage"] in stages]
        for run in (extended, undisturbed)
    ]
    assert lines[0] == lines[1]
    assert len(lines[0]) == 9


@pytest.mark.parametrize("is_unfinished", [False, True])
def test_illegal_moves_to_continue_are_refused(tmp_path, is_unfinished):
    """The run continues games and begins others at positions of earlier games."""
    mode = 'selfplay.mode={name = "continuous", plies = 12}'
    changes = [mode, "selfplay.start=archive", "gate=always", "final_evaluation.games=0"]
    settings = resolve_settings(None, "smoke", changes)
    with killed_before_commit(2, "selfplay"):
        train(tmp_path / "run", settings)
    run = RunFolder.open(tmp_path / "run")
    unfinished, examples = run.load_unfinished_games(1), run.load_examples(1)
    moves = unfinished.examples if is_unfinished else examples
    changed = replace(moves, actions=np.full_like(moves.actions, 8))
    if is_unfinished:
        run.save_unfinished_games(1, unfinished._replace(examples=changed))
    else:
        run.save_examples(1, changed)
    with pytest.raises(UserError, match="contain illegal moves"):
        train(tmp_path / "run", settings)


def test_run_can_be_shortened_to_the_iterations_begun(tmp_path, capsys):
    """A mistyped number of iterations leaves no trace."""
    settings = resolve_settings(None, "smoke", SETTINGS)
    with killed_before_commit(3, "learn"):
        train(tmp_path / "run", settings.model_copy(update={"iterations": 300}))
    command = ["train", "--run", str(tmp_path / "run"), "--set"]
    assert main([*command, "iterations=2"]) == 2
    assert "expected at least 3, since the run has already begun" in capsys.readouterr().err
    assert main([*command, "iterations=3"]) == 0
    assert contents(tmp_path / "run") == contents(train(tmp_path / "short", settings).path)


@pytest.mark.parametrize("stop", [[], ["stop=spent", "stop.evaluations=1"]])
def test_finished_run_cannot_be_shortened(tmp_path, capsys, stop):
    length = ["iterations=2"] if not stop else ["iterations=9"]
    train(tmp_path / "run", resolve_settings(None, "smoke", [*SETTINGS, *length, *stop]))
    done = 1 if stop else 2
    command = ["train", "--run", str(tmp_path / "run"), "--set"]
    assert main([*command, f"iterations={done - 1}"]) == 2
    if done > 1:
        assert f"expected at least {done}, since" in capsys.readouterr().err
    assert main([*command, f"iterations={done}"]) == 0


def test_length_of_a_run_with_a_cosine_cannot_change(tmp_path, capsys):
    settings = resolve_settings(None, "smoke", [*SETTINGS, "learn.schedule=cosine"])
    with killed_before_commit(1, "learn"):
        train(tmp_path / "run", settings)
    assert main(["train", "--run", str(tmp_path / "run"), "--set", "iterations=2"]) == 2
    assert "spans the whole run" in capsys.readouterr().err
