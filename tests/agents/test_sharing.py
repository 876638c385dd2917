"""Agent files: agreement with their runs, and refusal of invalid files.

The tests stay in one file because they share runs that are trained once per module.
"""

from __future__ import annotations

import gc
import io
import json
import pickle
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from safetensors.numpy import save

from zerolab.agents.exporting import encode_agent_of_run, export_to_file
from zerolab.agents.file_agents import parse_agent_file, read_agent_file, save_uploaded_agent
from zerolab.agents.run_agents import build_evaluator
from zerolab.agents.specs import parse_agent, parse_agents
from zerolab.cli.main import main
from zerolab.core.errors import UserError
from zerolab.networks.catalogue import build_network
from zerolab.networks.inference import NetworkEvaluator
from zerolab.networks.network import set_weights
from zerolab.play.match import play_match
from zerolab.rules.catalogue import parse_game
from zerolab.store import arrays as agent_files
from zerolab.store.arrays import (
    WEIGHTS_KIND,
    encode_arrays,
    read_network_file,
    save_arrays,
    to_half_precision,
    to_single_precision,
)
from zerolab.store.run_folder import RunFolder
from zerolab.testing.random_games import ongoing_sample_positions

SMALL = ("--preset", "smoke", "--set", "iterations=1", "--set", "final_evaluation.games=0")


@pytest.fixture(scope="module", autouse=True)
def work(tmp_path_factory):
    """Folder with the runs `runs/demo` and `runs/next`, and `agent.zerolab` exported from demo."""
    folder = tmp_path_factory.mktemp("sharing")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["train", "gobang:3x3:3", "--run", "runs/demo", *SMALL]) == 0
        transfer = ["--from", "runs/demo@0", "--transfer", "all", "--set=seed=5"]
        transfer += ["--set=gate.threshold=0"]
        assert main(["train", "gobang:3x3:3", "--run", "runs/next", *transfer, *SMALL]) == 0
        Path("agent.zerolab").write_bytes(encode_agent_of_run(RunFolder.open(Path("runs/demo")), 1))
        yield folder


@pytest.fixture(scope="module")
def content(work):
    return Path("agent.zerolab").read_bytes()


