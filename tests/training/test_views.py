"""TensorBoard events and curves derived from metrics."""

from __future__ import annotations

import sys

import pytest
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

from zerolab.cli.main import main
from zerolab.core.errors import UserError
from zerolab.store.run_folder import RunFolder
from zerolab.training.configure import resolve_settings
from zerolab.training.curves import draw_curves
from zerolab.training.logger import export_tensorboard
from zerolab.training.records import (
    AccuracyRecord,
    BaselineRecord,
    GateRecord,
    LearnRecord,
    SelfPlayRecord,
)
from zerolab.training.reporting import read_records
from zerolab.training.trainer import Trainer

LEARN = LearnRecord(
    iteration=1, wall_seconds=2.5, examples_seen=4, window=2, loss={"policy": 1.25, "value": 0.5}
)
GATE = GateRecord(iteration=1, wall_seconds=1.5, accepted=True, elo=3.0)
BASELINE = BaselineRecord(
    iteration=2, wall_seconds=1.0, network=1, opponent="random", wins=1, draws=0, losses=1,
    distinct_games=2, score_rate=0.5, low=0.125, high=0.875,
)  # fmt: skip


def self_play(iteration, games):
    return SelfPlayRecord(
        iteration=iteration, wall_seconds=1800, games=games, distinct_games=1, positions=9,
        plies_per_game=9, simulations=1, evaluated=1, deduplicated=0, cached=0, terminal=0,
        wall_select_seconds=1, wall_evaluate_seconds=1, wall_backup_seconds=1,
    )  # fmt: skip


def made_run(path, records):
    run = RunFolder.create(path, resolve_settings(None, "smoke").model_dump())
    run.commit(run.progress, [record.as_dict() for record in records])
    return run


@pytest.fixture
def run(tmp_path):
    return made_run(tmp_path / "run", [LEARN, GATE, BASELINE])


def scalars(file):
    return [
        (event.step, event.wall_time, value.tag, value.tensor.float_val[0])
        for event in EventFileLoader(str(file)).Load()
        for value in event.summary.value
    ]


def test_every_number_becomes_a_scalar(run):
    (file,) = export_tensorboard(run).iterdir()
    events = scalars(file)
    for expected in [
        (1, 2.5, "learn/wall_seconds", 2.5),
        (1, 2.5, "learn/loss/policy", 1.25),
        (1, 4.0, "gate/accepted", 1.0),
        (1, 4.0, "gate/elo", 3.0),
        (2, 5.0, "final_evaluation/random/score_rate", 0.5),
    ]:
        assert expected in events
    assert len(events) == 5 + 3 + 9
    assert not [tag for _, _, tag, _ in events if "iteration" in tag or "None" in tag]


def test_events_are_appended_to_the_same_file(run):
    (file,) = export_tensorboard(run).iterdir()
    first, node = file.read_bytes(), file.stat().st_ino
    export_tensorboard(run)
    assert file.read_bytes() == first
    run.commit(run.progress, [LEARN.as_dict()])
    export_tensorboard(run)
    assert file.read_bytes().startswith(first)
    assert len(file.read_bytes()) > len(first)
    assert file.stat().st_ino == node
    whole = file.read_bytes()
    for damaged in (whole[:-3], whole + b"more", b"", b"something else"):
        file.write_bytes(damaged)
        export_tensorboard(run)
        assert file.read_bytes() == whole


def test_unwritable_events_are_reported(run):
    (run.path / "tensorboard").write_text("a file in the way")
    with pytest.raises(UserError, match="tensorboard is a file: expected a folder"):
        export_tensorboard(run)


def test_event_file_grows_during_training(tmp_path):
    settings = resolve_settings(None, "smoke", ["iterations=2", "final_evaluation.games=0"])
    run = RunFolder.create(tmp_path / "run", settings.model_dump())
    sizes = []

    def measure(record):
        (file,) = (run.path / "tensorboard").iterdir()
        sizes.append(file.stat().st_size)
        assert (record.iteration, record.stage) == (
            scalars(file)[-1][0],
            scalars(file)[-1][2].partition("/")[0],
        )

    with run.locked():
        Trainer(run, settings, on_record=measure).train()
    assert len(sizes) == 6
    assert sizes == sorted(set(sizes))


