"""`zerolab export`, and exported agents in the other commands."""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest

import zerolab
from zerolab.agents import exporting
from zerolab.cli.main import main
from zerolab.store import arrays
from zerolab.store.run_folder import RunFolder
from zerolab.training.configure import resolve_settings

GAME = "gobang:3x3:3"


@pytest.fixture(scope="module", autouse=True)
def work(tmp_path_factory):
    """A folder with a run whose network predicts draws, and its export `agent.zerolab`."""
    folder = tmp_path_factory.mktemp("export")
    small = ["iterations=1", "final_evaluation.games=0", 'network.heads=["policy","outcome"]']
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        settings = [part for each in small for part in ("--set", each)]
        assert main(["train", GAME, "--preset", "smoke", "--run", "runs/demo", *settings]) == 0
        assert main(["export", "runs/demo@1", "agent.zerolab"]) == 0
        yield folder


@pytest.fixture(scope="module")
def model(work):
    """Export the network to `a.onnx`, which takes seconds; return what the command printed."""
    for package in ("onnx", "onnxruntime", "onnxscript"):
        require(package)
    printed = io.StringIO()
    with redirect_stdout(printed):
        assert main(["export", "agent.zerolab", "a.onnx", "--json"]) == 0
    return json.loads(printed.getvalue())


@pytest.fixture(scope="module")
def name(work):
    """The canonical name of the agent."""
    return zerolab.load_network("agent.zerolab").name


def output(capsys, *arguments):
    assert main(list(arguments)) == 0
    return capsys.readouterr().out


def refusal(capsys, *arguments):
    capsys.readouterr()
    assert main(list(arguments)) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    return lines[0]


def require(package):
    return pytest.importorskip(package, reason="the onnx extra is not installed")


def test_export_describes_file_and_next_command(capsys):
    lines = output(capsys, "export", "runs/demo", "other.zerolab").splitlines()
    assert lines[0].startswith("other.zerolab: gobang:3x3:3, ")
    assert lines[0].endswith("run demo")
    assert lines[-1] == "play against it with: zerolab play other.zerolab"
    summary = json.loads(output(capsys, "export", "runs/demo@0", "zero.zerolab", "--json"))
    assert summary["file"] == "zero.zerolab"
    assert summary["bytes"] == Path("zero.zerolab").stat().st_size
    assert (summary["game"], summary["origin"]["iteration"]) == (GAME, 0)
    assert "outputs" not in summary
    assert zerolab.load_network("zero.zerolab").name == f"zero.zerolab@{summary['digest'][:8]}"


def test_file_with_different_content_needs_overwrite(capsys, tmp_path):
    path = tmp_path / "a.zerolab"
    first = output(capsys, "export", "runs/demo@0", str(path))
    before = path.read_bytes()
    assert output(capsys, "export", "runs/demo@0", str(path)) == first
    line = refusal(capsys, "export", "runs/demo@1", str(path))
    assert "exists with different content" in line
    assert path.read_bytes() == before
    output(capsys, "export", "runs/demo@1", str(path), "--overwrite")
    assert path.read_bytes() == Path("agent.zerolab").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["runs/dmo", "x.zerolab"], 'did you mean "runs/demo"?'),
        (["runs/demo@7", "x.zerolab"], "has no network 7: expected one of 0, 1"),
        (["runs/demo@x", "x.zerolab"], "expected a whole number after @"),
        (["runs/demo?simulations=3", "x.onnx"], ".onnx files do not search"),
        (["runs/demo?simulatons=3", "x.zerolab"], 'did you mean "simulations"?'),
        (["runs/demo?simulations=0", "x.zerolab"], "simulations = 0 can be set only for play"),
        (["runs/demo?temperature_plies=2", "x.zerolab"], "temperature_plies = 2 can be set only"),
        (["runs/demo?cache=9", "x.zerolab"], "cache = 9 can be set only for play"),
        (["runs/demo?noise.fraction=0.5", "x.zerolab"], "noise is for self-play"),
        (["runs/demo?fpu=action_values", "x.zerolab"], "no head provides action values"),
        (["random", "x.zerolab"], '"random" has no network: expected a run'),
        (["mcts:5", "x.onnx"], '"mcts:5" has no network: expected a run'),
        (["agent.zerolab", "x.zerolab"], "is already an agent file"),
        (["agnet.zerolab", "x.onnx"], 'did you mean "agent.zerolab"?'),
        (["runs/demo", "x.zerolb"], 'in .zerolab or .onnx; did you mean ".zerolab"?'),
        (["runs/demo", "x"], "x: expected a file ending in .zerolab or .onnx"),
        (["runs/demo", "nowhere/x.zerolab"], "the folder nowhere does not exist"),
        (["runs/demo"], "FILE"),
        ([], "RUN[@N]"),
    ],
)
def test_mistakes_print_one_line_and_write_nothing(arguments, expected, capsys):
    before = sorted(Path().iterdir())
    assert expected in refusal(capsys, "export", *arguments)
    assert sorted(Path().iterdir()) == before


