"""Export of networks to agent files, and to ONNX models for use without zerolab.

An ONNX model has one input, ``planes``, and one output per head, named after the head. The first
dimension of the input and of every output is the batch. Before a model is written, its outputs are
compared with the network's.
"""

from __future__ import annotations

import importlib
import json
import logging
import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from zerolab.agents.agent import AGENT_KINDS, split_options
from zerolab.agents.file_agents import (
    CheckedAgent,
    StoredAgentKind,
    checked_agent,
    parse_agent_file,
    with_search_options,
)
from zerolab.agents.run_agents import find_run_and_iteration, read_play_settings
from zerolab.agents.specs import agent_kind_and_argument
from zerolab.core import __version__
from zerolab.core.config import validate
from zerolab.core.errors import MissingExtraError, UserError, did_you_mean, one_line, quoted
from zerolab.core.files import check_output_path, read_file, write_bytes
from zerolab.networks.catalogue import build_network
from zerolab.networks.network import Network, folded_copy, set_weights
from zerolab.rules import compiled_rules, rules
from zerolab.rules.catalogue import game_name, notation_of
from zerolab.rules.encoding import plane_names
from zerolab.store.arrays import (
    AGENT_SUFFIX,
    MAX_PRINTABLE_LENGTH,
    AgentFile,
    AgentHeader,
    AgentOrigin,
    SourceNetwork,
    agent_digest,
    encode_agent,
    read_network_file,
    to_half_precision,
)
from zerolab.store.checks import hex_digest, user_errors_on_read
from zerolab.store.folder import read_environments
from zerolab.store.games import SELF_PLAY_STAGE, source_run_folder
from zerolab.store.run_folder import RunFolder
from zerolab.testing.random_games import ongoing_sample_positions

ONNX_SUFFIX = ".onnx"
_SCHEMA = 1
_MAX_BYTES = 1 << 31  # limit of the ONNX format


class ExportResult(NamedTuple):
    """An exported file and its agent."""

    path: Path
    size_bytes: int
    agent: CheckedAgent
    agreement: ModelAgreement | None
    """Agreement of an ONNX model with its network; None for an agent file."""


def export_to_file(
    source: str, target: Path, *, half: bool = False, overwrite: bool = False
) -> ExportResult:
    """Export the network named by RUN, RUN@N, FILE.zerolab or a shipped agent to a file.

    The suffix of `target` selects the format: ``.zerolab`` for an agent file, ``.onnx`` for an ONNX
    model. With `half`, an agent file stores its weights in half precision (`to_half_precision`).
    Options of the source, as in ``RUN?simulations=400``, change the search of the agent file. An
    existing file with different content is replaced only if `overwrite` is set. Raises UserError,
    without writing anything, for invalid input or if the model does not agree with its network.
    """
    _check_target(target, half)
    _check_source(source, target, half)
    agent = load_agent(source)
    agreement = None
    if target.suffix == ONNX_SUFFIX:
        content, agreement = _model(agent)
    elif half:
        content = encode_agent(agent.header, to_half_precision(agent.weights))
        agent = parse_agent_file(content)
    else:
        content = encode_agent(agent.header, agent.stored_weights)
    if overwrite or not _already_has(target, content):
        write_bytes(target, content)
    return ExportResult(target, len(content), agent, agreement)


def _check_target(target: Path, half: bool) -> None:
    """Raise UserError for problems with the target that can be detected in advance."""
    if target.suffix not in (AGENT_SUFFIX, ONNX_SUFFIX):
        hint = did_you_mean(target.suffix, (AGENT_SUFFIX, ONNX_SUFFIX)) if target.suffix else ""
        raise UserError(
            f"{quoted(target)}: expected a file ending in {AGENT_SUFFIX} or {ONNX_SUFFIX}{hint}"
        )
    if half and target.suffix == ONNX_SUFFIX:
        raise UserError(f"{quoted(target)}: half precision is for files ending in {AGENT_SUFFIX}")
    check_output_path(target)
    if target.suffix == ONNX_SUFFIX:
        require_onnx_packages()


def _check_source(source: str, target: Path, half: bool) -> None:
    """Raise UserError for options that the target cannot hold, or if nothing would change."""
    kind, argument = agent_kind_and_argument(source)
    options = split_options(argument)[1]
    if target.suffix == ONNX_SUFFIX and options is not None:
        raise UserError(f"{quoted(source)}: expected no options; {ONNX_SUFFIX} files do not search")
    changes_nothing = options is None and not half and target.suffix == AGENT_SUFFIX
    if isinstance(kind, StoredAgentKind) and changes_nothing:
        raise UserError(
            f"{quoted(source)} is already an agent file: expected a run, a target ending in"
            f" {ONNX_SUFFIX}, half precision, or search options"
        )


