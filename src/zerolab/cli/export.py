"""`zerolab export`: networks as files for others."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from zerolab.cli.output import print_json, say
from zerolab.rules.catalogue import game_name

if TYPE_CHECKING:
    from zerolab.agents.exporting import Exported


def export(
    run: tyro.conf.Positional[Annotated[str, tyro.conf.arg(metavar="RUN[@N]")]],
    file: tyro.conf.Positional[Path],
    *,
    overwrite: bool = False,
    json: bool = False,
) -> None:
    """Write a network into one file: an agent that others can play with, or an ONNX model.

    FILE.zerolab has the weights, the settings that it plays by, and where it comes from; nothing in
    it can run. Wherever an agent is named, the file is one. FILE.onnx is for other programs: its
    outputs are compared with the network's on positions of random games before it is written.

    Examples:
      zerolab export runs/demo agent.zerolab
      zerolab export runs/demo@12 network.onnx
      zerolab play agent.zerolab?simulations=400

    Args:
        run: The best network of a run, or that of iteration N; for ONNX also an agent's file.
        file: What to write: a file ending in .zerolab or .onnx.
        overwrite: Replace a file that is there with other content.
        json: Print JSON instead of lines for people.
    """
    from zerolab.agents.exporting import export as export_network

    done = export_network(run, file, overwrite=overwrite)
    if json:
        print_json(_as_dict(done))
    else:
        say(*_lines(done))


def _as_dict(done: Exported) -> dict[str, Any]:
    """Return a description of the export for JSON."""
    agent = done.agent
    fields: dict[str, Any] = {
        "file": str(done.path),
        "bytes": done.size,
        "game": game_name(agent.game),
        "digest": agent.digest,
        "network": agent.network.model_dump(mode="json"),
        "origin": agent.header.origin.model_dump(mode="json"),
    }
    if done.agreement is not None:
        from zerolab.networks.onnx_export import TOLERANCE

        fields["positions"] = done.agreement.positions
        fields["tolerance"] = TOLERANCE
        fields["outputs"] = {
            name: {"shape": list(done.agreement.shapes[name]), "difference": difference}
            for name, difference in done.agreement.differences.items()
        }
    return fields


def _lines(done: Exported) -> list[str]:
    """Return a description of the export as lines of text."""
    agent, origin = done.agent, done.agent.header.origin
    head = f"{done.path}: {game_name(agent.game)}, {done.size / 1024:,.0f} KiB"
    lines = [f"{head}, network {origin.iteration} of the run {origin.run}"]
    if done.agreement is None:
        play = shlex.join(["zerolab", "play", str(done.path)])
        return [*lines, f"digest {agent.digest}", f"play against it with: {play}"]
    from zerolab.networks.onnx_export import INPUT, TOLERANCE
    from zerolab.rules import python

    shape = python.encode(agent.game, python.start(agent.game)).shape
    lines.append(f"  {INPUT} float32{_with_batch(shape)}")
    lines += [
        f"  {name} float32{_with_batch(done.agreement.shapes[name])}, differs by {difference:.1e}"
        for name, difference in done.agreement.differences.items()
    ]
    lines.append(
        f"compared with the network on {done.agreement.positions} positions of random games; the"
        f" tolerance is {TOLERANCE:.0e}"
    )
    return lines


def _with_batch(shape: tuple[int, ...]) -> str:
    return f"[{', '.join(['batch', *map(str, shape)])}]"
