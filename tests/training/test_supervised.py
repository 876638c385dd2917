"""Learning from solved positions: what is learnt and measured, and that it can be resumed."""

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
from zerolab.evaluation.positions import Positions, read_positions
from zerolab.oracles.oracle import ILLEGAL
from zerolab.oracles.solver import Solver, oracle_for
from zerolab.play.pairings import random_opening
from zerolab.rules import python
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position
from zerolab.store.run_folder import RunFolder
from zerolab.training.configure import resolve_settings, saved_settings
from zerolab.training.curves import draw_curves
from zerolab.training.evaluation_stages import predict
from zerolab.training.facts import label_facts, solved_window, split_by_game
from zerolab.training.published_bugs import PublishedBugs
from zerolab.training.records import LearnRecord, SupervisedRecord
from zerolab.training.reporting import best_after, read_records
from zerolab.training.trainer import Trainer

GAME = parse_game("gobang:3x3:3")
TINY = ["iterations=3", "network.blocks=1", "network.filters=8", "learn.batch_size=16",
        "learn.learning_rate=0.1", "learn.schedule=constant", "search.simulations=4",
        "search.fpu=zero", "search.tie_break=first", "search.draw_value=0"]  # fmt: skip


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("solved") / "positions.parquet"
    make_dataset(GAME, 400, DatasetSettings(seed=1), path, make_oracle=exhaustive)
    return path


@pytest.fixture(scope="module")
def positions(file):
    return read_positions(file)[0]


def fit(file, folder, *assignments):
    sets = [f"--set={each}" for each in (*TINY, *assignments)]
    return main(["fit", str(file), "--run", str(folder), *sets])


