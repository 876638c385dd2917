"""Runs that start from networks of other runs: what is transferred, kept, refused and resumed."""

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
from zerolab.networks.catalogue import NETWORKS
from zerolab.rules.catalogue import parse_game
from zerolab.store.run_folder import RunFolder
from zerolab.studies.design import run_key
from zerolab.training import stages
from zerolab.training.configure import amend_settings, resolve_settings, saved_settings
from zerolab.training.inputs import find_start
from zerolab.training.shorthands import start_assignments
from zerolab.training.trainer import Trainer, check_new_run
from zerolab.training.transfer import new_network, transfer_weights

NETWORK = "network={name='fully_convolutional', blocks=1, filters=4, head_filters=2, hidden=3}"
QUICK = ["selfplay.episodes=6", "final_evaluation.games=0", "gate=always", "iterations=2"]
FROM = "start.source=source"


@pytest.fixture(autouse=True)
def one_core(monkeypatch):
    """Threads that wait for each other would slow tests that run beside others."""
    monkeypatch.setattr(stages, "available_cores", lambda: 1)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A finished run, on the smallest board of Gobang."""
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
    """A working directory with the source, and nothing else."""
    shutil.copytree(source, tmp_path / "source")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def started(*assignments, game="gobang:4x4:3"):
    return resolve_settings(game, "smoke", [*QUICK, FROM, *assignments])


def equal(first, second, prefix=""):
    """Return the names of the weights that are equal to the bit, of those that begin so."""
    names = [name for name in first if name.startswith(prefix)]
    return [name for name in names if np.array_equal(first[name], second[name])]


def named(weights, prefix):
    return [name for name in weights if name.startswith(prefix)]


@pytest.mark.parametrize(
    ("transfer", "transferred", "fresh"),
    [("trunk", "trunk.", "heads."), ("heads", "heads.", "trunk.")],
)
def test_a_part_is_taken_and_the_other_is_as_in_a_run_from_scratch(
    here, transfer, transferred, fresh
):
    settings = started(f"start.transfer={transfer}")
    run = train(here / "run", settings)
    untrained = new_network(settings.network, parse_game(settings.game), settings.seed).weights
    former, first = RunFolder.open(here / "source").load_weights(2), run.load_weights(0)
    assert equal(first, former, transferred) == named(first, transferred)
    assert equal(first, untrained, fresh) == named(first, fresh)
    assert len(equal(first, former, fresh)) < len(named(first, fresh))
    assert len(equal(run.load_weights(2), first)) < len(first) / 2


def test_between_sizes_of_a_game_all_weights_are_taken(here):
    run = train(here / "run", started("start.transfer=all"))
    former, first = RunFolder.open(here / "source").load_weights(2), run.load_weights(0)
    assert equal(first, former) == list(first) == list(former)


def test_a_run_has_the_network_of_its_source_unless_told_otherwise(here):
    assert started().network == resolve_settings(None, "smoke", [NETWORK]).network
    other = "network={name='resnet', blocks=2}"
    assert started(other).network == resolve_settings(None, "smoke", [other]).network


def test_a_frozen_trunk_is_the_same_to_the_bit_after_training(here):
    run = train(here / "run", started("learn.frozen=trunk", "learn.ema_decay=0.9"))
    first, last = run.load_weights(0), run.load_weights(2)
    assert equal(first, last, "trunk.") == named(first, "trunk.")
    moved = [name for name in named(first, "heads.") if name not in equal(first, last)]
    assert {"heads.policy.head.output.weight", "heads.value.reduce.norm.running_mean"} <= set(moved)


def test_a_random_trunk_can_be_frozen_without_a_source(here):
    settings = resolve_settings("gobang:3x3:3", "smoke", [*QUICK, NETWORK, "learn.frozen=trunk"])
    run = train(here / "run", settings)
    first, last = run.load_weights(0), run.load_weights(2)
    assert equal(first, last, "trunk.") == named(first, "trunk.")
    with run.locked():
        learner = Trainer(run, settings).context.learner
    heads = sum(np.size(first[name]) for name, _ in learner.network.heads.named_parameters("heads"))
    assert learner.parameters == heads


def test_with_all_of_an_equal_run_learning_goes_on_as_if_it_had_never_stopped(here):
    """Both take the next steps on the same examples, with Adam's moments as they were."""
    former = RunFolder.open(here / "source")
    run = RunFolder.create(here / "run", (settings := goes_on()).model_dump())
    learnt = []
    for folder, wanted in ((former, saved_settings(former)), (run, settings)):
        with folder.locked():
            context = Trainer(folder, wanted).context
            if folder is run:
                Trainer(folder, wanted).prepare()
            best = folder.progress.best
            context.learner.load(folder.load_weights(best), folder.load_optimizer(best))
            for iteration in (1, 2):
                examples = former.load_examples(iteration)
                context._add_to_window(examples, None)
            with torch.inference_mode(False):
                losses = context.learner.learn(context.window, 5, 3).losses
            learnt.append((losses, context.learner.weight_arrays()))
    assert learnt[0][0] == learnt[1][0]
    assert equal(learnt[0][1], learnt[1][1]) == list(learnt[0][1])
    moments = run.load_optimizer(0)
    assert moments.keys() == former.load_optimizer(2).keys()
    assert equal(moments, former.load_optimizer(2)) == list(moments)


