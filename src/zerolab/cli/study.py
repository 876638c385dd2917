"""`zerolab study` and `zerolab report`: reproductions of papers."""

from __future__ import annotations

import dataclasses
import inspect
import math
import os
import shlex
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from zerolab.cli.output import Console, print_json, print_lines
from zerolab.cli.process import advise_resuming
from zerolab.cli.progress import format_duration, progress_bar
from zerolab.core import __version__
from zerolab.core.errors import UserError, quoted
from zerolab.core.files import check_not_symlink, write_bytes
from zerolab.core.processes import available_cores
from zerolab.report.table import Cell, Column, Table
from zerolab.report.text import print_table
from zerolab.studies.looks import parse_seeds
from zerolab.studies.study import LEDGER_FILE_NAME, SCALES, Scale, Study, registered_studies

if TYPE_CHECKING:
    from zerolab.report.document import Document
    from zerolab.studies.execution import StudyExecution, StudyStorage
    from zerolab.studies.results import Results
    from zerolab.studies.scheduler import StudyProgress
    from zerolab.studies.study_folder import Failures
    from zerolab.studies.tasks import Workers


STUDIES_FOLDER = Path("studies")
_MAX_WORKERS = 100_000
_Name = Annotated[str, tyro.conf.arg(metavar="NAME", help_behavior_hint="")]
_Ledgers = Annotated[tuple[Path, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="FILE")]
_Parts = Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="PART")]


