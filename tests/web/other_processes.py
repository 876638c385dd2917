"""Stand-ins for search processes, started by name."""

from __future__ import annotations

import time
from multiprocessing.connection import Connection
from pathlib import Path

from zerolab.web.search_process import serve_searches

_SECONDS = 60
MARK = Path("search-at-last")


def read_nothing(connection: Connection) -> None:
    """Do nothing for long."""
    time.sleep(_SECONDS)


def read_nothing_at_first(connection: Connection) -> None:
    """Do nothing for long; but search where MARK lies in the folder."""
    if MARK.exists():
        serve_searches(connection)
    else:
        read_nothing(connection)
