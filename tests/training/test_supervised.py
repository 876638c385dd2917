"""Supervised learning from solved positions."""

from __future__ import annotations

import itertools
import shutil

import numpy as np
import pytest

from evaluation.exhaustive import exhaustive
from zerolab.agents.specs import parse_agent
from zerolab.cli.main import main
from zerolab.core.errors import UserError
from zerolab.evaluation.accuracy import accuracy_report, network_choices
from zerolab.evaluation.collecting import DatasetSettings
from zerolab.evaluation.dataset import make_dataset
from zerolab.evaluation.positions import SolvedPositions, read_positions
from zerolab.oracles.oracle import ILLEGAL_VALUE
from zerolab.oracles.solver import Solver, oracle_for
from zerolab.play.pairings import random_opening
from zerolab.rules import compiled_rules
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position
from zerolab.store.run_folder import RunFolder
from zerolab.training import evaluation_stages
from zerolab.training.configure import resolve_settings, saved_settings
from zerolab.training.curves import draw_curves
from zerolab.training.evaluation_stages import predict_positions
from zerolab.training.inputs import read_inputs
from zerolab.training.published_bugs import EnabledBugs
from zerolab.training.records import HeldOutRecord, LearnRecord
from zerolab.training.reporting import best_network_after, read_records
from zerolab.training.train_settings import AccuracySettings
from zerolab.training.trainer import Trainer
from zerolab.training.window_facts import solved_facts, solved_window, split_by_game

GAME = parse_game("gobang:3x3:3")
TINY = ["iterations=3", "network.blocks=1", "network.filters=8", "learn.batch_size=16",
        "learn.learning_rate=0.1", "learn.schedule=constant", "search.simulations=4",
        "search.fpu=zero", "search.tie_break=first", "search.draw_value=0",
        "network.stem_filters=8"]  # fmt: skip


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("solved") / "positions.parquet"
    make_dataset(GAME, 400, DatasetSettings(seed=1), path, make_oracle=exhaustive)
    return path


@pytest.fixture(scope="module")
def positions(file):
    return read_positions(file)[0]


def fit(file, folder, *assignments):
    sets = [f"--set={assignment}" for assignment in (*TINY, *assignments)]
    return main(["fit", str(file), "--run", str(folder), *sets])


