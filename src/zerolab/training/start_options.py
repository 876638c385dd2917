"""Options of commands and web pages for starting a run from a trained network.

`learn_settings.StartSettings` has the settings that they set. Imports are kept light so that the
help of commands is fast.
"""

from __future__ import annotations

from typing import Literal

from zerolab.core.errors import UserError, quoted

START = "start.source"
"""Key of the setting that names the source network."""

Transfer = Literal["trunk", "heads", "all", "channels"]
"""Weights that a run can take from another network."""

TransferOption = Literal[Transfer, "frozen"]
"""Values of the option ``--transfer``; "frozen" transfers the trunk and freezes it."""


def start_assignments(source: str, transfer: TransferOption) -> list[str]:
    """Return the assignments for the options ``--from`` and ``--transfer``."""
    from zerolab.core.config import assignment

    if transfer == "frozen":
        return [assignment(START, source), "start.transfer=trunk", "learn.frozen=trunk"]
    return [assignment(START, source), f"start.transfer={transfer}"]


def require_frozen(transfer: TransferOption | None, frozen: str) -> None:
    """Raise UserError if `learn.frozen` contradicts the option ``--transfer frozen``."""
    if transfer == "frozen" and frozen != "trunk":
        raise UserError(
            f'learn.frozen = {quoted(frozen)} contradicts the transfer "frozen": expected'
            ' learn.frozen = "trunk", or the transfer "trunk"'
        )
