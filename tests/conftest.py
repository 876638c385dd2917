"""Shared set-up: the example game, temporary folders, CPU affinity and signals."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
from collections import Counter
from functools import cached_property
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

EXAMPLES = Path(__file__).parents[1] / "examples"

# Collect garbage less often: with the default thresholds, collecting takes a tenth of the time.
# Imports and the collection of tests leave almost no garbage.
gc.set_threshold(50_000, 20, 100)
gc.disable()

settings.register_profile("zerolab", deadline=None)  # the first call may compile
settings.load_profile("zerolab")


# Put temporary folders in memory if there is room. zerolab flushes its files so that they survive
# a crash; on a disk, flushing takes a tenth of the time of the store and training tests.
_memory, _room_in_bytes = Path("/dev/shm"), 4 << 30
if _memory.is_dir() and shutil.disk_usage(_memory).free > _room_in_bytes:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_memory))


# Tests start many processes; without bytecode each would compile all modules again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

os.environ.pop("COLUMNS", None)  # commands format output as for files, not terminals


class _FolderScheduling(LoadFileScheduling):
    """Distribution of whole folders, whose files share compiled helpers, servers and a browser.

    If there are fewer folders than workers, files are distributed.
    """

    @cached_property
    def _enough_folders(self) -> bool:
        assert self.collection is not None
        folders = {nodeid.partition("::")[0].rpartition("/")[0] for nodeid in self.collection}
        return len(folders) >= self.numnodes

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return file.rpartition("/")[0] if self._enough_folders else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadFileScheduling | None:
    """Let each worker run whole folders instead of single files."""
    if config.getvalue("dist") != "loadfile":
        return None
    config.option.loadscopereorder = False  # keep the order of the next function
    return _FolderScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the browser tests, which wait most, and then with folders of many tests.

    If a worker began with them at the end, the other worker would have nothing left to do.
    """
    sizes = Counter(item.path.parent for item in items)

    def order(item: pytest.Item) -> tuple[bool, int, Path]:
        folder = item.path.parent
        return folder.name != "browser", -sizes[folder], folder

    items.sort(key=order)


def pytest_collection_finish() -> None:
    """Keep the garbage collector from scanning thousands of test items repeatedly."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish() -> None:
    """Avoid collections at the end, which would scan all objects still in use."""
    gc.freeze()


def pytest_configure() -> None:
    """Register Hex as an installed package would, unless it is installed."""
    if any(point.name == "hex" for point in entry_points(group="zerolab.games")):
        return
    folder = Path(tempfile.mkdtemp(prefix="zerolab-tests-"))
    entry_points_file = folder / "zerolab_hex-0.dist-info" / "entry_points.txt"
    entry_points_file.parent.mkdir()
    entry_points_file.write_text("[zerolab.games]\nhex = hex\n")
    folders = [str(EXAMPLES), str(folder)]
    sys.path[:0] = folders
    paths = [*folders, os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))


# Pin each pytest-xdist process to one core: threads of processes that share cores mostly wait for
# each other.
_worker = os.environ.get("PYTEST_XDIST_WORKER", "")
if _worker and hasattr(os, "sched_setaffinity"):
    _cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {_cores[int(_worker.removeprefix("gw")) % len(_cores)]})

# Background jobs of a shell ignore SIGINT, and nohup makes programs ignore SIGHUP. Restore the
# default handlers, because programs started by tests inherit them.
for _signal in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(_signal) == signal.SIG_IGN:
        _handler = signal.default_int_handler if _signal == signal.SIGINT else signal.SIG_DFL
        signal.signal(_signal, _handler)
