"""Runs that start from networks of other runs."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
from test_resume import contents
from tiny_training import KilledError, Killing, train

from zerolab.cli.main import main
from zerolab.core.errors import UserError
from zerolab.networks.catalogue import NETWORKS, build_network
from zerolab.networks.network import set_weights
from zerolab.rules.catalogue import parse_game
from zerolab.store.run_folder import RunFolder
from zerolab.studies.design import run_key
from zerolab.training import stages
from zerolab.training.configure import resolve_settings, resume_settings, saved_settings
from zerolab.training.inputs import read_initial_weights
from zerolab.training.shorthands import start_assignments
from zerolab.training.trainer import Trainer, check_new_run
from zerolab.training.transfer import transfer_weights, untrained_network

NETWORK = "network={name='fully_convolutional', blocks=1, filters=4, head_filters=2, hidden=3}"
QUICK = ["selfplay.episodes=6", "final_evaluation.games=0", "gate=always", "iterations=2"]
FROM = "start.source=source"


@pytest.fixture(autouse=True)
def one_core(monkeypatch):
    """Use one thread, because parallel test processes share the cores."""
    monkeypatch.setattr(stages, "available_cores", lambda: 1)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Finished run on the smallest Gobang board."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(stages, "available_cores", lambda: 1)
        train(
            folder / "source",
            resolve_settings(None, "smoke", [*QUICK, NETWORK, "game=gobang:3x3:3"]),
        )
    return folder / "source"


@pytest.fixture
def here(source, tmp_path, monkeypatch):
    """Working directory that contains only the source run."""
    shutil.copytree(source, tmp_path / "source")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def settings_with_source(*assignments, game="gobang:4x4:3"):
    return resolve_settings(game, "smoke", [*QUICK, FROM, *assignments])


def equal_names(first, second, prefix=""):
    """Return the names that start with `prefix` and have bitwise equal weights."""
    names = [name for name in first if name.startswith(prefix)]
    return [name for name in names if np.array_equal(first[name], second[name])]


def names_with_prefix(weights, prefix):
    return [name for name in weights if name.startswith(prefix)]


@pytest.mark.parametrize(
    ("transfer", "transferred", "fresh"),
    [("trunk", "trunk.", "heads."), ("heads", "heads.", "trunk.")],
)
def test_one_part_is_transferred_and_the_other_is_initialised(here, transfer, transferred, fresh):
    settings = settings_with_source(f"start.transfer={transfer}")
    run = train(here / "run", settings)
    untrained = untrained_network(
        settings.network, parse_game(settings.game), settings.seed
    ).weights
    former, first = RunFolder.open(here / "source").load_weights(2), run.load_weights(0)
    assert equal_names(first, former, transferred) == names_with_prefix(first, transferred)
    assert equal_names(first, untrained, fresh) == names_with_prefix(first, fresh)
    assert len(equal_names(first, former, fresh)) < len(names_with_prefix(first, fresh))
    assert len(equal_names(run.load_weights(2), first)) < len(first) / 2


def test_all_weights_transfer_between_board_sizes(here):
    run = train(here / "run", settings_with_source("start.transfer=all"))
    former, first = RunFolder.open(here / "source").load_weights(2), run.load_weights(0)
    assert equal_names(first, former) == list(first) == list(former)


def test_network_settings_default_to_those_of_the_source(here):
    assert settings_with_source().network == resolve_settings(None, "smoke", [NETWORK]).network
    other = "network={name='resnet', blocks=2}"
    assert settings_with_source(other).network == resolve_settings(None, "smoke", [other]).network


def test_frozen_trunk_is_bitwise_equal_after_training(here):
    run = train(here / "run", settings_with_source("learn.frozen=trunk", "learn.ema_decay=0.9"))
    first, last = run.load_weights(0), run.load_weights(2)
    assert equal_names(first, last, "trunk.") == names_with_prefix(first, "trunk.")
    moved = [
        name for name in names_with_prefix(first, "heads.") if name not in equal_names(first, last)
    ]
    assert {"heads.policy.head.output.weight", "heads.value.reduce.norm.running_mean"} <= set(moved)


def test_frozen_trunk_is_not_averaged_with_the_latest_weights_of_its_source(here):
    """The optimiser state of a source with weight averaging contains its latest weights."""
    averaged = ["start.transfer=all", "learn.ema_decay=0.9", "gate=always"]
    train(here / "averaged", settings_with_source(*averaged, "iterations=1"))
    source = "start.source='averaged'"
    run = train(here / "run", settings_with_source(*averaged, "learn.frozen=trunk", source))
    first = run.load_weights(0)
    for iteration in (1, 2):
        same = equal_names(first, run.load_weights(iteration), "trunk.")
        assert same == names_with_prefix(first, "trunk.")


def test_random_trunk_can_be_frozen_without_a_source(here):
    settings = resolve_settings("gobang:3x3:3", "smoke", [*QUICK, NETWORK, "learn.frozen=trunk"])
    run = train(here / "run", settings)
    first, last = run.load_weights(0), run.load_weights(2)
    assert equal_names(first, last, "trunk.") == names_with_prefix(first, "trunk.")
    with run.locked():
        learner = Trainer(run, settings).context.learner
    heads = sum(np.size(first[name]) for name, _ in learner.network.heads.named_parameters("heads"))
    assert learner.parameter_count == heads


def test_transferred_run_learns_like_its_source(here):
    """Both runs take the next steps on the same examples with the same Adam state."""
    former = RunFolder.open(here / "source")
    run = RunFolder.create(here / "run", (settings := settings_of_continuation()).model_dump())
    results = []
    for folder, run_settings in ((former, saved_settings(former)), (run, settings)):
        with folder.locked():
            context = Trainer(folder, run_settings).context
            if folder is run:
                Trainer(folder, run_settings).prepare()
            best = folder.progress.best
            context.learner.restore(folder.load_weights(best), folder.load_optimizer_state(best))
            for iteration in (1, 2):
                examples = former.load_examples(iteration)
                context._add_to_window(examples, None)
            with torch.inference_mode(False):
                losses = context.learner.learn(context.window, 5, 3).last_epoch_losses
            results.append((losses, context.learner.weight_arrays()))
    assert results[0][0] == results[1][0]
    assert equal_names(results[0][1], results[1][1]) == list(results[0][1])
    moments = run.load_optimizer_state(0)
    assert moments.keys() == former.load_optimizer_state(2).keys()
    assert equal_names(moments, former.load_optimizer_state(2)) == list(moments)


def settings_of_continuation(*changes):
    return settings_with_source("start.transfer=all", *changes, game="gobang:3x3:3")


@pytest.mark.parametrize(
    "changes", [["learn.optimizer=sgd"], ["start.source=source@0"], ["network.hidden=3"]]
)
def test_optimizer_state_is_transferred_only_to_matching_settings(here, changes):
    run = RunFolder.create(
        here / "run", (settings := settings_of_continuation(*changes)).model_dump()
    )
    with run.locked():
        Trainer(run, settings).prepare()
    assert bool(run.load_optimizer_state(0)) == (changes == ["network.hidden=3"])


def side(name, game, seed=0, **changes):
    defaults = {"blocks": 1, "filters": 3, "head_filters": 2, "hidden": 2}
    settings = NETWORKS["fully_convolutional"](**{**defaults, **changes})
    return untrained_network(settings, parse_game(f"{name}:{game}"), seed)


def test_planes_are_matched_by_name_and_new_planes_have_zero_weights():
    source_side, here = side("gobang", "3x3:3", seed=1), side("hex", "5x5")
    transferred = transfer_weights("channels", source_side, here)
    first, former = (
        transferred.weights["trunk.0.conv.weight"],
        source_side.weights["trunk.0.conv.weight"],
    )
    np.testing.assert_array_equal(first[:, :1], former)
    assert not first[:, 1].any()
    assert (transferred.untrained_parts, transferred.unused_parts) == (
        ('plane "edges to join"',),
        (),
    )
    back = transfer_weights("channels", with_weights(here, transferred.weights), source_side)
    assert equal_names(back.weights, source_side.weights) == list(source_side.weights)
    assert (back.untrained_parts, back.unused_parts) == ((), ('plane "edges to join"',))


def test_network_can_gain_input_planes():
    source_side = side("connect_four", "4x4", seed=1)
    here = side("connect_four", "4x4", planes=("ones", "landing"))
    transferred = transfer_weights("channels", source_side, here)
    assert transferred.untrained_parts == ('plane "ones"', 'plane "landing"')
    planes = torch.rand(3, 1, 4, 4)
    networks = [
        build_network(each.network_settings, each.game, 0).eval() for each in (source_side, here)
    ]
    for network, weights in zip(networks, (source_side.weights, transferred.weights), strict=True):
        set_weights(network, weights)
    expected, actual = (network(planes)["policy"].tolist() for network in networks)
    np.testing.assert_allclose(actual, expected, atol=1e-6)


@pytest.mark.parametrize("method", ["trunk", "all"])
def test_first_layer_is_transferred_only_to_the_same_planes(method):
    game, planes = ("connect_four", "4x4"), ("ones", "landing")
    source_side, here = side(*game, seed=1, planes=planes), side(*game, planes=planes[::-1])
    message = (
        r'planes "pieces", "ones", "landing" in the source and "pieces", "landing", "ones" in this'
        r' run: .* different planes; expected network.planes = \["ones", "landing"\], or start'
    )
    with pytest.raises(UserError, match=message):
        transfer_weights(method, source_side, here)
    transfer_weights("heads", source_side, here)  # they read no planes
    transfer_weights(method, source_side, side("connect_four", "4x5", planes=planes))
    transfer_weights("trunk", source_side, side("othello", "4x4", planes=planes))


def with_weights(side, weights):
    return side._replace(weights=weights)


@pytest.mark.parametrize(
    ("source_side", "here", "new"),
    [
        (("othello", "4x4"), ("gobang", "3x3:3"), ()),
        (("gobang", "3x3:3"), ("othello", "4x4"), ("heads.policy.head.others",)),
        (("othello", "4x4"), ("othello", "6x6"), ()),
        (("gobang", "3x3:3"), ("connect_four", "4x4"), ("heads.policy.head",)),
        (("connect_four", "4x4"), ("othello", "4x4"), ("heads.policy.head",)),
    ],
)
def test_action_weights_transfer_between_equal_layouts(source_side, here, new):
    former, fresh = side(*source_side, seed=1), side(*here)
    transferred = transfer_weights("channels", former, fresh)
    assert transferred.untrained_parts == new
    is_new = {
        name
        for name in transferred.weights
        if name.startswith(tuple(f"{prefix}." for prefix in new))
    }
    for name, array in transferred.weights.items():
        source = fresh if name in is_new else former
        np.testing.assert_array_equal(array, source.weights[name])


@pytest.mark.parametrize(
    ("former", "changes", "message"),
    [
        ({"blocks": 3}, {"blocks": 1}, r"expected network.blocks = 3"),
        ({"blocks": 1}, {"blocks": 3}, r"expected network.blocks = 1"),
        ({"blocks": 3}, {"blocks": 3, "stem_filters": 3}, "expected network.stem_filters = "),
    ],
)
def test_channel_transfer_needs_an_equal_trunk(former, changes, message):
    source_side, here = side("gobang", "3x3:3", 1, **former), side("hex", "3x3", **changes)
    with pytest.raises(UserError, match=message):
        transfer_weights("channels", source_side, here)


def test_features_heads_are_not_transferred():
    features_head = {"name": "features", "source": "runs/small", "width": 3}
    source_side = side("gobang", "3x3:3", 1, heads=("policy", "value", features_head))
    here = side("gobang", "3x3:3", heads=("policy", "value"))
    for transfer in ("all", "heads", "channels"):
        transferred = transfer_weights(transfer, source_side, here)
        assert transferred.unused_parts == ("heads.features",)
        assert equal_names(transferred.weights, source_side.weights, "heads") == names_with_prefix(
            here.weights, "heads"
        )


def test_heads_missing_from_the_source_are_new():
    source_side, here = (
        side("gobang", "3x3:3", 1),
        side("gobang", "3x3:3", heads=("policy", "outcome")),
    )
    assert transfer_weights("channels", source_side, here).untrained_parts == ("heads.outcome",)
    assert transfer_weights("trunk", source_side, here).untrained_parts == ("heads",)


@pytest.mark.parametrize(
    ("game", "assignments", "message"),
    [
        ("connect_four:4x4", ["start.transfer=all"], "layer heads.policy.head.output.weight is"),
        ("hex:3x3", [], r"trunk.0.conv.weight is \[4, 1, 3, 3\] .* \[4, 2, 3, 3\] .*"
         "different planes; expected start.transfer = \"channels\""),
        ("hex:4x4", ["network.heads=['policy', 'outcome']", "network.hidden=9"],
         "layer trunk.0.conv.weight .* different planes"),
        ("hex:4x4", ["network=resnet", "network.blocks=1", "network.filters=4"],
         'different planes; expected network = "fully_convolutional"'),
        ("gobang:4x4:3", ["network.filters=8"], "expected network.filters = 4"),
        ("gobang:4x4:3", ["network.blocks=2"],
         "layer trunk.3.first.conv.weight is missing .* expected network.blocks = 1"),
        ("gobang:4x4:3", ["network=resnet", "start.transfer=channels"],
         '"resnet" .* expected "fully_convolutional"'),
        ("gobang:4x4:3", ["network.heads=['policy', 'outcome']", "start.transfer=heads"],
         r"expected network.heads = \['policy', 'value'\]"),
        ("gobang:4x4:3", ["start.source=source@7"], "source has no network 7"),
        ("gobang:4x4:3", ["start.source=nowhere"], 'source = "nowhere": nowhere is not a run'),
        ("gobang:4x4:3", ["start.transfer=trnk"], "start.transfer = \"trnk\""),
        ("gobang:4x4:3", ["learn.frozen=trunk", "network.heads.policy.weight=0",
                          "network.heads.value.weight=0"], "leaves nothing to train"),
        ("gobang:4x4:3", ["learn.frozen=trunk", "learn.loss=policy",
                          "network.heads.policy.weight=0"], "leaves nothing to train"),
        ("gobang:4x4:3", ["learn.frozen=trunk", "learn.loss=product",
                          "network.heads.value.weight=0"], "leaves nothing to train"),
        ("gobang:4x4:3", ["learn.frozen=trunk", "growth={name='net2net', after=[1]}"],
         'growth = "net2net"'),
    ],
)  # fmt: skip
def test_incompatible_sources_are_refused_without_creating_a_run(here, game, assignments, message):
    with pytest.raises(UserError, match=message):
        check_new_run(settings_with_source(*assignments, game=game))


def test_start_needs_a_source():
    with pytest.raises(UserError, match=r"start\.source"):
        resolve_settings(None, "smoke", ["start.transfer=all"])


@pytest.mark.parametrize("moment", [(1, "self-play"), (1, "learn"), (2, "learn")])
def test_killed_run_resumes_to_the_same_bytes_without_its_source(here, moment):
    settings = settings_with_source("learn.frozen=trunk")
    uninterrupted = train(here / "whole", settings)
    with pytest.raises(KilledError):
        train(here / "killed", settings, Killing(*moment))
    shutil.rmtree(here / "source")
    resumed = train(here / "killed", saved_settings(RunFolder.open(here / "killed")))
    assert contents(resumed.path) == contents(uninterrupted.path)


def test_retrained_source_is_refused(here):
    settings = settings_with_source()
    begun = settings.model_copy(
        update={"start": settings.start.model_copy(update={"digest": "0" * 16})}
    )
    with pytest.raises(UserError, match="expected the network"):
        check_new_run(begun)


def test_run_records_its_source(here, capsys):
    settings = settings_with_source()
    run = train(here / "run", settings)
    start = saved_settings(run).start
    source = RunFolder.open(here / "source")
    assert (start.source, start.iteration, start.game) == ("source", 2, "gobang:3x3:3")
    assert start.digest == source.weights_digest(2)
    main(["runs", ".", "--json"])
    listed = {
        entry["path"]: entry["start_network"] for entry in json.loads(capsys.readouterr().out)
    }
    assert listed == {"run": "source@2", "source": ""}
    assert resume_settings(run, [FROM, "start.transfer=trunk"]) == saved_settings(run)
    assert run_key(saved_settings(run)) == run_key(settings)
    with pytest.raises(UserError, match="a run keeps its settings"):
        resume_settings(run, ["start.transfer=heads"])
    contradiction = ["--transfer", "frozen", "--set", "learn.frozen=none"]
    assert main(["train", "--run", str(run.path), "--from", "source", *contradiction]) == 2
    assert 'learn.frozen = "none" contradicts the "frozen" transfer' in capsys.readouterr().err


def test_command_line_options_for_transfer(here, capsys):
    arguments = ["train", "gobang:4x4:3", "--preset", "smoke", "--from", "source@2"]
    changes = [part for assignment in QUICK for part in ("--set", assignment)]
    main([*arguments, "--transfer", "frozen", *changes])
    run = RunFolder.open(here / "runs" / "gobang-4x4-3-smoke-from-source-2")
    settings = saved_settings(run)
    assert (settings.start.transfer, settings.learn.frozen) == ("trunk", "trunk")
    assert "starts from source@2, trained on gobang:3x3:3; new: heads" in capsys.readouterr().out
    assert main([*arguments[:4], "--transfer", "all"]) == 2
    assert "--transfer all needs a network to start from" in capsys.readouterr().err
    frozen = ["--transfer", "frozen", "--set", "learn.frozen=none", "--run", "contradicted"]
    assert main([*arguments, *frozen]) == 2
    assert 'learn.frozen = "none" contradicts the "frozen" transfer' in capsys.readouterr().err
    assert main([*arguments[:-1], ""]) == 2
    assert '--from ""' in capsys.readouterr().err
    assert not (here / "contradicted").exists()


def test_source_can_have_any_name(here):
    for name in ("7", "old@40"):
        shutil.copytree("source", name)
        start = read_initial_weights(settings_with_source(*start_assignments(name, "trunk")))
        assert f"starts from {name}@{RunFolder.open(here / name).progress.best}" in start.describe()
