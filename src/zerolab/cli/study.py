"""`zerolab study` and `zerolab report`: reproductions of papers."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from zerolab.cli.output import Console, print_json, say, table_console
from zerolab.cli.process import resumable
from zerolab.cli.progress import duration, progress_bar
from zerolab.core.errors import UserError, quoted
from zerolab.core.processes import available_cores
from zerolab.report.interval import Cell
from zerolab.report.table import Column, Table
from zerolab.report.terminal import print_table
from zerolab.studies.study import Scale, Study, registered_studies

if TYPE_CHECKING:
    from zerolab.studies.study_folder import Failures
    from zerolab.studies.work import StudyProgress, StudyWork
    from zerolab.studies.workers import Workers


STUDIES_FOLDER = Path("studies")
_MOST_WORKERS = 100_000
_Name = Annotated[str, tyro.conf.arg(metavar="NAME", help_behavior_hint="")]
_Parts = Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="PART")]


def studies(
    name: tyro.conf.Positional[_Name] = "",
    *,
    json: bool = False,
) -> None:
    """Reproduce a study of a paper; without a name, list the studies.

    The help of a study, zerolab study NAME --help, explains its options.

    Examples:
      zerolab study
      zerolab study warm-start --scale mini

    Args:
        name: Which study; its options follow the name.
        json: Print JSON.
    """
    if name:
        raise UserError("expected the name first, as in zerolab study table-5.1 --json")
    listed = {name: headline(study) for name, study in sorted(registered_studies().items())}
    if json:
        print_json([{"name": name, "help": text} for name, text in listed.items()])
        return
    table = Table("studies", "", ["study", "what it does"], list(listed.items()))
    print_table(table_console(), table)


def subcommand(arguments: list[str]) -> tuple[Callable[..., None], str, list[str]]:
    """Return the function of a study, or that which lists them, its name, and its arguments."""
    if not arguments or arguments[0].startswith("-"):
        return studies, "study", arguments
    study = registered_studies()[arguments[0]]
    command = _command(study, shlex.join(["zerolab", "study", *arguments]))
    return command, f"study {study.name}", arguments[1:]


def headline(study: Study) -> str:
    """Return the first line of a study's description."""
    return (inspect.getdoc(study) or "").partition("\n")[0]


def _command(study: Study, again: str) -> Callable[..., None]:
    """Return the function whose options are those of all studies and whose help is the study's."""

    def command(
        *,
        scale: Scale = "mini",
        only: _Parts = (),
        workers: int | None = None,
        ray: str = "",
        status: bool = False,
        folder: Path = STUDIES_FOLDER,
        json: bool = False,
    ) -> None:
        from zerolab.studies.work import StudyWork

        study_work = StudyWork.of(study, scale, folder, only)
        if status:
            _show_status(study_work, json)
            return
        failures = _work(study_work, workers, ray, again)
        for title, lines in failures.items():
            say(f"{title} failed:", *(f"  {line}" for line in lines), error=True)
        show_report(study_work, study_work.folder.report, json)
        if failures:
            raise UserError(
                f"{len(failures)} of the tasks failed, as listed above; the report is on what is"
                f" finished, and the same command tries the others again: {again}"
            )

    command.__doc__ = f"{inspect.getdoc(study)}\n\n{_OPTIONS}"
    return command


_OPTIONS = """Args:
    scale: smoke: seconds, to see that it works; mini: minutes; small: a night on two cores; paper:
        the published design.
    only: A part of the study to work on, as --status lists them; may be repeated.
    workers: Processes that work at once, each on its share of the cores; by default one per core.
    ray: Work on a Ray cluster instead, whose nodes share the folder: its address, or local for one
        that is started here.
    status: Only show how far the study has come, and what the rest will take.
    folder: Where studies keep their runs, games and reports.
    json: Print the results, or the status, as JSON."""


def _work(study_work: StudyWork, workers: int | None, ray: str, again: str) -> Failures:
    """Do what is left, with one bar for everything; return what has failed."""
    before = study_work.progress()
    for tournament in study_work.waiting():
        Console(stderr=True).print(
            f"{tournament} is not played: some of its players are in parts that --only leaves out",
            soft_wrap=True,
        )
    if not before.is_unfinished:
        study_work.forget_failures()
        return {}
    study_work.require_room()
    chosen = _workers(workers, ray, study_work.folder.root)
    study_work.begin()
    _announce(study_work, before, chosen.count)
    with (
        resumable("what is finished is stored", again),
        progress_bar(study_work.folder.path.name, round(before.seconds), "s of work") as update,
    ):
        return study_work.work(chosen, lambda view: update(*_progress(view, before)))