@pytest.fixture(scope="module")
def fitted(file, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "fitted"
    assert fit(file, folder) == 0
    return RunFolder.open(folder)


def supervised_records(run):
    return [record for record in read_records(run) if isinstance(record, HeldOutRecord)]


def test_games_stay_in_one_part_and_splits_do_not_depend_on_file_size(positions):
    parts = split_by_game(positions)
    assert sum(map(len, parts)) == len(positions)
    games = [set(part.game_numbers.tolist()) for part in parts]
    assert not (games[0] & games[1] or games[0] & games[2] or games[1] & games[2])
    half = split_by_game(positions.take(np.arange(len(positions) // 2)))
    assert all(
        set(part.game_numbers.tolist()) <= all_games
        for part, all_games in zip(half, games, strict=True)
    )


def test_four_fifths_of_the_games_are_for_training():
    count = 20_000
    empty_positions = SolvedPositions(
        GAME, np.arange(count), np.empty(0, np.int16), np.zeros(count + 1, np.int64),
        np.zeros((count, 3), np.uint64), np.zeros((count, 9), np.int32),
    )  # fmt: skip
    shares = [len(part) / count for part in split_by_game(empty_positions)]
    assert shares == pytest.approx([0.8, 0.1, 0.1], abs=4 * np.sqrt(0.8 * 0.2 / count))


def position_with_values(moves, values):
    """Return the position after `moves`, with the given action values."""
    position = Position.start(GAME)
    for move in moves:
        position = position.play(move)
    return SolvedPositions(
        GAME, np.zeros(1, np.int64), np.array(moves, np.int16), np.array([0, len(moves)]),
        position.state[None], np.array([values], np.int32),
    )  # fmt: skip


def test_labels_agree_with_hand_computed_values():
    no = ILLEGAL_VALUE
    lost = position_with_values([4, 0], [no, -3, 5, -1, no, 5, 0, -2, -4])
    facts = solved_facts(lost, EnabledBugs())
    assert facts.policies.tolist() == [[0, 0, 0.5, 0, 0, 0.5, 0, 0, 0]]
    known = facts.action_values[0]
    assert np.isnan(known[[0, 4]]).all()
    assert known[[1, 2, 3, 5, 6, 7, 8]].tolist() == [-1, 1, -1, 1, 0, -1, -1]
    assert (facts.values, facts.draws, facts.plies) == (1, 0, 2)
    assert np.isnan([facts.plies_left, facts.root_values]).all()
    assert np.isnan(facts.reply_policies).all()


def test_bug_hides_only_losses_of_the_first_player():
    no, bugs = ILLEGAL_VALUE, EnabledBugs(["losses_as_draws"])
    for moves, best, expected in (
        ([4, 0], -1, 0), ([4], -1, -1), ([4, 0], 1, 1), ([4], 1, 1), ([4], 0, 0)
    ):  # fmt: skip
        values = [no if action in moves else best for action in range(9)]
        facts = solved_facts(position_with_values(moves, values), bugs)
        assert (facts.values, facts.draws) == (expected, 1 - abs(expected))


def test_win_labels_agree_with_another_solver():
    """Labels computed from BitBully values are compared with the signs of our own solver."""
    pytest.importorskip("bitbully", reason="the oracle extra is not installed")
    game, moves_by_state = parse_game("connect_four:6x7"), {}
    for number in itertools.count():
        moves = random_opening(game, 34, np.uint64(number))
        states = [compiled_rules.start(game)]
        for action in moves:
            states.append(compiled_rules.apply(game, states[-1], action))
        moves_by_state |= {
            tuple(states[ply].tolist()): moves[:ply] for ply in range(26, len(states))
        }
        if len(moves_by_state) >= 6000:
            break
    states = np.array(list(moves_by_state), np.uint64)
    lengths = list(map(len, moves_by_state.values()))
    positions = SolvedPositions(
        game, np.arange(len(lengths)),
        np.array(list(itertools.chain(*moves_by_state.values())), np.int16),
        np.cumsum([0, *lengths]), states, oracle_for(game).action_values(states),
    )  # fmt: skip
    solver = Solver(game)
    exact = np.sign([solver.value(state) for state in states])
    assert np.array_equal(solved_facts(positions, EnabledBugs()).values, exact)
    assert min(np.bincount(exact + 1)) > 100
    published = solved_facts(positions, EnabledBugs(["losses_as_draws"])).values
    hidden = (np.array(lengths) % 2 == 0) & (exact == -1)
    assert np.array_equal(published, np.where(hidden, 0, exact))


def test_window_keeps_all_positions_and_applies_window_bugs():
    """Equal positions are not merged, and mirrored_policy affects the images."""
    no = ILLEGAL_VALUE
    lost = position_with_values([4, 0], [no, -3, 5, -1, no, -5, 0, -2, -4])
    two = lost.take(np.array([0, 0]))
    learn = resolve_settings(None, "smoke", ["learn.merging=newest"]).learn
    for names, corners in (((), 4), (("mirrored_policy",), 1)):
        window = solved_window(two, EnabledBugs(names), learn, ("policies",))
        assert len(window) == 2
        (batch,) = window.batches(np.random.default_rng(0), 16, 1, "all")
        assert len({policy.tobytes() for policy in batch.facts.policies}) == corners
        assert batch.facts.action_values.shape == (16, 0)


class ConstantEvaluator:
    """Evaluator with constant outputs."""

    def __init__(self, priors, value, draw):
        self.priors, self.value, self.draw = priors, value, draw

    def evaluate_with_extras(self, states, outputs):
        n = len(states)
        draws = np.full(n, self.draw, np.float32) if "draws" in outputs else None
        priors = np.tile(np.float32(self.priors), (n, 1))
        return priors, np.full(n, self.value, np.float32), draws, None

    def evaluate(self, states):
        return self.evaluate_with_extras(states, ())[:2]


@pytest.mark.parametrize(
    ("value", "draw", "result_with_draws", "result_without_draws"),
    [(0.4, 0.1, 1, 0), (0.1, 0.5, 0, 0), (-0.7, 0.0, -1, -1), (0.6, 0.38, 1, 1)],
)
def test_predictions_use_the_outputs_of_the_network(
    value, draw, result_with_draws, result_without_draws
):
    no = ILLEGAL_VALUE
    position = position_with_values([4, 0], [no, -3, 5, -1, no, 5, 0, -2, -4])
    priors = [0.5, 0.1, 0.2, 0, 0, 0.1, 0.05, 0.05, 0]
    predictions = predict_positions(
        ConstantEvaluator(priors, value, draw), position, predicts_draws=True
    )
    assert predictions.actions.tolist() == [2]  # the legal move with the highest prior
    assert predictions.outcomes.tolist() == [result_with_draws]
    assert predictions.policy_errors == pytest.approx([-(np.log(0.2) + np.log(0.1)) / 2])
    predictions = predict_positions(
        ConstantEvaluator(priors, value, draw), position, predicts_draws=False
    )
    assert predictions.outcomes.tolist() == [result_without_draws]


def test_iterations_are_passes_over_the_training_part(fitted, positions):
    records = [record for record in read_records(fitted) if isinstance(record, LearnRecord)]
    size = len(split_by_game(positions).training)
    assert [record.window for record in records] == [size] * 3
    assert [record.examples_seen for record in records] == [size // 16 * 16] * 3


def test_measurements_agree_with_evaluation(fitted, positions):
    records = supervised_records(fitted)
    assert [(record.iteration, record.part) for record in records] == [
        (1, "validation"), (2, "validation"), (3, "validation"), (3, "test"),
    ]  # fmt: skip
    for record in records[2:]:
        part = getattr(split_by_game(positions), record.part)
        agent = parse_agent(str(fitted.path), GAME)
        report = accuracy_report("network", part, network_choices(agent.load_evaluator(), part))
        assert record.positions == len(part)
        assert (record.strong, record.strong_low) == report.all_positions.strong.interval[:2]
        assert record.weak == report.all_positions.weak.interval.value
        assert record.value_error == pytest.approx(
            report.value_accuracy.mean_squared_error.interval.value
        )
        assert (record.label, record.label_high) == (record.result, record.result_high)


def test_losses_decrease(fitted, positions):
    records = supervised_records(fitted)
    assert records[2].policy_error < records[0].policy_error
    losses = [
        record.loss["policy"] for record in read_records(fitted) if isinstance(record, LearnRecord)
    ]
    assert losses == sorted(losses, reverse=True)


def test_fitted_network_works_like_any_run(fitted, capsys):
    assert fitted.progress.best == 3
    assert best_network_after(read_records(fitted), 2) == 2
    assert main(["match", str(fitted.path), f"{fitted.path}@0", "--games", "2"]) == 0
    assert main(["runs", str(fitted.path)]) == 0
    assert "finished" in capsys.readouterr().out
    titles = [axes.get_title() for axes in draw_curves([fitted]).axes]
    assert "result predicted (validation)" in titles
    assert not any("self-play" in title for title in titles)


class StoppedError(Exception):
    """Raised in place of a kill."""


def test_repeatedly_stopped_fit_resumes_to_the_same_bytes(fitted, file, tmp_path):
    folder = tmp_path / "run"
    RunFolder.create(folder, saved_settings(fitted).model_dump())
    stops, finished = [1, 2, 6, 7], []  # numbers of records: after learning and after measuring

    def stop(record):
        finished.append(record)
        if len(finished) in stops:
            raise StoppedError

    for _ in stops:
        run = RunFolder.open(folder)
        with run.locked(), pytest.raises(StoppedError):
            Trainer(run, saved_settings(run), on_record=stop).train()
    assert len(finished) == len(read_records(fitted)) == 7
    assert fit(file, folder) == 0
    resumed = RunFolder.open(folder)
    assert resumed._files.metrics_digest == fitted._files.metrics_digest
    for network in fitted.network_iterations():
        assert resumed.weights_digest(network) == fitted.weights_digest(network)


def test_labels_and_results_differ_with_the_bug(file, tmp_path, monkeypatch):
    """Few positions are relabelled, so all predictions are replaced with draws."""
    predict = evaluation_stages.predict_positions

    def predict_draws(*arguments):
        predictions = predict(*arguments)
        return predictions._replace(outcomes=np.zeros_like(predictions.outcomes))

    monkeypatch.setattr(evaluation_stages, "predict_positions", predict_draws)
    folder = tmp_path / "run"
    assert fit(file, folder, 'published_bugs=["losses_as_draws"]', "iterations=1") == 0
    assert any(
        record.label > record.result for record in supervised_records(RunFolder.open(folder))
    )


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (['network.heads=["policy", "outcome", "plies_left"]'],
         'heads such as "policy", "outcome"'),
        (['network.heads=["policy", "outcome", "reply"]'], 'network.heads has "reply"'),
        (["game=connect_four:4x4"], "has positions for gobang:3x3:3, not for connect_four:4x4"),
        (['published_bugs=["absolute_winner"]'], '"absolute_winner" '),
        (["iterations=0"], "iterations = 0: expected at least 1"),
    ],
)  # fmt: skip
def test_invalid_settings_get_one_line_errors_and_create_no_run(
    settings, expected, file, tmp_path, capsys
):
    assert fit(file, tmp_path / "run", *settings) == 2
    error = capsys.readouterr().err
    assert expected in error
    assert error.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_missing_and_small_files_are_refused(tmp_path, capsys):
    assert fit(tmp_path / "none.parquet", tmp_path / "run") == 2
    assert "does not exist: expected a solved positions file" in capsys.readouterr().err
    few = tmp_path / "few.parquet"
    make_dataset(GAME, 5, DatasetSettings(), few, make_oracle=exhaustive)
    assert fit(few, tmp_path / "run") == 2
    assert "5 positions" in capsys.readouterr().err


def test_changed_position_file_is_refused(fitted, file, tmp_path, capsys):
    other = tmp_path / "other.parquet"
    make_dataset(GAME, 300, DatasetSettings(seed=2), other, make_oracle=exhaustive)
    assert fit(other, fitted.path) == 2
    assert "supervised.digest = " in capsys.readouterr().err
    settings = saved_settings(fitted)
    moved = settings.supervised.model_copy(update={"positions": str(other)})
    with pytest.raises(UserError, match="has the digest"):
        Trainer(fitted, settings.model_copy(update={"supervised": moved}))


def test_moved_position_file_is_accepted(fitted, file, tmp_path):
    folder, moved = tmp_path / "run", tmp_path / "1.5e3"  # looks like a number
    shutil.copytree(fitted.path, folder)
    shutil.copy(file, moved)
    assert fit(moved, folder) == 0
    assert saved_settings(RunFolder.open(folder)).supervised.positions == str(moved)
    assert supervised_records(RunFolder.open(folder)) == supervised_records(fitted)


def test_positions_without_a_digest_are_refused(file, tmp_path, capsys):
    arguments = ["train", "--preset", "smoke", "--run", str(tmp_path / "run")]
    assert main([*arguments, f"--set=supervised.positions={file}"]) == 2
    assert "expected positions and digest together: zerolab fit FILE" in capsys.readouterr().err


def test_accuracy_on_the_positions_to_learn_from_is_refused(file, tmp_path, capsys):
    shutil.copy(file, tmp_path / "copy.parquet")
    accuracy = ["accuracy.every=1", f"accuracy.positions={tmp_path}/copy.parquet"]
    assert fit(file, tmp_path / "run", *accuracy) == 2
    assert "the run learns from these positions; expected others" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_begun_run_may_measure_its_accuracy_on_the_positions_to_learn_from(file, fitted):
    """Earlier versions allowed it, and a run can always be resumed."""
    accuracy = AccuracySettings(every=1, positions=str(file))
    settings = saved_settings(fitted).model_copy(update={"accuracy": accuracy})
    assert read_inputs(settings, fitted).accuracy_positions is not None
    with pytest.raises(UserError, match="the run learns from these positions"):
        read_inputs(settings)


def test_accuracy_is_measured_and_can_stop_the_run(file, tmp_path):
    other = tmp_path / "other.parquet"
    make_dataset(GAME, 100, DatasetSettings(seed=2), other, make_oracle=exhaustive)
    accuracy = ["accuracy.every=1", f"accuracy.positions={other}"]
    stop = 'stop={name="no_gain", iterations=1, accuracy="network_weak"}'
    assert fit(file, tmp_path / "run", *accuracy, stop, "learn.learning_rate=1e-9") == 0
    records = read_records(RunFolder.open(tmp_path / "run"))
    assert [(record.stage, record.iteration) for record in records] == [
        *((stage, i) for i in (1, 2) for stage in ("learn", "supervised", "accuracy")),
        ("supervised", 2),
    ]  # fmt: skip
    assert records[-1].part == "test"


def test_bug_of_solved_positions_is_refused_for_self_play(tmp_path, capsys):
    arguments = ["train", "--preset", "smoke", "--run", str(tmp_path / "run")]
    assert main([*arguments, '--set=published_bugs=["losses_as_draws"]']) == 2
    assert "solved positions" in capsys.readouterr().err