def test_training_needs_no_tensorboard(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    settings = resolve_settings(None, "smoke", ["iterations=1", "final_evaluation.games=0"])
    run = RunFolder.create(tmp_path / "run", settings.model_dump())
    with run.locked():
        Trainer(run, settings).train()
    assert run.progress.finished
    assert not (run.path / "tensorboard").exists()


def accuracy(iteration):
    names = [
        name for name in AccuracyRecord.model_fields if name.startswith(("network_", "search_"))
    ]
    return AccuracyRecord(
        iteration=iteration, wall_seconds=1, network=1, positions=9, **dict.fromkeys(names, 0.5)
    )


def two_iterations(games):
    later = {"iteration": 2}
    return [
        self_play(1, games), LEARN, GATE, self_play(2, games),
        LEARN.model_copy(update=later), GATE.model_copy(update=later),
    ]  # fmt: skip


def panel(figure, title):
    (axes,) = [candidate for candidate in figure.axes if title in candidate.get_title()]
    return axes


@pytest.mark.parametrize(
    ("x", "expected"), [("iterations", [1, 2]), ("games", [5, 10]), ("hours", [0.5 + 4 / 3600, 1])]
)
def test_curves_are_drawn_over_iterations_games_or_hours(tmp_path, x, expected):
    figure = draw_curves([made_run(tmp_path / "run", two_iterations(5))], x)
    (line,) = panel(figure, "Elo").get_lines()
    assert list(line.get_xdata()) == pytest.approx(expected, abs=0.01)
    assert list(line.get_ydata()) == [3.0, 3.0]


def test_each_run_has_a_colour_and_a_legend_entry(tmp_path):
    runs = [made_run(tmp_path / name, two_iterations(5)) for name in ("a", "b", "c")]
    figure = draw_curves(runs)
    lines = panel(figure, "Elo").get_lines()
    assert len({line.get_color() for line in lines}) == 3
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts[:3] == [run.path.as_posix() for run in runs] or all("…" in t for t in texts[:3])
    handles = figure.legends[0].get_lines()
    assert [handle.get_color() for handle in handles][:3] == [line.get_color() for line in lines]


@pytest.mark.parametrize("runs", [1, 2])
def test_legends_do_not_cover_axes(tmp_path, runs):
    records = [*two_iterations(5), accuracy(1), accuracy(2)]
    figure = draw_curves([made_run(tmp_path / f"{n}", records) for n in range(runs)])
    figure.canvas.draw()
    boxes = [legend.get_window_extent() for legend in figure.legends]
    boxes += [axes.get_legend().get_window_extent() for axes in figure.axes if axes.get_legend()]
    assert boxes
    for axes in figure.axes:
        area = axes.get_window_extent()
        assert not any(area.overlaps(box) for box in boxes), axes.get_title()


def test_accuracy_is_drawn_only_if_measured(tmp_path):
    without = draw_curves([made_run(tmp_path / "a", two_iterations(5))])
    figure = draw_curves([made_run(tmp_path / "b", [*two_iterations(5), accuracy(1), accuracy(2)])])
    assert len(figure.axes) == len(without.axes) + 2
    assert len(panel(figure, "strong accuracy").get_lines()) == 2


def test_invalid_plot_commands_get_one_line_errors(tmp_path, capsys):
    run = made_run(tmp_path / "run", [LEARN])
    assert main(["plot", str(run.path)]) == 2
    assert "has no finished iteration yet" in capsys.readouterr().err
    assert main(["plot"]) == 2
    assert main(["plot", str(run.path), "--output", str(tmp_path / "a.doc")]) == 2
    assert "expected an extension such as .png" in capsys.readouterr().err


def test_unknown_records_are_reported(run):
    run.commit(run.progress, [{"stage": "lern", "iteration": 1, "wall_seconds": 1}])
    with pytest.raises(UserError, match=r'unknown stage "lern": expected one of selfplay'):
        read_records(run)
    run = made_run(run.path.parent / "other", [])
    run.commit(run.progress, [{"stage": "gate", "iteration": 1, "wall_seconds": 1, "accepted": 7}])
    with pytest.raises(UserError, match="accepted = 7"):
        read_records(run)


def test_invalid_stage_names_are_reported(tmp_path):
    run = made_run(tmp_path / "run", [])
    run.commit(run.progress, [{"stage": ["gate"], "iteration": 1, "wall_seconds": 1}])
    with pytest.raises(UserError, match=r"unknown stage \['gate'\]: expected one of selfplay"):
        read_records(run)


def test_each_head_has_its_own_line_style(tmp_path):
    """Line styles are the same in all runs, even with different heads."""
    losses = [{"policy": 1.0, "value": 0.5, "sum": 1.5}, {"policy": 2.0, "reply": 3.0, "total": 9}]
    runs = [
        made_run(tmp_path / str(number), [LEARN.model_copy(update={"loss": loss}), GATE])
        for number, loss in enumerate(losses)
    ]
    lines = draw_curves(runs).axes[0].lines
    styles_by_line = {
        (line.get_ydata()[0], line.get_color()): line.get_linestyle() for line in lines
    }
    assert len(styles_by_line) == 4, "sums have no line"
    styles = [styles_by_line[key] for key in sorted(styles_by_line)]  # value, policy, policy, reply
    assert styles[1] == styles[2]
    assert len(set(styles)) == 3
    assert "reply loss 3.000" in LEARN.model_copy(update={"loss": losses[1]}).summary()
