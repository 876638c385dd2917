"""Which of several children with equal scores a search descends to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from zerolab.core import streams
from zerolab.search.interface import TIE_BREAKS


class FirstTie(NamedTuple):
    """The child of the lowest action, as in the papers' framework [AZG]."""


class FirstTieRule:
    """See `FirstTie`."""

    @staticmethod
    def takes_tie(rule, key, node, child, ties):
        return False


class RandomTie(NamedTuple):
    """One of them uniformly at random."""


class RandomTieRule:
    """Reservoir sampling: the k-th of equal children replaces the one chosen so far with 1 / k."""

    @staticmethod
    def takes_tie(rule, key, node, child, ties):
        random = streams.bits(streams.fold(key, node), child)
        return streams.below(random, ties) == 0


TIE_BREAKS.implement(FirstTie, FirstTieRule)
TIE_BREAKS.implement(RandomTie, RandomTieRule)

TIE_BREAK_TYPES: Mapping[str, type] = {"first": FirstTie, "random": RandomTie}
"""By the names that settings have for them."""
