"""The settings of a run that starts from a network of another run."""

from __future__ import annotations

from pydantic import Field

from zerolab.core.config import Settings, assignment
from zerolab.core.errors import UserError, quoted
from zerolab.training.transfer.kinds import AskedTransfer, Transfer

START = "start.source"
"""The setting that names the network to start from."""


class StartSettings(Settings):
    """A network that was trained before, and what of it network 0 of this run is made of."""

    source: str = Field(min_length=1)
    """The network to start from, RUN or RUN@N, such as runs/gobang@40. Its architecture takes the
    place of a preset's, unless settings say otherwise."""

    transfer: Transfer = "trunk"
    """What is taken: the trunk, below new heads; the heads, on top of a new trunk; all weights as
    they are; or all, planes and actions by what they mean in both games (docs/transfer.md).
    [Hongcharoen2018]: trunk; [Soemers2023]: channels."""

    digest: str = ""
    """What identifies the weights of `source`, filled in when the run begins."""

    iteration: int | None = Field(default=None, ge=0)
    """The iteration of `source`, filled in when the run begins."""

    game: str = ""
    """The game of `source`, filled in when the run begins."""


FOUND = ("digest", "iteration", "game")
"""The settings of a start that are not chosen but found out when a run begins."""


def start_assignments(source: str, transfer: AskedTransfer) -> list[str]:
    """Return the assignments that a source and what is taken of it are short for."""
    frozen = ["learn.frozen=trunk"] if transfer == "frozen" else []
    taken: Transfer = "trunk" if transfer == "frozen" else transfer
    return [assignment(START, source), f"start.transfer={taken}", *frozen]


def require_frozen(transfer: AskedTransfer | None, frozen: str) -> None:
    """Raise UserError where `learn.frozen` contradicts a transfer that was asked for."""
    if transfer == "frozen" and frozen != "trunk":
        raise UserError(
            f'learn.frozen = {quoted(frozen)} contradicts the transfer "frozen": expected'
            ' learn.frozen = "trunk", or the transfer "trunk"'
        )
