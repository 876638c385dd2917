"""`zerolab runs`, `plot`, `diversity`, `tensorboard`, `export`: runs and files made from them."""

from __future__ import annotations

import json as json_format
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from zerolab.cli.output import Console, print_json, print_lines
from zerolab.core.errors import UserError
from zerolab.report.figures import check_figure_path, save_figure
from zerolab.report.table import Cell, Column, Table, table_from_columns
from zerolab.report.text import print_table
from zerolab.rules.catalogue import game_name
from zerolab.store.listing import RunSummary, find_runs, summarise_run
from zerolab.store.run_folder import RunFolder
from zerolab.training.curves import draw_curves
from zerolab.training.logger import export_tensorboard
from zerolab.training.panels import XAxis

if TYPE_CHECKING:
    from zerolab.agents.exporting import ExportResult


def runs(folders: tyro.conf.Positional[tuple[Path, ...]] = (), *, json: bool = False) -> None:
    """List runs with their game, preset, iteration, status, strength and starting network.

    Strength is shown if it was measured: accuracy on solved positions and, unless the run has been
    continued since its final evaluation, points per game against the opponents in that
    evaluation. Compare runs of the same game by scores against the same opponents or by accuracy on
    the same positions. Training Elo, which is included only in the JSON, is relative to earlier
    networks of the same run, so it cannot be compared between runs.

    Example: zerolab runs runs --json

    Args:
        folders: Runs or folders that contain runs; by default, the folder named runs.
        json: Print a JSON list instead of a table.
    """
    default = Path("runs")
    searched = folders or ((default,) if default.is_dir() else ())
    summaries = [summarise_run(path) for path in find_runs(searched)]
    if json:
        entries = [
            {**each._asdict(), "final_score_rates": dict(each.final_score_rates)}
            for each in summaries
        ]
        print(json_format.dumps(entries))
        return
    if not summaries:
        print("no runs found; start one with: zerolab train")
        return
    print_table(Console(), _table(summaries))


def _table(summaries: Sequence[RunSummary]) -> Table:
    """Return a table of runs, without columns that would be empty."""
    opponents = list(dict.fromkeys(name for each in summaries for name in each.final_score_rates))
    columns: dict[Column, Sequence[Cell]] = {
        Column("run"): [each.path for each in summaries],
        Column("game"): [each.game for each in summaries],
        Column("preset"): [each.preset for each in summaries],
        Column("iteration"): [
            f"{each.iteration}/{each.iterations} {each.next_stage}" for each in summaries
        ],
        Column("status"): [each.status for each in summaries],
        Column("accuracy", ".1%"): [each.accuracy for each in summaries],
        **{
            Column(f"against {name}", ".1%"): [
                each.final_score_rates.get(name) for each in summaries
            ]
            for name in opponents
        },
        Column("started from"): [each.start_network for each in summaries],
    }
    return table_from_columns("runs", columns)


def plot(
    runs: tyro.conf.Positional[tuple[Path, ...]],
    *,
    x: XAxis = "iterations",
    output: Path | None = None,
) -> None:
    """Plot the training curves of runs: losses, training Elo, game lengths, times and accuracy.

    Examples:
      zerolab plot runs/demo
      zerolab plot runs/warm runs/plain --x hours --output curves.svg

    Args:
        runs: Run folders.
        x: Horizontal axis: iterations, self-play games, or training hours.
        output: File to write; the extension selects the format. The default is curves.png, in the
            run folder if there is only one run.
    """
    if not runs:
        raise UserError("expected a run folder, such as runs/demo")
    target = output or (runs[0] / "curves.png" if len(runs) == 1 else Path("curves.png"))
    folders = [RunFolder.open(path) for path in runs]
    check_figure_path(target)
    save_figure(draw_curves(folders, x), target)
    print_lines(target)


def diversity(
    runs: tyro.conf.Positional[tuple[Path, ...]],
    *,
    figure: Path | None = None,
    json: bool = False,
) -> None:
    """Count the distinct positions in which moves were made in self-play.

    The table shows the total number, the numbers per game and per hour of self-play, and the number
    in the first N games, where N is the number of games in the run with the fewest. The figure and
    the JSON also show distinct positions by ply and by number of games.

    Examples:
      zerolab diversity runs/demo
      zerolab diversity runs/plain runs/retry runs/tree --figure diversity.png

    Args:
        runs: Run folders.
        figure: File for a plot of distinct positions by number of games and by ply, such as
            diversity.png.
        json: Print JSON instead of a table.
    """
    from zerolab.evaluation.position_statistics import diversity_of_run, draw_diversity

    if not runs:
        raise UserError("expected a run folder, such as runs/demo")
    if figure is not None:
        check_figure_path(figure)
    diversities = [diversity_of_run(path) for path in runs]
    if figure is not None:
        save_figure(draw_diversity(diversities), figure)
    if json:
        print_json([each.as_dict() for each in diversities])
        return
    games = min(each.game_count for each in diversities)
    columns: list[str | Column] = [
        "run", *(Column(title, ",") for title in ("games", "positions", "distinct")),
        Column(f"in {games:,} games", ","), Column("per game", ".1f"), Column("per hour", ",.0f"),
    ]  # fmt: skip
    rows: list[list[Cell]] = [
        [
            each.name, each.game_count, each.position_count, each.distinct_count,
            each.distinct_in_first(games), each.distinct_per_game, each.distinct_per_hour,
        ]
        for each in diversities
    ]  # fmt: skip
    print_table(Console(), Table("diversity", "", columns, rows))
    if figure is not None:
        print_lines(figure)


