"""Presets: validity, published values and short runs."""

from __future__ import annotations

import pytest

from zerolab.networks.catalogue import count_parameters
from zerolab.networks.network import weights_to_arrays
from zerolab.rules.catalogue import parse_game
from zerolab.store.run_folder import RunFolder
from zerolab.training.configure import resolve_settings
from zerolab.training.optimization import TimeInRun
from zerolab.training.records import LearnRecord, SelfPlayRecord
from zerolab.training.reporting import read_records
from zerolab.training.shorthands import preset_names, preset_title
from zerolab.training.trainer import Trainer

NAMES = [
    "connect4-baseline",
    "connect4-extended",
    "connect4-features",
    "connect4-small",
    "hongcharoen2018",
    "mini",
    "small",
    "smoke",
    "strong",
    "strong-gpu",
    "strong-hour",
    "supervised",
    "wang2019",
    "wang2020a",
    "wang2020b",
]

GAME = parse_game("connect_four:6x7")

SIZE = [
    "iterations=1",
    "selfplay.episodes=2",
    "selfplay.parallel_games=2",
    "search.simulations=3",
    "learn.batch_size=16",
    "final_evaluation.games=0",
]
NETWORK = {
    "conv": ["network.channels=4", "network.hidden=[8, 4]"],
    "fully_convolutional": ["network.blocks=1", "network.filters=4", "network.head_filters=2"],
    "resnet": ["network.blocks=1", "network.filters=16", "network.head_filters=2"],
}
SCHEDULE = {
    "constant": [],
    "cosine": [],
    "steps": ["learn.schedule=constant"],
    "cycle": ["learn.schedule.annealed=1"],
}


def shrunk_settings(name, changes=()):
    """Return a preset with all its mechanisms, scaled down to one short iteration."""
    settings = resolve_settings(None, name)
    assignments = [*SIZE, *NETWORK[settings.network.name], *SCHEDULE[settings.learn.schedule.name]]
    if settings.learn.window.name == "slow":  # the slow window grows over several iterations
        assignments.append("learn.window=1")
    if settings.learn.replay_ratio is None:
        assignments.append("learn.epochs=1")
    if settings.gate.games:
        assignments.append("gate.games=2")
    if settings.selfplay.progressive is not None:
        assignments.append("selfplay.progressive.first=2")
    if settings.growth.last_scheduled_iteration is not None:
        assignments.append("growth=none")
    if settings.learn.schedule.name == "cosine":
        assignments.append("learn.schedule.warm_up=0")
    if settings.selfplay.mode.name == "continuous":
        assignments.append("selfplay.mode.plies=45")  # enough to finish a game of 42 plies
    return resolve_settings(None, name, [*assignments, *changes])


