"""Larger networks that begin anew."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from zerolab.networks.growths.interface import GROWTHS, GrowthByFilters


class Reinitialise(GrowthByFilters):
    """More filters and new random weights, which learn from the window [Clausen2021]."""

    name: Literal["reinitialise"] = "reinitialise"

    epochs: int | None = Field(default=None, ge=1, le=1000)
    """Passes over the window of an iteration that begins with new weights; unset for as many as in
    every iteration, by `learn.epochs` or `learn.reuse`. Those are made for a network that has
    learnt before: small windows ask for more."""

    @property
    def epochs_when_new(self) -> int | None:
        """See `Growth.epochs_when_new`."""
        return self.epochs


GROWTHS.add("reinitialise", Reinitialise)