@pytest.fixture(scope="module")
def fitted(file, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "fitted"
    assert fit(file, folder) == 0
    return RunFolder.open(folder)


def measured(run):
    return [each for each in read_records(run) if isinstance(each, SupervisedRecord)]


def test_no_game_is_in_two_parts_and_larger_files_split_alike(positions):
    parts = split_by_game(positions)
    assert sum(map(len, parts)) == len(positions)
    games = [set(part.games.tolist()) for part in parts]
    assert not (games[0] & games[1] or games[0] & games[2] or games[1] & games[2])
    half = split_by_game(positions.take(np.arange(len(positions) // 2)))
    assert all(set(some.games.tolist()) <= every for some, every in zip(half, games, strict=True))


def test_four_fifths_of_the_games_are_learnt_from():
    count = 20_000
    none = Positions(
        GAME, np.arange(count), np.empty(0, np.int16), np.zeros(count + 1, np.int64),
        np.zeros((count, 3), np.uint64), np.zeros((count, 9), np.int32),
    )  # fmt: skip
    shares = [len(part) / count for part in split_by_game(none)]
    assert shares == pytest.approx([0.8, 0.1, 0.1], abs=4 * np.sqrt(0.8 * 0.2 / count))


def at(moves, values):
    """Return one position by its moves, with these values of its moves."""
    position = Position.start(GAME)
    for move in moves:
        position = position.play(move)
    return Positions(
        GAME, np.zeros(1, np.int64), np.array(moves, np.int16), np.array([0, len(moves)]),
        position.state[None], np.array([values], np.int32),
    )  # fmt: skip


def test_labels_by_hand():
    no = ILLEGAL
    lost = at([4, 0], [no, -3, 5, -1, no, 5, 0, -2, -4])
    facts = label_facts(lost, PublishedBugs())
    assert facts.policies.tolist() == [[0, 0, 0.5, 0, 0, 0.5, 0, 0, 0]]
    known = facts.action_values[0]
    assert np.isnan(known[[0, 4]]).all()
    assert known[[1, 2, 3, 5, 6, 7, 8]].tolist() == [-1, 1, -1, 1, 0, -1, -1]
    assert (facts.values, facts.draws, facts.plies) == (1, 0, 2)
    assert np.isnan([facts.plies_left, facts.root_values]).all()
    assert np.isnan(facts.replies).all()


def test_the_defect_hides_losses_of_the_first_player_alone():
    no, bugs = ILLEGAL, PublishedBugs(["losses_as_draws"])
    for moves, best, expected in (
        ([4, 0], -1, 0), ([4], -1, -1), ([4, 0], 1, 1), ([4], 1, 1), ([4], 0, 0)
    ):  # fmt: skip
        values = [no if action in moves else best for action in range(9)]
        facts = label_facts(at(moves, values), bugs)
        assert (facts.values, facts.draws) == (expected, 1 - abs(expected))


def test_win_labels_are_those_of_another_solver_in_ten_thousand_positions():
    """BitBully's values become labels; whose loss it is and who wins, our own solver says."""
    pytest.importorskip("bitbully", reason="the extra oracle is not installed")
    game, found = parse_game("connect_four:6x7"), {}
    for number in itertools.count():
        moves = random_opening(game, 34, np.uint64(number))
        states = [python.start(game)]
        for action in moves:
            states.append(python.apply(game, states[-1], action))
        found |= {tuple(states[ply].tolist()): moves[:ply] for ply in range(26, len(states))}
        if len(found) >= 10_000:
            break
    states = np.array(list(found), np.uint64)
    lengths = list(map(len, found.values()))
    positions = Positions(
        game, np.arange(len(found)), np.array(list(itertools.chain(*found.values())), np.int16),
        np.cumsum([0, *lengths]), states, oracle_for(game).action_values(states),
    )  # fmt: skip
    solver = Solver(game)
    exact = np.sign([solver.value(state) for state in states])
    assert np.array_equal(label_facts(positions, PublishedBugs()).values, exact)
    assert min(np.bincount(exact + 1)) > 100
    published = label_facts(positions, PublishedBugs(["losses_as_draws"])).values
    hidden = (np.array(lengths) % 2 == 0) & (exact == -1)
    assert np.array_equal(published, np.where(hidden, 0, exact))


def test_the_window_has_all_positions_and_the_defects_of_windows():
    """Even if self-play would merge them; images come with the policy of the unmirrored board."""
    no = ILLEGAL
    lost = at([4, 0], [no, -3, 5, -1, no, -5, 0, -2, -4])
    two = lost.take(np.array([0, 0]))
    learn = resolve_settings(None, "smoke", ["learn.merging=newest"]).learn
    for names, corners in (((), 4), (("mirrored_policy",), 1)):
        window = solved_window(two, PublishedBugs(names), learn, ("policies",))
        assert len(window) == 2
        (batch,) = window.batches(np.random.default_rng(0), 16, 1, "all")
        assert len({policy.tobytes() for policy in batch.facts.policies}) == corners
        assert batch.facts.action_values.shape == (16, 0)


class Fixed:
    """An evaluator with one answer for all."""

    def __init__(self, priors, value, draw):
        self.priors, self.value, self.draw = priors, value, draw

    def evaluate_more(self, states, wanted):
        n = len(states)
        draws = np.full(n, self.draw, np.float32) if "draws" in wanted else None
        priors = np.tile(np.float32(self.priors), (n, 1))
        return priors, np.full(n, self.value, np.float32), draws, None

    def evaluate(self, states):
        return self.evaluate_more(states, ())[:2]


@pytest.mark.parametrize(
    ("value", "draw", "with_draws", "without"),
    [(0.4, 0.1, 1, 0), (0.1, 0.5, 0, 0), (-0.7, 0.0, -1, -1), (0.6, 0.38, 1, 1)],
)
def test_what_a_network_says_is_read_right(value, draw, with_draws, without):
    no = ILLEGAL
    position = at([4, 0], [no, -3, 5, -1, no, 5, 0, -2, -4])
    priors = [0.5, 0.1, 0.2, 0, 0, 0.1, 0.05, 0.05, 0]
    said = predict(Fixed(priors, value, draw), position, predicts_draws=True)
    assert said.actions.tolist() == [2]  # the highest prior of a legal move
    assert said.results.tolist() == [with_draws]
    assert said.policy_errors == pytest.approx([-(np.log(0.2) + np.log(0.1)) / 2])
    said = predict(Fixed(priors, value, draw), position, predicts_draws=False)
    assert said.results.tolist() == [without]


def test_every_iteration_is_a_pass_over_the_training_part(fitted, positions):
    learnt = [each for each in read_records(fitted) if isinstance(each, LearnRecord)]
    size = len(split_by_game(positions).training)
    assert [each.window for each in learnt] == [size] * 3
    assert [each.examples_seen for each in learnt] == [size // 16 * 16] * 3


def test_what_is_measured_is_what_evaluation_finds(fitted, positions):
    found = measured(fitted)
    assert [(each.iteration, each.part) for each in found] == [
        (1, "validation"), (2, "validation"), (3, "validation"), (3, "test"),
    ]  # fmt: skip
    for each in found[2:]:
        part = getattr(split_by_game(positions), each.part)
        agent = parse_agent(str(fitted.path), GAME)
        report = accuracy_report("network", part, network_choices(agent.evaluator(), part))
        assert each.positions == len(part)
        assert (each.strong, each.strong_low) == report.all.strong.interval[:2]
        assert each.weak == report.all.weak.interval.value
        assert each.value_error == pytest.approx(report.value.squared_error.interval.value)
        assert (each.label, each.label_high) == (each.result, each.result_high)


def test_it_learns(fitted, positions):
    found = measured(fitted)
    assert found[2].policy_error < found[0].policy_error
    losses = [each.loss["policy"] for each in read_records(fitted) if isinstance(each, LearnRecord)]
    assert losses == sorted(losses, reverse=True)


def test_a_fitted_network_is_a_run_like_any_other(fitted, capsys):
    assert fitted.progress.best == 3
    assert best_after(read_records(fitted), 2) == 2
    assert main(["match", str(fitted.path), f"{fitted.path}@0", "--games", "2"]) == 0
    assert main(["runs", str(fitted.path)]) == 0
    assert "finished" in capsys.readouterr().out
    titles = [axes.get_title() for axes in draw_curves([fitted]).axes]
    assert "result predicted (validation)" in titles
    assert not any("self-play" in title for title in titles)


class StoppedError(Exception):
    """Raised in place of a kill."""


@pytest.mark.parametrize("records", [1, 2, 6, 7])
def test_a_fit_that_is_stopped_and_resumed_ends_with_the_same_bytes(
    records, fitted, file, tmp_path
):
    folder = tmp_path / "run"
    run = RunFolder.create(folder, saved_settings(fitted).model_dump())
    seen = []

    def stop(record):
        seen.append(record)
        if len(seen) == records:
            raise StoppedError

    with run.locked(), pytest.raises(StoppedError):
        Trainer(run, saved_settings(run), on_record=stop).train()
    assert fit(file, folder) == 0
    resumed = RunFolder.open(folder)
    assert resumed._files.metrics_digest == fitted._files.metrics_digest
    for network in fitted.networks():
        assert resumed.weights_digest(network) == fitted.weights_digest(network)


def test_with_the_defect_labels_and_results_differ(file, tmp_path):
    folder = tmp_path / "run"
    assert fit(file, folder, 'published_bugs=["losses_as_draws"]', "iterations=1") == 0
    assert any(each.label != each.result for each in measured(RunFolder.open(folder)))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (['network.heads=["policy", "outcome", "plies_left"]'],
         'heads such as "policy", "outcome"'),
        (['network.heads=["policy", "outcome", "reply"]'], 'network.heads has "reply"'),
        (["game=connect_four:4x4"], "has positions of gobang:3x3:3, not of connect_four:4x4"),
        (['published_bugs=["absolute_winner"]'], '"absolute_winner" '),
        (["iterations=0"], "iterations = 0: expected at least 1"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line_and_leave_nothing(settings, expected, file, tmp_path, capsys):
    assert fit(file, tmp_path / "run", *settings) == 2
    error = capsys.readouterr().err
    assert expected in error
    assert error.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_files_that_cannot_be_learnt_from(tmp_path, capsys):
    assert fit(tmp_path / "none.parquet", tmp_path / "run") == 2
    assert "is not a file: expected positions" in capsys.readouterr().err
    few = tmp_path / "few.parquet"
    make_dataset(GAME, 5, DatasetSettings(), few, make_oracle=exhaustive)
    assert fit(few, tmp_path / "run") == 2
    assert "5 positions" in capsys.readouterr().err


def test_another_file_than_was_learnt_from_is_refused(fitted, file, tmp_path, capsys):
    other = tmp_path / "other.parquet"
    make_dataset(GAME, 300, DatasetSettings(seed=2), other, make_oracle=exhaustive)
    assert fit(other, fitted.path) == 2
    assert "supervised.digest = " in capsys.readouterr().err
    settings = saved_settings(fitted)
    moved = settings.supervised.model_copy(update={"positions": str(other)})
    with pytest.raises(UserError, match="has the digest"):
        Trainer(fitted, settings.model_copy(update={"supervised": moved}))


def test_a_file_that_has_moved_is_the_same_file(fitted, file, tmp_path):
    folder, moved = tmp_path / "run", tmp_path / "1.5e3"  # a number, were it not a name
    shutil.copytree(fitted.path, folder)
    shutil.copy(file, moved)
    assert fit(moved, folder) == 0
    assert saved_settings(RunFolder.open(folder)).supervised.positions == str(moved)
    assert measured(RunFolder.open(folder)) == measured(fitted)


def test_positions_without_their_digest_are_refused(file, tmp_path, capsys):
    arguments = ["train", "--preset", "smoke", "--run", str(tmp_path / "run")]
    assert main([*arguments, f"--set=supervised.positions={file}"]) == 2
    assert "expected positions and digest together: zerolab fit FILE" in capsys.readouterr().err


def test_accuracy_is_measured_and_may_end_the_run_before_its_test(file, tmp_path):
    accuracy = ["accuracy.every=1", f"accuracy.positions={file}"]
    stop = 'stop={name="no_gain", iterations=1, accuracy="network_weak"}'
    assert fit(file, tmp_path / "run", *accuracy, stop, "learn.learning_rate=1e-9") == 0
    records = read_records(RunFolder.open(tmp_path / "run"))
    assert [(each.stage, each.iteration) for each in records] == [
        *((stage, i) for i in (1, 2) for stage in ("learn", "supervised", "accuracy")),
        ("supervised", 2),
    ]  # fmt: skip
    assert records[-1].part == "test"


def test_the_defect_of_solved_positions_has_no_place_in_self_play(tmp_path, capsys):
    arguments = ["train", "--preset", "smoke", "--run", str(tmp_path / "run")]
    assert main([*arguments, '--set=published_bugs=["losses_as_draws"]']) == 2
    assert "solved positions" in capsys.readouterr().err