def test_preset_names():
    assert preset_names() == NAMES


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Run with a network whose features others can learn."""
    settings = shrunk_settings("connect4-small")
    run = RunFolder.create(tmp_path_factory.mktemp("runs") / "small", settings.model_dump())
    with run.locked():
        run.save_network(0, weights_to_arrays(settings.network.new_network(GAME)), {})
        run.commit(run.progress, [])
    return run.path


@pytest.mark.parametrize("name", NAMES)
def test_preset_is_valid_and_runs(tmp_path, small, name):
    assert resolve_settings(None, name).preset == name
    assert preset_title(name)
    source = [f"network.heads.features.source={small}"] if name == "connect4-features" else []
    settings = shrunk_settings(name, source)
    run = RunFolder.create(tmp_path / "run", settings.model_dump(mode="json"))
    with run.locked():
        Trainer(run, settings).train()
    records = {type(record): record for record in read_records(run)}
    assert records[SelfPlayRecord].positions > 0
    assert records[LearnRecord].examples_seen > 0
    assert run.progress.finished


def test_clausen_presets_have_the_published_values():
    """Published values on the scale [0, 1] are converted to [-1, 1]."""
    for name in ("connect4-baseline", "connect4-extended", "connect4-features"):
        settings = resolve_settings(None, name)
        search, network, learn = settings.search, settings.network, settings.learn
        assert settings.game == "connect_four:6x7"
        assert search.simulations == 343
        assert search.selection.c == pytest.approx(2 * 1.545)
        assert search.fpu.value == pytest.approx(2 * 0.8545 - 1)
        assert search.draw_value == pytest.approx(2 * 0.6913 - 1, abs=5e-4)
        assert (search.noise.fraction, search.noise.concentration) == (0.25, 20.38)
        assert (network.blocks, network.filters, network.head_filters) == (5, 128, 32)
        assert network.stem_filters == 64
        assert (learn.optimizer.momentum, learn.optimizer.weight_decay) == (0.9, 1e-4)
        assert (learn.batch_size, learn.clip_norm, learn.learning_rate) == (256, 1, 0.2)
        weights = {head.name: head.weight for head in network.heads}
        assert weights.pop("policy") == 1 and weights.pop("outcome") == 0.01
        assert weights == {
            "connect4-baseline": {},
            "connect4-extended": {"reply": 0.35},
            "connect4-features": {"reply": 0.35, "features": 1},
        }.get(name)
        assert (settings.selfplay.temperature_plies, learn.symmetries) == (30, "none")


def test_small_and_features_presets_train_like_extended():
    extended, small, features = (
        resolve_settings(None, f"connect4-{name}").model_dump(exclude={"preset"})
        for name in ("extended", "small", "features")
    )
    network = small.pop("network")
    sizes = {"blocks": 3, "filters": 32, "stem_filters": 128, "head_filters": 1}
    assert network == {**extended["network"], **sizes}
    *heads, features_head = features["network"].pop("heads")
    assert tuple(heads) == extended["network"].pop("heads")
    assert (features_head["source"], features_head["plies"]) == ("", (0, 2, 4))
    assert features == extended
    del extended["network"]
    assert small == extended


def test_hongcharoen_preset_has_the_published_values():
    for game in (None, "connect_four:6x7", "gobang:5x5:4", "othello:8x8"):
        settings = resolve_settings(game, "hongcharoen2018")
        play, learn, gate = settings.selfplay, settings.learn, settings.gate
        assert (settings.iterations, play.episodes, play.temperature_plies) == (50, 512, 30)
        assert settings.search.simulations == 25
        assert (learn.optimizer.name, learn.learning_rate) == ("adam", 0.001)
        assert (learn.batch_size, learn.window.iterations) == (4096, 20)
        assert (gate.name, gate.games, gate.threshold) == ("strict_win_rate", 100, 0.55)
        network = settings.network
        assert (network.name, network.blocks, network.filters) == ("fully_convolutional", 4, 256)


def learning_rate(settings, iteration, progress):
    time = TimeInRun(iteration, progress, settings.iterations)
    return (
        settings.learn.learning_rate * settings.learn.schedule.step_rates(time).learning_rate_factor
    )


def test_extended_preset_differs_from_the_baseline_as_published():
    baseline, extended = (
        resolve_settings(None, name) for name in ("connect4-baseline", "connect4-extended")
    )
    rates = [learning_rate(baseline, iteration, 0.5) for iteration in (6, 7, 13, 14)]
    assert rates == pytest.approx([0.2, 0.02, 0.02, 0.002])
    assert baseline.learn.window.max_positions(1, 0) == 2_000_000
    assert (baseline.network.squeeze_excite, extended.network.squeeze_excite) == (0, 16)
    assert not baseline.learn.merging.is_active
    assert extended.learn.merging.weight == 0.8
    sizes = [extended.learn.window.max_positions(iteration, 0) for iteration in (1, 5, 10, 15, 60)]
    assert sizes == [500_000, 500_000, 1_250_000, 2_000_000, 2_000_000]
    rates = [learning_rate(extended, 1, done) for done in (0.0, 0.35, 0.7, 1.0)]
    assert rates == pytest.approx([0.02, 0.2, 0.02, 0.003])


def test_supervised_preset_has_the_published_loss_and_network():
    """[Clausen2021, Eq. 3, Table 2]."""
    supervised = resolve_settings(None, "supervised")
    assert supervised.network == resolve_settings(None, "connect4-baseline").network
    assert supervised.learn.symmetries == "none"
    game = parse_game(supervised.game)
    for blocks, published in ((5, 1.57e6), (10, 3.05e6), (20, 6.01e6)):  # Table 1
        network = supervised.network.model_copy(update={"blocks": blocks})
        assert count_parameters(network, game) == pytest.approx(published, abs=1e4)


def test_clausen_presets_play_the_published_number_of_positions():
    for name, positions in (("connect4-baseline", 300_000), ("connect4-extended", 180_000)):
        play = resolve_settings(None, name).selfplay
        assert play.parallel_games * play.mode.plies == pytest.approx(positions, rel=1e-3)


@pytest.mark.parametrize("before", [[], ["network=resnet"], ["network.name=resnet"]])
def test_default_head_can_be_set_by_its_name(before):
    settings = resolve_settings(None, "mini", [*before, "network.heads.value.weight=0.5"])
    assert [(head.name, head.weight) for head in settings.network.heads] == [
        ("policy", 1.0),
        ("value", 0.5),
    ]
    assert settings.network.name == "resnet"
