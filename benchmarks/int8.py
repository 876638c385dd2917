"""What int8 would bring: speed and answers of a run's network, quantised for x86 processors.

    python benchmarks/int8.py runs/demo

Weights and activations are quantised by torch, calibrated on positions of the run's own games. The
rates are those of one core, in the best of several batch sizes, alternately with the network in
float32 and, where the processor multiplies it, bfloat16.
"""

from __future__ import annotations

import copy
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.ao.quantization import get_default_qconfig_mapping
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

from zerolab.agents.kinds.run import read_playable_run
from zerolab.networks.catalogue import build_network
from zerolab.networks.inference import best_precision
from zerolab.networks.layers import folded_copy
from zerolab.networks.network import Network, load_weights
from zerolab.rules import python
from zerolab.rules.catalogue import parse_game
from zerolab.store.run_folder import RunFolder

_BATCHES = (64, 256, 512)
_CALIBRATION = 2048
_TESTED = 4096
_SECONDS = 2.0
_ROUNDS = 3


class Answers(nn.Module):
    """Priors and values of a network, as plain tensors that can be traced."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.trunk = network.trunk
        self.policy = network.heads["policy"]
        self.value = network.heads["value"]

    def forward(self, planes: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits or log-priors [N, actions], and values [N]."""
        features = self.trunk(planes)
        return self.policy(features), self.value(features)


def main(folder: str) -> None:
    """Print rates and differences."""
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    torch.set_num_threads(1)
    run = RunFolder.open(Path(folder))
    calibration, tested = some_planes(run)
    plain = Answers(folded_copy(latest_network(run))).eval().to(memory_format=torch.channels_last)
    versions = {
        "float32": (plain, torch.float32),
        "int8": (quantised(plain, calibration), torch.float32),
    }
    if best_precision(torch.device("cpu")) == torch.bfloat16:
        versions["bfloat16"] = (copy.deepcopy(plain).to(torch.bfloat16), torch.bfloat16)
    expected = answers(plain, tested, torch.float32)
    rates: dict[str, list[float]] = {name: [] for name in versions}
    for _ in range(_ROUNDS):
        for name, (model, kind) in versions.items():
            rates[name].append(best_rate(model, tested.to(kind)))
    medians = {name: statistics.median(rounds) for name, rounds in rates.items()}
    best = "bfloat16" if "bfloat16" in versions else "float32"
    for name, (model, kind) in versions.items():
        found = answers(model, tested, kind)
        moved = [float((a - b).abs().mean()) for a, b in zip(expected, found, strict=True)]
        print(
            f"{name:9} {medians[name]:9,.0f} positions/s, {medians[name] / medians[best]:.2f} of"
            f" {best}; priors move by {moved[0]:.4f} on average, values by {moved[1]:.4f}"
        )


def latest_network(run: RunFolder) -> Network:
    """Return the run's latest network."""
    settings = read_playable_run(run)
    latest = run.networks()[-1]
    network = build_network(settings.network_of(latest), parse_game(settings.game), settings.seed)
    load_weights(network, run.load_weights(latest))
    return network


def some_planes(run: RunFolder) -> tuple[Tensor, Tensor]:
    """Return what the network sees of positions to calibrate with, and of others to test with."""
    game = parse_game(run.config["game"])
    examples = run.load_examples(run.latest_examples)
    drawn = np.random.default_rng(0).permutation(len(examples.states))
    states = examples.states[drawn[: _CALIBRATION + _TESTED]]
    planes = torch.from_numpy(python.encode_batch(game, states))
    planes = planes.contiguous(memory_format=torch.channels_last)
    calibration = min(_CALIBRATION, len(planes) // 3)
    return planes[:calibration], planes[calibration:]


def quantised(model: Answers, planes: Tensor) -> nn.Module:
    """Return the model with weights and activations in int8, but for what has no such kernel."""
    torch.backends.quantized.engine = "x86"
    prepared = prepare_fx(model, get_default_qconfig_mapping("x86"), (planes[:1],))
    with torch.inference_mode():
        prepared(planes)
    return convert_fx(prepared)


def answers(model: nn.Module, planes: Tensor, kind: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return priors and values in float32."""
    with torch.inference_mode():
        policy, value = model(planes.to(kind))
    return policy.float().softmax(dim=1), value.float()


def best_rate(model: nn.Module, planes: Tensor) -> float:
    """Return positions per second in the best batch size."""
    return max(_rate(model, planes[:batch]) for batch in _BATCHES)


def _rate(model: Callable[[Tensor], object], batch: Tensor) -> float:
    with torch.inference_mode():
        model(batch)
        began, count = time.perf_counter(), 0
        while time.perf_counter() - began < _SECONDS:
            model(batch)
            count += len(batch)
        return count / (time.perf_counter() - began)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python benchmarks/int8.py RUN")
    main(sys.argv[1])