def test_agent_file_plays_against_person(monkeypatch, capsys, name):
    monkeypatch.setattr(sys, "stdin", io.StringIO("b2\nhint\nquit\n"))
    printed = output(capsys, "play", "agent.zerolab?simulations=20")
    assert f"{name}?simulations=20 plays " in printed
    assert "value of the position for you" in printed


def test_agent_file_plays_the_same_match_as_run(capsys, name):
    results = []
    for spec in ("agent.zerolab?simulations=9", "runs/demo@1?simulations=9"):
        printed = output(capsys, "match", spec, "mcts:5", "--games", "8", "--seed", "4", "--json")
        results.append(printed.replace(name, "it").replace("runs/demo@1", "it"))
    assert "it?simulations=9" in results[0]
    assert results[0] == results[1]


@pytest.mark.usefixtures("no_figures")
def test_agent_file_is_rated_under_its_canonical_name(capsys, name):
    players = ["agent.zerolab", "runs/demo@0", "random", "agent.zerolab?simulations=0"]
    command = ["tournament", *players, "--games", "2", "--folder", "t", "--json"]
    printed = output(capsys, *command)
    assert output(capsys, *command) == printed
    named = {each["player"] for each in json.loads(printed)["players"]}
    assert named == {name, f"{name}?simulations=0", "runs/demo@0", "random"}
    rated = json.loads(output(capsys, "rate", "t", "--json"))
    assert {each["player"] for each in rated["players"]} == named


def test_agent_file_has_accuracy_of_run(capsys, name, positions):
    reports = []
    for spec in ("agent.zerolab", "runs/demo@1"):
        printed = output(capsys, "evaluate", spec, "--positions", str(positions), "--json")
        reports.append(json.loads(printed))
    assert reports[0]["player"] == name
    assert reports[0]["accuracy"] == reports[1]["accuracy"]


@pytest.mark.usefixtures("no_figures")
def test_league_uses_network_of_agent_file(capsys, name):
    plain = ["--set", "search.selection=puct", "--set", "search.fpu=zero", "--set", "parents=2"]
    plain += ["--set", 'parameters=["check"]', "--set", "search.simulations=4", "--set", "active=6"]
    plain += ["--games", "8"]
    summary = json.loads(
        output(capsys, "league", GAME, "--agent", "agent.zerolab", *plain, "--json")
    )
    assert summary["network"] == name
    heads = resolve_settings(GAME, "league/best.toml").network.heads
    assert [head.name for head in heads] == ["policy", "outcome"]
    line = refusal(capsys, "league", GAME, "--agent", "agent.zerolab?simulations=3", *plain)
    assert "options do not apply to a league" in line


def test_agent_file_is_gtp_engine(monkeypatch, capfdbinary, name):
    script = b"name\ngenmove b\nquit\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(script)))
    assert main(["gtp", "agent.zerolab"]) == 0
    name_response, move, _, _ = capfdbinary.readouterr().out.split(b"\n\n")
    assert name_response == b"= zerolab " + name.encode()
    assert move[:2] == b"= "


def test_final_evaluation_accepts_agent_file_as_baseline(capsys):
    small = ["--set", "iterations=1", "--set", "final_evaluation.games=2"]
    baselines = ["--set", 'final_evaluation.baselines=["agent.zerolab?simulations=2"]']
    run = ["train", GAME, "--preset", "smoke", "--run", "runs/against", *small, *baselines]
    assert main(run) == 0
    metrics = RunFolder.open(Path("runs/against")).metrics()
    (line,) = [each for each in metrics if "opponent" in each]
    assert line["opponent"].startswith("agent.zerolab@")
    assert line["wins"] + line["draws"] + line["losses"] == 2


