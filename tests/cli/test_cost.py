"""`zerolab cost`: training costs of runs and measurements on reference machines."""

from __future__ import annotations

import json

import pytest

import zerolab
from zerolab.cli.main import main

PLAIN = "selfplay.parallel_games=32", "final_evaluation.games=0", "iterations=2"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "smoke"
    sets = [f"--set={each}" for each in PLAIN]
    assert main(["train", "--preset", "smoke", "--run", str(folder), *sets]) == 0
    return folder


@pytest.fixture(scope="module")
def reference(run, tmp_path_factory):
    path = tmp_path_factory.mktemp("references") / "machine.json"
    arguments = ["cost", "--measure", str(run), f"{run}@0", "--plies", "3"]
    assert main([*arguments, "--reference", str(path)]) == 0
    return path


def as_json(capsys, *arguments):
    capsys.readouterr()
    assert main(["cost", *map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_moves_are_measured_on_this_machine(reference):
    (measured,) = zerolab.read_cost_reference(reference).moves  # both networks have the same size
    assert measured.low <= measured.milliseconds <= measured.high
    assert (measured.rounds, measured.moves, measured.simulations_per_move) == (6, 3 * 32, 8)


def test_costs_of_every_iteration(run, reference, capsys):
    output = as_json(capsys, run, "--reference", reference)
    (costs,) = output["runs"]
    assert [each["iteration"] for each in costs["iterations"]] == [1, 2]
    last = costs["iterations"][-1]
    played = zerolab.open_run(run).metrics("selfplay")
    assert last["moves"] == sum(each["positions"] for each in played)
    (measured,) = zerolab.read_cost_reference(reference).moves
    hours = measured.milliseconds * last["moves"] / 3_600_000
    assert last["reference_hours"] == pytest.approx(hours)
    assert [each["cost"] for each in costs["reached"]] == [None, None, None]
    api = zerolab.run_costs(run, zerolab.read_cost_reference(reference))
    assert api[-1].as_dict() == last


def test_tables_show_cost_and_advise_measuring(run, reference, capsys):
    capsys.readouterr()
    assert main(["cost", str(run)]) == 0
    printed = capsys.readouterr().out
    assert "GFLOP self-play" in printed
    assert "measure its move times with zerolab cost --measure RUN" in printed
    assert main(["cost", str(run), str(run), "--reference", str(reference)]) == 0
    assert "without learning" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["nowhere"], "nowhere is not a run"),
        (["--measure", "nowhere"], "nowhere is not a run"),
        (["{run}", "--reference", "nowhere.json"], "does not exist"),
        (["{run}", "--levels", "88;90"], "expected percentages separated by commas"),
        (["{run}", "--levels", "nan"], "expected percentages separated by commas"),
        (["--measure", "{run}", "--plies", "0"], "plies = 0: expected 1"),
        (["--measure", "{run}@7"], "has no network 7"),
        (["--measure", "{run}", "--levels", "80"], "--levels has no effect with --measure"),
        (["{run}", "--plies", "5"], "--plies has no effect without --measure"),
        ([], "expected a run folder"),
    ],
)
def test_mistakes_print_one_line(arguments, expected, run, capsys):
    capsys.readouterr()
    assert main(["cost", *(each.format(run=run) for each in arguments)]) == 2
    message = capsys.readouterr().err
    assert expected in message
    assert message.count("\n") == 1


@pytest.mark.parametrize(
    ("iterations", "levels", "message"),
    [
        ([], 0.9, "levels = 0.9"),
        ("runs/demo", [0.9], 'iterations = "runs/demo"'),
        ([1], [0.9], "iterations = 1"),
    ],
)
def test_cost_to_reach_names_wrong_arguments(iterations, levels, message):
    with pytest.raises(zerolab.UserError, match=message):
        zerolab.cost_to_reach(iterations, levels)


def test_cost_to_reach_refuses_percents():
    with pytest.raises(zerolab.UserError, match="from 0 to 1"):
        zerolab.cost_to_reach([], [88])