def table_and_arrays(content):
    """Return the header table, parsed without zerolab, and the arrays of an agent file."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    table = json.loads(header["__metadata__"]["zerolab"])
    return table, dict(agent_files.decode_agent(content, "it").weights)


def with_header(content, **changes):
    """Return the file with a changed header and a valid digest."""
    table, arrays = table_and_arrays(content)
    del table["digest"]
    return encode_arrays({**table, **changes}, arrays)


def with_arrays(content, **changes):
    """Return the file with changed arrays and a valid digest; None removes an array."""
    table, arrays = table_and_arrays(content)
    del table["digest"]
    merged = {name: array for name, array in {**arrays, **changes}.items() if array is not None}
    return encode_arrays(table, merged)


def refusal(content):
    """Return the one-line error message for invalid file content."""
    with pytest.raises(UserError) as error:
        parse_agent_file(content, "it")
    assert len(str(error.value).splitlines()) == 1
    return str(error.value)


def test_evaluations_are_bitwise_equal_to_those_of_the_run():
    states = np.array(
        [sample.state for sample in ongoing_sample_positions(parse_agent("runs/demo").game)]
    )
    from_file = parse_agent_file(Path("agent.zerolab").read_bytes())
    weights = RunFolder.open(Path("runs/demo")).load_weights(1)
    assert set(weights) == set(from_file.weights)
    for name, array in weights.items():
        assert array.tobytes() == from_file.weights[name].tobytes()
    from_run = parse_agent("runs/demo@1").load_evaluator().evaluate(states)
    # Bypass the evaluators shared in this process.
    from_agent_file = fresh_evaluator("agent.zerolab").evaluate(states)
    for actual, expected in zip(from_agent_file, from_run, strict=True):
        assert actual.tobytes() == expected.tobytes()


def fresh_evaluator(spec):
    agent = read_agent_file(Path(spec))
    return build_evaluator(agent.network_settings, agent.game, agent.weights)


def test_agent_file_plays_the_same_games_as_its_run():
    """Both play the same moves against a third player."""
    games = []
    for spec in ("runs/demo@1?temperature_plies=2", "agent.zerolab?temperature_plies=2"):
        one, other = parse_agents([spec, "random"])
        match = play_match(one.game, one, other, 12, seed=3)
        games.append([(game.number, game.actions, game.result) for game in match.games])
    assert games[0] == games[1]
    assert len({actions for _, actions, _ in games[0]}) > 6


def test_identity_depends_on_content_and_not_on_location():
    shutil.copy("agent.zerolab", "copy.zerolab")
    specs = ["runs/demo@1", "agent.zerolab", "copy.zerolab"]
    agents = [parse_agent(f"{spec}?simulations=7") for spec in specs]
    assert len({agent.identity for agent in agents}) == 1
    assert len({agent.name for agent in agents}) == 3
    assert agents[0].load_evaluator() is agents[1].load_evaluator() is agents[2].load_evaluator()
    assert parse_agent("runs/demo@0").identity != parse_agent("runs/demo@1").identity
    assert parse_agent("agent.zerolab").identity != agents[1].identity


def test_name_includes_the_digest(work):
    digest = parse_agent_file(Path("agent.zerolab").read_bytes()).digest
    name = parse_agent("./agent.zerolab").name
    assert name == f"agent.zerolab@{digest[:8]}"
    assert parse_agent(str(work / "agent.zerolab")).name == name
    assert parse_agent(name) == parse_agent("file:agent.zerolab") == parse_agent("agent.zerolab")
    assert parse_agent(f"{name}?simulations=9").name == f"{name}?simulations=9"
    # Worker processes receive agents in this way.
    assert pickle.loads(pickle.dumps(parse_agent(name))) == parse_agent(name)
    first, second = parse_agents(["agent.zerolab", "agent.zerolab"])
    assert second.name == f"{first.name} #2"
    assert parse_agent(second.name).name == second.name


def test_unusual_file_names_are_accepted(work):
    for name in ("at@home.zerolab", "mcts:5.zerolab", "two words.zerolab"):
        shutil.copy("agent.zerolab", name)
        agent = parse_agent(f"./{name}")
        assert parse_agent(agent.name) == agent
        assert agent.identity == parse_agent("agent.zerolab").identity


def test_replaced_agent_file_is_detected(work):
    shutil.copy("agent.zerolab", "replaced.zerolab")
    former = parse_agent("replaced.zerolab?simulations=3")
    Path("replaced.zerolab").write_bytes(encode_agent_of_run(RunFolder.open(Path("runs/next")), 1))
    later = parse_agent("replaced.zerolab?simulations=3")
    assert former.name != later.name
    assert former.identity != later.identity
    with pytest.raises(UserError, match="replaced by a different agent"):
        parse_agent(former.name)
    gc.collect()  # drop evaluators loaded by earlier tests
    with pytest.raises(UserError, match="replaced by a different agent"):
        former.load_evaluator()


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("agnet.zerolab", 'agnet.zerolab does not exist: expected a file'),
        ("agnet.zerolab", 'did you mean "agent.zerolab"?'),
        ("nowhere/agent.zerolab", "nowhere/agent.zerolab does not exist"),
        ("agent.zerolab@77", "has the digest"),
        ("agent.zerolab@77", "not 77"),
        ("agent.zerolab@best", "as in agent.zerolab@3f2a9c1d"),
        ("agent.zerolab?simulatons=9", 'unknown setting "simulatons"; did you mean "simulations"?'),
        ("agent.zerolab?simulations=-1", "expected at least 0"),
        ("agent.zerolab?noise.fraction=0.5", "noise is for self-play"),
        ("agent.zerolab?draw_value=0.4", "no head provides draws"),
        ("agent.zerolab?", "expected KEY=VALUE after ?"),
        ("file:", "expected a file ending in .zerolab"),
        ("file:runs/demo", "expected a file ending in .zerolab"),
        ("folder.zerolab", "it is a folder; expected a file"),
        ("agent.zerolb", '"agent.zerolb" is neither a run nor one of'),
    ],
)  # fmt: skip
def test_invalid_specs_get_one_line_errors(spec, expected, work):
    Path("folder.zerolab").mkdir(exist_ok=True)
    with pytest.raises(UserError) as error:
        parse_agent(spec)
    assert expected in str(error.value)
    assert len(str(error.value).splitlines()) == 1


RELATIVE, ABSOLUTE = 2.0**-11, 2.0**-25
"""Largest rounding errors of float16: half of the last digit, relative and absolute."""


@given(arrays(np.float32, array_shapes(max_side=5), elements=st.floats(-65504, 65504, width=32)))
def test_half_precision_rounds_matrices_and_keeps_vectors(weights):
    restored = to_single_precision(to_half_precision({"a": weights, "n": np.array(3)}))
    assert restored["n"].dtype == np.int64
    assert restored["a"].dtype == np.float32
    if weights.ndim == 1:
        assert restored["a"].tobytes() == weights.tobytes()
    errors = np.abs(restored["a"].astype(np.float64) - weights)
    assert (errors <= np.maximum(RELATIVE * np.abs(weights), ABSOLUTE)).all()


def test_half_precision_hardly_changes_the_outputs(content):
    """They differ less than in bfloat16, which networks use on many machines."""
    export_to_file("runs/demo@1", Path("half.zerolab"), half=True)
    full, half = parse_agent_file(content), read_agent_file(Path("half.zerolab"))
    assert Path("half.zerolab").stat().st_size < len(content) * 0.75  # the header is large here
    states = [sample.state for sample in ongoing_sample_positions(full.game)]
    outputs = [
        new_evaluator(agent, precision).evaluate(np.array(states))
        for agent, precision in (
            (full, torch.float32),
            (half, torch.float32),
            (full, torch.bfloat16),
        )
    ]
    for exact, rounded, bfloat16 in zip(*outputs, strict=True):
        assert np.abs(rounded - exact).max() < np.abs(bfloat16 - exact).max()
        assert np.abs(rounded - exact).max() < 0.002


def new_evaluator(agent, precision):
    network = build_network(agent.network_settings, agent.game, seed=0)
    set_weights(network, agent.weights)
    return NetworkEvaluator(network, agent.game, torch.device("cpu"), precision)


def test_half_precision_has_digests_of_its_own(content):
    """Files differ and play differently, so neither digest nor identity is that of the run."""
    export_to_file("runs/demo@1", Path("one.zerolab"), half=True)
    export_to_file("one.zerolab", Path("two.zerolab"), half=True)
    assert Path("one.zerolab").read_bytes() == Path("two.zerolab").read_bytes()
    full, half = parse_agent_file(content), read_agent_file(Path("one.zerolab"))
    assert half.header == full.header
    assert half.digest != full.digest
    assert half.network_digest != full.network_digest
    rounded = with_arrays(content, **half.weights)  # the same weights in float32
    assert parse_agent_file(rounded).digest != half.digest
    assert parse_agent_file(rounded).network_digest == half.network_digest


def test_options_keep_half_precision():
    options = "?simulations=7"
    export_to_file("runs/demo@1", Path("one.zerolab"), half=True)
    export_to_file(f"one.zerolab{options}", Path("changed.zerolab"))
    export_to_file(f"runs/demo@1{options}", Path("direct.zerolab"), half=True)
    assert Path("changed.zerolab").read_bytes() == Path("direct.zerolab").read_bytes()


def test_weights_beyond_half_precision_are_refused(content):
    _, stored = table_and_arrays(content)
    name = "heads.policy.output.weight"
    large = {name: np.where(np.arange(16) == 3, np.float32(7e4), stored[name])}
    Path("large.zerolab").write_bytes(with_arrays(content, **large))
    with pytest.raises(UserError) as error:
        export_to_file("large.zerolab", Path("small.zerolab"), half=True)
    assert str(error.value).startswith(f"{name} has a weight of 70,000")
    assert not Path("small.zerolab").exists()


def test_statistics_of_any_size_survive_half_precision(content):
    _, stored = table_and_arrays(content)
    name = next(name for name in stored if name.endswith("running_var"))
    extreme = np.geomspace(1e-30, 1e30, len(stored[name])).astype(np.float32)
    Path("extreme.zerolab").write_bytes(with_arrays(content, **{name: extreme}))
    export_to_file("extreme.zerolab", Path("extreme-half.zerolab"), half=True)
    assert (
        read_agent_file(Path("extreme-half.zerolab")).weights[name].tobytes() == extreme.tobytes()
    )


def test_half_precision_is_checked_like_single_precision(content):
    _, stored = table_and_arrays(content)
    name = "heads.policy.output.weight"
    infinite = stored[name].astype(np.float16)
    infinite[0, 0] = np.inf
    assert f"{name} is not finite" in refusal(with_arrays(content, **{name: infinite}))
    counter = next(name for name in stored if stored[name].dtype == np.int64)
    halved = stored[counter].astype(np.float16)
    assert f"{counter} is float32" in refusal(with_arrays(content, **{counter: halved}))


def test_agent_file_of_another_game_is_refused():
    with pytest.raises(
        UserError, match=r"agent\.zerolab plays gobang:3x3:3, but the requested game"
    ):
        parse_agents(["agent.zerolab", "random"], parse_game("othello:4x4"))


def test_equal_runs_export_equal_bytes(content, work):
    run = RunFolder.open(Path("runs/demo"))
    assert encode_agent_of_run(run, 1) == content
    shutil.copytree("runs/demo", "elsewhere/demo")
    assert encode_agent_of_run(RunFolder.open(Path("elsewhere/demo")), 1) == content


def test_header_describes_the_origin(content):
    origin = parse_agent_file(content).header.origin
    run = RunFolder.open(Path("runs/demo"))
    (line,) = [entry for entry in run.metrics() if entry["stage"] == "selfplay"]
    assert (origin.run, origin.iteration, origin.preset, origin.seed) == ("demo", 1, "smoke", 0)
    assert (origin.games, origin.positions) == (line["games"], line["positions"])
    assert origin.environments[0].torch == torch.__version__
    assert origin.started_from is None
    untrained = parse_agent_file(encode_agent_of_run(run, 0)).header.origin
    assert (untrained.iteration, untrained.games) == (0, 0)


def test_header_names_the_source_run_without_its_folder(work):
    content = encode_agent_of_run(RunFolder.open(Path("runs/next")), 1)
    source = parse_agent_file(content).header.origin.started_from
    network = read_network_file(Path("runs/demo/checkpoints/0000.safetensors"))
    assert (source.run, source.iteration, source.digest) == ("demo", 0, network.digest)
    assert source.transfer == "all"
    assert str(work).encode() not in content


def test_misplaced_checkpoint_is_not_exported(tmp_path):
    shutil.copytree("runs/demo", tmp_path / "run")
    run = RunFolder.open(tmp_path / "run")
    shutil.copy(run.weights_path(0), run.weights_path(1))
    with pytest.raises(UserError, match="iteration 0: expected gobang:3x3:3, iteration 1"):
        encode_agent_of_run(run, 1)
    with pytest.raises(UserError, match="has no network 7: expected one of 0, 1"):
        encode_agent_of_run(run, 7)


def test_repeated_upload_is_stored_once(content, tmp_path):
    path = save_uploaded_agent(tmp_path / "agents", content)
    assert path == tmp_path / "agents" / f"{parse_agent_file(content).digest}.zerolab"
    assert path.read_bytes() == content
    assert save_uploaded_agent(tmp_path / "agents", content) == path
    assert list(path.parent.iterdir()) == [path]
    assert parse_agent(str(path)).identity == parse_agent("runs/demo@1").identity


def test_refused_upload_is_not_stored(content, tmp_path):
    for invalid in (b"", content[:-1], content + b"x", pickle.dumps({}), b"\0" * 100):
        with pytest.raises(UserError):
            save_uploaded_agent(tmp_path / "agents", invalid)
    assert list(tmp_path.iterdir()) == []


def test_foreign_files_are_refused(content, tmp_path):
    for foreign in (
        b"",
        b"PK\3\4 and so on",
        b"\x80\x04N.",
        b"hello, this is no agent",
        b"\xff" * 64,
    ):
        assert "it is not an agent" in refusal(foreign)
    plain = save({"a": np.zeros(3, np.float32)})
    assert "it is not an agent" in refusal(plain)
    assert "it is not an agent" in refusal(
        save({"a": np.zeros(3)}, {"zerolab": "{}", "note": "hidden"})
    )
    weights = Path("runs/demo/checkpoints/0001.safetensors").read_bytes()
    assert '"weights"' in refusal(weights)


class Hostile:
    def __reduce__(self):
        return exec, ("raise SystemError('a pickle ran')",)


def test_pickles_are_never_run(content, tmp_path):
    pickled = pickle.dumps(Hostile())
    zip_file = io.BytesIO()
    with zipfile.ZipFile(zip_file, "w") as archive:
        archive.writestr("archive/data.pkl", pickled)
    torch_file = io.BytesIO()
    torch.save({"weight": Hostile()}, torch_file)
    numpy_file = io.BytesIO()
    np.save(numpy_file, np.array([Hostile()], object), allow_pickle=True)
    for payload in (pickled, zip_file.getvalue(), torch_file.getvalue(), numpy_file.getvalue()):
        assert "it is not an agent" in refusal(payload)
        Path(tmp_path / "bad.zerolab").write_bytes(payload)
        with pytest.raises(UserError, match="is not an agent"):
            parse_agent(str(tmp_path / "bad.zerolab"))


def test_newer_schema_is_refused(content):
    line = refusal(with_header(content, schema=2, something="new"))
    assert line.startswith("it has schema version 2, newer than")
    assert "has no schema version" in refusal(with_header(content, schema="1"))


def test_oversized_files_are_refused_unread(content, monkeypatch, tmp_path):
    monkeypatch.setattr(agent_files, "MAX_AGENT_BYTES", len(content) - 1)
    assert f"it is {len(content):,} bytes: expected an agent of at most" in refusal(content)
    with pytest.raises(UserError, match=r"the agent is 25,\d+ bytes: expected at most"):
        encode_agent_of_run(RunFolder.open(Path("runs/demo")), 1)
    with open(tmp_path / "huge.zerolab", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(UserError, match="1,099,511,627,776 bytes; expected at most 67,108,864"):
        parse_agent(str(tmp_path / "huge.zerolab"))


def test_oversized_header_is_refused(content):
    assert "it is not an agent" in refusal((1 << 60).to_bytes(8, "little") + content[8:])
    assert "it is not an agent" in refusal((2 << 20).to_bytes(8, "little") + b" " * (3 << 20))


def test_deep_nesting_is_refused(content):
    for header in (b"[" * 100_000, b'{"__metadata__":{"zerolab":"' + b"[" * 100_000 + b'"}}'):
        assert "damaged" in refusal(len(header).to_bytes(8, "little") + header)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"game": "chess:8x8"}, 'it: unknown game "chess"'),
        ({"game": "gobang:03x3:3"}, "it: game = gobang:03x3:3: expected gobang:3x3:3"),
        ({"game": "gobang:99x3"}, "rows = 99: expected at most 8"),
        ({"game": "othello:6x6"}, "it: these weights belong to a different network"),
        ({"game": 3}, "it: game = 3: expected a string"),
        ({"game": "x" * 300}, "it: game ="),
        ({"network": {"channels": 8}}, "the network settings have no name"),
        ({"network": {"name": "mlp"}}, 'it: unknown network "mlp"'),
        ({"network": {"name": "conv", "filters": 3}}, 'unknown setting "filters"'),
        ({"network": {"name": "resnet"}}, "it: these weights belong to a different network"),
        ({"network": []}, "it: network = []: expected a table"),
        ({"search": {"simulations": 0}}, "it: simulations = 0: expected at least 1"),
        ({"search": {"selection": "ucb"}}, 'it: selection.name = "ucb": expected one of'),
        ({"origin": {}}, "run is missing"),
        ({"command": "rm"}, 'it: unknown setting "command"'),
    ],
)
def test_all_header_fields_are_checked(content, changes, expected):
    with pytest.raises(UserError) as error:
        parse_agent_file(with_header(content, **changes), "it")
    lines = str(error.value).splitlines()
    assert any(expected in line for line in lines), lines
    assert all(line.startswith("it") for line in lines)


def test_terminal_escape_sequences_are_refused(content):
    table, _ = table_and_arrays(content)
    line = refusal(with_header(content, origin={**table["origin"], "run": "a\x1b[2J"}))
    assert "origin.run" in line
    assert "\x1b" not in line


def test_huge_network_is_refused_without_allocation(content):
    huge = {"name": "resnet", "blocks": 256, "filters": 4096, "hidden": 65536}
    line = refusal(with_header(content, network=huge))
    assert "these weights belong to a different network" in line
    wide = {"name": "features", "width": 10**18}
    heads = ["policy", "value", wide]
    message = refusal(with_header(content, network={"name": "conv", "heads": heads}))
    assert message.startswith("it: ")


def test_mismatched_and_non_finite_weights_are_refused(content):
    _, arrays = table_and_arrays(content)
    name = "heads.policy.output.weight"
    weight = arrays[name]
    assert f"{name} is missing" in refusal(with_arrays(content, **{name: None}))
    assert "extra is unexpected" in refusal(with_arrays(content, extra=weight))
    assert f"{name} is float32[1, 9], not float32[9, 16]" in refusal(
        with_arrays(content, **{name: weight[:1, :9]})
    )
    assert "is float64[9, 16], not float32" in refusal(
        with_arrays(content, **{name: weight.astype(np.float64)})
    )
    for value in (np.nan, np.inf):
        damaged = weight.copy()
        damaged[3, 3] = value
        assert refusal(with_arrays(content, **{name: damaged})) == (
            f"it: {name} is not finite: expected finite weights"
        )


def test_unknown_array_types_are_refused(content):
    header = {"a": {"dtype": "F8_E5M2", "shape": [1], "data_offsets": [0, 1]}}
    header["__metadata__"] = {"zerolab": "{}"}
    text = json.dumps(header).encode()
    assert 'arrays of "F8_E5M2"' in refusal(len(text).to_bytes(8, "little") + text + b"x")


def test_extra_header_entries_are_refused(content):
    """Even entries that safetensors itself ignores."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    header["heads.policy.output.bias"]["note"] = "hidden"
    text = json.dumps(header).encode()
    tampered = len(text).to_bytes(8, "little") + text + content[8 + length :]
    assert "it is damaged" in refusal(tampered)


