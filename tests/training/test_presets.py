"""Every preset is valid for its game, and runs."""

from __future__ import annotations

import pytest

from zerolab.store.run_folder import RunFolder
from zerolab.training.configure import resolve
from zerolab.training.presets import preset_names, preset_title
from zerolab.training.records import LearnRecord, SelfPlayRecord, read_records
from zerolab.training.trainer import Trainer

NAMES = ["mini", "small", "smoke", "wang2019", "wang2020a", "wang2020b"]

SIZE = [
    "iterations=1",
    "selfplay.episodes=2",
    "selfplay.parallel_games=2",
    "search.simulations=3",
    "learn.window=1",
    "learn.batch_size=16",
    "learn.epochs=1",
    "final_evaluation.games=0",
]
NETWORK = {
    "conv": ["network.channels=4", "network.hidden=[8, 4]"],
    "resnet": ["network.blocks=1", "network.filters=16", "network.head_filters=2"],
}
SCHEDULE = {
    "constant": [],
    "steps": ["learn.schedule=constant"],
    "cycle": ["learn.schedule.annealed=1"],
}


def shrunk(name):
    """Return a preset with every mechanism it has, but made for one iteration of a second."""
    settings = resolve(None, name)
    assignments = [*SIZE, *NETWORK[settings.network.name], *SCHEDULE[settings.learn.schedule.name]]
    if settings.gate.games:
        assignments.append("gate.games=2")
    return resolve(None, name, assignments)


def test_these_are_the_presets():
    assert preset_names() == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_is_valid_for_its_game_and_runs(tmp_path, name):
    assert resolve(None, name).preset == name
    assert preset_title(name)
    settings = shrunk(name)
    run = RunFolder.create(tmp_path / "run", settings.model_dump(mode="json"))
    with run.locked():
        Trainer(run, settings).train()
    records = {type(record): record for record in read_records(run)}
    assert records[SelfPlayRecord].positions > 0
    assert records[LearnRecord].samples > 0
    assert run.progress.finished
