"""Fast evaluation of positions with a network (docs/decisions/0002)."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from zerolab.networks.head import HeadOutput
from zerolab.networks.layers import folded_copy
from zerolab.networks.network import Network
from zerolab.rules import python
from zerolab.rules.rules import Game


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Let torch compute on `count` cores in each calling thread, and as before afterwards.

    Threads that evaluate or search beside each other should have one core each: torch's own threads
    would wait for each other (docs/decisions/0005).
    """
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


_EXACT_BUCKETS = 32


def best_device() -> torch.device:
    """Return the GPU if there is one, else the processor."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def best_precision(device: torch.device) -> torch.dtype:
    """Return bfloat16 where the device multiplies it natively, else float32."""
    if device.type == "cuda":
        native = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        native = torch.cpu._is_avx512_bf16_supported()  # also true of every processor with AMX
    return torch.bfloat16 if native else torch.float32


def processor_precision() -> str:
    """Return the name of the precision that networks compute in on this machine's processor."""
    return str(best_precision(torch.device("cpu"))).removeprefix("torch.")


def bucket(count: int) -> int:
    """Return the batch size to which `count` positions are padded: at most a sixteenth more.

    The first batch of a size costs milliseconds, in which kernels are prepared for it. There are 32
    sizes up to 32 and 16 for every doubling from there.
    """
    step = max(1, (1 << max(0, count - 1).bit_length()) // _EXACT_BUCKETS)
    return -(-count // step) * step


class NetworkEvaluator:
    """A snapshot of a network that evaluates batches; safe to call from several threads.

    Later training of the network does not change it. Batch norms are folded into the weights, which
    are stored channels last. Each calling thread computes on as many cores as
    `torch.set_num_threads` allows: several threads should have one each. On a GPU each calling
    thread uses its own stream, so that one thread's copies and searches overlap another's network.

    `device` and `precision` default to those of `best_device` and `best_precision`. bfloat16
    changes the outputs: on a trained network priors moved by up to 0.0092 and values by up to
    0.031. In bfloat16 a position had equal outputs in every batch tried; in float32 the last bits
    depend on the size of the batch.
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
        self._thread = threading.local()
        folded = folded_copy(network).to(self.device, self.precision)
        self._network = folded.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if self.device.type == "cuda":  # the threads' streams do not wait for this one
            torch.cuda.synchronize(self.device)

    def evaluate(
        self, states: NDArray[np.uint64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Evaluate uint64[N, words] states.

        Returns priors float32[N, actions], a softmax over all actions including illegal ones, and
        values float32[N] in [-1, 1] for the players to move.
        """
        priors, values = self._outputs(states, ("priors", "values"))
        return priors, values

    def evaluate_more(
        self, states: NDArray[np.uint64], wanted: Collection[str]
    ) -> tuple[
        NDArray[np.float32],
        NDArray[np.float32],
        NDArray[np.float32] | None,
        NDArray[np.float32] | None,
    ]:
        """Return priors, values, draws and action values; the last two are None unless wanted.

        Draws float32[N] are probabilities; action values float32[N, actions] lie in [-1, 1]. Only
        the heads needed are computed. Raises UserError where no head has an output.
        """
        more: list[HeadOutput] = [
            output for output in ("draws", "action_values") if output in wanted
        ]
        priors, values, *others = self._outputs(states, ("priors", "values", *more))
        found = dict(zip(more, others, strict=True))
        return priors, values, found.get("draws"), found.get("action_values")

    def _outputs(
        self, states: NDArray[np.uint64], outputs: Sequence[HeadOutput]
    ) -> list[NDArray[np.float32]]:
        """Return outputs in their order, computing only the heads that have them."""
        count = len(states)
        planes = torch.from_numpy(python.encode_batch(self.game, states, padded=bucket(count)))
        compute = self._compute_on_gpu if self.device.type == "cuda" else self._compute
        with torch.inference_mode():
            found = compute(planes, outputs)
        return [np.ascontiguousarray(each[:count].numpy()) for each in found]

    def _compute(self, planes: Tensor, outputs: Sequence[HeadOutput]) -> list[Tensor]:
        shaped = planes.to(self.precision).contiguous(memory_format=torch.channels_last)
        heads = [self._network.head_with(output) for output in outputs]
        predictions = self._network(shaped, dict.fromkeys(heads))
        read = {name: self._network.kinds[name].read(each) for name, each in predictions.items()}
        return [read[head][output] for head, output in zip(heads, outputs, strict=True)]

    def _compute_on_gpu(self, planes: Tensor, outputs: Sequence[HeadOutput]) -> list[Tensor]:
        """Compute on the calling thread's stream; waiting for it lets other threads run."""
        if not hasattr(self._thread, "stream"):
            self._thread.stream = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        stream: torch.cuda.Stream = self._thread.stream
        with torch.cuda.stream(stream):
            found = self._compute(planes.pin_memory().to(self.device, non_blocking=True), outputs)
            # Such copies to the processor are to pinned memory.
            copied = [each.to("cpu", non_blocking=True) for each in found]
        stream.synchronize()
        return copied


_BATCH = 1024


class FeatureReader:
    """A snapshot of a network that computes features [Clausen2021].

    Features are the activations of the convolutions before its heads. It computes in float32 (TF32
    where torch allows graphics cards to), never in bfloat16: features are learnt, not played with.
    """

    def __init__(self, network: Network, game: Game, device: torch.device | None = None) -> None:
        """Raise UserError for a network whose heads have no convolutions."""
        self._game = game
        self._device = device or best_device()
        folded = folded_copy(network).to(self._device)
        self._network = folded.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.width: int = self._read(python.start(game)[None]).shape[1]
        """Number of features of a position."""

    def read(self, states: NDArray[np.uint64]) -> NDArray[np.float32]:
        """Return the features of uint64[N, words] states, float32[N, width], head by head.

        Equal states are computed once. In float32 the last bits depend on the batch.
        """
        distinct, places = np.unique(states, axis=0, return_inverse=True)
        found = np.empty((len(distinct), self.width), np.float32)
        for begin in range(0, len(distinct), _BATCH):
            batch = slice(begin, begin + _BATCH)
            found[batch] = self._read(distinct[batch])
        return found[places.reshape(-1)]

    def _read(self, states: NDArray[np.uint64]) -> NDArray[np.float32]:
        """Return the features of a batch of states."""
        planes = torch.from_numpy(python.encode_batch(self._game, states)).to(self._device)
        with torch.inference_mode():
            features = self._network.features(planes.contiguous(memory_format=torch.channels_last))
        found: NDArray[np.float32] = features.cpu().numpy()
        return found