def list_studies(name: tyro.conf.Positional[_Name] = "", *, json: bool = False) -> None:
    """Reproduce a published study, or list all studies if no name is given.

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
    descriptions = {name: study.description for name, study in sorted(registered_studies().items())}
    if json:
        print_json([{"name": name, "description": text} for name, text in descriptions.items()])
        return
    table = Table("studies", "", ["study", "description"], list(descriptions.items()))
    print_table(Console(), table)


def split_subcommand(arguments: list[str]) -> tuple[Callable[..., None], str, list[str]]:
    """Return a study's function or `list_studies`, the command's full name, and its arguments."""
    if not arguments or arguments[0].startswith("-"):
        return list_studies, "study", arguments
    study = registered_studies()[arguments[0]]
    command = _command(study, shlex.join(["zerolab", "study", *arguments]))
    return command, f"study {study.name}", arguments[1:]


def _command(study: Study, repeat: str) -> Callable[..., None]:
    """Return a function with the options of all studies and the help text of `study`."""

    def command(
        *,
        scale: Scale = "mini",
        only: _Parts = (),
        workers: int | None = None,
        ray: str = "",
        seeds: str = "",
        hours: float | None = None,
        status: bool = False,
        folder: Path = STUDIES_FOLDER,
        storage: str = "",
        json: bool = False,
    ) -> None:
        from zerolab.studies.execution import StudyExecution

        chosen = parse_seeds(seeds) if seeds else ()
        execution = StudyExecution.plan(study, scale, folder, only, chosen)
        copy = None
        while storage and (copy is None or copy.seeds != list(execution.seeds)):
            copy = _fetched(storage, execution)
            # A fetched study can have different seeds.
            execution = StudyExecution.plan(study, scale, folder, only, chosen)
        if status:
            _show_status(execution, json)
            return
        failures = _perform(execution, workers, ray, hours, repeat, copy)
        for title, lines in failures.items():
            print_lines(f"{title} failed:", *(f"  {line}" for line in lines), error=True)
        show_report(execution, None, json)
        if copy is not None:
            copy.push()
            print_lines(f"copied to {copy.uri}", error=True)
        if failures:
            raise UserError(
                f"{len(failures)} of the tasks failed, as listed above. The report covers finished"
                f" tasks. To retry the failed tasks, repeat the command: {repeat}"
            )

    command.__doc__ = f"{inspect.getdoc(study)}\n\n{_OPTIONS}"
    return command


_OPTIONS = """Args:
    scale: Size of the study: smoke takes seconds and only shows that the study works, mini takes
        an hour or more on two cores, small takes hours or days, and paper is the published design.
    only: Part of the study to work on, as listed by --status; can be repeated.
    workers: Number of parallel processes, which share the cores; one per core by default.
    ray: Address of a Ray cluster to use instead of local processes; the nodes must share the
        folder. Use local to start a cluster on this machine.
    seeds: Seeds of the runs, such as 100-105, instead of all the study's seeds. Ledgers with
        different seeds can be combined; see zerolab report --help.
    hours: Add seeds in rounds until the primary claims are decided or this many hours have passed.
        Each round adds a third of the seeds, and then the claims are tested at a level that allows
        for repeated looks. By default, a single round uses all seeds.
    status: Only show the study's progress and an estimate of the remaining time.
    folder: Folder for the runs, games and reports of studies.
    storage: Folder, file:///PATH or s3://BUCKET/PATH to which finished work is copied every minute
        and at the end. Finished work that is missing from the folder is first fetched from there.
    json: Print the results or the status as JSON."""


def _fetched(uri: str, execution: StudyExecution) -> StudyStorage:
    """Return the storage of a study, after fetching finished work from it."""
    from zerolab.studies.execution import StudyStorage

    copy = StudyStorage(uri, execution)
    if count := copy.fetch(progress_bar):
        print_lines(f"fetched {count} items to {execution.folder.root} from {copy.uri}", error=True)
    return copy


def _perform(
    execution: StudyExecution, workers: int | None, ray: str, hours: float | None, repeat: str,
    copy: StudyStorage | None = None,
) -> Failures:  # fmt: skip
    """Do the remaining work and show one progress bar; return the failures."""
    if hours is not None and not 0.0 < hours < math.inf:
        raise UserError(f"--hours {quoted(hours)}: expected a positive number")
    before = execution.progress()
    for tournament in execution.blocked_tournaments():
        Console(stderr=True).print(
            f"{tournament} is skipped because --only excludes some of its players"
        )
    if not before.is_unfinished:
        execution.forget_failures()
        return {}
    execution.require_disk_space()
    pool = _create_workers(workers, ray, execution.folder.root)
    if hours is not None:
        execution.require_time_for_round(pool.count, hours)
    execution.create_folder()
    seconds = round(before.planned_core_seconds)
    _announce(execution, before, pool.count)
    with (
        advise_resuming("finished tasks are saved", repeat),
        progress_bar(execution.folder.path.name, seconds, "s of work") as update,
    ):

        def report(view: StudyProgress) -> None:
            update(*_progress(view, before))
            if copy is not None:
                _copy_if_due(copy, view)

        if hours is None:
            return execution.perform_all(pool, report)
        failures, reason = execution.perform_rounds(pool, report, hours)
    print_lines(f"{execution.folder.path.name}: {reason}", error=True)
    return failures


def _copy_if_due(copy: StudyStorage, view: StudyProgress) -> None:
    try:
        copy.push_if_due(view)
    except UserError as error:  # the storage may be back later
        print_lines(f"not copied: {error}", error=True)


def _create_workers(count: int | None, ray: str, folder: Path) -> Workers:
    """Return local or Ray workers; raise UserError if the Ray cluster does not exist."""
    from zerolab.studies.tasks import LocalWorkers

    if count is not None and not 1 <= count <= _MAX_WORKERS:
        raise UserError(f"workers = {quoted(count)}: expected 1 to {_MAX_WORKERS}")
    if ray:
        from zerolab.studies.ray_workers import RayWorkers

        return RayWorkers(ray, folder, count or 0)
    return LocalWorkers(count or available_cores())


def _announce(execution: StudyExecution, view: StudyProgress, workers: int) -> None:
    """Print the remaining work with estimates of the time and disk space needed."""
    work = (
        (view.finished_runs, view.planned_runs, "runs to train"),
        (view.finished_games, view.planned_games, "games to play"),
        (view.finished_computations, view.planned_computations, "computations to do"),
    )
    parts = ", ".join(f"{n - done:,} of {n:,} {unit}" for done, n, unit in work if n)
    seconds = (view.planned_core_seconds - view.finished_core_seconds) / workers
    message = (
        f"{execution.folder.path.name}: {parts} with {workers} worker{'s' if workers > 1 else ''};"
        f" about {format_duration(seconds)} and"
        f" {execution.remaining_bytes() / 2**20:,.0f} MiB of disk"
    )
    Console(stderr=True).print(message)


def _progress(view: StudyProgress, before: StudyProgress) -> tuple[int, str]:
    """Return the progress in seconds of work, on the scale of `before`, and a note for the bar."""
    planned = view.planned_core_seconds
    share = view.finished_core_seconds / planned if planned else 1.0
    if before.planned_runs:
        share *= view.planned_runs / before.planned_runs  # a round covers only some runs
    failed = f", {view.failed_count} failed" if view.failed_count else ""
    work = (
        (view.finished_runs, view.planned_runs, "runs"),
        (view.finished_games, view.planned_games, "games"),
        (view.finished_computations, view.planned_computations, "computations"),
    )
    parts = ", ".join(f"{done:,}/{total:,} {unit}" for done, total, unit in work if total)
    seconds = round(share * before.planned_core_seconds)
    return seconds, f"{parts}{failed}; {', '.join(view.active_titles)}"


def _show_status(execution: StudyExecution, json: bool) -> None:
    status = execution.status()
    if json:
        print_json(status)
        return
    rows: list[list[Cell]] = [
        [
            part["part"],
            f"{part['finished_runs']}/{part['planned_runs']}",
            f"{part['finished_games']:,}/{part['planned_games']:,}",
            f"{part['finished_computations']}/{part['planned_computations']}",
            (part["planned_core_seconds"] - part["finished_core_seconds"]) / 3600,
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
    console = Console()
    print_table(console, Table("status", "", columns, rows))
    hours = (status["planned_core_seconds"] - status["finished_core_seconds"]) / 3600
    console.print(
        f"{execution.folder.path}: {hours:.2f} core hours left,"
        f" {execution.remaining_bytes() / 2**20:,.0f} MiB of disk"
    )
    for title, lines in status["failures"].items():
        console.print("\n  ".join([f"failed: {title}", *lines]))


def show_report(execution: StudyExecution, output: Path | None, json: bool) -> None:
    """Write and print the report on the finished work, by default in the study folder."""
    if output is None:
        output = execution.folder.report_path
        check_not_symlink(output)
    numbers = {run.title: number for number, run in enumerate(execution.design.runs)}
    with progress_bar(f"report on {execution.folder.path.name}", len(numbers), "runs") as update:
        results = execution.results(lambda title: update(numbers[title], title))
        document = execution.study.report(results)
    _show_document(execution.study, execution.scale, document, results, output, json)


def _show_document(
    study: Study, scale: Scale, document: Document, results: Results, output: Path, json: bool
) -> None:
    """Write and print the report on the given results, with the facts needed to cite it."""
    from zerolab.report.document import ReportCitation
    from zerolab.report.html import save_document
    from zerolab.report.text import print_document

    command = study.repeat_command(scale, results.design.seeds)
    citation = ReportCitation(study.name, command, date.today().isoformat(), __version__)
    document = dataclasses.replace(document, citation=citation)
    for message in results.exclusion_messages:
        print_lines(f"left out of the report: {message}", error=True)
    save_document(document, output)
    if json:
        print_json(document.as_dict())
        return
    console = Console()
    print_document(document, console)
    console.print(f"\nfull report: {output / 'index.html'}")


def report(
    name: tyro.conf.Positional[str],
    *,
    scale: Scale | None = None,
    folder: Path = STUDIES_FOLDER,
    ledger: _Ledgers = (),
    output: Path | None = None,
    json: bool = False,
) -> None:
    """Write a study's report as a standalone HTML page, Markdown, CSV tables and figures.

    The report leaves out unfinished work and states which data are missing for a claim. A study
    writes the same report when it finishes.

    Examples:
      zerolab report warm-start
      zerolab report loss-functions --scale small --output results/loss-functions
      zerolab report warm-start --ledger mine.parquet --ledger theirs.parquet --output both

    Args:
        name: Study, as listed by zerolab study.
        scale: Scale at which the study was started; by default, the only one in the folder, or
            mini. A ledger states its scale.
        folder: Folder of the runs, games and reports of studies.
        ledger: Write the report from this ledger instead of a study folder. A ledger contains all
            the data that the report needs; every study folder contains one. Can be repeated
            to combine ledgers of different seeds.
        output: Folder to write to, together with the ledger; by default, report/ in the study
            folder.
        json: Print tables and claims as JSON.
    """
    from zerolab.studies.execution import StudyExecution

    study = registered_studies()[name]
    if ledger:
        for option, is_given in (("--scale", scale), ("--folder", folder != STUDIES_FOLDER)):
            if is_given:
                raise UserError(f"{option} has no effect with --ledger: expected one of the two")
        _report_from_ledgers(study, ledger, output, json)
        return
    execution = StudyExecution.plan(study, scale or _only_scale(study, folder), folder)
    show_report(execution, output, json)
    if output is not None:
        write_bytes(output / LEDGER_FILE_NAME, execution.folder.ledger_path.read_bytes())


def _only_scale(study: Study, folder: Path) -> Scale:
    """Return the only started scale, or mini; raise UserError for several without mini."""
    from zerolab.studies.study_folder import StudyFolder

    started = [each for each in SCALES if StudyFolder(folder, study.name, each).has_begun]
    if "mini" in started or not started:
        return "mini"
    if len(started) > 1:
        options = " or ".join(f"--scale {each}" for each in started)
        raise UserError(f"{folder} contains {study.name} at several scales: expected {options}")
    return started[0]


def _report_from_ledgers(
    study: Study, files: Sequence[Path], output: Path | None, json: bool
) -> None:
    """Write the report on the results in one or more ledgers, and the merged ledger."""
    from zerolab.store.checks import user_errors_on_read
    from zerolab.studies.ledger import merge_ledgers, read_ledger, write_ledger
    from zerolab.studies.results import read_results, with_last_look

    if output is None:
        raise UserError("--ledger needs --output: expected a folder for the report")
    paths = [os.path.realpath(file) for file in files]
    if len(set(paths)) < len(paths):
        raise UserError("--ledger names a file twice: expected different files")
    if len(paths) > 1 and os.path.realpath(output / LEDGER_FILE_NAME) in paths:
        raise UserError(f"--output {quoted(output)} contains a --ledger: expected another folder")
    ledgers = {file: read_ledger(file) for file in files}
    scales = [study.scale_of_ledger(file, each.header) for file, each in ledgers.items()]
    merged = merge_ledgers(ledgers)
    design = study.design(scales[0], merged.seeds)
    with user_errors_on_read(files[0]):
        ledger = with_last_look(merged, design)
        results = read_results(design, ledger)
        document = study.report(results)
    _show_document(study, scales[0], document, results, output, json)
    write_ledger(output / LEDGER_FILE_NAME, ledger)
