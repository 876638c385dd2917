"""Gradients of a batch: forward pass, losses and backward pass, on CPUs and GPUs."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from zerolab.networks.inference import CUDA_GRAPH_CAPTURE_LOCK
from zerolab.networks.network import Network
from zerolab.networks.objectives import HeadErrors, Loss, TargetOptions
from zerolab.replay.window import Batch


@dataclass
class GradientComputation:
    """Gradients of a network's loss on a batch.

    Layers compute in bfloat16 (autocast) if that is the `precision`; weights, losses and gradients
    are float32.
    """

    network: Network
    loss: Loss
    target_options: TargetOptions
    precision: torch.dtype
    loss_names: list[str] = field(default_factory=list, init=False)
    """Names of the losses that `compute` returns; empty before the first batch."""

    def compute(self, batch: Batch) -> Tensor:
        """Set the gradients of the parameters; return the losses, float32[losses]."""
        planes, targets = self._tensors(batch)
        on_device = {name: target.to(self.device) for name, target in targets.items()}
        return self.backward(planes.to(self.device), on_device)

    @property
    def device(self) -> torch.device:
        """Device on which the network runs."""
        return next(self.network.parameters()).device

    def _tensors(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the planes and the targets by head, on the CPU."""
        targets = {
            name: torch.from_numpy(head.compute_targets(batch.facts, self.target_options))
            for name, head in self.network.head_settings.items()
        }
        return torch.from_numpy(batch.planes), targets

    def backward(self, planes: Tensor, targets: dict[str, Tensor]) -> Tensor:
        """Set the gradients for tensors on the network's device; return the losses."""
        heads = self.network.head_settings
        enabled = self.precision == torch.bfloat16
        with torch.autocast(planes.device.type, self.precision, enabled=enabled):
            predictions = self.network(planes.contiguous(memory_format=torch.channels_last))
        by_head = {
            name: head.compute_errors(predictions[name], targets[name])
            for name, head in heads.items()
        }
        errors = HeadErrors(self.loss, list(heads.values()), by_head)
        self.network.zero_grad(set_to_none=True)
        errors.total_loss().backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            losses = errors.logged_scalars()
            self.loss_names = list(losses)
            return torch.stack([loss.float() for loss in losses.values()])


@dataclass
class GpuGradientComputation(GradientComputation):
    """Gradients on a GPU; batches of a recurring size are computed by a CUDA graph.

    A small network has hundreds of short kernels per step, and launching them one by one takes
    several times as long as running them (docs/decisions/0082).
    """

    _graphs: dict[int, _GradientGraph | None] = field(default_factory=dict, init=False)
    """Graph by batch size; None after the first batch of a size."""

    def compute(self, batch: Batch) -> Tensor:
        """Set the gradients; the next call overwrites gradients and losses."""
        with torch.cuda.device(self.device):
            return self._compute(*self._tensors(batch))

    def _compute(self, planes: Tensor, targets: dict[str, Tensor]) -> Tensor:
        size = len(planes)
        graph = self._graphs.get(size)
        if graph is None:
            on_device = {name: self._copied(target) for name, target in targets.items()}
            if size not in self._graphs:  # this call also loads the kernels, as recording requires
                self._graphs[size] = None
                return self.backward(self._copied(planes), on_device)
            graph = self._graphs[size] = _GradientGraph(self, self._copied(planes), on_device)
        return graph.compute(planes, targets)

    def _copied(self, tensor: Tensor) -> Tensor:
        return tensor.pin_memory().to(self.device, non_blocking=True)


class _GradientGraph:
    """CUDA graph of the gradients of a batch of fixed size.

    Recording computes nothing, so only actual steps affect batch norm statistics and random
    numbers. The graph draws dropout masks from torch's generator, as a computation without a graph
    does.
    """

    def __init__(
        self,
        computation: GpuGradientComputation,
        planes: Tensor,
        targets: dict[str, Tensor],
    ) -> None:
        self._planes = planes
        self._targets = targets
        self._graph = torch.cuda.CUDAGraph()
        computation.network.zero_grad(set_to_none=True)  # the graph has separate gradients
        stream = torch.cuda.Stream(planes.device)  # type: ignore[no-untyped-call]
        # Other threads may meanwhile copy networks to the CPU, to play games ahead.
        capture = torch.cuda.graph(self._graph, stream=stream, capture_error_mode="thread_local")
        with CUDA_GRAPH_CAPTURE_LOCK, capture:
            self._losses = computation.backward(planes, targets)
        self._gradients = [(each, each.grad) for each in computation.network.parameters()]

    def compute(self, planes: Tensor, targets: dict[str, Tensor]) -> Tensor:
        """Set the gradients for a batch; return its losses."""
        self._planes.copy_(planes.pin_memory(), non_blocking=True)
        for name, target in targets.items():
            self._targets[name].copy_(target.pin_memory(), non_blocking=True)
        self._graph.replay()
        for parameter, gradient in self._gradients:
            parameter.grad = gradient
        return self._losses
