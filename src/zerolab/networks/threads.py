"""On how many cores torch computes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Let torch compute on `count` cores in each calling thread, and as before afterwards.

    Threads that evaluate or search beside each other should have one core each: torch's own threads
    would wait for each other (docs/decisions/0005).
    """
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
