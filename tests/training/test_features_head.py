"""Runs with a head that learns the features of another network."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch
from test_resume import contents
from tiny_training import KilledError, Killing, learn_lines, train

from zerolab.cli.main import main
from zerolab.core.errors import UserError
from zerolab.networks import inference
from zerolab.networks.catalogue import build_network
from zerolab.networks.network import set_weights, weights_to_arrays
from zerolab.rules import compiled_rules
from zerolab.rules.catalogue import parse_game
from zerolab.store.examples import Examples
from zerolab.store.run_folder import RunFolder
from zerolab.studies.design import run_key
from zerolab.training import inputs, stages, window_facts
from zerolab.training.configure import resolve_settings, resume_settings, saved_settings
from zerolab.training.trainer import Trainer, check_new_run

GAME = parse_game("gobang:3x3:3")
SMALL = [
    "selfplay.episodes=12",
    "final_evaluation.games=0",
    "gate=always",
    "network={name='resnet', blocks=1, filters=4, stem_filters=8, head_filters=1, hidden=0}",
]
"""Settings of a short source run, with 9 features for each of two heads."""
LARGE = [
    *SMALL[:3],
    "iterations=3",
    "network={name='resnet', blocks=1, filters=8, head_filters=2, hidden=0}",
    "learn.symmetries=none",
    "learn.merging=newest",
    "learn.epochs=12",
    "learn.learning_rate=0.01",
]
HEADS = "network.heads=['policy', 'value', {name='features', source='small', weight=10}]"


@pytest.fixture(autouse=True)
def one_core(monkeypatch):
    """Use one thread, because parallel test processes share the cores."""
    for module in (stages, inference):
        monkeypatch.setattr(module, "available_cores", lambda: 1)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Folder with a small run, and a large run that has learnt its features."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for module in (stages, inference):
            patch.setattr(module, "available_cores", lambda: 1)
        train(folder / "small", resolve_settings(None, "smoke", [*SMALL, "iterations=2"]))
        train(folder / "large", resolve_settings(None, "smoke", [*LARGE, HEADS]))
    return folder


@pytest.fixture
def here(trained, tmp_path, monkeypatch):
    """Working directory that contains only the small run."""
    shutil.copytree(trained / "small", tmp_path / "small")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def source_module(folder):
    run = RunFolder.open(folder / "small")
    network = build_network(saved_settings(run).network, GAME, 0)
    set_weights(network, run.load_weights(run.progress.best))
    return network.eval()


def head_activations(network, states):
    """Return the activations of the convolutions in the policy and value heads."""
    with torch.no_grad():
        trunk = network.trunk(torch.from_numpy(compiled_rules.encode_batch(GAME, np.array(states))))
        heads = [network.heads[name] for name in ("policy", "value")]
        return np.concatenate([torch.relu(head.reduce(trunk)).flatten(1) for head in heads], axis=1)


def test_run_records_its_source_network(trained):
    small, large = (RunFolder.open(trained / name) for name in ("small", "large"))
    head = saved_settings(large).network.heads[-1]
    assert head.digest == small.weights_digest(2)
    assert (head.source, head.width, head.plies) == ("small", 18, (0, 2, 4))
    assert (
        large.path_of_copy_from_source_run(inputs.FEATURE_NETWORK_FILE_NAME).read_bytes()
        == small.weights_path(2).read_bytes()
    )
    assert large.load_weights(3)["heads.features.head.output.weight"].shape == (3 * 18, 2 * 9)
    assert not small.path_of_copy_from_source_run(inputs.FEATURE_NETWORK_FILE_NAME).exists()


def test_iteration_without_examples_has_no_targets():
    """Continuous self-play can finish no game in an iteration."""
    no_states = np.empty((0, 2), np.uint64)
    empty = Examples(
        **{**dict.fromkeys(Examples.column_forms(), no_states[:, 0]), "states": no_states}
    )
    targets = window_facts.later_features(empty, np.empty((0, 18), np.float16), (0, 2, 4))
    assert targets.shape == (0, 3 * 18)


def test_targets_are_features_of_the_same_game_at_later_plies(trained):
    """Expected features are computed by replaying the games of an iteration."""
    run, network = RunFolder.open(trained / "large"), source_module(trained)
    settings = saved_settings(run)
    examples, stored = run.load_examples(2), run.load_target_features(2)
    targets = (
        inputs.read_feature_network(settings, run)
        .feature_targets(examples, stored)
        .reshape(-1, 3, 18)
    )
    row = 0
    for game in run.games.stage_games(2, "selfplay"):
        states = [compiled_rules.start(GAME)]
        for action in game.actions:
            states.append(compiled_rules.apply(GAME, states[-1], action))
        plies, expected = len(game.actions), head_activations(network, states)
        for ply in range(plies):
            assert (examples.states[row] == states[ply]).all()
            for index, offset in enumerate((0, 2, 4)):
                if ply + offset < plies:
                    np.testing.assert_allclose(
                        targets[row, index], expected[ply + offset], atol=2e-3
                    )
                else:
                    assert np.isnan(targets[row, index]).all()
            row += 1
    assert row == len(examples.states) > 60
    assert stored.std(axis=0).max() > 0.1


def test_features_are_learnt(trained):
    run = RunFolder.open(trained / "large")
    losses = [line["loss"]["features"] for line in learn_lines(run)]
    source = inputs.read_feature_network(saved_settings(run), run)
    expected = source.feature_targets(run.load_examples(3), run.load_target_features(3)).astype(
        np.float32
    )
    assert losses[2] < 0.7 * losses[0]
    assert losses[2] < 0.7 * np.nanvar(expected, axis=0).mean(), (
        "predictions are no better than the mean"
    )


def test_killed_run_resumes_without_its_source(trained, here):
    settings = resolve_settings(None, "smoke", [*LARGE, HEADS])
    with pytest.raises(KilledError):
        train(here / "large", settings, Killing(1, "learn"))
    shutil.rmtree(here / "small")
    for moment in ((2, "self-play"), (3, "learn")):
        with pytest.raises(KilledError):
            train(
                here / "large",
                resume_settings(RunFolder.open(here / "large"), [HEADS]),
                Killing(*moment),
            )
    train(here / "large", saved_settings(RunFolder.open(here / "large")))
    assert contents(here / "large") == contents(trained / "large")


def test_source_of_a_run_cannot_change(trained, here):
    """Changed settings and a replaced copy of the source are both refused."""
    shutil.copytree(trained / "large", here / "large")
    run = RunFolder.open(here / "large")
    for change, former in (
        ('source = "small@1"', '"small"'), ("weight = 5.0", "10.0"), ("width = 7", "18")
    ):  # fmt: skip
        with pytest.raises(
            UserError, match=f"^network.heads.features.{change} differs from {former}"
        ):
            resume_settings(run, [HEADS, f"network.heads.features.{change.replace(' ', '')}"])
    run.save_copy_from_source_run(
        inputs.FEATURE_NETWORK_FILE_NAME,
        RunFolder.open(here / "small").weights_path(1).read_bytes(),
    )
    with pytest.raises(
        UserError, match=r"source.safetensors has the digest \w+, not \w+: expected"
    ):
        Trainer(run, saved_settings(run))


def test_offsets_beyond_the_longest_game_are_refused(here):
    """A game on nine cells has no position nine plies after another."""
    at = "network.heads.features.plies"
    resolve_settings(None, "smoke", [*LARGE, HEADS, f"{at}=[0, 8]"])
    with pytest.raises(
        UserError,
        match=r"features looks 9 plies ahead.*: expected at most 8 plies",
    ):
        resolve_settings(None, "smoke", [*LARGE, HEADS, f"{at}=[0, 9]"])


def test_wrong_feature_count_is_refused(here, trained):
    settings = resolve_settings(None, "smoke", [*LARGE, HEADS, "network.heads.features.width=7"])
    with pytest.raises(UserError, match=r"features.width = 7: expected the 18 features of small"):
        check_new_run(settings)
    shutil.copytree(trained / "large", here / "large")
    run = RunFolder.open(here / "large")
    data = saved_settings(run).model_dump()
    data["network"]["heads"][-1]["width"] = 7
    run.save_settings(data)
    with pytest.raises(UserError, match=r"features.width = 7: expected the 18 .*source.safetens"):
        Trainer(run, saved_settings(run))


def test_features_of_continuous_self_play_without_merging(here):
    """Games span iterations, and their examples and features are stored when they end."""
    changes = [
        "selfplay.mode={name='continuous', plies=8}",
        "selfplay.parallel_games=6",
        "learn.merging=none",
        "learn.epochs=1",
        "iterations=2",
    ]
    run = train(here / "large", resolve_settings(None, "smoke", [*LARGE, *changes, HEADS]))
    examples, stored = run.load_examples(2), run.load_target_features(2)
    assert len(run.load_unfinished_games(2).games) > 0
    expected = head_activations(source_module(here), examples.states)
    np.testing.assert_allclose(stored, expected, atol=2e-3)
    assert (examples.plies == 0).sum() == (examples.plies_left == 1).sum() > 0


MISTAKES = {
    "missing": ("", "network.heads.features.source is missing: expected a trained network"),
    "no run": ("nowhere", 'source = "nowhere": nowhere is not a run'),
    "no network": (
        "small@7",
        'source = "small@7": small has no network 7: expected one of 0, 1, 2',
    ),
    "another game": (
        "larger",
        'source = "larger" plays gobang:4x4: expected a network for gobang:3x3',
    ),
    "no convolutions": (
        "conv",
        'source = "conv": no head of the network has a convolution',
    ),
}


@pytest.mark.parametrize(("source", "message"), MISTAKES.values(), ids=MISTAKES)
def test_invalid_sources_are_refused(here, capsys, source, message):
    create_untrained_run(here / "larger", ["game=gobang:4x4", *SMALL])
    create_untrained_run(here / "conv", ["network.channels=4", "network.hidden=[4, 4]"])
    assignments = [*LARGE, HEADS, f"network.heads.features.source={source}"]
    assert (
        main(["train", "--preset", "smoke", "--run", "new", *(f"--set={x}" for x in assignments)])
        == 2
    )
    error = capsys.readouterr().err.strip()
    assert message in error
    assert "\n" not in error
    assert not (here / "new").exists()


def create_untrained_run(folder, assignments):
    """Create a run that has only its initial network."""
    settings = resolve_settings(None, "smoke", assignments)
    run = RunFolder.create(folder, settings.model_dump())
    network = build_network(settings.network, parse_game(settings.game), 0)
    with run.locked():
        run.save_network(0, weights_to_arrays(network), {})
        run.commit(run.progress, [])


def test_own_network_and_wrong_digest_are_refused_as_source(here):
    settings = resolve_settings(None, "smoke", [*LARGE, HEADS])
    with pytest.raises(UserError, match='source = "small" is the run itself: expected a network'):
        Trainer(RunFolder.open(here / "small"), settings)
    other = resolve_settings(None, "smoke", [*LARGE, HEADS, "network.heads.features.digest=abc"])
    with pytest.raises(UserError, match=r"has the digest .*, not abc: expected the network"):
        check_new_run(other)


def test_symmetries_are_refused(here):
    for symmetries in ("learn.symmetries=random", "learn.symmetries=all"):
        with pytest.raises(UserError, match='"features" head has no targets'):
            resolve_settings(None, "smoke", [*LARGE, HEADS, symmetries])


def test_run_key_depends_on_requested_settings(trained):
    planned = resolve_settings(None, "smoke", [*LARGE, HEADS])
    assert run_key(planned) == run_key(saved_settings(RunFolder.open(trained / "large")))
    assert run_key(planned) != run_key(resolve_settings(None, "smoke", LARGE))
    chosen = resolve_settings(
        None, "smoke", [*LARGE, HEADS, "network.heads.features.heads=['policy']"]
    )
    assert run_key(planned) != run_key(chosen)
