"""What was read from files, kept until one of them changes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Generic, TypeVar

_Result = TypeVar("_Result")
_Signature = tuple[tuple[int, int, int] | None, ...]

_MOST = 2000


class Remembered(Generic[_Result]):
    """Results of reading, by what was asked for; the oldest of many are forgotten."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[str, tuple[_Signature, _Result]] = OrderedDict()

    def get(self, key: str, files: Iterable[Path], read: Callable[[], _Result]) -> _Result:
        """Return what `read` returned last, unless one of the files has changed since then."""
        signature = tuple(map(_signature, files))
        with self._lock:
            known = self._known.get(key)
            if known is not None and known[0] == signature:
                self._known.move_to_end(key)
                return known[1]
        result = read()
        with self._lock:
            self._known[key] = signature, result
            if len(self._known) > _MOST:
                self._known.popitem(last=False)
        return result


def _signature(path: Path) -> tuple[int, int, int] | None:
    """Return what changes when a file does; None for one that is not there."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
