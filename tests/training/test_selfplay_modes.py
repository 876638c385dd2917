"""Runs with continuous self-play and with a search service."""

from __future__ import annotations

import re
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

from promised import contents
from training.tiny_training import killed_before_commit
from zerolab.cli.main import main
from zerolab.core.errors import UserError
from zerolab.play.game_starts import ArchiveStart
from zerolab.store.games import network_name
from zerolab.store.run_folder import RunFolder
from zerolab.training import selfplay_stage
from zerolab.training.configure import resolve_settings
from zerolab.training.costs import run_costs
from zerolab.training.move_times import MeasurementSubject
from zerolab.training.records import SelfPlayRecord
from zerolab.training.reporting import read_records
from zerolab.training.selfplay_stage import begin_games_ahead

CONTINUOUS = [
    "iterations=3",
    "search.simulations=20",
    "selfplay.parallel_games=6",
    'selfplay.mode={name = "continuous", plies = 8}',
    'selfplay.budget={name = "playout_cap", simulations = 5}',
    "selfplay.threads=2",
    "gate=always",
    "final_evaluation.games=0",
]


def arguments(folder, *changes):
    assignments = (*CONTINUOUS, *changes)
    return [
        "train",
        "--run",
        str(folder),
        "--preset",
        "smoke",
        *(f"--set={a}" for a in assignments),
    ]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "undisturbed"
    assert main(arguments(folder)) == 0
    return folder


def test_repeatedly_killed_run_resumes_to_the_same_bytes(tmp_path, undisturbed):
    folder = tmp_path / "run"
    for iteration in (1, 2, 3):
        with killed_before_commit(iteration, "selfplay"):
            main(arguments(folder))
    assert main(arguments(folder)) == 0
    assert contents(folder) == contents(undisturbed)


def test_threads_only_change_work_metrics(tmp_path, undisturbed):
    """The number of shared leaf evaluations depends on the games in a step."""
    assert main(arguments(tmp_path / "run", "selfplay.threads=1")) == 0
    actual, expected = contents(tmp_path / "run"), contents(undisturbed)
    differing = {name for name in expected if actual[name] != expected[name]}
    assert differing <= {"config.toml", "metrics.jsonl", "state.json"}


def test_unfinished_games_are_kept_and_games_record_their_networks(undisturbed):
    run = RunFolder.open(undisturbed)
    assert [path.name for path in (undisturbed / "unfinished").iterdir()] == ["0003.npz"]
    assert len(run.load_unfinished_games(3).games) == 6
    records = [record for record in read_records(run) if isinstance(record, SelfPlayRecord)]
    assert [record.plies for record in records] == [6 * 8] * 3
    assert sum(record.positions for record in records) + len(
        run.load_unfinished_games(3).examples.games
    ) == (3 * 6 * 8)
    games = [game for number in (1, 2, 3) for game in run.games.stage_games(number, "selfplay")]
    assert (
        len({game.number for game in games})
        == len(games)
        == sum(record.games for record in records)
    )
    spanning_games = [game for game in games if game.agent_spans]
    assert any(game.agent_spans[0] == (0, network_name(undisturbed, 0)) for game in spanning_games)
    for game in spanning_games:
        networks = [int(name.rpartition("@")[2]) for _, name in game.agent_spans]
        assert networks == sorted(set(networks))
        assert game.last_mover == game.first == game.second


def test_examples_of_quick_searches_are_marked(undisturbed):
    run = RunFolder.open(undisturbed)
    full = [run.load_examples(number).full for number in (1, 2, 3)]
    records = [record for record in read_records(run) if isinstance(record, SelfPlayRecord)]
    assert [record.full for record in records] == [flags.sum() for flags in full]
    together = np.concatenate(full)
    assert 0.1 < together.mean() < 0.45
    for record in records:
        assert 5 <= record.simulations_per_move <= 12.5
        assert record.simulations == round(record.simulations_per_move * record.plies)


def test_surprises_are_stored_only_if_learning_uses_them(undisturbed):
    run = RunFolder.open(undisturbed)
    moves = run.load_unfinished_games(3).examples, run.load_examples(3)
    assert all(np.isnan(each.surprises).all() for each in moves)
    assert not any(np.isnan(each.root_values).any() for each in moves)


