"""`zerolab serve`: the laboratory in a browser."""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import Positional

from zerolab.cli.output import say
from zerolab.core.errors import MissingExtraError, UserError
from zerolab.core.files import check_output_path, write_private_text

_MOST_PORT = 65_535


def serve(
    runs: Positional[tuple[str, ...]] = (),
    *,
    host: str = "127.0.0.1",
    port: int = 8765,
    names: tuple[str, ...] = (),
    studies: str = "studies",
    tournaments: str = "tournaments",
    workers: int = 2,
    allow_training: bool = False,
    open: bool = False,
    class_: Annotated[str, tyro.conf.arg(name="class", metavar="NAMES.txt|N")] = "",
    class_links: Path | None = None,
) -> None:
    """Serve the laboratory for a browser: play, analyse, replay, watch and compare.

    By default, only this machine can connect to the server. With --host or --names, other machines
    can also connect, and the printed address includes an access token. With --class, each pupil of
    a class has a link of their own, and the teacher has one that starts tournaments.

    Examples:
      zerolab serve
      zerolab serve runs other/runs --port 8000 --open
      zerolab serve --host 0.0.0.0 --allow-training
      zerolab serve --host 0.0.0.0 --class names.txt --class-links links.txt

    Args:
        runs: Runs or folders that contain runs; by default, the folder runs.
        host: Address to listen on; 0.0.0.0 means all network interfaces.
        port: Port to listen on; 0 selects a free port.
        names: Additional host names, such as that of a reverse proxy. A proxy must set
            X-Forwarded-For (docs/web.md).
        studies: Folder that contains studies.
        tournaments: Tournament or folder that contains tournaments.
        workers: Number of search processes.
        allow_training: Allow pages to start, stop and resume runs.
        open: Open the home page in the default browser.
        class_: File with one pupil's name per line, or the number of pupils.
        class_links: File to which the links of the class are written instead of the terminal; only
            its owner can read it.
    """
    _check(runs, port, workers)
    if class_links is not None and not class_:
        raise UserError("--class-links needs --class: expected --class NAMES.txt as well")
    if class_links is not None:
        check_output_path(class_links)
    try:
        from zerolab.web.classroom import Classroom, class_names, link_table
        from zerolab.web.folders import Folders
        from zerolab.web.laboratory import Laboratory
        from zerolab.web.server import serve as serve_laboratory
    except ModuleNotFoundError as error:
        raise MissingExtraError.of("zerolab serve", error.name, "web") from error
    folders = Folders(tuple(map(Path, runs)) or (Path("runs"),), Path(studies), Path(tournaments))
    classroom = Classroom.open(folders.classroom, class_names(class_)) if class_ else None
    laboratory = Laboratory(
        folders, allow_training=allow_training, workers=workers, warm_up=True, classroom=classroom
    )

    def announce(address: str, token: str | None) -> None:
        links = ""
        if classroom is not None:
            base = f"https://{names[0].lower()}/" if names else address
            links = link_table(classroom.record, base)
            if class_links is not None:  # complete when a program reads that the server runs
                write_private_text(class_links, links)
        say(f"zerolab is running at {address}")
        if classroom is not None:
            _show_links(links, class_links)
            address += f"class?token={classroom.record.teacher}"
        if token:
            for name in names:
                say(f"through a proxy, use https://{name.lower()}/?token={token}")
            print("keep this URL private: anyone who has it can connect")
        sys.stdout.flush()
        if open:
            webbrowser.open(address)

    serve_laboratory(laboratory, host, port, [name.lower() for name in names], announce)


def _show_links(table: str, path: Path | None) -> None:
    """Print the links of a class, or the file that has them."""
    if path is None:
        say(*table.splitlines())
    else:
        say(f"the links of the class are in {path}")
    print("keep these links private: each belongs to one person")


def _check(runs: Sequence[str], port: int, workers: int) -> None:
    for run in runs:
        if not Path(run).is_dir():
            raise UserError(f"{run} is not a folder: expected a run or a folder of runs")
    if not 0 <= port <= _MOST_PORT:
        raise UserError(f"port = {port}: expected from 0 to {_MOST_PORT}")
    if not 1 <= workers <= 64:
        raise UserError(f"workers = {workers}: expected from 1 to 64")