def goes_on(*changes):
    return started("start.transfer=all", *changes, game="gobang:3x3:3")


@pytest.mark.parametrize(
    "changes", [["learn.optimizer=sgd"], ["start.source=source@0"], ["network.hidden=3"]]
)
def test_the_optimiser_goes_on_only_where_it_fits_and_is_kept(here, changes):
    run = RunFolder.create(here / "run", (settings := goes_on(*changes)).model_dump())
    with run.locked():
        Trainer(run, settings).prepare()
    assert bool(run.load_optimizer(0)) == (changes == ["network.hidden=3"])


def side(name, game, seed=0, **changes):
    defaults = {"blocks": 1, "filters": 3, "head_filters": 2, "hidden": 2}
    settings = NETWORKS["fully_convolutional"](**{**defaults, **changes})
    return new_network(settings, parse_game(f"{name}:{game}"), seed)


def test_planes_are_taken_by_their_names_and_unknown_ones_change_nothing():
    there, here = side("gobang", "3x3:3", seed=1), side("hex", "5x5")
    transferred = transfer_weights("channels", there, here)
    first, former = transferred.weights["trunk.0.conv.weight"], there.weights["trunk.0.conv.weight"]
    np.testing.assert_array_equal(first[:, :1], former)
    assert not first[:, 1].any()
    assert (transferred.new, transferred.unused) == (('plane "edges to join"',), ())
    back = transfer_weights("channels", with_weights(here, transferred.weights), there)
    assert equal(back.weights, there.weights) == list(there.weights)
    assert (back.new, back.unused) == ((), ('plane "edges to join"',))


def with_weights(side, weights):
    return side._replace(weights=weights)


@pytest.mark.parametrize(
    ("there", "here", "new"),
    [
        (("othello", "4x4"), ("gobang", "3x3:3"), ()),
        (("gobang", "3x3:3"), ("othello", "4x4"), ("heads.policy.head.others",)),
        (("othello", "4x4"), ("othello", "6x6"), ()),
        (("gobang", "3x3:3"), ("connect_four", "4x4"), ("heads.policy.head",)),
        (("connect_four", "4x4"), ("othello", "4x4"), ("heads.policy.head",)),
    ],
)
def test_actions_are_taken_where_they_lie_on_the_board_in_the_same_way(there, here, new):
    former, fresh = side(*there, seed=1), side(*here)
    transferred = transfer_weights("channels", former, fresh)
    assert transferred.new == new
    is_new = {
        name for name in transferred.weights if name.startswith(tuple(f"{each}." for each in new))
    }
    for name, array in transferred.weights.items():
        source = fresh if name in is_new else former
        np.testing.assert_array_equal(array, source.weights[name])


@pytest.mark.parametrize(
    ("former", "changes", "complaint"),
    [
        ({"blocks": 3}, {"blocks": 1}, r"expected network.blocks = 3"),
        ({"blocks": 1}, {"blocks": 3}, r"expected network.blocks = 1"),
        ({"blocks": 3}, {"blocks": 3, "stem_filters": 3}, "expected network.stem_filters = "),
    ],
)
def test_channels_need_the_same_trunk(former, changes, complaint):
    there, here = side("gobang", "3x3:3", 1, **former), side("hex", "3x3", **changes)
    with pytest.raises(UserError, match=complaint):
        transfer_weights("channels", there, here)