def test_extended_run_continues_unfinished_games(tmp_path, undisturbed):
    """The result equals that of a run with all iterations from the start."""
    folder = tmp_path / "short"
    assert main(arguments(folder, "iterations=2")) == 0
    assert main(["train", "--run", str(folder), "--set", "iterations=3"]) == 0
    actual, expected = (contents(run_folder) for run_folder in (folder, undisturbed))
    for name in ("games.sqlite", "examples/0003.npz", "unfinished/0003.npz"):
        assert actual[name] == expected[name]


def test_iteration_without_finished_games_skips_learning(tmp_path):
    folder = tmp_path / "run"
    few = 'selfplay.mode={name = "continuous", plies = 3}'
    assert main(arguments(folder, few)) == 0
    stages = [(record.iteration, record.stage) for record in read_records(RunFolder.open(folder))]
    assert stages[:2] == [(1, "selfplay"), (2, "selfplay")]
    assert (3, "learn") in stages
    first = read_records(RunFolder.open(folder))[0]
    assert (first.games, first.positions, first.plies_per_game) == (0, 0, None)


def service_arguments(folder, mode):
    assignments = [
        "iterations=2",
        "search.simulations=16",
        "selfplay.episodes=8",
        "selfplay.late_policy_target=visits",
        f"selfplay.mode={mode}",
        "final_evaluation.games=0",
    ]
    return [
        "train",
        "--run",
        str(folder),
        "--preset",
        "smoke",
        *(f"--set={a}" for a in assignments),
    ]


def test_killed_run_with_resignations_resumes_to_the_same_bytes(tmp_path):
    changes = [
        "iterations=2", "search.simulations=8", "selfplay.max_plies=8",
        "selfplay.resignation.threshold=-0.01", "selfplay.resignation.played_on=0.5", "gate=always",
        "final_evaluation.games=0",
    ]  # fmt: skip
    command = ["train", "--preset", "smoke", *(f"--set={each}" for each in changes), "--run"]
    undisturbed, folder = tmp_path / "undisturbed", tmp_path / "run"
    assert main([*command, str(undisturbed)]) == 0
    for iteration in (1, 2):
        with killed_before_commit(iteration, "selfplay"):
            main([*command, str(folder)])
    assert main([*command, str(folder)]) == 0
    assert contents(folder) == contents(undisturbed)
    records = [
        record
        for record in read_records(RunFolder.open(folder))
        if isinstance(record, SelfPlayRecord)
    ]
    assert records[-1].resignations["resigned"]
    assert any(record.resignations["played_on"] for record in records)
    assert main(["diversity", str(folder)]) == 0
    measured = MeasurementSubject.from_run(RunFolder.open(folder), 2).recorded_games
    assert all(min(actions) >= 0 for actions in measured)


@pytest.mark.parametrize(
    "mode", ["episodic", '{name = "continuous", plies = 8}'], ids=["episodic", "continuous"]
)
def test_killed_run_with_an_archive_and_surprises_resumes_to_the_same_bytes(
    tmp_path, mode, monkeypatch
):
    discounts, new_openings = [], ArchiveStart.new_openings

    def recorded(start, load_examples, discount, *arguments):
        discounts.append(discount)
        return new_openings(start, load_examples, discount, *arguments)

    monkeypatch.setattr(ArchiveStart, "new_openings", recorded)
    changes = [
        "iterations=3", "search.simulations=8", f"selfplay.mode={mode}", "gate=always",
        'selfplay.start={name = "archive", size = 30}', "selfplay.parallel_games=6",
        "learn.surprise_weight=0.5", 'network.planes=["ones", "landing"]', "search.discount=0.5",
        "final_evaluation.games=0",
    ]  # fmt: skip
    command = ["train", "--preset", "smoke", *(f"--set={each}" for each in changes), "--run"]
    undisturbed, folder = tmp_path / "undisturbed", tmp_path / "run"
    assert main([*command, str(undisturbed)]) == 0
    for iteration, stage in ((2, "selfplay"), (2, "learn"), (3, "selfplay")):
        with killed_before_commit(iteration, stage):
            main([*command, str(folder)])
    assert main([*command, str(folder)]) == 0
    assert contents(folder) == contents(undisturbed)
    run = RunFolder.open(folder)
    for examples in map(run.load_examples, (1, 2, 3)):
        assert (np.isnan(examples.surprises) == np.isnan(examples.root_values)).all()
    given = [game.given_plies for n in (1, 2, 3) for game in run.games.stage_games(n, "selfplay")]
    copied = [(~run.load_examples(number).full).sum() for number in (1, 2, 3)]
    assert sum(given) == sum(copied) > copied[0] == 0
    records = [each for each in read_records(run) if isinstance(each, SelfPlayRecord)]
    assert [each.full for each in records] == [
        each.positions - count for each, count in zip(records, copied, strict=True)
    ]
    if mode == "episodic":
        assert [each.plies for each in records] == [each.full for each in records]
    assert set(discounts) == {0.5}


