"""Loggers: the numbers that they receive, mistakes, and real programs if they are installed."""

from __future__ import annotations

import json
import shutil
import sqlite3

import pytest

import zerolab
from training.test_views import BASELINE, GATE, LEARN, made_run
from zerolab.cli.main import main
from zerolab.core.errors import MissingExtraError, UserError
from zerolab.training.logger import (
    LOGGERS,
    LoggerKind,
    export_tensorboard,
    open_loggers,
    require_loggers,
)

QUESTION = BASELINE.model_copy(update={"opponent": "mcts:10?tie_break=random"})


@pytest.fixture
def run(tmp_path):
    return made_run(tmp_path / "run", [LEARN, GATE])


class ListLogger:
    """Logger that keeps what it receives."""

    def __init__(self, run) -> None:
        self.calls = []
        self.is_closed = False

    def log(self, numbers, step):
        assert not self.is_closed
        self.calls.append((step, numbers))

    def close(self):
        self.is_closed = True


@pytest.fixture
def lists(monkeypatch):
    """All logs opened by the logger ``lists``."""
    opened = []

    def new_log(run):
        opened.append(ListLogger(run))
        return opened[-1]

    monkeypatch.setitem(LOGGERS._entries, "lists", LoggerKind("json", new_log))
    return opened


def test_log_receives_every_number_once(run, lists):
    log = open_loggers(["lists", "lists"], run)
    log.update()
    log.update()
    run.commit(run.progress, [BASELINE.as_dict()])
    log.update()
    log.close()
    (opened,) = lists
    assert opened.is_closed
    assert [step for step, _ in opened.calls] == [1, 1, 2]
    assert opened.calls[0][1]["learn/loss/policy"] == 1.25
    assert opened.calls[1][1] == {"gate/wall_seconds": 1.5, "gate/accepted": 1.0, "gate/elo": 3.0}
    assert opened.calls[2][1]["final_evaluation/random/score_rate"] == 0.5


@pytest.mark.parametrize("is_folder", [True, False])
def test_tensorboard_events_are_not_written_through_links(run, tmp_path, is_folder):
    log = export_tensorboard(run)
    (events,) = log.iterdir()
    precious = tmp_path / "precious"
    link = log if is_folder else events
    shutil.move(link, precious)
    link.symlink_to(precious)
    if precious.is_file():
        precious.write_bytes(b"")
    with pytest.raises(UserError, match="it is a link"):
        export_tensorboard(run)
    assert precious.is_dir() or not precious.read_bytes()


def test_training_logs_all_stages_from_python_and_command_line(tmp_path, lists, capsys):
    settings = {"iterations": 1, "final_evaluation.games": 0}
    done = zerolab.train("gobang:3x3:3", run=tmp_path / "a", preset="smoke", settings=settings,
                         log=["lists"])  # fmt: skip
    assert [set(numbers) for _, numbers in lists[0].calls] == [
        {f"{line['stage']}/{name}" for name in numbers}
        for line, numbers in zip(done.metrics(), _numbers(done), strict=True)
    ]
    assert lists[0].is_closed
    assert main(["train", "--run", str(done.path), "--log", "lists"]) == 0
    assert lists[1].calls == lists[0].calls
    assert lists[1].is_closed


def _numbers(run):
    rows = run.to_pandas().drop(columns=["iteration", "stage"])
    return [set(row.dropna().index) for _, row in rows.iterrows()]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tracko", 'unknown logger "tracko": expected one of .*did you mean "trackio"'),
        ("absent", 'the log of absent requires no_such_package.* the "no_such_package" extra'),
    ],
)
def test_mistakes_are_found_before_a_run_begins(name, message, tmp_path, monkeypatch, capsys):
    require_loggers([])
    kind = LoggerKind("no_such_package", ListLogger)
    monkeypatch.setitem(LOGGERS._entries, "absent", kind)
    with pytest.raises(UserError, match=message) as error:
        zerolab.train("gobang:3x3:3", run=tmp_path / "new", log=[name])
    assert isinstance(error.value, MissingExtraError) == (name == "absent")
    assert main(["train", "gobang:3x3:3", "--run", str(tmp_path / "new"), "--log", name]) == 2
    assert str(error.value) in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "new").exists()


def test_program_that_refuses_closes_the_other_logs(run, lists, monkeypatch):
    def refuse(run):
        raise OSError("no room")

    monkeypatch.setitem(LOGGERS._entries, "full", LoggerKind("json", refuse))
    with pytest.raises(UserError, match=r"full cannot log .*run: no room"):
        open_loggers(["lists", "full"], run)
    assert lists[0].is_closed


def test_program_that_fails_later_is_named(run, lists, monkeypatch):
    def fail(self, numbers, step):
        raise OSError("disk full")

    log = open_loggers(["lists"], run)
    monkeypatch.setattr(ListLogger, "log", fail)
    with pytest.raises(UserError, match=r"lists cannot log .*disk full; .* without --log lists"):
        log.update()
    log.close()


def test_program_that_cannot_close_leaves_no_other_log_open(run, lists, monkeypatch):
    def fail():
        raise OSError("disk full")

    monkeypatch.setitem(LOGGERS._entries, "others", LOGGERS["lists"])
    log = open_loggers(["lists", "others"], run)
    monkeypatch.setattr(lists[0], "close", fail)
    with pytest.raises(UserError, match=r"lists cannot close the log of .*: disk full"):
        log.close()
    assert lists[1].is_closed


def _log(run, name):
    log = open_loggers([name], run)
    log.update()
    log.close()


def test_trackio_has_the_numbers(run, tmp_path, monkeypatch):
    pytest.importorskip("trackio", reason="the trackio extra is not installed")
    from trackio import sqlite_storage, utils  # noqa: PLC0415

    for module in (sqlite_storage, utils):
        monkeypatch.setattr(module, "TRACKIO_DIR", tmp_path / "trackio")
    _log(run, "trackio")
    (file,) = (tmp_path / "trackio").glob("*.db")
    with sqlite3.connect(file) as database:
        (text,) = database.execute(
            "select metrics from metrics where step = 1 order by id"
        ).fetchone()
    assert json.loads(text)["learn/loss/policy"] == 1.25


def test_wandb_keeps_the_numbers_in_the_run(run):
    wandb = pytest.importorskip("wandb", reason="the wandb extra is not installed")
    _log(run, "wandb")
    wandb.teardown()  # waits for the process that writes the file
    (file,) = (run.path / "wandb").glob("offline-run-*/*.wandb")
    content = file.read_bytes()
    assert b"learn/loss/policy" in content
    assert b"1.25" in content


def test_mlflow_has_the_numbers_and_settings(run):
    pytest.importorskip("mlflow", reason="the mlflow extra is not installed")
    from mlflow import MlflowClient  # noqa: PLC0415

    run.commit(run.progress, [QUESTION.as_dict()])
    _log(run, "mlflow")
    client = MlflowClient(tracking_uri=f"sqlite:///{run.path}/mlflow.sqlite")
    (experiment,) = client.search_experiments(filter_string="name = 'zerolab'")
    (logged,) = client.search_runs([experiment.experiment_id])
    assert logged.data.metrics["learn/loss/policy"] == 1.25
    assert logged.data.metrics["final_evaluation/mcts:10_tie_break_random/score_rate"] == 0.5
    assert logged.data.params["game"] == run.config["game"]
    assert logged.info.status == "FINISHED"