def load_agent(source: str) -> CheckedAgent:
    """Return the agent named by a source, as an agent file would contain it.

    Options of the source, as in ``RUN?simulations=400``, change the agent's search. Raises
    UserError for sources without a network, and for options that a file cannot contain.
    """
    kind, argument = agent_kind_and_argument(source)
    bare_spec, options = split_options(argument)
    if kind is AGENT_KINDS["run"]:
        agent = checked_agent_of_run(*find_run_and_iteration(bare_spec))
    elif isinstance(kind, StoredAgentKind):
        agent = kind.read_agent(bare_spec).agent
    else:
        raise UserError(f"{quoted(source)} has no network: expected a run, such as runs/demo@12")
    try:
        return agent if options is None else with_search_options(agent, options)
    except UserError as error:
        raise UserError(f"{quoted(source)}: {error}") from None


def _already_has(target: Path, content: bytes) -> bool:
    """Return whether a file exists with this content; raise UserError for different content."""
    if not target.exists():
        return False
    if read_file(target, _MAX_BYTES) == content:
        return True
    raise UserError(
        f"{quoted(target)} exists with different content: expected a new file, or --overwrite"
    )


def checked_agent_of_run(run: RunFolder, iteration: int) -> CheckedAgent:
    """Return a run's network as an agent file would contain it.

    Raises UserError if the network is missing or damaged.
    """
    weights = run.load_weights(iteration)
    stored = read_network_file(run.weights_path(iteration))
    header = AgentHeader(
        game=stored.game_name,
        network=dict(stored.network_settings),
        search=read_play_settings(run).search.model_dump(mode="json"),
        origin=_origin(run, iteration),
    )
    return checked_agent(AgentFile(header, weights, agent_digest(header, weights)))


def encode_agent_of_run(run: RunFolder, iteration: int) -> bytes:
    """Return the content of an agent file with a run's network.

    The content is deterministic. Raises UserError if the network is missing, damaged or too large
    for a file.
    """
    agent = checked_agent_of_run(run, iteration)
    return encode_agent(agent.header, agent.weights)


def _origin(run: RunFolder, iteration: int) -> AgentOrigin:
    """Return the origin of a network, from the records of its run."""
    config, lines = run.config, run.metrics()
    with user_errors_on_read(run.path / "metrics.jsonl"):
        self_play = [
            line
            for line in lines
            if line.get("stage") == SELF_PLAY_STAGE and line["iteration"] <= iteration
        ]
        games = sum(line.get("games", 0) for line in self_play)
        positions = sum(line.get("plies") or line.get("positions", 0) for line in self_play)
    with user_errors_on_read(run.path / "config.toml"):
        preset, source = _last_name(Path(config.get("preset", ""))), _source(config.get("start"))
        run_digest = hex_digest(json.dumps(config, sort_keys=True).encode())
    environments = [
        each for each in read_environments(run.path) if each.iteration <= max(1, iteration)
    ]
    facts = {
        "run": _last_name(run.path), "run_digest": run_digest, "preset": preset,
        "seed": read_play_settings(run).seed, "iteration": iteration, "games": games,
        "positions": positions, "started_from": source, "environments": environments,
        "written_by": __version__,
    }  # fmt: skip
    return validate(AgentOrigin, facts, source=str(run.path))


def _source(start: Any) -> SourceNetwork | None:
    """Return the initial network of a run from its `start` setting, or None."""
    if not isinstance(start, Mapping):
        return None
    folder = source_run_folder(str(start["source"]), start["iteration"])
    facts = {name: start[name] for name in ("iteration", "game", "digest", "transfer")}
    return SourceNetwork(run=_last_name(Path(folder)), **facts)


def _last_name(path: Path) -> str:
    """Return the last component of a path; parent folders are private."""
    name = path.absolute().name if path.parts else ""
    return "".join(each if each.isprintable() else "?" for each in name)[:MAX_PRINTABLE_LENGTH]


def _model(agent: CheckedAgent) -> tuple[bytes, ModelAgreement]:
    """Return an agent's network as an ONNX model, and the agreement between the two."""
    network = build_network(
        agent.network_settings, agent.game, seed=0
    )  # initial weights are replaced
    set_weights(network, agent.weights)
    states = np.unique([each.state for each in ongoing_sample_positions(agent.game)], axis=0)
    planes = compiled_rules.encode_batch(agent.game, states)
    content = encode_onnx_model(network.eval(), planes, _metadata(agent, network))
    return content, compare_onnx_model(content, network, planes)


def _metadata(agent: CheckedAgent, network: Network) -> dict[str, Any]:
    """Return the metadata of an ONNX model."""
    game, notation = agent.game, notation_of(agent.game)
    return {
        "schema": _SCHEMA,
        "game": game_name(game),
        "planes": plane_names(game),
        "actions": [
            notation.action_name(game, action) for action in range(rules.action_count(game))
        ],
        "outputs": {name: head.prediction_meaning for name, head in network.head_settings.items()},
        "network": agent.network_settings.model_dump(mode="json"),
        "origin": agent.header.origin.model_dump(mode="json"),
        "digest": agent.digest,
    }


