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
    """Open the laboratory in a browser: play, analyse, replay, watch, compare.

    Only this machine can reach it, unless --host or --names says otherwise; then the address has a
    token.

    Examples:
      zerolab serve
      zerolab serve runs other/runs --port 8000 --open
      zerolab serve --host 0.0.0.0 --allow-training

    Args:
        runs: Runs or folders of runs; by default, the folder runs.
        host: Where to listen; 0.0.0.0 for every network of this machine.
        port: Where to listen; 0 takes a free one.
        names: Further host names, such as that of a proxy in front of the server, which must
            set X-Forwarded-For (docs/web.md).
        studies: The folder of studies.
        tournaments: A folder of tournaments, or a tournament.
        workers: Number of processes that search.
        allow_training: Let pages start, stop and resume runs.
        open: Open the first page in the browser.
    """
    _check(runs, port, workers)
    try:
        from zerolab.web.folders import Folders
        from zerolab.web.laboratory import Laboratory
        from zerolab.web.server import serve as serve_laboratory
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"pages need {error.name}: install the extra \"web\", as in pip install 'zerolab[web]'"
        ) from error
    folders = Folders(tuple(map(Path, runs)) or (Path("runs"),), Path(studies), Path(tournaments))
    laboratory = Laboratory(folders, allow_training=allow_training, workers=workers, warm_up=True)

    def announce(address: str, token: str | None) -> None:
        say(f"zerolab is at {address}")
        if token:
            for name in names:
                say(f"through a proxy, it is at https://{name.lower()}/?token={token}")
            print("anyone with this URL has access: the token in it is the password")
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
