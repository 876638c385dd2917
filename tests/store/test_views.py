"""What is derived from runs: TensorBoard events and the list of runs."""

from __future__ import annotations

import pytest
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

from store.toy import CONFIG, train
from zerolab.core.errors import UserError
from zerolab.store.listing import find_runs, summarise
from zerolab.store.run_folder import RunFolder
from zerolab.store.tensorboard import export_events

METRICS = [
    {"iteration": 1, "stage": "learn", "wall_seconds": 2.5, "loss_policy": 1.25, "note": "text"},
    {"iteration": 1, "stage": "gate", "wall_seconds": 1.5, "accepted": True},
    {
        "iteration": 2,
        "stage": "measure",
        "wall_seconds": 1.0,
        "opponent": "Random",
        "score_rate": 0.5,
    },
]


@pytest.fixture
def run(tmp_path):
    run = RunFolder.create(tmp_path / "run", CONFIG)
    run.commit(run.progress, METRICS)
    return run


def test_every_number_becomes_a_scalar(run):
    (file,) = export_events(run).iterdir()
    found = [
        (event.step, event.wall_time, value.tag, value.tensor.float_val[0])
        for event in EventFileLoader(str(file)).Load()
        for value in event.summary.value
    ]
    assert found == [
        (1, 2.5, "learn/wall_seconds", 2.5),
        (1, 2.5, "learn/loss_policy", 1.25),
        (1, 4.0, "gate/wall_seconds", 1.5),
        (1, 4.0, "gate/accepted", 1.0),
        (2, 5.0, "measure/Random/wall_seconds", 1.0),
        (2, 5.0, "measure/Random/score_rate", 0.5),
    ]


def test_events_are_written_anew_and_only_grow(run):
    (file,) = export_events(run).iterdir()
    first = file.read_bytes()
    export_events(run)
    assert file.read_bytes() == first
    run.commit(run.progress, METRICS[:1])
    assert list(export_events(run).iterdir()) == [file]
    assert file.read_bytes().startswith(first)
    assert len(file.read_bytes()) > len(first)


def test_events_that_cannot_be_written_are_told(run):
    (run.path / "tensorboard").write_text("a file in the way")
    with pytest.raises(UserError, match="cannot make the folder"):
        export_events(run)


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


def test_a_summary_tells_how_far_a_run_has_come(tmp_path):
    run = train(tmp_path / "run", iterations=1)
    summary = summarise(run.path)
    assert summary == (str(run.path), "othello:4x4", "toy", 2, 2, "selfplay", "stopped", 10.0)
    with run.locked():
        assert summarise(run.path).status == "running"
        run.commit(run.progress.model_copy(update={"iteration": 3, "stage": "measure"}), [])
        run.commit(run.progress.model_copy(update={"finished": True}), [])
    assert summarise(run.path).status == "finished"
    assert summarise(run.path).iteration == 2


@pytest.mark.parametrize("name", ["state.json", "config.toml", "metrics.jsonl"])
def test_a_damaged_run_is_listed_with_the_reason(tmp_path, name):
    run = train(tmp_path / "run", iterations=1)
    (run.path / name).write_bytes(b"?")
    (summary,) = map(summarise, find_runs([tmp_path]))
    assert summary.status.startswith("damaged: ")
    assert name in summary.status
    (run.path / name).unlink()
    (summary,) = map(summarise, find_runs([tmp_path]))
    assert f"{name} is " in summary.status
