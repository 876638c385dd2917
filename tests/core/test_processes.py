"""Processes that are forked after imports: what Ctrl-C does to them, and how they end."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import textwrap

import pytest

_SLOW = """
import signal, sys, time
from pathlib import Path
from zerolab.core.processes import serve_parent

Path("begun").touch()
time.sleep(1)

def work():
    serve_parent()
    sys.exit(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))
"""
_PROGRAM = """
import os, signal, sys, time
from pathlib import Path
from zerolab.core.processes import forked_after_import

if __name__ == "__main__":
    seen = []
    signal.signal(signal.SIGINT, lambda *_: seen.append(1))
    context = forked_after_import("slow_to_import")
    while not Path("begun").exists():
        time.sleep(0.01)
    os.killpg(0, signal.SIGINT)
    import slow_to_import
    process = context.Process(target=slow_to_import.work)
    process.start()
    process.join()
    sys.exit(process.exitcode + 2 * (not seen))
"""

_ENDLESS = """
import time
from pathlib import Path

Path("begun").touch()
time.sleep(120)
"""
_ENDS_DURING_IMPORTS = """
import os, sys, threading, time
from pathlib import Path
from zerolab.cli.process import end_process
from zerolab.core.processes import forked_after_import

if __name__ == "__main__":
    context = forked_after_import("endless")
    asked = context.Process(target=print, args=[context.Lock()], daemon=True)
    threading.Thread(target=asked.start, daemon=True).start()
    while not Path("begun").exists():
        time.sleep(0.01)
    {end}
"""
_LONG_TO_TAKE_APART = """
import time

class Slow:
    def __del__(self):
        time.sleep(120)

slow = Slow()
"""
_ENDS_AFTER_ITS_WORK = """
from zerolab.core.processes import forked_after_import

if __name__ == "__main__":
    context = forked_after_import("long_to_take_apart")
    process = context.Process(target=print)
    process.start()
    process.join()
"""
_ENDS_DURING_A_REQUEST = """
import os
from multiprocessing import forkserver
from zerolab.core.processes import forked_after_import

if __name__ == "__main__":
    context = forked_after_import("json")
    lock = context.Lock()
    forkserver.connect_to_new_process([])
    os._exit(2)
"""

_STARTS_ANOTHER_MEANWHILE = """
import subprocess, sys
from multiprocessing import forkserver
from zerolab.core.processes import forked_after_import

if __name__ == "__main__":
    other = "import sys, zerolab.core.processes{and_more}; sys.exit(3)"
    forkserver.ensure_running = lambda: sys.exit(subprocess.call([sys.executable, "-c", other]))
    forked_after_import("json")
"""

pytestmark = pytest.mark.skipif(
    "forkserver" not in multiprocessing.get_all_start_methods(), reason="nothing is forked"
)


def run(program, folder, **modules):
    """Run a program; return its exit code and what it and all that it leaves behind print.

    Waits until every process that writes to its pipes has ended.
    """
    for name, text in {"program": program, **modules}.items():
        (folder / f"{name}.py").write_text(text)
    ended = subprocess.run(
        [sys.executable, "program.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])},
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=60,
    )
    return ended.returncode, ended.stdout


def test_ctrl_c_during_the_imports_ends_nothing_but_the_program_that_it_is_meant_for(tmp_path):
    assert run(_PROGRAM, tmp_path, slow_to_import=_SLOW) == (0, "")


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("sys.exit(2)", 2),
        ("end_process(2)", 2),
        ("os.kill(os.getpid(), 9)", -9),
    ],
)
def test_a_program_that_ends_during_the_imports_leaves_nothing_behind(tmp_path, end, code):
    assert run(_ENDS_DURING_IMPORTS.format(end=end), tmp_path, endless=_ENDLESS) == (code, "")


def test_a_program_that_has_done_its_work_leaves_nothing_behind(tmp_path):
    module = {"long_to_take_apart": _LONG_TO_TAKE_APART}
    assert run(_ENDS_AFTER_ITS_WORK, tmp_path, **module) == (0, "\n")


def test_a_program_that_ends_while_it_asks_for_a_process_leaves_no_traceback(tmp_path):
    assert run(_ENDS_DURING_A_REQUEST, tmp_path) == (2, "")


@pytest.mark.parametrize("and_more", ["", ", zerolab.core.processes"])
def test_another_process_that_starts_beside_the_server_ends_with_its_own_code(tmp_path, and_more):
    assert run(_STARTS_ANOTHER_MEANWHILE.format(and_more=and_more), tmp_path) == (3, "")


def test_errors_before_the_work_begins_are_shown(tmp_path):
    """As of a program's own file, which every process imports again."""
    broken = """
        from zerolab.core.processes import forked_after_import
        if __name__ != "__main__":
            open("missing")
        context = forked_after_import("json")
        process = context.Process(target=print)
        process.start()
        process.join()
    """
    code, text = run(textwrap.dedent(broken), tmp_path)
    assert code == 0
    assert "FileNotFoundError: [Errno 2] No such file or directory: 'missing'" in text
