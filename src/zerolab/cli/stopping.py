"""Long work that may be stopped and gone on with."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def stoppable(kept: str, command: str) -> Iterator[None]:
    """Let SIGTERM stop the work as Ctrl-C does; say then what is kept and which command goes on."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    except KeyboardInterrupt:
        print(f"zerolab: stopped; {kept}, go on with: {command}", file=sys.stderr)
        raise


def _interrupt(number: int, frame: Any) -> None:
    raise KeyboardInterrupt