def test_killed_run_with_a_big_tree_resumes_to_the_same_bytes(tmp_path):
    mode = '{name = "big_tree", games_at_once = 4}'
    undisturbed, folder = tmp_path / "undisturbed", tmp_path / "run"
    assert main(service_arguments(undisturbed, mode)) == 0
    with killed_before_commit(2, "selfplay"):
        main(service_arguments(folder, mode))
    assert main(service_arguments(folder, mode)) == 0
    assert contents(folder) == contents(undisturbed)


def test_games_of_a_service_are_not_played_ahead(monkeypatch):
    """The service searches on the learner's machine, whatever the executor."""
    monkeypatch.setattr(selfplay_stage, "_loaded_games", lambda *arguments: arguments)
    monkeypatch.setattr(selfplay_stage, "GamesAhead", lambda *arguments: arguments)
    begun = {}
    for mode in ("continuous", "episodic", "service", "retry"):
        settings = resolve_settings(
            "gobang:3x3:3", "smoke", [f"selfplay.mode.name={mode}", "selfplay.lag=1"]
        )
        context = SimpleNamespace(
            settings=settings, executor=SimpleNamespace(background_executor="other machines"),
            progress=SimpleNamespace(iteration=1), inputs=SimpleNamespace(solved_split=None),
            games_ahead=None,
        )  # fmt: skip
        begin_games_ahead(context)
        begun[mode] = context.games_ahead is not None
    assert begun == {"continuous": True, "episodic": True, "service": False, "retry": False}


def test_metrics_describe_the_search_service(tmp_path):
    command = service_arguments(tmp_path / "run", '{name = "retry", opening_plies = 3}')
    assert main([*command, "--set=iterations=1"]) == 0
    run = RunFolder.open(tmp_path / "run")
    record = next(entry for entry in read_records(run) if isinstance(entry, SelfPlayRecord))
    assert record.games == 8
    assert record.asked == record.full == run.load_examples(1).full.sum()
    assert record.plies == record.asked < record.positions
    assert record.simulations_per_move == record.simulations / record.plies
    assert run_costs(run)[-1].moves == record.plies
    assert record.asked == record.merged + record.remembered + record.searched
    assert record.simulations == 16 * record.searched


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.unlink(), "is missing; restore it from a backup"),
        (lambda path: path.write_bytes(path.read_bytes()[:-40]), "is damaged"),
        (lambda path: path.write_bytes(b"PK"), "is damaged"),
    ],
)
def test_damaged_unfinished_games_are_reported(tmp_path, undisturbed, damage, message):
    run = RunFolder.open(shutil.copytree(undisturbed, tmp_path / "run"))
    damage(run.path / "unfinished" / "0003.npz")
    with pytest.raises(UserError, match=message):
        run.load_unfinished_games(3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (['selfplay.mode={name = "continuous", plies = 0}'], "plies = 0: expected at least 1"),
        (["selfplay.mode=continous"], 'nearest is "continuous"|did you mean|perhaps'),
        (["selfplay.budget=cap"], "playout_cap"),
        (
            ["selfplay.budget=playout_cap", "search.simulations=20"],
            "selfplay.budget.simulations = 20 is not below search.simulations = 20",
        ),
        (['selfplay.budget={name = "kl_gain", least = 90, most = 60}'], "least = 90"),
        (["selfplay.mode=continuous", "selfplay.mode.every=2"], "selfplay.mode.every"),
        (
            ["selfplay.late_policy_target=values", "search.draw_value=0.4"],
            '"values" ignores search.draw_value = 0.4: expected another target',
        ),
        (
            ["selfplay.policy_target=values", 'league.parameters=["draw_value"]'],
            'policy_target = "values" ignores league.parameters = draw_value',
        ),
    ],
)
def test_invalid_settings_get_one_line_errors(tmp_path, capfd, settings, message):
    sets = [f"--set={setting}" for setting in settings]
    assert main(["train", "--run", str(tmp_path / "run"), "--preset", "smoke", *sets]) == 2
    error = capfd.readouterr().err
    assert re.search(message, error)
    assert error.count("\n") == 1
    assert not (tmp_path / "run").exists()
