"""Heads without a size of board in their weights.

What a head says about a place on the board it reads from that place, and what it says about the
whole position from the board's mean, deviation and maximum, as [Wu2019, Section 3.3] pools: there
the mean is also scaled by the size of the board in place of the deviation.

How each is computed was chosen by its time, forward and backward, where filters lie last in memory
(docs/decisions/0047).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import adaptive_max_pool2d

from zerolab.networks.heads.interface import Head
from zerolab.networks.network import PlaneReader
from zerolab.rules.encoding import Places
from zerolab.rules.layouts import ActionLayout

POOLS = 3
"""How many numbers `GlobalPool` makes of each filter."""

_LEAST_VARIANCE = 1e-5  # the root of a smaller one would have too steep a gradient


class BoardReader(PlaneReader):
    """Turns the planes of a residual trunk into predictions; `head` takes planes, not features."""

    def forward(self, planes: Tensor) -> Tensor:
        """Apply the head to the reduced planes, in the precision of the weights.

        The head is small: that takes less time than autocast's conversions.
        """
        reduced = self.reduced(planes)
        precision = self.reduce.conv.weight.dtype
        if reduced.dtype == precision:  # so on the meta device, which has no autocast
            return self.head(reduced)  # type: ignore[no-any-return]
        with torch.autocast(planes.device.type, enabled=False):
            return self.head(reduced.to(precision))  # type: ignore[no-any-return]


class GlobalPool(nn.Module):
    """Mean, standard deviation and maximum of every filter: [N, F, R, C] to [N, 3 * F]."""

    def forward(self, planes: Tensor) -> Tensor:
        """Return what is pooled, each of the three for all filters."""
        precise = planes.float()
        mean = precise.mean(dim=(2, 3))
        variance = torch.addcmul(precise.square().mean(dim=(2, 3)), mean, mean, value=-1)
        deviation = torch.sqrt(variance.clamp(min=0) + _LEAST_VARIANCE)
        most = adaptive_max_pool2d(precise, 1).flatten(1)
        return torch.cat((mean, deviation, most), dim=1).to(planes.dtype)


class PlacesLayer(nn.Module):
    """The last layer of a head with one output for every action: [N, F, R, C] to [N, actions].

    The same weights read every cell, or the mean and maximum of every column or row; actions
    beyond them, such as passing, are read from those of the whole board.
    """

    def __init__(self, head: Head, filters: int, layout: ActionLayout) -> None:
        super().__init__()
        self._read, pools = _READERS[layout.over]
        self.output = nn.Linear(pools * filters, 1)
        self.others = nn.Linear(2 * filters, layout.others) if layout.others else None
        self._activation: Callable[[Tensor], Tensor] = head.activation

    def forward(self, planes: Tensor) -> Tensor:
        """Return the predictions."""
        outputs = self.output(self._read(planes)).squeeze(2)
        if self.others is not None:
            outputs = torch.cat((outputs, self.others(_board(planes))), dim=1)
        return self._activation(outputs)


def _cells(planes: Tensor) -> Tensor:
    """Return [N, cells, F]."""
    return _filters_last(planes).flatten(1, 2)


def _columns(planes: Tensor) -> Tensor:
    """Return [N, columns, 2 * F]: mean and maximum."""
    return _lines(planes, over=2)


def _rows(planes: Tensor) -> Tensor:
    """Return [N, rows, 2 * F]: mean and maximum."""
    return _lines(planes, over=3)


def _lines(planes: Tensor, over: int) -> Tensor:
    """Return mean and maximum over one dimension of the board, [N, lines, 2 * F]."""
    precise = planes.float()
    lines = [1 if dimension == over else planes.shape[dimension] for dimension in (2, 3)]
    most = adaptive_max_pool2d(precise, lines).flatten(2).transpose(1, 2)
    return torch.cat((_filters_last(precise).mean(dim=over - 1), most), dim=2).to(planes.dtype)


def _board(planes: Tensor) -> Tensor:
    """Return mean and maximum of the board, [N, 2 * F]."""
    precise = planes.float()
    most = adaptive_max_pool2d(precise, 1).flatten(1)
    return torch.cat((precise.mean(dim=(2, 3)), most), dim=1).to(planes.dtype)


def _filters_last(planes: Tensor) -> Tensor:
    """Return [N, R, C, F]: how planes lie in memory, so that no layer has to copy them."""
    return planes.permute(0, 2, 3, 1)


_READERS: dict[Places, tuple[Callable[[Tensor], Tensor], int]] = {
    "cells": (_cells, 1),
    "columns": (_columns, 2),
    "rows": (_rows, 2),
}
"""What is read of every place, and how many numbers of each filter that is."""
