"""Fast network evaluation of positions (docs/decisions/0002)."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from zerolab.core.errors import UserError, quoted
from zerolab.core.processes import available_cores
from zerolab.core.resources import DEVICE_VARIABLE, ThreadSetting, checked_device_name
from zerolab.networks.network import Network, fold_batch_norms, folded_copy
from zerolab.networks.objectives import EvaluatorOutputName
from zerolab.rules import compiled_rules
from zerolab.rules.rules import Game

_torch_threads = ThreadSetting(torch.get_num_threads, torch.set_num_threads)


def limit_torch_threads(count: int) -> AbstractContextManager[None]:
    """Limit torch to `count` cores per calling thread inside the context.

    Threads that evaluate or search in parallel should use one core each, because torch's own
    threads would wait for each other (docs/decisions/0005).
    """
    return _torch_threads.override(count)


_chosen_devices: list[torch.device] = []


def default_device() -> torch.device:
    """Return the device for networks in this process.

    In order of precedence, this is the device of `use_device`, the device named by the environment
    variable ZEROLAB_DEVICE, the first CUDA GPU, or the CPU. Raises UserError if the variable names
    a device that does not exist.
    """
    return _chosen_devices[-1] if _chosen_devices else find_device("auto")


@contextmanager
def use_device(name: str) -> Iterator[torch.device]:
    """Compute this process's networks on the named device; raise UserError if it is missing."""
    _chosen_devices.append(find_device(name))
    try:
        yield _chosen_devices[-1]
    finally:
        _chosen_devices.pop()


def find_device(name: str) -> torch.device:
    """Return the device called auto, cpu, cuda, cuda:N or mps; raise UserError if there is none."""
    source = "device"
    if name == "auto" and os.environ.get(DEVICE_VARIABLE):
        source, name = DEVICE_VARIABLE, os.environ[DEVICE_VARIABLE]
    try:
        checked_device_name(name)
    except ValueError as error:
        raise UserError(f"{source}: {error}") from None
    if name == "auto":
        return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    device = torch.device("cuda:0" if name == "cuda" else name)
    gpus = [f"cuda:{number}" for number in range(_gpu_count())]
    known = {"cpu", *gpus, *(["mps"] if torch.backends.mps.is_available() else [])}
    if str(device) not in known:
        raise UserError(
            f"{source} = {quoted(name)}: PyTorch finds no such device here; expected"
            f" {' or '.join(sorted(known))}"
        )
    return device


def use_gpu_of_worker(worker: int) -> None:
    """Use one of several GPUs in a worker process, unless ZEROLAB_DEVICE names a device.

    Workers, numbered from 0, share the GPUs evenly.
    """
    is_chosen = os.environ.get(DEVICE_VARIABLE, "auto") not in ("", "auto")
    if (gpus := _gpu_count()) > 1 and not is_chosen:
        os.environ[DEVICE_VARIABLE] = f"cuda:{worker % gpus}"


def _gpu_count() -> int:
    """Return the number of GPUs that CUDA can use."""
    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def default_precision(device: torch.device) -> torch.dtype:
    """Return bfloat16 if the device supports it natively, otherwise float32."""
    if device.type == "cuda":
        with torch.cuda.device(device):
            native = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        native = torch.cpu._is_avx512_bf16_supported()  # also true for every CPU with AMX
    return torch.bfloat16 if native else torch.float32


def cpu_precision_name() -> str:
    """Return the name of the precision used for networks on this machine's CPU."""
    return str(default_precision(torch.device("cpu"))).removeprefix("torch.")


_EXACT_SIZES = 32


