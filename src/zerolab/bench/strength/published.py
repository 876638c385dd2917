"""Curves that [Clausen2021] publishes, read off its figures."""

from __future__ import annotations

from collections.abc import Mapping

PUBLISHED: Mapping[str, tuple[tuple[float, float], ...]] = {
    "[Clausen2021], baseline": ((6.7, 0.88), (12.0, 0.90)),
    "[Clausen2021], extended": ((5.3, 0.88), (10.4, 0.90), (13.1, 0.91)),
}
"""Hours of one GPU (RTX 2070S) of self-play until a strong accuracy of the search with 343
simulations on the hard test set of Connect Four 6x7; learning is not counted."""

PEAKS: Mapping[str, float] = {"[Clausen2021], baseline": 0.906, "[Clausen2021], extended": 0.9165}
"""The best strong accuracy of each."""
