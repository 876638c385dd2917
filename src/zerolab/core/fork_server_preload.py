"""First import of the fork server: makes it end silently with its parent.

The server that `core.processes` starts looks for the end of its parent only between two requests,
so it would finish imports of many seconds and then fork the requested process. That process finds
nothing left of its parent, and Python would print a traceback.

Other processes may inherit the environment variable, such as one that another thread starts at the
same moment. So this module acts in a fork server alone.
"""

from __future__ import annotations

import atexit
import os
import pickle
import sys
import threading
import traceback
from multiprocessing import forkserver
from types import TracebackType

from zerolab.core.processes import PARENT

_LOOK_SECONDS = 0.05
_LEFT_BY_A_PARENT = EOFError, OSError, pickle.UnpicklingError
"""Errors of multiprocessing after the end of a parent: broken pipes, removed locks."""


def _follow_parent(parent: int) -> None:
    """End this process soon after its parent, until it forks for the first time."""
    forks = threading.Event()

    def follow() -> None:
        while not forks.wait(_LOOK_SECONDS):
            if os.getppid() != parent:
                os._exit(1)

    def stop() -> None:
        """End the thread, as only processes of one thread are forked safely."""
        forks.set()
        follower.join()

    follower = threading.Thread(target=follow, daemon=True)
    follower.start()
    os.register_at_fork(before=stop)


def _show_unless_parent_has_ended(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Show an error of the server, or of a process that has not begun its work."""
    where = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(trace)]
    is_own = bool(where) and where[-1].startswith("multiprocessing.")
    if not (is_own and isinstance(error, _LEFT_BY_A_PARENT)):
        sys.__excepthook__(kind, error, trace)


def _is_server() -> bool:
    """Return whether this process runs multiprocessing's server of forks, and nothing else."""
    return getattr(sys.modules["__main__"], "main", None) is forkserver.main


if PARENT in os.environ and _is_server():
    _follow_parent(int(os.environ.pop(PARENT)))
    atexit.register(os._exit, 0)  # to take apart what torch has loaded takes a second
    sys.excepthook = _show_unless_parent_has_ended
