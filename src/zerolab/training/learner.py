"""Training of a network on batches from the replay window, and averages of its weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from zerolab.core import streams
from zerolab.core.errors import UserError
from zerolab.networks.inference import default_precision
from zerolab.networks.network import Network, set_weights, weights_to_arrays
from zerolab.networks.objectives import TargetOptions
from zerolab.replay.window import Batch, Window
from zerolab.store.arrays import NamedArrays
from zerolab.training.gradients import GpuGradientComputation, GradientComputation
from zerolab.training.learn_settings import LearnSettings
from zerolab.training.optimization import CompletedShares, TimeInRun

_LATEST = "average/latest/"
_STEPS = "average/steps"
_ETA = 3
NO_COMPLETED_SHARES = CompletedShares(0.0, 0.0)


class WeightAverage:
    """A moving average of a network's weights over recent steps [Polyak1992], [Wu2019].

    After step t, counted over the whole run, mean <- mean + share * (weights - mean) with
    share = max(1 - decay, 4 / (t + 3)). Initially this is the polynomial-decay averaging of
    [Shamir2013] with eta = 3, over about the last quarter of the steps. Later it becomes an
    exponential moving average over about 1 / (1 - decay) steps. The untrained weights are excluded
    (docs/decisions/0018). Parameters and batch norm statistics are averaged; integer buffers are
    copied.
    """

    def __init__(self, network: nn.Module, decay: float) -> None:
        self._network = network
        self._decay = decay
        self._steps = 0
        self._latest = _averaged_weights(network)
        self._mean = {name: tensor.clone() for name, tensor in self._latest.items()}

    @torch.no_grad()
    def update(self) -> None:
        """Add the network's weights to the average after a step."""
        self._steps += 1
        share = max(1 - self._decay, (_ETA + 1) / (self._steps + _ETA))
        torch._foreach_lerp_(list(self._mean.values()), list(self._latest.values()), share)

    def average_arrays(self) -> NamedArrays:
        """Return the average as arrays by name, like `weights_to_arrays`."""
        means = {
            name: np.array(tensor.cpu().contiguous().numpy()) for name, tensor in self._mean.items()
        }
        return weights_to_arrays(self._network) | means

    def latest_arrays(self) -> NamedArrays:
        """Return the latest weights and the number of steps; empty before the first step."""
        if not self._steps:
            return {}
        latest = {f"{_LATEST}{name}": x for name, x in weights_to_arrays(self._network).items()}
        return {**latest, _STEPS: np.array(self._steps)}

    def restore(self, average: NamedArrays, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore the average, and load the latest weights into the network.

        Other arrays in `state` are ignored. Raises UserError if arrays are incompatible with the
        network.
        """
        set_weights(self._network, average)
        self._mean = {name: tensor.clone() for name, tensor in self._latest.items()}
        self._steps = int(state.get(_STEPS, 0))
        if self._steps:
            latest = {k.removeprefix(_LATEST): x for k, x in state.items() if k.startswith(_LATEST)}
            set_weights(self._network, latest)


def _averaged_weights(network: nn.Module) -> dict[str, torch.Tensor]:
    """Return parameters and batch norm statistics, which share memory with the network."""
    weights = network.state_dict()
    return {name: tensor for name, tensor in weights.items() if tensor.is_floating_point()}


class LearningResult(NamedTuple):
    """The result of a learning stage."""

    examples_seen: int
    """Number of training examples, including repetitions."""
    epoch_losses: list[dict[str, float]]
    """Mean losses of each epoch, by the names in
    `networks.objectives.HeadErrors.logged_scalars`."""
    learning_rates: list[float]
    """Learning rate of each step."""
    mean_gradient_norm: float | None
    """Mean norm of the gradients before clipping; None without clipping."""

    @property
    def last_epoch_losses(self) -> dict[str, float]:
        """Mean losses of the last epoch."""
        return self.epoch_losses[-1]

    @property
    def is_finite(self) -> bool:
        """True if every loss and the gradient norm are finite."""
        losses = (loss for means in self.epoch_losses for loss in means.values())
        return np.isfinite([*losses, self.mean_gradient_norm or 0.0]).all().item()


class _LossSums:
    """Sums of losses over the steps of each epoch.

    The sums stay on the network's device, because reading a number would make the CPU wait for the
    device. An incomplete pass over the window counts as an epoch.
    """

    def __init__(self, steps_per_epoch: int) -> None:
        self._steps_per_epoch = steps_per_epoch
        self._losses: list[torch.Tensor] = []
        self._norms: torch.Tensor | None = None
        self._examples_seen = 0
        self._learning_rates: list[float] = []

    def add_step(
        self,
        losses: torch.Tensor,
        examples_seen: int,
        learning_rate: float,
        gradient_norm: torch.Tensor | None,
    ) -> None:
        """Add a step with its losses, float32[losses]."""
        if len(self._learning_rates) % self._steps_per_epoch == 0:
            self._losses.append(torch.zeros_like(losses))
        self._losses[-1] += losses
        if gradient_norm is not None:
            self._norms = gradient_norm if self._norms is None else self._norms + gradient_norm
        self._examples_seen += examples_seen
        self._learning_rates.append(learning_rate)

    def result(self, loss_names: Sequence[str]) -> LearningResult:
        """Return the means over all steps so far."""
        steps = len(self._learning_rates)
        size = self._steps_per_epoch
        means = [
            dict(zip(loss_names, (totals / min(size, steps - i * size)).tolist(), strict=True))
            for i, totals in enumerate(self._losses)
        ]
        norm = None if self._norms is None else float(self._norms / steps)
        return LearningResult(self._examples_seen, means, self._learning_rates, norm)


class DivergedError(UserError):
    """Error for a loss, a gradient or a weight that is no longer finite."""


class Learner:
    """A network and its optimiser, whose weights and state can be saved and restored.

    With weight averaging, the average is saved as the network, and the latest weights are saved
    with the optimiser state.

    Weights and losses are float32. On devices with native bfloat16 support, layers compute in
    bfloat16 (autocast), about twice as fast.
    """

    def __init__(
        self,
        network: Network,
        settings: LearnSettings,
        target_options: TargetOptions,
        device: torch.device,
    ) -> None:
        self.network = network.to(device)
        self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.settings = settings
        self.target_options = target_options
        self.device = device
        self.precision = default_precision(device)
        self._gradients = self._new_gradient_computation()
        self._is_frozen = settings.frozen == "trunk"
        self.network.trunk.requires_grad_(not self._is_frozen)
        parameters = [each for each in self.network.parameters() if each.requires_grad]
        self.optimizer = settings.optimizer.new_optimizer(parameters, settings.learning_rate)
        self._average = WeightAverage(network, settings.ema_decay) if settings.ema_decay else None

    def _new_gradient_computation(self) -> GradientComputation:
        arguments = self.network, self.settings.loss, self.target_options, self.precision
        if self.device.type != "cuda":
            return GradientComputation(*arguments)
        # Otherwise cuDNN's sums could differ in a resumed run.
        torch.backends.cudnn.deterministic = True
        return GpuGradientComputation(*arguments)

    @property
    def parameter_count(self) -> int:
        """Number of trainable weights and biases."""
        parameters = self.network.parameters()
        return sum(parameter.numel() for parameter in parameters if parameter.requires_grad)

    @property
    def target_vector_columns(self) -> frozenset[str]:
        """Names of the vector columns of facts on which the heads' targets depend."""
        columns = (
            head.target_vector_columns(self.target_options)
            for head in self.network.head_settings.values()
        )
        return frozenset[str]().union(*columns)

    def learn(
        self,
        window: Window,
        seed: int,
        iteration: int,
        report: Callable[[int], None] = lambda _: None,
        *,
        iterations: int = 0,
        completed_shares: CompletedShares = NO_COMPLETED_SHARES,
    ) -> LearningResult:
        """Train for the number of steps returned by `step_count`.

        The result depends only on the arguments and on the state of the learner. `report` is called
        with the number of finished steps. Schedules that span the run use its maximum length,
        `iterations` (by default `iteration`), and the shares of the run that are done before and
        after the iteration, `completed_shares`. Raises DivergedError if a loss, a gradient or a
        weight is no longer finite.
        """
        settings = self.settings
        torch.manual_seed(int(streams.stream_key(seed, iteration, 0, 1, streams.LEARNING)) >> 1)
        random = streams.numpy_generator(seed, iteration, streams.LEARNING)
        steps, log = self.step_count(window), _LossSums(self._steps_per_epoch(window))
        self.network.train()
        if self._is_frozen:
            self.network.trunk.eval()  # training mode would change the batch norm statistics
        batches = window.batches(random, settings.batch_size, steps, settings.symmetries)
        for number, batch in enumerate(batches):
            done = number / steps
            time = TimeInRun(
                iteration, done, iterations or iteration, completed_shares.share_at(done)
            )
            rate = self._set_rates(time)
            losses, norm = self._step(batch)
            log.add_step(losses, len(batch.planes), rate, norm)
            report(number + 1)
        result = log.result(self._gradients.loss_names)
        # The losses are computed before each step, so the last step can still diverge.
        tensors = self.network.state_dict().values()
        if not (result.is_finite and all(bool(each.isfinite().all()) for each in tensors)):
            raise DivergedError(
                f"training diverged in iteration {iteration} (a loss, a gradient or a weight is not"
                " finite): start another run with a learn.learning_rate below"
                f" {settings.learning_rate}"
            )
        return result

    def step_count(self, window: Window) -> int:
        """Return the number of steps for which `learn` trains on a window, one batch per step."""
        return self.settings.steps_per_iteration(
            self._steps_per_epoch(window), window.latest_updated_count
        )

    def _steps_per_epoch(self, window: Window) -> int:
        return window.batches_per_epoch(self.settings.batch_size, self.settings.symmetries)

    def _set_rates(self, time: TimeInRun) -> float:
        """Set the learning rate and momentum of the next step; return the learning rate."""
        rates = self.settings.schedule.step_rates(time)
        learning_rate: float = self.settings.learning_rate * rates.learning_rate_factor
        options = {"lr": learning_rate}
        if rates.momentum is not None:
            options |= self.settings.optimizer.momentum_option(rates.momentum)
        for group in self.optimizer.param_groups:
            group.update(options)
        return learning_rate

    def _step(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Take one step; return the losses, float32[losses], and the gradient norm if clipped."""
        losses = self._gradients.compute(batch)
        limit = self.settings.clip_norm
        norm = nn.utils.clip_grad_norm_(self.network.parameters(), limit) if limit else None
        self.optimizer.step()
        if self._average:
            self._average.update()
        return losses, norm

    def optimizer_arrays(self) -> NamedArrays:
        """Return the optimiser state as arrays named PARAMETER/QUANTITY.

        The state is empty before the first step. With weight averaging, the latest weights are part
        of the state.
        """
        arrays: NamedArrays = self._average.latest_arrays() if self._average else {}
        for name, parameter in self.network.named_parameters():
            for quantity, value in self.optimizer.state.get(parameter, {}).items():
                if value is not None:
                    arrays[f"{name}/{quantity}"] = value.cpu().numpy()
        return arrays

    def restore(self, weights: NamedArrays, optimizer_state: NamedArrays) -> None:
        """Restore the weights and the optimiser state; raise UserError if they are incompatible."""
        if self._average:
            self._average.restore(weights, optimizer_state)
        else:
            set_weights(self.network, weights)
        self.optimizer.state.clear()
        for name, parameter in self.network.named_parameters():
            state = {
                key.rpartition("/")[2]: torch.from_numpy(value.copy())
                for key, value in optimizer_state.items()
                if key.rpartition("/")[0] == name
            }
            _check_optimizer_state(name, parameter, state, self.settings.optimizer.state_names)
            for quantity, value in state.items():
                # With the parameter's memory layout, sums round as in an uninterrupted run.
                self.optimizer.state[parameter][quantity] = (
                    torch.empty_like(parameter).copy_(value)
                    if value.shape == parameter.shape
                    else value.to(parameter.device)
                )

    def weight_arrays(self) -> NamedArrays:
        """Return the network's weights, or their average, as arrays."""
        return self._average.average_arrays() if self._average else weights_to_arrays(self.network)


def _check_optimizer_state(
    name: str,
    parameter: torch.Tensor,
    state: Mapping[str, torch.Tensor],
    names: frozenset[str] | None,
) -> None:
    """Raise UserError unless a parameter's state is empty, or its names and shapes fit.

    The state of optimisers with unknown names is not checked.
    """
    if not state or names is None:
        return
    step = state.get("step", torch.tensor(0.0))
    fits = step.shape == () and 0 <= step < math.inf
    arrays = (value for quantity, value in state.items() if quantity != "step")
    if state.keys() != names or not fits or any(each.shape != parameter.shape for each in arrays):
        raise UserError(
            f"the optimiser state of {name} is damaged or belongs to another optimiser; restore it"
            " from a backup"
        )
