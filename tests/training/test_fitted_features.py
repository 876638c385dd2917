"""Supervised learning with a head that learns the features of another network."""

from __future__ import annotations

import numpy as np
import pytest
from test_features_head import GAME, SMALL, create_untrained_run, head_activations, source_module
from tiny_training import KilledError, Killing, learn_lines, train

from evaluation.exhaustive import exhaustive
from zerolab.cli.main import main
from zerolab.core.errors import UserError
from zerolab.evaluation.collecting import DatasetSettings
from zerolab.evaluation.dataset import make_dataset
from zerolab.evaluation.positions import SolvedPositions, read_positions
from zerolab.networks import inference
from zerolab.networks.heads import FeaturesHead
from zerolab.rules import compiled_rules
from zerolab.rules.position import Position
from zerolab.store.arrays import read_network_file
from zerolab.store.run_folder import RunFolder
from zerolab.training import inputs, stages
from zerolab.training.configure import saved_settings
from zerolab.training.records import HeldOutRecord
from zerolab.training.reporting import read_records
from zerolab.training.window_facts import later_states

TINY = ["iterations=2", "network.blocks=1", "network.filters=8", "learn.batch_size=16",
        "learn.learning_rate=0.1", "learn.schedule=constant", "search.simulations=4",
        "search.fpu=zero", "search.tie_break=first", "search.draw_value=0",
        "network.stem_filters=8"]  # fmt: skip
HEADS = ("'policy'", "{name='outcome', weight=0.01}")


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    """Working directory with a small run, a file of all positions and one with one per game."""
    folder = tmp_path_factory.mktemp("fitted")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for module in (stages, inference):
            patch.setattr(module, "available_cores", lambda: 1)
        create_untrained_run(folder / "small", SMALL)
        for name, one_per_game in (("all", False), ("single", True)):
            settings = DatasetSettings(seed=1, one_per_game=one_per_game)
            make_dataset(GAME, 300, settings, folder / name, make_oracle=exhaustive)
        yield folder


def fit(file, run, head="", *assignments):
    heads = ", ".join((*HEADS, *([f"{{name='features', source='small', {head}}}"] if head else [])))
    sets = [*TINY, f"network.heads=[{heads}]", *assignments]
    return main(["fit", file, "--run", run, *(f"--set={each}" for each in sets)])


def later_line(positions, row, ply):
    """Return the moves `ply` plies after a position in the longest line of its game, if any."""
    of_game = np.flatnonzero(positions.game_numbers == positions.game_numbers[row])
    longest = max((positions.move_sequence(each) for each in of_game), key=len)
    moves = longest[: len(positions.move_sequence(row)) + ply]
    return moves if len(moves) == len(positions.move_sequence(row)) + ply else None


def test_targets_are_policy_features_of_later_positions_in_the_game(folder):
    positions, _ = read_positions(folder / "all")
    positions = positions.take(np.random.default_rng(0).permutation(len(positions)))
    small = RunFolder.open(folder / "small")
    head = FeaturesHead(heads=("policy",), plies=(2, 0, 1))
    source = inputs.FeatureNetwork(read_network_file(small.weights_path(0)), head)
    targets = source.solved_feature_targets(positions).reshape(-1, 3, 9)
    network, known = source_module(folder), 0
    for row in range(len(positions)):
        for column, ply in enumerate(head.plies):
            moves = later_line(positions, row, ply)
            if moves is None:
                assert np.isnan(targets[row, column]).all()
                continue
            state = compiled_rules.start(GAME)
            for move in moves:
                state = compiled_rules.apply(GAME, state, move)
            expected = head_activations(network, [state])[0, :9]  # the value head follows
            np.testing.assert_allclose(targets[row, column], expected, atol=2e-3)
            known += 1
    assert len(positions) < known < 3 * len(positions)
    assert np.nanstd(targets) > 0.05


def test_later_positions_can_be_missing_between(folder):
    """Positions without a choice are not in the file, but their moves are."""
    positions, _ = read_positions(folder / "all")
    game = positions.take(np.flatnonzero(positions.game_numbers == positions.game_numbers[0]))
    first, last = int(game.plies.min()), int(game.plies.max())
    ends = game.take(np.array([np.argmax(game.plies), np.argmin(game.plies)]))
    rows, states = later_states(ends, last - first)
    assert rows.tolist() == [1]
    assert (states[0] == ends.states[0]).all()
    rows, states = later_states(ends, 1)
    assert rows.tolist() == [1]
    assert len(later_states(ends, last - first + 1)[0]) == 0


def test_positions_reached_by_other_moves_of_a_game_have_their_own_features():
    """Symmetric positions of a public test set have the same game number."""
    lines = [Position.start(GAME).play("a1"), Position.start(GAME).play("c1").play("b2")]
    states = np.array([each.state for each in lines])
    moves = np.array([0, 2, 4], np.int16)
    values = np.zeros((2, 9), np.int32)
    pair = SolvedPositions(GAME, np.zeros(2, np.int64), moves, np.array([0, 1, 3]), states, values)
    rows, later = later_states(pair, 0)
    assert rows.tolist() == [0, 1]
    assert (later == states).all()
    assert len(later_states(pair, 1)[0]) == 0


def test_features_are_learnt_and_a_killed_run_resumes(folder):
    head = "heads=['policy'], plies=[0, 2], weight=10"
    assert fit("all", "learnt", head) == 0
    learnt = RunFolder.open(folder / "learnt")
    losses = [line["loss"]["features"] for line in learn_lines(learnt)]
    assert losses[1] < losses[0]
    settings = saved_settings(learnt)
    assert settings.network.heads[-1].width == 9
    assert learnt.load_weights(2)["heads.features.head.output.weight"].shape[0] == 2 * 9
    with pytest.raises(KilledError):
        train(folder / "killed", settings, Killing(2, "learn"))
    train(folder / "killed", settings)
    assert RunFolder.open(folder / "killed").weights_digest(2) == learnt.weights_digest(2)


def test_targets_matter_only_with_a_weight(folder):
    """Runs with targets at different plies begin with the same weights."""
    runs = {}
    for weight in (0, 1):
        for plies in ("[0, 2]", "[1, 3]"):
            name = f"{weight}-{plies[1]}"
            assert fit("all", name, f"plies={plies}, weight={weight}") == 0
            runs[weight, plies[1]] = RunFolder.open(folder / name)
    measured = {
        key: [record.strong for record in read_records(run) if isinstance(record, HeldOutRecord)]
        for key, run in runs.items()
    }
    assert measured[0, "0"] == measured[0, "1"]
    weights = {key: run.load_weights(2) for key, run in runs.items()}
    others = [name for name in weights[0, "0"] if not name.startswith("heads.features")]
    for name in others:
        np.testing.assert_array_equal(weights[0, "0"][name], weights[0, "1"][name], err_msg=name)
    assert any((weights[1, "0"][name] != weights[1, "1"][name]).any() for name in others)


def test_one_position_per_game_has_only_features_now(capsys):
    assert fit("single", "now", "plies=[0, 2]") == 0
    assert fit("single", "later", "plies=[1, 2]") == 2
    error = capsys.readouterr().err
    assert 'network.heads has "features", for which solved positions have no targets' in error


def test_unknown_heads_of_the_source_are_refused(folder):
    small = read_network_file(RunFolder.open(folder / "small").weights_path(0))
    with pytest.raises(UserError, match=r'no head "reply" with a conv.* one of "policy", "value"'):
        inputs.FeatureNetwork(small, FeaturesHead(heads=("reply",)))