def test_python_api_accepts_agent_file(name):
    start = zerolab.Position.start(GAME)
    network = zerolab.load_network("agent.zerolab")
    priors, values = network.evaluate([start, start.play("b2")])
    expected = zerolab.load_network("runs/demo@1").evaluate([start, start.play("b2")])
    assert priors.tobytes() == expected[0].tobytes()
    assert values.tobytes() == expected[1].tobytes()
    assert (
        zerolab.analyse(start, "agent.zerolab?simulations=30").agent_name
        == f"{name}?simulations=30"
    )
    match = zerolab.play_match("agent.zerolab", "random", games=2)
    assert match.a == name
    path = zerolab.export_network("runs/demo@1", "from-python.zerolab")
    assert path.read_bytes() == Path("agent.zerolab").read_bytes()
    with pytest.raises(zerolab.UserError, match="run = 3: expected a run"):
        zerolab.export_network(3, "x.zerolab")


def replace_models(monkeypatch):
    """Replace the next models with that of `a.onnx`; return a list of descriptions."""
    descriptions = []

    def encode(network, planes, about):
        descriptions.append(about)
        return Path("a.onnx").read_bytes()

    monkeypatch.setattr(exporting, "encode_onnx_model", encode)
    return descriptions


def test_onnx_model_is_verified_and_describes_itself(model, monkeypatch, capsys):
    onnx, runtime = require("onnx"), require("onnxruntime")
    assert model["outputs"]["policy"]["shape"] == [9]
    assert model["outputs"]["outcome"]["shape"] == [3]
    assert (
        max(each["difference"] for each in model["outputs"].values()) < model["tolerance"] == 1e-4
    )
    with monkeypatch.context() as patch:
        patch.setattr(arrays, "MAX_AGENT_BYTES", 20_000)
        line = refusal(capsys, "export", "runs/demo", "large.zerolab")
        assert "the agent is" in line
        assert "expected at most 20,000" in line
        assert not Path("large.zerolab").exists()
        descriptions = replace_models(patch)
        printed = output(capsys, "export", "runs/demo", "b.onnx")  # models can be larger
    assert "planes float32[batch, 1, 3, 3]" in printed
    assert f"compared with the network on {model['positions']} positions" in printed
    assert "tolerance of 1e-04" in printed
    assert Path("a.onnx").read_bytes() == Path("b.onnx").read_bytes()
    properties = onnx.load("a.onnx").metadata_props
    about = {each.key: json.loads(each.value) for each in properties}
    assert json.loads(json.dumps(descriptions)) == [about], (
        "the agent file and the run have equal descriptions"
    )
    assert (about["game"], about["planes"]) == (GAME, ["pieces"])
    assert about["actions"][:4] == ["a1", "b1", "c1", "a2"]
    assert about["outputs"]["outcome"].startswith("logits of win, draw and loss")
    assert about["origin"]["run"] == "demo"
    # Evaluate as docs/sharing.md describes, and compare with zerolab's own evaluation.
    start = zerolab.Position.start(GAME)
    session = runtime.InferenceSession("a.onnx", providers=["CPUExecutionProvider"])
    logits, outcome = session.run(["policy", "outcome"], {"planes": start.planes()[None]})
    priors, values = zerolab.load_network("agent.zerolab").evaluate([start])
    # zerolab may compute in bfloat16, which has 8 significant bits.
    assert np.abs(softmax(logits) - priors).max() < 0.02
    win, _, loss = softmax(outcome)[0]
    assert abs(win - loss - values[0]) < 0.03


def softmax(logits):
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def test_onnx_model_that_differs_is_not_written(model, monkeypatch, capsys):
    replace_models(monkeypatch)
    before = sorted(Path().iterdir())
    line = refusal(capsys, "export", "runs/demo@0", "wrong.onnx")
    assert "the exported model's policy differs from the network's by" in line
    assert sorted(Path().iterdir()) == before


def test_missing_onnx_extra_is_explained(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "onnx", None)
    line = refusal(capsys, "export", "runs/demo", "none.onnx")
    assert 'which is not installed: install the "onnx" extra' in line
    assert not Path("none.onnx").exists()


def test_full_disk_leaves_no_partial_file(monkeypatch, capsys):
    def raise_no_space(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", raise_no_space)
    line = refusal(capsys, "export", "runs/demo@1", "full.zerolab")
    assert "cannot write full.zerolab: No space left on device" in line
    assert not list(Path().glob("*full*"))
