"""What a learning stage writes down while it goes on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch


class Learned(NamedTuple):
    """What a learning stage did."""

    samples: int
    """Examples seen, repetitions included."""
    epoch_losses: list[dict[str, float]]
    """For every epoch, means of what is logged (see `networks.losses.HeadErrors.logged`)."""
    learning_rates: list[float]
    """The learning rate of every step."""
    gradient_norm: float | None
    """Mean norm of the gradients before clipping; None where nothing was clipped."""

    @property
    def losses(self) -> dict[str, float]:
        """The means of the last epoch."""
        return self.epoch_losses[-1]

    @property
    def is_finite(self) -> bool:
        """Whether every loss was a finite number."""
        return all(np.isfinite(list(means.values())).all() for means in self.epoch_losses)


class LearningLog:
    """Sums up losses step by step, on the device that they are on: reading one would wait for it.

    A pass that ends early counts as an epoch of its own.
    """

    def __init__(self, steps_per_epoch: int) -> None:
        self._steps_per_epoch = steps_per_epoch
        self._losses: list[dict[str, torch.Tensor]] = []
        self._norms: torch.Tensor | None = None
        self._samples = 0
        self._learning_rates: list[float] = []

    def add(
        self,
        losses: Mapping[str, torch.Tensor],
        samples: int,
        learning_rate: float,
        gradient_norm: torch.Tensor | None,
    ) -> None:
        """Take note of a step: scalar losses by name, the examples seen, rate and norm."""
        if len(self._learning_rates) % self._steps_per_epoch == 0:
            self._losses.append({})
        totals = self._losses[-1]
        for name, value in losses.items():
            totals[name] = totals[name] + value if name in totals else value
        if gradient_norm is not None:
            self._norms = gradient_norm if self._norms is None else self._norms + gradient_norm
        self._samples += samples
        self._learning_rates.append(learning_rate)

    def learned(self) -> Learned:
        """Return what the steps so far add up to."""
        steps = len(self._learning_rates)
        size = self._steps_per_epoch
        means = [
            {name: float(total / min(size, steps - i * size)) for name, total in totals.items()}
            for i, totals in enumerate(self._losses)
        ]
        norm = None if self._norms is None else float(self._norms / steps)
        return Learned(self._samples, means, self._learning_rates, norm)
