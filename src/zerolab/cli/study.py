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
    """Reproduce a published study, or list the studies if no name is given.

    Run zerolab study NAME --help to see a study's options.

    Examples:
      zerolab study
      zerolab study warm-start --scale mini

    Args:
        name: Study to reproduce, followed by its options.
        json: Print JSON.
    """
    if name:
        raise UserError("expected the name first, as in zerolab study table-5.1 --json")
    headlines = {name: headline(study) for name, study in sorted(registered_studies().items())}
    if json:
        print_json([{"name": name, "help": text} for name, text in headlines.items()])
        return
    table = Table("studies", "", ["study", "description"], list(headlines.items()))
    print_table(table_console(), table)


def subcommand(arguments: list[str]) -> tuple[Callable[..., None], str, list[str]]:
    """Return a study's function, or the one that lists studies, with its name and arguments."""
    if not arguments or arguments[0].startswith("-"):
        return studies, "study", arguments
    study = registered_studies()[arguments[0]]
    command = _command(study, shlex.join(["zerolab", "study", *arguments]))
    return command, f"study {study.name}", arguments[1:]


def headline(study: Study) -> str:
    """Return the first line of a study's description."""
    return (inspect.getdoc(study) or "").partition("\n")[0]


def _command(study: Study, repeat: str) -> Callable[..., None]:
    """Return a function with the options of all studies and the help text of `study`."""

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
        failures = _work(study_work, workers, ray, repeat)
        for title, lines in failures.items():
            say(f"{title} failed:", *(f"  {line}" for line in lines), error=True)
        show_report(study_work, study_work.folder.report, json)
        if failures:
            raise UserError(
                f"{len(failures)} of the tasks failed, as listed above. The report covers finished"
                f" tasks. To retry the others, repeat the command: {repeat}"
            )

    command.__doc__ = f"{inspect.getdoc(study)}\n\n{_OPTIONS}"
    return command


_OPTIONS = """Args:
    scale: Size of the study: smoke takes seconds and shows that it works, mini takes minutes,
        small takes a night on two cores, and paper is the published design.
    only: Part of the study to work on, as listed by --status; can be repeated.
    workers: Number of parallel processes, which share the cores; one per core by default.
    ray: Address of a Ray cluster to use instead, whose nodes share the folder. The address local
        starts one on this machine.
    status: Only show the study's progress and the estimated remaining time.
    folder: Folder for the studies' runs, games and reports.
    json: Print the results or the status as JSON."""


def _work(study_work: StudyWork, workers: int | None, ray: str, repeat: str) -> Failures:
    """Do the remaining work with a single progress bar; return the failures."""
    before = study_work.progress()
    for tournament in study_work.waiting():
        Console(stderr=True).print(
            f"{tournament} is skipped because --only excludes some of its players",
            soft_wrap=True,
        )
    if not before.is_unfinished:
        study_work.forget_failures()
        return {}
    study_work.require_room()
    pool = _create_workers(workers, ray, study_work.folder.root)
    study_work.begin()
    _announce(study_work, before, pool.count)
    with (
        resumable("finished tasks are saved", repeat),
        progress_bar(study_work.folder.path.name, round(before.seconds), "s of work") as update,
    ):
        return study_work.work(pool, lambda view: update(*_progress(view, before)))


def _create_workers(count: int | None, ray: str, folder: Path) -> Workers:
    """Return local or Ray workers; raise UserError if the Ray cluster does not exist."""
    from zerolab.studies.workers import LocalWorkers

    if count is not None and not 1 <= count <= _MOST_WORKERS:
        raise UserError(f"workers = {quoted(count)}: expected 1 to {_MOST_WORKERS}")
    if ray:
        from zerolab.studies.ray_workers import RayWorkers

        return RayWorkers(ray, folder, count or 0)
    return LocalWorkers(count or available_cores())


def _announce(study_work: StudyWork, view: StudyProgress, workers: int) -> None:
    """Print the remaining work with estimates of its time and disk space."""
    work = (
        (view.runs - view.finished_runs, view.runs, "runs to train"),
        (view.games - view.finished_games, view.games, "games to play"),
        (view.computations - view.finished_computations, view.computations, "computations to do"),
    )
    parts = ", ".join(f"{left:,} of {total:,} {unit}" for left, total, unit in work if total)
    seconds = (view.seconds - view.done_seconds) / workers
    message = (
        f"{study_work.folder.path.name}: {parts} with {workers} worker{'s' if workers > 1 else ''};"
        f" about {duration(seconds)} and {study_work.bytes_left() / 2**20:,.0f} MiB of disk"
    )
    Console(stderr=True).print(message, soft_wrap=True)


def _progress(view: StudyProgress, before: StudyProgress) -> tuple[int, str]:
    """Return the finished part of the initially remaining seconds, and a note on current work."""
    share = view.done_seconds / view.seconds if view.seconds else 1.0
    failed = f", {view.failed} failed" if view.failed else ""
    work = (
        (view.finished_runs, view.runs, "runs"),
        (view.finished_games, view.games, "games"),
        (view.finished_computations, view.computations, "computations"),
    )
    parts = ", ".join(f"{done:,}/{total:,} {unit}" for done, total, unit in work if total)
    note = f"{parts}{failed}; {', '.join(view.active)}"
    return round(share * before.seconds), note


def _show_status(study_work: StudyWork, json: bool) -> None:
    status = study_work.status()
    if json:
        print_json(status)
        return
    rows: list[list[Cell]] = [
        [
            part["part"],
            f"{part['finished_runs']}/{part['runs']}",
            f"{part['finished_games']:,}/{part['games']:,}",
            f"{part['finished_computations']}/{part['computations']}",
            (part["seconds"] - part["done_seconds"]) / 3600,
        ]
        for part in status["parts"]
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
    hours = (status["seconds"] - status["done_seconds"]) / 3600
    console.print(
        f"{study_work.folder.path}: {hours:.2f} core hours left,"
        f" {study_work.bytes_left() / 2**20:,.0f} MiB of disk"
    )
    for title, lines in status["failures"].items():
        console.print("\n  ".join([f"failed: {title}", *lines]))


def show_report(study_work: StudyWork, output: Path, json: bool) -> None:
    """Write and print the report on the finished work."""
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
    console.print(f"\nfull report: {output / 'index.html'}")


def report(
    name: tyro.conf.Positional[str],
    *,
    scale: Scale = "mini",
    folder: Path = STUDIES_FOLDER,
    output: Path | None = None,
    json: bool = False,
) -> None:
    """Write a study's report as a standalone HTML page, Markdown, CSV tables and figures.

    The report leaves out unfinished work and states which data are missing for a claim. The
    command zerolab study writes the same report when it finishes.

    Examples:
      zerolab report warm-start
      zerolab report loss-functions --scale small --output results/loss-functions

    Args:
        name: Study, as listed by zerolab study.
        scale: Scale at which the study was started.
        folder: Folder of the studies' runs, games and reports.
        output: Folder to write to; by default, report/ in the study folder.
        json: Print tables and claims as JSON.
    """
    from zerolab.studies.work import StudyWork

    study_work = StudyWork.of(registered_studies()[name], scale, folder)
    show_report(study_work, output or study_work.folder.report, json)