def tensorboard(runs: tyro.conf.Positional[tuple[Path, ...]]) -> None:
    """Write the metrics of each run as TensorBoard events to its tensorboard/ folder.

    Training does this after every stage. Use this command to restore deleted events.

    Example: zerolab tensorboard runs/demo && tensorboard --logdir runs

    Args:
        runs: Run folders.
    """
    if not runs:
        raise UserError("expected a run folder, such as runs/demo")
    for path in runs:
        print_lines(export_tensorboard(RunFolder.open(path)))
    print_lines(f"view them with: tensorboard --logdir {runs[0].parent}")


def export(
    run: tyro.conf.Positional[Annotated[str, tyro.conf.arg(metavar="RUN[@N]")]],
    file: tyro.conf.Positional[Path],
    *,
    half: bool = False,
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
      zerolab export runs/demo small.zerolab --half
      zerolab export 'runs/demo?simulations=400' strong.zerolab
      zerolab export runs/demo@4 network.onnx
      zerolab play 'agent.zerolab?simulations=400'

    Args:
        run: Run whose best network, or network N, is exported, or another agent with a network,
            such as a .zerolab file. Options change the search settings in a new .zerolab file; by
            default, they are those of training.
        file: File to write, ending in .zerolab or .onnx.
        half: Store the weights of a .zerolab file in half precision, for half the size. Moves
            hardly ever change.
        overwrite: Replace an existing file that has different content.
        json: Print JSON instead of text.
    """
    from zerolab.agents.exporting import export_to_file

    exported = export_to_file(run, file, half=half, overwrite=overwrite)
    if json:
        print_json(_as_dict(exported, half))
    else:
        print_lines(*_lines(exported, half))


def _as_dict(exported: ExportResult, half: bool) -> dict[str, Any]:
    """Return the JSON description of an export."""
    agent = exported.agent
    fields: dict[str, Any] = {
        "file": str(exported.path),
        "bytes": exported.size_bytes,
        "half": half,
        "game": game_name(agent.game),
        "digest": agent.digest,
        "network": agent.network_settings.model_dump(mode="json"),
        "origin": agent.header.origin.model_dump(mode="json"),
    }
    if exported.agreement is not None:
        from zerolab.agents.exporting import MAX_ONNX_DIFFERENCE

        fields["positions"] = exported.agreement.position_count
        fields["tolerance"] = MAX_ONNX_DIFFERENCE
        fields["outputs"] = {
            name: {"shape": list(exported.agreement.output_shapes[name]), "difference": difference}
            for name, difference in exported.agreement.max_differences.items()
        }
    return fields


def _lines(exported: ExportResult, half: bool) -> list[str]:
    """Return the text description of an export."""
    agent, origin = exported.agent, exported.agent.header.origin
    head = f"{exported.path}: {game_name(agent.game)}, {exported.size_bytes / 1024:,.0f} KiB"
    precision = ", half precision" if half else ""
    lines = [f"{head}{precision}, network {origin.iteration} of run {origin.run}"]
    agreement = exported.agreement
    if agreement is None:
        play = shlex.join(["zerolab", "play", str(exported.path)])
        return [*lines, f"digest {agent.digest}", f"play against it with: {play}"]
    from zerolab.agents.exporting import MAX_ONNX_DIFFERENCE, ONNX_INPUT_NAME
    from zerolab.rules import compiled_rules

    shape = compiled_rules.encode(agent.game, compiled_rules.start(agent.game)).shape
    lines.append(f"  {ONNX_INPUT_NAME} float32{_with_batch(shape)}")
    lines += [
        f"  {name} float32{_with_batch(agreement.output_shapes[name])}, differs by {difference:.1e}"
        for name, difference in agreement.max_differences.items()
    ]
    lines.append(
        f"compared with the network on {agreement.position_count} positions from random games,"
        f" with a tolerance of {MAX_ONNX_DIFFERENCE:.0e}"
    )
    return lines


def _with_batch(shape: tuple[int, ...]) -> str:
    return f"[{', '.join(['batch', *map(str, shape)])}]"
