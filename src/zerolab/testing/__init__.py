"""The conformance kit: laws that every game must obey, in this package or another.

>>> from zerolab.testing import check_game
>>> check_game("othello:6x6")

Every law is a function that raises AssertionError, naming the position in which a game breaks it.
`CHECKS` lists them, so that a test suite can run them one by one.
"""

from __future__ import annotations

from zerolab.testing.conformance import CHECKS, check_game
from zerolab.testing.samples import Twin, check_twin

__all__ = ["CHECKS", "Twin", "check_game", "check_twin"]
