"""Windows, merging and replay ratio in runs."""

from __future__ import annotations

import json

import pytest

from zerolab.core.errors import UserError
from zerolab.store.run_folder import RunFolder
from zerolab.training.configure import resolve_settings
from zerolab.training.records import LearnRecord
from zerolab.training.reporting import read_records
from zerolab.training.trainer import Trainer

SHORT = ["final_evaluation.games=0", "selfplay.episodes=6", "iterations=4", "gate=always"]
SLOW = 'learn.window={name="slow",first=16,final=60,begin=2,end=4}'
POWER = 'learn.window={name="power_law",c=20,alpha=0.7,beta=0.9}'
MERGED = 'learn.merging="newest"'
MEAN = 'learn.merging={name="mean",across_symmetries=true}'


class Killed(BaseException):
    """An injected fault between two stages."""


def train(folder, *assignments, kill_after=None):
    """Train or resume a run; raise Killed after some stages."""
    settings = resolve_settings(None, "smoke", [*SHORT, *assignments])
    if not (folder / "config.toml").exists():
        RunFolder.create(folder, settings.model_dump(mode="json"))
    run, stages = RunFolder.open(folder), []

    def kill(record):
        stages.append(record)
        if len(stages) == kill_after:
            raise Killed

    with run.locked():
        Trainer(run, settings, None, kill).train()
    return run


def contents(run):
    """Return the bytes of weights, optimisers and examples, and metrics without clocks."""
    files = {
        str(path.relative_to(run.path)): path.read_bytes()
        for folder in ("checkpoints", "examples")
        for path in sorted((run.path / folder).iterdir())
    }
    lines = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    metrics = [{k: v for k, v in line.items() if not k.startswith("wall_")} for line in lines]
    return {**files, "metrics": metrics, "progress": run.progress}


@pytest.mark.parametrize(
    "assignments",
    [(SLOW, MERGED, "learn.replay_ratio=1.5"), (POWER, MEAN)],
    ids=["slow, merged, replay ratio", "power law, mean, symmetries"],
)
def test_run_killed_after_every_second_stage_resumes_to_the_same_bytes(tmp_path, assignments):
    undisturbed = contents(train(tmp_path / "one", *assignments))
    for _ in range(4 * 3 // 2):
        with pytest.raises(Killed):
            train(tmp_path / "other", *assignments, kill_after=2)
    assert contents(train(tmp_path / "other", *assignments)) == undisturbed
    merged = [line.get("merged") for line in undisturbed["metrics"] if line["stage"] == "learn"]
    assert all(number > 0 for number in merged)


@pytest.mark.parametrize(
    ("assignments", "read"),
    [
        (["learn.window=2"], [3, 4]),
        (['learn.window={name="slow",first=16,final=17,begin=1,end=2}'], [4]),
        (['learn.window={name="power_law",c=30}'], [3, 4]),
        (["learn.window=1", MERGED], [1, 2, 3, 4]),
    ],
)
def test_resuming_reads_only_needed_examples(tmp_path, monkeypatch, assignments, read):
    folder = tmp_path / "run"
    train(folder, *assignments)
    loaded = []
    load = RunFolder.load_examples
    monkeypatch.setattr(
        RunFolder, "load_examples", lambda run, number: loaded.append(number) or load(run, number)
    )
    train(folder, *assignments)
    assert loaded == read


def learn_records(run):
    return [record for record in read_records(run) if isinstance(record, LearnRecord)]


def test_replay_ratio_determines_the_examples_seen(tmp_path):
    run = train(tmp_path / "run", "learn.window=3", "learn.replay_ratio=2.5", "learn.batch_size=8")
    played = [len(run.load_examples(iteration).states) for iteration in (1, 2, 3, 4)]
    assert [record.examples_seen for record in learn_records(run)] == [
        8 * round(2.5 * count / 8) for count in played
    ]
    assert [record.merged for record in learn_records(run)] == [None] * 4


def test_replay_ratio_counts_merged_rows(tmp_path):
    run = train(
        tmp_path / "run", MERGED, "learn.replay_ratio=2", "learn.batch_size=8", "iterations=1"
    )
    (record,) = learn_records(run)
    states = {state.tobytes() for state in run.load_examples(1).states}
    assert record.window == len(states)
    assert record.merged == len(run.load_examples(1).states) - len(states)
    assert record.examples_seen == 8 * round(2 * len(states) / 8)


def test_replay_ratio_replaces_the_epochs_of_a_preset():
    assert resolve_settings(None, "smoke").learn.epochs == 2
    learn = resolve_settings(None, "smoke", ["learn.replay_ratio=3"]).learn
    assert (learn.epochs, learn.replay_ratio) == (None, 3)
    assert "epochs" not in learn.model_dump()
    assert type(learn).model_validate(learn.model_dump()) == learn


def test_number_is_short_for_a_window_of_iterations():
    learn = resolve_settings(None, "smoke", ["learn.window=6"]).learn
    assert learn.window.model_dump() == {"name": "iterations", "iterations": 6}
    assert (
        resolve_settings(None, "smoke", ["learn.window.iterations=7"]).learn.window.iterations == 7
    )


@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        (["learn.epochs=3", "learn.replay_ratio=2"], "epochs = 3 and replay_ratio = 2 both"),
        (["learn.replay_ratio=0"], "learn.replay_ratio = 0: expected more than 0"),
        (["learn.window=0"], "learn.window.iterations = 0: expected at least 1"),
        (["learn.window=slwo"], 'did you mean "slow"?'),
        (["learn.window=slow"], 'learn.window = "slow" grows until iteration 15, beyond the 2'),
        (
            ['learn.window={name="slow",first=9,final=4}'],
            "final = 4 is less than first = 9",
        ),
        (['learn.window={name="slow",begin=5,end=4}'], "end = 4 is not after begin = 5"),
        (['learn.window={name="power_law",c=5}'], "5 positions, fewer than batch_size = 16"),
        (['learn.window={name="power_law",alpha=1.5}'], "alpha = 1.5: expected at most 1"),
        (['learn.merging={name="newest",weight=0}'], "weight = 0: expected more than 0"),
        (['learn.merging={name="newest",weight=1.5}'], "weight = 1.5: expected at most 1"),
        (["learn.merging=men"], 'did you mean "mean"?'),
        ([MEAN, "learn.symmetries=none"], "merging.across_symmetries "),
    ],
)
def test_invalid_settings_get_one_line_errors(assignments, message):
    with pytest.raises(UserError) as caught:
        resolve_settings(None, "smoke", assignments)
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