def test_valid_file_of_another_kind_is_refused(tmp_path):
    save_arrays(tmp_path / "x", WEIGHTS_KIND, {"a": np.zeros(2)}, game="gobang:3x3:3")
    assert 'contains "weights"' in refusal((tmp_path / "x").read_bytes())


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_flipped_bytes_are_detected(content, data):
    """Only the spaces that pad the header can change."""
    index = data.draw(st.integers(0, len(content) - 1))
    flip = data.draw(st.integers(1, 255))
    damaged = bytearray(content)
    damaged[index] ^= flip
    try:
        agent = parse_agent_file(bytes(damaged), "it")
    except UserError as error:
        assert str(error)
    else:
        assert content[index] in b" "
        assert agent.digest == parse_agent_file(content).digest


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_random_header_bytes_raise_only_user_errors(content, data):
    length = int.from_bytes(content[:8], "little")
    damaged = bytearray(content)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, 8 + length))] = data.draw(st.integers(0, 255))
    if bytes(damaged) != content:
        try:
            parse_agent_file(bytes(damaged), "it")
        except UserError as error:
            assert str(error)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_truncated_and_extended_files_are_refused(content, data):
    length = data.draw(st.integers(0, len(content) - 1))
    assert refusal(content[:length])
    assert refusal(content + data.draw(st.binary(min_size=1, max_size=50)))


@settings(max_examples=100)
@given(st.binary(max_size=2000))
def test_arbitrary_bytes_are_refused(content):
    assert "it " in refusal(content)
