"""What int8 would bring: speed and answers of a run's network, quantised for x86 processors.

    python benchmarks/int8.py runs/demo

Weights and activations are quantised by torch, calibrated on positions of the run's own games. The
rates are those of one core, in the best of several batch sizes, alternately with the network in
float32 and, where the processor multiplies it, bfloat16.
"""

from __future__ import annotations

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

from zerolab.agents.kinds.run import playable
from zerolab.networks.catalogue import build_network
from zerolab.networks.inference import best_precision
from zerolab.networks.layers import folded_copy
from zerolab.networks.network import Network
from zerolab.networks.weights import load_weights
from zerolab.rules import host
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
    planes = some_planes(run)
    plain = Answers(folded_copy(latest_network(run))).eval()
    versions = {
        "float32": (plain, torch.float32),
        "int8": (quantised(plain, planes), torch.float32),
    }
    if best_precision(torch.device("cpu")) == torch.bfloat16:
        narrow = Answers(folded_copy(latest_network(run))).to(torch.bfloat16)
        versions["bfloat16"] = (narrow.eval(), torch.bfloat16)
    expected = answers(plain, planes[:_TESTED], torch.float32)
    rates: dict[str, list[float]] = {name: [] for name in versions}
    for _ in range(_ROUNDS):
        for name, (model, kind) in versions.items():
            rates[name].append(best_rate(model, planes.to(kind)))
    for name, (model, kind) in versions.items():
        found = answers(model, planes[:_TESTED], kind)
        moved = [float((a - b).abs().mean()) for a, b in zip(expected, found, strict=True)]
        rate = statistics.median(rates[name])
        print(
            f"{name:9} {rate:9,.0f} positions/s, {rate / statistics.median(rates['float32']):.2f}"
            f" of float32; priors move by {moved[0]:.4f} on average, values by {moved[1]:.4f}"
        )


def latest_network(run: RunFolder) -> Network:
    """Return the run's latest network."""
    settings = playable(run)
    network = build_network(settings.network, parse_game(settings.game), settings.seed)
    load_weights(network, run.load_weights(run.networks()[-1]))
    return network


def some_planes(run: RunFolder) -> Tensor:
    """Return what the network sees of positions of the latest iteration that played some."""
    game = parse_game(run.config["game"])
    examples = run.load_examples(run.latest_examples)
    drawn = np.random.default_rng(0).permutation(len(examples.states))
    states = examples.states[drawn[: _CALIBRATION + _TESTED]]
    planes = torch.from_numpy(host.encode_batch(game, states))
    return planes.contiguous(memory_format=torch.channels_last)


def quantised(model: Answers, planes: Tensor) -> nn.Module:
    """Return the model with weights and activations in int8, but for what has no such kernel."""
    torch.backends.quantized.engine = "x86"
    prepared = prepare_fx(model, get_default_qconfig_mapping("x86"), (planes[:1],))
    with torch.inference_mode():
        prepared(planes[-_CALIBRATION:])
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
