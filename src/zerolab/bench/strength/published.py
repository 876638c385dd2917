"""Curves that [Clausen2021] publishes, read off its figures."""

from __future__ import annotations

from collections.abc import Mapping

PUBLISHED: Mapping[str, tuple[tuple[float, float], ...]] = {
    "[Clausen2021] baseline": ((6.7, 0.88), (12.0, 0.90)),
    "[Clausen2021] extended": ((5.3, 0.88), (10.4, 0.90), (13.1, 0.91)),
    "[Clausen2021] evaluation service": ((4.6, 0.88), (8.3, 0.90), (10.0, 0.91)),
    "[Clausen2021] growing network": ((3.2, 0.88), (8.4, 0.90), (11.8, 0.91)),
    "[Clausen2021] evolution": ((5.8, 0.88), (11.4, 0.90)),
    "[Clausen2021] auxiliary features": ((6.8, 0.88), (16.0, 0.90), (27.0, 0.91)),
}
"""Hours of one GPU (RTX 2070S) of self-play until a strong accuracy of the search with 343
simulations on the hard test set of Connect Four 6x7; learning is not counted, nor the two hours in
which the auxiliary features are trained."""
