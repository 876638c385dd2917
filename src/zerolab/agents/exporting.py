"""Export of networks to agent files and ONNX models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from zerolab.agents.agent import AGENT_KINDS, split_options
from zerolab.agents.file_agents import SharedAgent, read_agent_file, shared_agent_of_run
from zerolab.agents.run_agents import find_network
from zerolab.agents.specs import kind_and_argument
from zerolab.core.errors import UserError, did_you_mean, quoted
from zerolab.core.files import check_output_path, read_limited, write_bytes
from zerolab.networks.catalogue import build_network
from zerolab.rules import compiled_rules, rules
from zerolab.rules.catalogue import game_name, notation_of
from zerolab.rules.encoding import plane_names
from zerolab.store.arrays import AGENT_SUFFIX, encode_agent
from zerolab.testing.random_games import ongoing_sample_positions

if TYPE_CHECKING:
    from zerolab.networks.network import Network
    from zerolab.networks.onnx_export import ModelAgreement

ONNX = ".onnx"
_SCHEMA = 1
_MAX_BYTES = 1 << 31  # limit of the ONNX format


class ExportResult(NamedTuple):
    """An exported file and its agent."""

    path: Path
    size_bytes: int
    agent: SharedAgent
    agreement: ModelAgreement | None
    """Agreement of an ONNX model with its network; None for an agent file."""


def export(source: str, target: Path, *, overwrite: bool = False) -> ExportResult:
    """Export the network named by RUN, RUN@N or FILE.zerolab to a file.

    The suffix of `target` selects the format: ``.zerolab`` for an agent file, ``.onnx`` for an ONNX
    model. An existing file with different content is replaced only if `overwrite` is set. Raises
    UserError, without writing anything, for invalid input and if the model does not agree with its
    network.
    """
    _check_target(target)
    agent = _load_agent(source, target)
    agreement = None
    if target.suffix == ONNX:
        content, agreement = _model(agent)
    else:
        content = encode_agent(agent.header, agent.weights)
    if overwrite or not _already_has(target, content):
        write_bytes(target, content)
    return ExportResult(target, len(content), agent, agreement)


def _check_target(target: Path) -> None:
    """Raise UserError for problems with the target that can be detected in advance."""
    if target.suffix not in (AGENT_SUFFIX, ONNX):
        hint = did_you_mean(target.suffix, (AGENT_SUFFIX, ONNX)) if target.suffix else ""
        raise UserError(
            f"{quoted(target)}: expected a file ending in {AGENT_SUFFIX} or {ONNX}{hint}"
        )
    check_output_path(target)
    if target.suffix == ONNX:
        from zerolab.networks.onnx_export import require_onnx_packages

        require_onnx_packages()


def _load_agent(source: str, target: Path) -> SharedAgent:
    """Return the network named by a source; raise UserError for any other source."""
    kind, argument = kind_and_argument(source)
    head, options = split_options(argument)
    if options is not None:
        raise UserError(f"{quoted(source)}: expected RUN or RUN@N; options apply only to play")
    if kind is AGENT_KINDS["run"]:
        return shared_agent_of_run(*find_network(head))
    if kind is not AGENT_KINDS["file"]:
        raise UserError(f"{quoted(source)} has no network: expected a run, such as runs/demo@12")
    if target.suffix == AGENT_SUFFIX:
        raise UserError(
            f"{quoted(source)} is already an agent file: expected a run, or a target ending in"
            f" {ONNX}"
        )
    return read_agent_file(head)[1]


def _already_has(target: Path, content: bytes) -> bool:
    """Return whether a file exists with this content; raise UserError for different content."""
    if not target.exists():
        return False
    if read_limited(target, _MAX_BYTES) == content:
        return True
    raise UserError(
        f"{quoted(target)} exists with different content: expected a new file, or --overwrite"
    )


def _model(agent: SharedAgent) -> tuple[bytes, ModelAgreement]:
    """Return an agent's network as an ONNX model, and how well the model agrees with it."""
    from zerolab.networks.network import set_weights
    from zerolab.networks.onnx_export import compare_onnx_model, encode_onnx_model

    network = build_network(
        agent.network_settings, agent.game, seed=0
    )  # initial weights are replaced
    set_weights(network, agent.weights)
    states = np.unique([each.state for each in ongoing_sample_positions(agent.game)], axis=0)
    planes = compiled_rules.encode_batch(agent.game, states)
    content = encode_onnx_model(network.eval(), planes, _metadata(agent, network))
    return content, compare_onnx_model(content, network, planes)


def _metadata(agent: SharedAgent, network: Network) -> dict[str, Any]:
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
