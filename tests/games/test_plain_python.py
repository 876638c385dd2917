"""The rules as plain Python give the same bits as compiled."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from games import fingerprint

NAMES = ["othello:5x6", "othello:8x8", "connect_four:8x8", "gobang:3x4:3", "gobang:8x8", "hex:4x4"]


def test_plain_python_agrees_with_compiled_code() -> None:
    done = subprocess.run(
        [sys.executable, fingerprint.__file__, *NAMES],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for name, plain in zip(NAMES, json.loads(done.stdout), strict=True):
        assert plain == fingerprint.fingerprint(name), name
    assert done.stderr == "", "plain Python warns"
