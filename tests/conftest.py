"""All tests know the game of the examples folder, and none depends on the machine's speed."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
from importlib.metadata import entry_points
from pathlib import Path

from hypothesis import settings

EXAMPLES = Path(__file__).parents[1] / "examples"


settings.register_profile("zerolab", deadline=None)  # a first call may compile
settings.load_profile("zerolab")


# Temporary folders lie in memory where it has room. What zerolab writes it flushes, so that it
# survives a crash: on a disk that takes a tenth of the time of the tests of stores and training.
_memory, _room_in_bytes = Path("/dev/shm"), 4 << 30
if _memory.is_dir() and shutil.disk_usage(_memory).free > _room_in_bytes:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_memory))


def pytest_collection_finish() -> None:
    """Spare the garbage collector thousands of tests, which live to the end."""
    gc.collect()
    gc.freeze()


def pytest_configure() -> None:
    """Unless Hex is installed, announce it as an installed package would."""
    if any(point.name == "hex" for point in entry_points(group="zerolab.games")):
        return
    folder = Path(tempfile.mkdtemp(prefix="zerolab-tests-"))
    announcement = folder / "zerolab_hex-0.dist-info" / "entry_points.txt"
    announcement.parent.mkdir()
    announcement.write_text("[zerolab.games]\nhex = hex\n")
    added = [str(EXAMPLES), str(folder)]
    sys.path[:0] = added
    paths = [*added, os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))


# Each process of pytest-xdist has a core of its own: threads of two processes that share cores
# spend their time waiting for each other.
_worker = os.environ.get("PYTEST_XDIST_WORKER", "")
if _worker and hasattr(os, "sched_setaffinity"):
    _cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {_cores[int(_worker.removeprefix("gw")) % len(_cores)]})

# A shell lets programs in its background ignore Ctrl-C, and nohup the end of a terminal; those
# that tests start would ignore them, too.
for _signal in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(_signal) == signal.SIG_IGN:
        _handler = signal.default_int_handler if _signal == signal.SIGINT else signal.SIG_DFL
        signal.signal(_signal, _handler)
