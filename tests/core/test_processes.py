"""Processes that are forked after imports: what Ctrl-C does to them."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys

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


@pytest.mark.skipif(
    "forkserver" not in multiprocessing.get_all_start_methods(), reason="nothing is forked"
)
def test_ctrl_c_during_the_imports_ends_nothing_but_the_program_that_it_is_meant_for(tmp_path):
    (tmp_path / "slow_to_import.py").write_text(_SLOW)
    (tmp_path / "program.py").write_text(_PROGRAM)
    ended = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        start_new_session=True,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