MAX_ONNX_DIFFERENCE = 1e-4
"""Largest accepted difference from the network's output x, relative to max(1, |x|)."""
ONNX_INPUT_NAME = "planes"

_BATCH = "batch"
_PACKAGES = ("onnx", "onnxscript", "onnxruntime")
_TRACED = 3  # batch size for tracing, which would treat 0 and 1 as constants


class ModelAgreement(NamedTuple):
    """Comparison of a model with its network."""

    position_count: int
    """Number of compared positions."""
    max_differences: Mapping[str, float]
    """Largest |model - network| / max(1, |network|) of each output."""
    output_shapes: Mapping[str, tuple[int, ...]]
    """Shape of each output for one position."""


def require_onnx_packages() -> None:
    """Raise MissingExtraError if a package required for export is not installed."""
    for name in _PACKAGES:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise MissingExtraError.for_package("exporting a network", name, "onnx") from error


def encode_onnx_model(
    network: Network, planes: NDArray[np.float32], metadata: Mapping[str, Any]
) -> bytes:
    """Return a network as the content of an ONNX file, in float32 with folded batch norms.

    `planes`, float32[N, planes, rows, columns] with N at least 3, encode arbitrary positions.
    `metadata` is stored in the model, with each value encoded as JSON. Raises UserError if a
    layer cannot be exported and MissingExtraError if the extra is not installed.
    """
    require_onnx_packages()
    model = _AllHeads(folded_copy(network))
    try:
        with _quiet():
            program = torch.onnx.export(
                model,
                (torch.from_numpy(planes[:_TRACED]),),
                dynamo=True,
                input_names=[ONNX_INPUT_NAME],
                output_names=list(network.head_settings),
                dynamic_shapes=({0: torch.export.Dim(_BATCH)},),
                external_data=False,
                verbose=False,
            )
    except torch.onnx.errors.OnnxExporterError as error:
        raise UserError(f"the network cannot be exported: {one_line(error)}") from error
    assert program is not None
    proto = program.model_proto
    _strip(proto)
    for key, value in sorted(metadata.items()):
        entry = proto.metadata_props.add()
        entry.key, entry.value = key, json.dumps(value, sort_keys=True)
    content: bytes = proto.SerializeToString(deterministic=True)
    return content


def compare_onnx_model(
    content: bytes, network: Network, planes: NDArray[np.float32]
) -> ModelAgreement:
    """Compare a model in onnxruntime with the network in torch, both in float32.

    `planes`, float32[N, planes, rows, columns], are evaluated as one batch, and then the first
    position separately. Raises UserError if an output differs by more than the tolerance.
    """
    require_onnx_packages()
    session = importlib.import_module("onnxruntime").InferenceSession(
        content, providers=["CPUExecutionProvider"]
    )
    plain = network.cpu().float().eval()
    differences: dict[str, float] = {}
    output_shapes: dict[str, tuple[int, ...]] = {}
    for batch in (planes, planes[:1]):
        with torch.inference_mode():
            expected = plain(torch.from_numpy(batch))
        outputs = dict(
            zip(expected, session.run(list(expected), {ONNX_INPUT_NAME: batch}), strict=True)
        )
        for name, output in outputs.items():
            difference = _relative_difference(output, expected[name].numpy())
            differences[name] = max(differences.get(name, 0.0), difference)
            output_shapes[name] = tuple(output.shape[1:])
    for name, difference in differences.items():
        if not difference <= MAX_ONNX_DIFFERENCE:
            raise UserError(
                f"the exported model's {name} differs from the network's by {difference:.2g}:"
                f" expected at most {MAX_ONNX_DIFFERENCE:g}; nothing was written"
            )
    return ModelAgreement(len(planes), differences, output_shapes)


class _AllHeads(nn.Module):
    """A network that returns its predictions as a tuple, in the order of its heads."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, planes: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.network(planes).values())


def _relative_difference(output: NDArray[np.float32], expected: NDArray[np.float32]) -> float:
    if output.shape != expected.shape:
        return math.inf
    largest = float((np.abs(output - expected) / np.maximum(1, np.abs(expected))).max())
    return largest if math.isfinite(largest) else math.inf  # max() would ignore a NaN


def _strip(proto: Any) -> None:
    """Remove the exporter's notes on the traced code, such as paths and line numbers."""
    proto.doc_string = proto.graph.doc_string = ""
    for part in (proto.graph, *proto.functions):
        del part.metadata_props[:]
        for each in (*part.node, *part.value_info):
            del each.metadata_props[:]
            each.doc_string = ""
    for each in (*proto.graph.input, *proto.graph.output, *proto.graph.initializer):
        del each.metadata_props[:]
        each.doc_string = ""


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the exporter's log messages and warnings."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
