"""Evaluating positions with a network as fast as the machine allows (docs/decisions/0002)."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from zerolab.networks.heads import POLICY, VALUE, Network
from zerolab.networks.layers import folded_copy
from zerolab.rules import calls
from zerolab.rules.interface import Game

_SMALL_BUCKET = 8
_LARGE_BUCKET = 32


def best_device() -> torch.device:
    """Return the GPU if there is one, else the processor."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def best_precision(device: torch.device) -> torch.dtype:
    """Return bfloat16 where the device multiplies it natively, else float32."""
    if device.type == "cuda":
        native = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        native = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return torch.bfloat16 if native else torch.float32


def bucket(count: int) -> int:
    """Return the batch size that `count` positions are padded to.

    A library prepares its kernels once for every shape; few shapes keep that from recurring.
    """
    step = _SMALL_BUCKET if count <= 2 * _LARGE_BUCKET else _LARGE_BUCKET
    return -(-count // step) * step


class NetworkEvaluator:
    """A snapshot of a network that evaluates batches; safe to call from several threads.

    Later training of the network does not change it. Batch norms are folded into the weights,
    which are stored channels last. On a GPU each calling thread uses a stream of its own, so that
    one thread's copies and searches overlap another's network.
    """

    def __init__(
        self,
        network: Network,
        game: Game,
        device: torch.device | None = None,
        precision: torch.dtype | None = None,
    ) -> None:
        self.game = game
        self.device = device or best_device()
        self.precision = precision or best_precision(self.device)
        folded = folded_copy(network).to(self.device, self.precision)
        self._network = folded.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def evaluate(
        self, states: NDArray[np.uint64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return priors over all actions float32[N, actions] and values float32[N]."""
        count = len(states)
        planes = calls.planes_of(self.game, states, padded=bucket(count))
        with torch.inference_mode():
            priors, values = self._run(torch.from_numpy(planes))
        return priors[:count].numpy(), values[:count].numpy()

    def _run(self, planes: Tensor) -> tuple[Tensor, Tensor]:
        if self.device.type != "cuda":
            return self._forward(planes)
        with torch.cuda.stream(_thread_stream(self.device)):
            priors, values = self._forward(planes.pin_memory().to(self.device, non_blocking=True))
            return priors.cpu(), values.cpu()

    def _forward(self, planes: Tensor) -> tuple[Tensor, Tensor]:
        shaped = planes.to(self.precision).contiguous(memory_format=torch.channels_last)
        outputs: dict[str, Any] = self._network(shaped)
        return torch.softmax(outputs[POLICY].float(), dim=1), outputs[VALUE].float()


_STREAMS = threading.local()


def _thread_stream(device: torch.device) -> torch.cuda.Stream:
    """Return the calling thread's own stream."""
    if not hasattr(_STREAMS, "stream"):
        _STREAMS.stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    return _STREAMS.stream  # type: ignore[no-any-return]