def test_heads_that_only_their_own_run_can_teach_are_left_behind():
    found = {"name": "features", "source": "runs/small", "width": 3}
    there = side("gobang", "3x3:3", 1, heads=("policy", "value", found))
    here = side("gobang", "3x3:3", heads=("policy", "value"))
    for transfer in ("all", "heads", "channels"):
        transferred = transfer_weights(transfer, there, here)
        assert transferred.unused == ("heads.features",)
        assert equal(transferred.weights, there.weights, "heads") == named(here.weights, "heads")


def test_heads_that_the_source_lacks_are_new():
    there, here = side("gobang", "3x3:3", 1), side("gobang", "3x3:3", heads=("policy", "outcome"))
    assert transfer_weights("channels", there, here).new == ("heads.outcome",)
    assert transfer_weights("trunk", there, here).new == ("heads",)


@pytest.mark.parametrize(
    ("game", "assignments", "complaint"),
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
def test_what_does_not_fit_is_said_before_there_is_a_run(here, game, assignments, complaint):
    with pytest.raises(UserError, match=complaint):
        check_new_run(started(*assignments, game=game))


def test_a_start_needs_a_source():
    with pytest.raises(UserError, match=r"start\.source"):
        resolve_settings(None, "smoke", ["start.transfer=all"])


@pytest.mark.parametrize("moment", [(1, "self-play"), (1, "learn"), (2, "learn")])
def test_a_killed_run_ends_the_same_without_its_source(here, moment):
    settings = started("learn.frozen=trunk")
    whole = train(here / "whole", settings)
    with pytest.raises(KilledError):
        train(here / "killed", settings, Killing(*moment))
    shutil.rmtree(here / "source")
    again = train(here / "killed", saved_settings(RunFolder.open(here / "killed")))
    assert contents(again.path) == contents(whole.path)


def test_a_source_that_was_trained_again_is_refused_while_it_is_needed(here):
    settings = started()
    begun = settings.model_copy(
        update={"start": settings.start.model_copy(update={"digest": "0" * 16})}
    )
    with pytest.raises(UserError, match="expected the network"):
        check_new_run(begun)


def test_a_run_says_where_it_comes_from(here, capsys):
    settings = started()
    run = train(here / "run", settings)
    start = saved_settings(run).start
    source = RunFolder.open(here / "source")
    assert (start.source, start.iteration, start.game) == ("source", 2, "gobang:3x3:3")
    assert start.digest == source.weights_digest(2)
    main(["runs", ".", "--json"])
    listed = {each["path"]: each["source"] for each in json.loads(capsys.readouterr().out)}
    assert listed == {"run": "source@2", "source": ""}
    assert amend_settings(run, [FROM, "start.transfer=trunk"]) == saved_settings(run)
    assert run_key(saved_settings(run)) == run_key(settings)
    with pytest.raises(UserError, match="a run keeps its settings"):
        amend_settings(run, ["start.transfer=heads"])
    contradiction = ["--transfer", "frozen", "--set", "learn.frozen=none"]
    assert main(["train", "--run", str(run.path), "--from", "source", *contradiction]) == 2
    assert 'learn.frozen = "none" contradicts the transfer "frozen"' in capsys.readouterr().err


def test_the_command_line_says_it_in_short(here, capsys):
    arguments = ["train", "gobang:4x4:3", "--preset", "smoke", "--from", "source@2"]
    changes = [part for each in QUICK for part in ("--set", each)]
    main([*arguments, "--transfer", "frozen", *changes])
    run = RunFolder.open(here / "runs" / "gobang-4x4-3-smoke-from-source-2")
    settings = saved_settings(run)
    assert (settings.start.transfer, settings.learn.frozen) == ("trunk", "trunk")
    assert "starts from source@2, trained on gobang:3x3:3; new: heads" in capsys.readouterr().out
    assert main([*arguments[:4], "--transfer", "all"]) == 2
    assert "--transfer all needs a network to start from" in capsys.readouterr().err
    frozen = ["--transfer", "frozen", "--set", "learn.frozen=none", "--run", "contradicted"]
    assert main([*arguments, *frozen]) == 2
    assert 'learn.frozen = "none" contradicts the transfer "frozen"' in capsys.readouterr().err
    assert main([*arguments[:-1], ""]) == 2
    assert '--from ""' in capsys.readouterr().err
    assert not (here / "contradicted").exists()


def test_a_source_may_have_any_name(here):
    for name in ("7", "old@40"):
        shutil.copytree("source", name)
        start = find_start(started(*start_assignments(name, "trunk")))
        assert f"starts from {name}@{RunFolder.open(here / name).progress.best}" in start.describe()