def padded_batch_size(count: int) -> int:
    """Return the padded batch size for `count` positions, at most a sixteenth above `count`.

    The first batch of each size costs milliseconds because kernels are prepared for it. All sizes
    up to 32 are used, and 16 sizes per doubling above.
    """
    step = max(1, (1 << max(0, count - 1).bit_length()) // _EXACT_SIZES)
    return -(-count // step) * step


def cuda_graph_batch_size(count: int) -> int:
    """Return the padded batch size for `count` positions on a GPU: 8, 16, 24, 32, 48, 64, 96, ...

    Each size needs a CUDA graph, and evaluating a few hundred positions takes as long as evaluating
    one. There are two sizes per doubling up to 256, and eight per doubling above.
    """
    doubling = max(32, 1 << (count - 1).bit_length()) // 2
    step = doubling // (2 if doubling < 256 else 8)
    return -(-count // step) * step


class NetworkEvaluator:
    """A thread-safe snapshot of a network that evaluates batches of positions.

    Later training of the network does not affect the snapshot. Batch norms are folded into the
    weights, which are stored channels last. Each calling thread computes on the number of cores set
    by `torch.set_num_threads`; parallel threads should use one core each. On a GPU, each calling
    thread uses a separate stream, so that copies and searches of one thread overlap with network
    computations of another. Batches of a recurring size are computed by a CUDA graph, which
    launches all layers together (docs/decisions/0082).

    `device` and `precision` default to `default_device` and `default_precision`. bfloat16 changes
    the outputs: for a trained network, priors changed by up to 0.0092 and values by up to 0.031. In
    bfloat16, the outputs for a position did not depend on the batch size; in float32, the last bits
    did.
    """

    def __init__(
        self,
        network: Network,
        game: Game,
        device: torch.device | None = None,
        precision: torch.dtype | None = None,
        *,
        is_owned: bool = False,
    ) -> None:
        """Take the snapshot; an owned network, used nowhere else, is changed instead of copied."""
        self.game = game
        self.device = device or default_device()
        self.precision = precision or default_precision(self.device)
        self._place(fold_batch_norms(network) if is_owned else folded_copy(network))

    def _place(self, folded: nn.Module) -> None:
        """Move the folded network to the device, in the precision of this evaluator."""
        self._thread = threading.local()
        folded = folded.to(self.device, self.precision)
        self._network = folded.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if self.device.type == "cuda":
            if self.precision == torch.float32:  # TF32 changes values by a thousandth
                torch.backends.cudnn.allow_tf32 = False
            # Streams of other threads do not wait for this one. Waiting for the whole device would
            # invalidate a graph that another thread is recording.
            torch.cuda.current_stream(self.device).synchronize()

    def __getstate__(self) -> dict[str, Any]:
        """Return the game, the network on the CPU, the precision, and the type of the device."""
        return {
            "game": self.game,
            "precision": self.precision,
            "device_type": self.device.type,
            "network": deepcopy(self._network).cpu(),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the network on the default device of this process.

        If the type of device differs, the default precision of the new device is used.
        """
        self.game, self.device = state["game"], default_device()
        is_same_type = self.device.type == state["device_type"]
        self.precision = state["precision"] if is_same_type else default_precision(self.device)
        self._place(state["network"])

    @property
    def digest(self) -> str:
        """Digest of the layers, and of the names, shapes and values of the weights."""
        total = hashlib.blake2b(repr(self._network).encode(), digest_size=16)
        for name, tensor in self._network.state_dict().items():
            total.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
            total.update(tensor.cpu().flatten().view(torch.uint8).numpy().tobytes())
        return total.hexdigest()

    def evaluate(
        self, states: NDArray[np.uint64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Evaluate uint64[N, words] states.

        Returns priors float32[N, actions], a softmax over all actions including illegal ones, and
        values float32[N] in [-1, 1] for the side to move.
        """
        priors, values = self._outputs(states, ("priors", "values"))
        return priors, values

    def evaluate_with_extras(
        self, states: NDArray[np.uint64], extra_outputs: Collection[str]
    ) -> tuple[
        NDArray[np.float32],
        NDArray[np.float32],
        NDArray[np.float32] | None,
        NDArray[np.float32] | None,
    ]:
        """Return priors, values, draws and action values.

        The last two are None unless named in `extra_outputs`. Draws float32[N] are probabilities,
        and action values float32[N, actions] are in [-1, 1]. Only the necessary heads are computed.
        Raises UserError if an output has no head.
        """
        names: list[EvaluatorOutputName] = [
            output for output in ("draws", "action_values") if output in extra_outputs
        ]
        priors, values, *extras = self._outputs(states, ("priors", "values", *names))
        by_name = dict(zip(names, extras, strict=True))
        return priors, values, by_name.get("draws"), by_name.get("action_values")

    def _outputs(
        self, states: NDArray[np.uint64], outputs: Sequence[EvaluatorOutputName]
    ) -> list[NDArray[np.float32]]:
        """Return the named outputs in order, computing only the heads that provide them."""
        count, on_gpu = len(states), self.device.type == "cuda"
        padded_size = cuda_graph_batch_size(count) if on_gpu else padded_batch_size(count)
        planes = torch.from_numpy(
            compiled_rules.encode_batch(self.game, states, padded=padded_size)
        )
        with torch.inference_mode():
            compute = self._compute_on_gpu if on_gpu else self._compute
            padded = compute(planes, outputs)
        return [np.ascontiguousarray(output[:count].cpu().numpy()) for output in padded]

    def _compute(self, planes: Tensor, outputs: Sequence[EvaluatorOutputName]) -> list[Tensor]:
        inputs = planes.to(self.device, self.precision)
        inputs = inputs.contiguous(memory_format=torch.channels_last)
        heads = [self._network.head_name_for(output) for output in outputs]
        predictions = self._network(inputs, dict.fromkeys(heads))
        by_head = {
            name: self._network.head_settings[name].compute_evaluator_outputs(prediction)
            for name, prediction in predictions.items()
        }
        return [by_head[head][output] for head, output in zip(heads, outputs, strict=True)]

    def _compute_on_gpu(
        self, planes: Tensor, outputs: Sequence[EvaluatorOutputName]
    ) -> list[Tensor]:
        """Compute on the calling thread's stream; other threads run while it waits."""
        if not hasattr(self._thread, "batches"):
            self._thread.batches = _GpuBatches(self.device)
        batches: _GpuBatches = self._thread.batches
        return batches.compute(planes, tuple(outputs), self._compute)


_Compute = Callable[[Tensor, Sequence[EvaluatorOutputName]], list[Tensor]]


class _GpuBatches:
    """Batches of one thread on a GPU, computed in a separate stream."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream: torch.cuda.Stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._pool = torch.cuda.graph_pool_handle()
        self._graphs: dict[tuple[int, tuple[EvaluatorOutputName, ...]], _GpuGraph | None] = {}

    def compute(
        self, planes: Tensor, outputs: tuple[EvaluatorOutputName, ...], compute: _Compute
    ) -> list[Tensor]:
        """Return `compute(planes, outputs)` on the CPU; repeated calls use a graph."""
        key = len(planes), outputs
        with torch.cuda.stream(self._stream):
            if key not in self._graphs:  # this call also loads the kernels, as capturing requires
                self._graphs[key] = None
                inputs = planes.pin_memory().to(self._device, non_blocking=True)
                # Non-blocking copies to the CPU go to pinned memory.
                results = compute(inputs, outputs)
                copies = [result.to("cpu", non_blocking=True) for result in results]
                self._stream.synchronize()
                return copies
            graph = self._graphs[key]
            if graph is None:
                graph = _GpuGraph(
                    planes, self._device, self._pool, lambda inputs: compute(inputs, outputs)
                )
                self._graphs[key] = graph
            return graph.compute(planes, self._stream)


class _GpuGraph:
    """CUDA graph of the computation of a batch of fixed size."""

    def __init__(
        self,
        planes: Tensor,
        device: torch.device,
        pool: Any,
        compute: Callable[[Tensor], list[Tensor]],
    ) -> None:
        """Record `compute` for batches like `planes` in the current stream."""
        self._pinned = torch.empty_like(planes, pin_memory=True)
        self._inputs = torch.zeros_like(planes, device=device)
        self._graph = torch.cuda.CUDAGraph()
        with CUDA_GRAPH_CAPTURE_LOCK:
            self._graph.capture_begin(pool=pool, capture_error_mode="thread_local")
            try:
                self._outputs = compute(self._inputs)
            finally:
                self._graph.capture_end()
        self._copies = [
            torch.empty_like(output, device="cpu", pin_memory=True) for output in self._outputs
        ]

    def compute(self, planes: Tensor, stream: torch.cuda.Stream) -> list[Tensor]:
        """Return the outputs for a batch on the CPU."""
        self._pinned.copy_(planes)
        self._inputs.copy_(self._pinned, non_blocking=True)
        self._graph.replay()
        for copy, output in zip(self._copies, self._outputs, strict=True):
            copy.copy_(output, non_blocking=True)
        stream.synchronize()
        return [copy.clone() for copy in self._copies]


CUDA_GRAPH_CAPTURE_LOCK = threading.Lock()
"""Lock held while a CUDA graph is being recorded; other threads may evaluate but not record."""


_FEATURE_BATCH = 1024


class FeatureExtractor:
    """A snapshot of a network that computes features [Clausen2021].

    Features are the activations of the convolutions before the network's heads. They are computed
    in float32 (or TF32, where torch permits it on a GPU), never in bfloat16, because they are
    training targets.
    """

    def __init__(
        self,
        network: Network,
        game: Game,
        device: torch.device | None = None,
        heads: Collection[str] = (),
    ) -> None:
        """Compute the features of `heads`, by default those of all heads of the network.

        Raises UserError if the heads have no convolutions.
        """
        self._game = game
        self._device = device or default_device()
        self._heads = heads
        folded = folded_copy(network).to(self._device)
        self._network = folded.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.feature_count: int = self._compute_batch(compiled_rules.start(game)[None]).shape[1]
        """Number of features per position."""

    def extract(self, states: NDArray[np.uint64]) -> NDArray[np.float32]:
        """Return the features of states uint64[N, words] as float32[N, feature_count].

        Features are ordered by head. Duplicate states are computed once, with torch on all cores.
        The last bits of a feature depend on the batch.
        """
        distinct, indices = np.unique(states, axis=0, return_inverse=True)
        features = np.empty((len(distinct), self.feature_count), np.float32)
        with limit_torch_threads(available_cores()):
            for begin in range(0, len(distinct), _FEATURE_BATCH):
                batch = slice(begin, begin + _FEATURE_BATCH)
                features[batch] = self._compute_batch(distinct[batch])
        return features[indices.reshape(-1)]

    def _compute_batch(self, states: NDArray[np.uint64]) -> NDArray[np.float32]:
        planes = torch.from_numpy(compiled_rules.encode_batch(self._game, states)).to(self._device)
        with torch.inference_mode():
            features = self._network.features(
                planes.contiguous(memory_format=torch.channels_last), self._heads
            )
        array: NDArray[np.float32] = features.cpu().numpy()
        return array
