"""Invalid input to `zerolab train`: one-line errors, exit code 2 and unchanged files."""

from __future__ import annotations

import errno
import json
import shutil
import sys
from pathlib import Path

import pytest

from zerolab.cli.main import main
from zerolab.core.setting_docs import describe_settings
from zerolab.store.games import SELF_PLAY_STAGE
from zerolab.store.run_folder import RunFolder
from zerolab.training.configure import no_effect_message, resolve_settings, saved_settings
from zerolab.training.no_effect_rules import NO_EFFECT_RULES
from zerolab.training.train_settings import TrainSettings

BEYOND_ANY_GAME = 1000  # plies


def train(*arguments: str) -> int:
    return main(["train", *arguments])


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Finished smoke run, which tests copy before changing it."""
    folder = tmp_path_factory.mktemp("runs") / "smoke"
    more = f"--set=selfplay.temperature_plies={BEYOND_ANY_GAME}"
    assert train("--preset", "smoke", "--run", str(folder), more) == 0
    return folder


@pytest.fixture
def run(finished, tmp_path):
    return Path(shutil.copytree(finished, tmp_path / "run"))


MISTAKES = [
    (["othelo:6x6"], 'unknown game "othelo"'),
    (["othelo:6x6"], 'did you mean "othello"?'),
    (["othello:9x6"], "rows = 9: expected at most 8"),
    (["gobang:3x3"], "4 in a row do not fit on a 3x3 board"),
    (["--preset", "mni"], 'did you mean "mini"?'),
    (["--set", "search.simulatons=5"], 'did you mean "search.simulations"?'),
    (["--set", "search.simulations=0"], "search.simulations = 0: expected at least 1"),
    (["--set", "search.simulations=many"], 'search.simulations = "many": expected a whole number'),
    (["--set", "selfplay.episodes=0"], "selfplay.episodes = 0: expected at least 1"),
    (
        ["--set", "selfplay.policy_target=values", "--set", "selfplay.policy_target_temperature=2"],
        'selfplay.late_policy_target = "move"',
    ),
    (["--set", "selfplay.start=archiv"], 'did you mean "archive"?'),
    (["--set", "selfplay.start=archive", "--set", "selfplay.mode=retry"], 'start = "archive"'),
    (["--set", "gate.games=7"], "7 is odd"),
    (["--set", "final_evaluation.games=7"], "7 is odd"),
    (["--set", 'final_evaluation.baselines=["mtcs:9"]'], 'did you mean "mcts"?'),
    (["--set", 'final_evaluation.baselines=["@best"]'], "expected a network of this run"),
    (["--set", 'final_evaluation.baselines=["@0?noise.fraction=1"]'], "noise is for self-play"),
    (["--set", 'final_evaluation.baselines=["@3"]'], "beyond the 2 iterations of the run"),
    (
        ["--set", "final_evaluation.baselines=['gtp:\"no-such-engine\"']"],
        'gtp:"no-such-engine" cannot play gobang:3x3:3: no-such-engine cannot be started',
    ),
    (["--set", "final_evaluation.openings=9"], "final_evaluation.openings = 9: openings of 9"),
    (["--set", "gate.openings=9"], "gobang:3x3:3 almost always ends earlier; expected at most 8"),
    (
        [
            *("--set", "warm_start.variant=rave", "--set", "warm_start.ramp=adaptive"),
            *("--set", "warm_start.ramp.openings=1000"),
        ],
        "warm_start.ramp.openings = 1000: openings of 1000 plies: gobang:3x3:3",
    ),
    (
        ["--preset", "mini", "--set", "selfplay.episodes=100"],
        'selfplay.episodes has no effect with selfplay.mode = "continuous": expected'
        " selfplay.mode.plies",
    ),
    (
        ["--set", "selfplay={episodes=3, mode='continuous'}"],
        "selfplay.episodes has no effect",
    ),
    (
        ["--set", "final_evaluation.games=0", "--set", "final_evaluation.openings=2"],
        "final_evaluation.openings has no effect with final_evaluation.games = 0",
    ),
    (
        ["--set", "gate=always", "--set", "gate.openings=3"],
        "gate.openings has no effect with gate.games = 0: expected gate.games above 0",
    ),
    (
        ["--set", "warm_start.ramp=never"],
        'warm_start.ramp has no effect with warm_start.variant = "baseline"',
    ),
    (
        ["--set", "search.noise.concentration=3"],
        "search.noise.concentration has no effect with search.noise.fraction = 0.0",
    ),
    (
        ["--set", "learn.loss=policy", "--set", "network.heads.value.weight=0.5"],
        'network.heads.value.weight has no effect with learn.loss = "policy": expected a loss such',
    ),
    (["--set", "accuracy.positions=a.parquet"], "accuracy.positions has no effect"),
    (
        ["--set", "league.parameters=['c']", "--set", "league.ranges.fpu=[0.0, 1.0]"],
        "league.ranges.fpu has no effect with league.parameters = c: expected fpu among",
    ),
    (
        ["--set", "league.parameters=['c']", "--set", "selfplay.max_plies=40"],
        "selfplay.max_plies cannot be used with self-play in a league",
    ),
    (
        ["--set", "selfplay.resignation.threshold=0.5"],
        "selfplay.resignation.threshold = 0.5: expected less than 0",
    ),
    (["--set", f"seed={10**20}"], f"seed = {10**20}: expected less than {2**63}"),
    (["--set", f"search.simulations={10**10}"], "expected at most 1000000"),
    (["--set", f"search.cache={10**12}"], f"expected at most {2**26}"),
    (["--set", f"learn.window={10**20}"], "expected at most 1000000"),
    (["--set", f"selfplay.episodes={10**13}"], "expected at most 1000000"),
    (["--set", f"gate.games={10**12}"], "expected at most 1000000"),
    (["--set", "gate.games=0"], "gate.games = 0: expected at least 2"),
    (["--set", "gate=loss"], 'did you mean "los"?'),
    (["--set", "gate=los", "--set", "gate.openings=0"], "gate.openings = 0: expected at least 1"),
    (
        ["--set", "gate=los", "--set", "gate.threshold=0.6"],
        'gate.threshold belongs to gate = "win_rate"',
    ),
    (["--preset", "nowhere.toml"], "nowhere.toml"),
    (["--set", "network.name=resnot"], 'did you mean "resnet"?'),
    (["--set", "network.chanels=3"], 'did you mean "network.channels"?'),
    (["--set", "learn.loss.name=weighted", "--set", "learn.loss.balance=2"], "balance = 2"),
    (["--set", 'network.heads=["policy", "repli", "value"]'], 'did you mean "reply"?'),
    (["--set", 'network.heads=["policy", "reply"]'], "no head provides values"),
    (["--set", 'network.heads=["policy", "value", "value"]'], '"value" is listed twice'),
    (["--set", "network.heads=policy"], 'network.heads = "policy": expected a list'),
    (["--set", "network.heads.weight=3"], '"network.heads" is a list: expected'),
    (
        ["--set", "search.draw_value=0.4"],
        'search.draw_value = 0.4: no head provides draws: expected "outcome" in network.heads,'
        ' which has "policy", "value"',
    ),
    (["--set", "search.fpu=action_values"], '"action_values": no head provides action values'),
    (
        ["--set", "warm_start.variant=custom", "--set", "warm_start.search.fpu=action_values"],
        'in the warm start, search.fpu = "action_values": no head provides action values',
    ),
    (
        ["--set", "warm_start.variant=custom", "--set", "warm_start.search.discount=0.9"],
        "warm_start.search.discount = 0.9: expected search.discount = 1.0",
    ),
    (
        [
            *("--set", "warm_start.variant=custom", "--set", "warm_start.search.root=gumbel"),
            *("--set", "search.noise.fraction=0.25"),
        ],
        "in the warm start, search.noise.fraction = 0.25",
    ),
    (
        ["--set", "search.root=gumbel", "--set", "search.noise.fraction=0.25"],
        'search.root = "gumbel"',
    ),
    (["--set", 'final_evaluation.baselines=["@0?draw_value=0.4"]'], "no head provides draws"),
    (
        ["--set", "learn.value_target_search_weight=2"],
        "value_target_search_weight = 2: expected at most 1",
    ),
    (["--set", "learn.loss=prodct"], 'did you mean "product"?'),
    (["--set", "learn.schedule=steps"], "until iteration 14, beyond the 2 iterations"),
    (["--set", "learn.schedule={name='steps', iterations=[3, 2]}"], "learn.schedule.iterations: 2"),
    (["--set", "learn.optimizer=sdg"], 'did you mean "sgd"?'),
    (["--set", "learn.ema_decay=1"], "learn.ema_decay = 1: expected less than 1"),
    (["--set", "stop=no_gain"], "expected accuracy.every of at least 1"),
    (["--set", "learn.epochs.x=3"], '"learn.epochs" is a value'),
    (["--set", "learning"], "expected KEY=VALUE"),
]


@pytest.mark.parametrize(("arguments", "expected"), MISTAKES)
def test_invalid_settings_get_one_line_errors(tmp_path, capsys, arguments, expected):
    folder = tmp_path / "run"
    with_preset = arguments if "--preset" in arguments else ["--preset", "smoke", *arguments]
    assert train(*with_preset, "--run", str(folder)) == 2
    errors = capsys.readouterr().err
    assert expected in errors
    assert len(errors.splitlines()) == 1
    assert not folder.exists()


def test_ineffective_settings_exist():
    known = [setting.key for setting in describe_settings(TrainSettings)]
    for key in (key for idle in NO_EFFECT_RULES for key in idle.keys):
        assert any(name == key or name.startswith(f"{key}.") for name in known), key


_GUMBEL = ("search.root=gumbel", "selfplay.late_policy_target=visits")
_BIG_TREE = ("selfplay.mode=big_tree", "selfplay.late_policy_target=visits")
_SOFT_NOISE = ("search.noise.fraction=0.25",)
_RAVE = "search.selection={name='rave', equivalence=0}"
_LEAF = "search.leaf_evaluator=playout"


@pytest.mark.parametrize(
    ("key", "others", "change"),
    [
        (
            "search.noise.inherited_visits=0.5", (*_SOFT_NOISE, "search.reuse_tree=false"),
            "search.reuse_tree=true",
        ),
        (
            "search.noise.inherited_visits=0.5", (*_SOFT_NOISE, "selfplay.mode=service"),
            "selfplay.mode=episodic",
        ),
        (
            "search.noise.inherited_visits=0.5", (*_SOFT_NOISE, "search.reuse_tree=false"),
            "warm_start={variant='custom', ramp='never', search={reuse_tree=true}}",
        ),
        ("search.fpu=parent", ("search.selection=uct",), "search.selection=puct"),
        ("search.fpu.reduction=0.5", ("search.selection=uct", "search.fpu.name=parent"),
         "warm_start.variant=rave"),
        ("search.fpu=parent", ("search.selection=uct",),
         "final_evaluation.baselines=['@0?selection=puct']"),
        ("search.selection.playout_moves=false", (_RAVE, _LEAF), "search.selection.equivalence=9"),
        ("search.selection.all_movers=true", (_RAVE, _LEAF), "search.root=rave_values"),
        ("search.selection.reading=literal", (_RAVE, _LEAF),
         "warm_start={variant='custom', ramp='never', search={selection={equivalence=3}}}"),
        ("selfplay.temperature_plies=9", _BIG_TREE, "selfplay.policy_target=values"),
        ("selfplay.temperature_plies=9", _BIG_TREE, "selfplay.mode=retry"),
        ("selfplay.temperature_plies=9", _GUMBEL, "selfplay.late_policy_target=move"),
        ("selfplay.temperature_plies=9", _GUMBEL, "search.proven_values=true"),
        ("selfplay.temperature_plies=9", _GUMBEL,
         "selfplay.budget={name='playout_cap', simulations=2}"),
        ("selfplay.temperature_plies=9", _GUMBEL,
         "warm_start={variant='custom', ramp='never', search={root='puct'}}"),
        ("learn.optimizer.beta1=0.5", ("learn.schedule={name='cycle', annealed=1}",),
         "learn.schedule=constant"),
        ("learn.value_target_search_weight=0.3", ("learn.loss=policy",), "learn.loss=sum"),
        ("learn.value_target_search_weight=0.3", ("learn.loss=policy",),
         "network.heads=['policy', 'value', 'outcome']"),
    ],
)  # fmt: skip
def test_settings_without_effect_are_found(key, others, change):
    """Without effect under the other settings, and with an effect after a single change."""
    name = key.split("=")[0]
    without = resolve_settings(None, "smoke", [*others, key])
    assert f"{name} has no effect with " in no_effect_message(without, name)
    assert no_effect_message(resolve_settings(None, "smoke", [*others, change, key]), name) == ""


def test_actors_need_an_extra(tmp_path, monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "zerolab.core.ray_cluster", raising=False)
    monkeypatch.setitem(sys.modules, "ray", None)
    actors = ["--set", "selfplay.mode=service", "--set", "selfplay.mode.actors=2"]
    assert train("--preset", "smoke", *actors, "--run", str(tmp_path / "run")) == 2
    assert 'the "cluster" extra' in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_temperature_plies_can_exceed_the_game_length(finished):
    run = RunFolder.open(finished)
    assert saved_settings(run).selfplay.temperature_plies == BEYOND_ANY_GAME
    assert (
        max(len(game.actions) for game in run.games.stage_games(1, SELF_PLAY_STAGE))
        < BEYOND_ANY_GAME
    )


def test_changed_settings_are_refused_on_resume(run, capsys):
    before = (run / "state.json").read_bytes()
    assert train("--run", str(run), "--set", "search.simulations=9") == 2
    assert "search.simulations = 9 differs from 8 in" in capsys.readouterr().err
    assert train("--run", str(run), "othello:6x6") == 2
    assert 'game = "othello:6x6" differs' in capsys.readouterr().err
    assert train("--run", str(run), "--set", "learn.loss=product") == 2
    assert 'learn.loss.name = "product" differs from "sum"' in capsys.readouterr().err
    assert train("--run", str(run), "--set", "iterations=1") == 2
    assert "expected at least 2, since the run has already begun" in capsys.readouterr().err
    assert (run / "state.json").read_bytes() == before


def damage(path: Path) -> None:
    """Invert 64 bytes in the middle of a file."""
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 64] = bytes(byte ^ 0xFF for byte in content[middle : middle + 64])
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("checkpoints/0000.safetensors", "is damaged"),
        ("examples/0002.npz", "is damaged"),
        ("games.sqlite", "is damaged"),
        ("state.json", "damaged"),
        ("config.toml", "damaged"),
    ],
)
@pytest.mark.parametrize("damage_kind", ["truncated", "garbage"])
def test_damaged_files_are_reported_and_kept(run, capsys, name, expected, damage_kind):
    path = run / name
    content = path.read_bytes()
    if damage_kind == "truncated":
        path.write_bytes(content[: len(content) // 3])
    elif path.suffix in (".safetensors", ".npz"):
        damage(path)
    else:
        path.write_bytes(b"\x00\xffnothing" * 2000)
    damaged = path.read_bytes()
    assert train("--run", str(run), "--set", "iterations=3") == 2
    errors = capsys.readouterr().err
    assert name.split("/")[-1] in errors or str(run) in errors
    assert expected in errors
    assert len(errors.splitlines()) == 1
    assert path.read_bytes() == damaged


def test_illegal_moves_of_recorded_games_are_refused(run, capsys):
    games = RunFolder.open(run).games
    stage = (1, SELF_PLAY_STAGE)
    for action in (1000, 10**30, None):
        first, *others = games.stage_games(*stage)
        moves = [first.actions[0]] * 2 if action is None else [action]
        games.write_stage(*stage, [first._replace(actions=tuple(moves)), *others])
        assert main(["diversity", str(run)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "games.sqlite is damaged" in line


def test_incomplete_settings_of_downloaded_runs_are_accepted_or_reported(run, tmp_path, capsys):
    folder = RunFolder.open(run)
    complete = dict(folder.config)
    folder.save_settings({name: complete[name] for name in complete if name != "preset"})
    assert main(["plot", str(run), "--output", str(tmp_path / "curves.png")]) == 0
    folder.save_settings(complete | {"start": {"source": "x"}})
    capsys.readouterr()
    assert main(["export", str(run), str(tmp_path / "agent.zerolab")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "config.toml is damaged" in line


def test_failed_extension_keeps_the_run_finished(run, capsys):
    (run / "examples" / "0002.npz").unlink()
    before = (run / "state.json").read_bytes()
    assert train("--run", str(run), "--set", "iterations=3") == 2
    assert "0002.npz is missing" in capsys.readouterr().err
    assert (run / "state.json").read_bytes() == before


def test_truncated_metrics_are_reported(run, capsys):
    path = run / "metrics.jsonl"
    path.write_bytes(path.read_bytes()[:50])
    assert train("--run", str(run), "--set", "iterations=3") == 2
    assert "metrics.jsonl is damaged" in capsys.readouterr().err


def test_newer_schema_is_refused(run, capsys):
    state = json.loads((run / "state.json").read_text())
    state["schema_version"] = 99
    (run / "state.json").write_text(json.dumps(state))
    assert train("--run", str(run), "--set", "iterations=3") == 2
    assert "newer than" in capsys.readouterr().err


def test_foreign_folder_is_not_changed(tmp_path, capsys):
    (tmp_path / "thesis.txt").write_text("years of work")
    assert train("--preset", "smoke", "--run", str(tmp_path)) == 2
    assert "not empty" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_uncreatable_folder_is_reported(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert train("--preset", "smoke", "--run", str(tmp_path / "file" / "run")) == 2
    assert f"{tmp_path / 'file'} is a file: expected a folder" in capsys.readouterr().err


@pytest.mark.parametrize("target_folder", ["examples", "checkpoints"])
def test_full_disk_is_reported_and_the_run_resumes_later(
    tmp_path, capsys, monkeypatch, target_folder
):
    folder = tmp_path / "run"
    replace = Path.replace

    def replace_on_full_disk(self, target):
        if Path(target).parent.name == target_folder and "0001" in Path(target).name:
            raise OSError(errno.ENOSPC, "No space left on device")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", replace_on_full_disk)
    assert train("--preset", "smoke", "--run", str(folder)) == 2
    errors = capsys.readouterr().err
    assert "No space left on device" in errors
    assert not list(folder.rglob(".*.part"))
    monkeypatch.undo()
    assert train("--preset", "smoke", "--run", str(folder)) == 0
