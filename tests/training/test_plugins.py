"""Plug-ins that add heads, losses, gates and ramps, in a process that starts with them."""

from __future__ import annotations

import os
import subprocess
import sys


def run_with_plugins(folder, program):
    """Run a program with a plug-in of each of two layers installed; return its output lines."""
    (folder / "plugin.py").write_text(NETWORK_PLUGIN)
    (folder / "stubborn.py").write_text(TRAINING_PLUGIN)
    entry_points_file = folder / "plugin-1.dist-info" / "entry_points.txt"
    entry_points_file.parent.mkdir()
    entry_points_file.write_text(
        "[zerolab.networks]\nplugin = plugin\n[zerolab.training]\nstubborn = stubborn\n"
    )
    path = os.pathsep.join([str(folder), *sys.path])
    result = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stderr == ""
    return result.stdout.split("\n")


NETWORK_PLUGIN = """
from typing import ClassVar, Literal
import numpy as np
from zerolab.networks.objectives import HEADS, Head
from zerolab.networks.objectives import LOSSES, Loss, squared_error

class PlyHead(Head):
    name: Literal["ply"] = "ply"
    most: int = 42

    def apply_activation(self, outputs):
        return outputs.squeeze(1)

    def compute_targets(self, facts, options):
        return (facts.plies / self.most).astype(np.float32)

    def compute_errors(self, prediction, target):
        return squared_error(prediction.float(), target)

class PlyLoss(Loss):
    name: Literal["ply"] = "ply"
    used_heads: ClassVar[tuple[str, ...]] = ("policy", "ply")

    def __call__(self, errors):
        return errors["policy"].mean() + 3 * errors["ply"].mean()

    def logged_scalars(self, errors):
        return {}

class ClippedLoss(Loss):
    name: Literal["clipped"] = "clipped"
    most: float = 2.0

    def __call__(self, errors):
        return errors["policy"].clamp(max=self.most).mean() + errors["value"].mean()

HEADS.add("ply", PlyHead)
LOSSES.add("ply", PlyLoss)
LOSSES.add("clipped", ClippedLoss)
"""

TRAINING_PLUGIN = """
from typing import Literal
from zerolab.training.criteria import GATES, RAMPS, EndlessRamp, Gate

class Stubborn(Gate):
    name: Literal["stubborn"] = "stubborn"
    patience: int = 3

    def accepts(self, score, los):
        return score.losses == 0

class Again(EndlessRamp):
    name: Literal["again"] = "again"

GATES.add("stubborn", Stubborn)
RAMPS.add("again", Again)
"""


def test_heads_losses_gates_and_ramps_of_plugins_are_used(tmp_path):
    """One loss uses the new head directly; the other clips errors per sample."""
    program = """
import torch
from zerolab.core.config import validate
from zerolab.core.errors import UserError
from zerolab.networks.catalogue import build_network
from zerolab.networks.objectives import HeadErrors
from zerolab.rules.catalogue import parse_game
from zerolab.training.configure import resolve_settings
from zerolab.training.learn_settings import LearnSettings
def settings(heads):
    return resolve_settings(None, "smoke", [f"network.heads={heads}", "learn.loss=ply"])
chosen = settings('["policy", "value", {name="ply", most=9}]')
network = build_network(chosen.network, parse_game(chosen.game), 0)
outputs = network(torch.zeros(2, 1, 3, 3))
print(*outputs, network.head_settings["ply"].most, tuple(outputs["ply"].shape))
errors = {"policy": torch.ones(2), "value": torch.ones(2), "ply": torch.ones(2)}
errors = HeadErrors(chosen.learn.loss, list(network.head_settings.values()), errors)
print(errors.total_loss().item(), *errors.logged_scalars())
try:
    settings(["policy", "value"])
except UserError as error:
    print(error)
clipped = validate(LearnSettings, {"loss": {"name": "clipped", "most": 3}}).loss
errors = {"policy": torch.tensor([1.0, 5.0]), "value": torch.tensor([0.0, 1.0])}
print(clipped(errors).item(), *clipped.logged_scalars(errors))
changes = ["gate=stubborn", "gate.patience=7", "warm_start.ramp=again", "warm_start.variant=rave"]
resolved = resolve_settings(None, "smoke", changes)
print(resolved.gate.name, resolved.gate.patience, resolved.warm_start.ramp.name)
"""
    lines = run_with_plugins(tmp_path, program)
    assert lines[:2] == ["policy value ply 9 (2,)", "5.0 policy value ply total"]
    assert lines[2].startswith('learn.loss = "ply" uses the "ply" head: expected it in network.')
    assert lines[3] == "2.5 sum product"
    assert lines[4] == "stubborn 7 again"
