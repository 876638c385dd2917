"""`zerolab serve`: the laboratory in a browser."""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path

from tyro.conf import Positional

from zerolab.cli.output import say
from zerolab.core.errors import MissingExtraError, UserError

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
) -> None:
    """Serve the laboratory for a browser: play, analyse, replay, watch and compare.

    By default, only this machine can connect to the server. With --host or --names, other machines
    can also connect, and the printed address includes an access token.

    Examples:
      zerolab serve
      zerolab serve runs other/runs --port 8000 --open
      zerolab serve --host 0.0.0.0 --allow-training

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
    """
    _check(runs, port, workers)
    try:
        from zerolab.web.folders import Folders
        from zerolab.web.laboratory import Laboratory
        from zerolab.web.server import serve as serve_laboratory
    except ModuleNotFoundError as error:
        raise MissingExtraError("zerolab serve", error.name, "web") from error
    folders = Folders(tuple(map(Path, runs)) or (Path("runs"),), Path(studies), Path(tournaments))
    laboratory = Laboratory(folders, allow_training=allow_training, workers=workers, warm_up=True)

    def announce(address: str, token: str | None) -> None:
        say(f"zerolab is running at {address}")
        if token:
            for name in names:
                say(f"through a proxy, use https://{name.lower()}/?token={token}")
            print("keep this URL private: anyone who has it can connect")
        sys.stdout.flush()
        if open:
            webbrowser.open(address)

    serve_laboratory(laboratory, host, port, [name.lower() for name in names], announce)


def _check(runs: Sequence[str], port: int, workers: int) -> None:
    for run in runs:
        if not Path(run).is_dir():
            raise UserError(f"{run} is not a folder: expected a run or a folder of runs")
    if not 0 <= port <= _MOST_PORT:
        raise UserError(f"port = {port}: expected from 0 to {_MOST_PORT}")
    if not 1 <= workers <= 64:
        raise UserError(f"workers = {workers}: expected from 1 to 64")
