"""Waits of tests for work in other threads and processes, which end with a failure if it hangs."""

from __future__ import annotations

import time
from collections.abc import Callable

_STEP = 0.02


def wait_for(condition: Callable[[], object], seconds: float = 120) -> None:
    """Return as soon as a condition is true; fail the test if that takes too long.

    The condition is asked again and again, with a pause of 20 ms.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"the condition was not true within {seconds} s"
        time.sleep(_STEP)
