"""How long work tells whoever watches it how far it has come."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

ProgressBar = Callable[[str, int, str], AbstractContextManager[Callable[[int, str], None]]]
"""Shows progress: takes a title, the number of units in all and their name; its context gives a
function that takes the units done so far and a note to show beside them."""