def _workers(count: int | None, ray: str, folder: Path) -> Workers:
    """Return who does the work; raise UserError where there is no such cluster."""
    from zerolab.studies.workers import LocalWorkers

    if count is not None and not 1 <= count <= _MOST_WORKERS:
        raise UserError(f"workers = {quoted(count)}: expected 1 to {_MOST_WORKERS}")
    if ray:
        from zerolab.studies.ray_workers import RayWorkers

        return RayWorkers(ray, folder, count or 0)
    return LocalWorkers(count or available_cores())


def _announce(study_work: StudyWork, view: StudyProgress, workers: int) -> None:
    """Say what is to be done, how long it will take and how much disk it needs."""
    work = (
        (view.runs - view.finished_runs, view.runs, "runs to train"),
        (view.games - view.finished_games, view.games, "games to play"),
        (view.computations - view.finished_computations, view.computations, "computations to do"),
    )
    parts = ", ".join(f"{left:,} of {every:,} {what}" for left, every, what in work if every)
    seconds = (view.seconds - view.done_seconds) / workers
    message = (
        f"{study_work.folder.path.name}: {parts} with {workers} worker{'s' if workers > 1 else ''};"
        f" about {duration(seconds)} and {study_work.bytes_left() / 2**20:,.0f} MiB of disk"
    )
    Console(stderr=True).print(message, soft_wrap=True)


def _progress(view: StudyProgress, before: StudyProgress) -> tuple[int, str]:
    """Return the seconds of work that are done, of those that there were, and what is going on."""
    share = view.done_seconds / view.seconds if view.seconds else 1.0
    failed = f", {view.failed} failed" if view.failed else ""
    work = (
        (view.finished_runs, view.runs, "runs"),
        (view.finished_games, view.games, "games"),
        (view.finished_computations, view.computations, "computations"),
    )
    parts = ", ".join(f"{done:,}/{every:,} {what}" for done, every, what in work if every)
    note = f"{parts}{failed}; {', '.join(view.active)}"
    return round(share * before.seconds), note


def _show_status(study_work: StudyWork, json: bool) -> None:
    found = study_work.status()
    if json:
        print_json(found)
        return
    rows: list[list[Cell]] = [
        [
            part["part"],
            f"{part['finished_runs']}/{part['runs']}",
            f"{part['finished_games']:,}/{part['games']:,}",
            f"{part['finished_computations']}/{part['computations']}",
            (part["seconds"] - part["done_seconds"]) / 3600,
        ]
        for part in found["parts"]
    ]
    columns: list[str | Column] = [
        "part",
        "runs",
        "games",
        "computations",
        Column("core hours left", ".2f"),
    ]
    console = table_console()
    print_table(console, Table("status", "", columns, rows))
    left = (found["seconds"] - found["done_seconds"]) / 3600
    console.print(
        f"{study_work.folder.path}: {left:.2f} core hours left,"
        f" {study_work.bytes_left() / 2**20:,.0f} MiB of disk"
    )
    for title, lines in found["failures"].items():
        console.print("\n  ".join([f"failed: {title}", *lines]))


def show_report(study_work: StudyWork, output: Path, json: bool) -> None:
    """Write the report on whatever is finished, and print it."""
    from zerolab.report.save import save
    from zerolab.report.terminal import show

    results = study_work.results()
    for message in results.damaged:
        say(f"left out of the report: {message}", error=True)
    document = study_work.study.document(results)
    save(document, output)
    if json:
        print_json(document.as_dict())
        return
    console = table_console()
    show(document, console)
    console.print(f"\nthe whole report: {output / 'index.html'}")


def report(
    name: tyro.conf.Positional[str],
    *,
    scale: Scale = "mini",
    folder: Path = STUDIES_FOLDER,
    output: Path | None = None,
    json: bool = False,
) -> None:
    """Report on a study: one page that opens from disk, Markdown, tables as CSV, and figures.

    What is not finished is left out, and claims without data say what they lack. zerolab study
    writes the same report when it has done its work.

    Examples:
      zerolab report warm-start
      zerolab report loss-functions --scale small --output results/loss-functions

    Args:
        name: The study, as zerolab study lists it.
        scale: The scale at which it was begun.
        folder: Where studies keep their runs, games and reports.
        output: The folder to write into; by default report/ in that of the study.
        json: Print tables and claims as JSON.
    """
    from zerolab.studies.work import StudyWork

    study_work = StudyWork.of(registered_studies()[name], scale, folder)
    show_report(study_work, output or study_work.folder.report, json)
