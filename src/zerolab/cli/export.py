"""`zerolab export`: network files to share or to use in other programs."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from zerolab.cli.output import print_json, say
from zerolab.rules.catalogue import game_name

if TYPE_CHECKING:
    from zerolab.agents.exporting import ExportResult


def export(
    run: tyro.conf.Positional[Annotated[str, tyro.conf.arg(metavar="RUN[@N]")]],
    file: tyro.conf.Positional[Path],
    *,
    overwrite: bool = False,
    json: bool = False,
) -> None:
    """Write a network to a single file, as an agent to share or as an ONNX model.

    FILE.zerolab contains the weights, the search settings and the origin of the network, but no
    executable code. You can use the file wherever an agent is expected. FILE.onnx is for other
    programs. Before writing it, the command compares the model's outputs with those of the network
    on positions from random games.

    Examples:
      zerolab export runs/demo agent.zerolab
      zerolab export runs/demo@12 network.onnx
      zerolab play agent.zerolab?simulations=400

    Args:
        run: Run whose best network, or network N, is exported; for ONNX also a .zerolab file.
        file: File to write, ending in .zerolab or .onnx.
        overwrite: Replace an existing file that has different content.
        json: Print JSON instead of text.
    """
    from zerolab.agents.exporting import export as export_network

    exported = export_network(run, file, overwrite=overwrite)
    if json:
        print_json(_as_dict(exported))
    else:
        say(*_lines(exported))


def _as_dict(exported: ExportResult) -> dict[str, Any]:
    """Return the JSON description of an export."""
    agent = exported.agent
    fields: dict[str, Any] = {
        "file": str(exported.path),
        "bytes": exported.size_bytes,
        "game": game_name(agent.game),
        "digest": agent.digest,
        "network": agent.network_settings.model_dump(mode="json"),
        "origin": agent.header.origin.model_dump(mode="json"),
    }
    if exported.agreement is not None:
        from zerolab.networks.onnx_export import TOLERANCE

        fields["positions"] = exported.agreement.position_count
        fields["tolerance"] = TOLERANCE
        fields["outputs"] = {
            name: {"shape": list(exported.agreement.output_shapes[name]), "difference": difference}
            for name, difference in exported.agreement.differences.items()
        }
    return fields


def _lines(exported: ExportResult) -> list[str]:
    """Return the text description of an export."""
    agent, origin = exported.agent, exported.agent.header.origin
    head = f"{exported.path}: {game_name(agent.game)}, {exported.size_bytes / 1024:,.0f} KiB"
    lines = [f"{head}, network {origin.iteration} of run {origin.run}"]
    agreement = exported.agreement
    if agreement is None:
        play = shlex.join(["zerolab", "play", str(exported.path)])
        return [*lines, f"digest {agent.digest}", f"play against it with: {play}"]
    from zerolab.networks.onnx_export import INPUT, TOLERANCE
    from zerolab.rules import compiled_rules

    shape = compiled_rules.encode(agent.game, compiled_rules.start(agent.game)).shape
    lines.append(f"  {INPUT} float32{_with_batch(shape)}")
    lines += [
        f"  {name} float32{_with_batch(agreement.output_shapes[name])}, differs by {difference:.1e}"
        for name, difference in agreement.differences.items()
    ]
    lines.append(
        f"compared with the network on {agreement.position_count} positions from random games,"
        f" with a tolerance of {TOLERANCE:.0e}"
    )
    return lines


def _with_batch(shape: tuple[int, ...]) -> str:
    return f"[{', '.join(['batch', *map(str, shape)])}]"
