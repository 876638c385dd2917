"""The stages of training, one file each, in the order in which an iteration runs them."""

from __future__ import annotations

from zerolab.training.stages.accuracy import Accuracy
from zerolab.training.stages.final_evaluation import FinalEvaluation
from zerolab.training.stages.gate import GateStage
from zerolab.training.stages.interface import Stage
from zerolab.training.stages.learn import Learn
from zerolab.training.stages.selfplay import SelfPlay
from zerolab.training.stages.supervised import Supervised
from zerolab.training.stages.warm_start_match import WarmStartMatch

ITERATION: tuple[Stage, ...] = (SelfPlay(), Learn(), GateStage(), WarmStartMatch(), Accuracy())
"""What every iteration runs."""

SUPERVISED: tuple[Stage, ...] = (Learn(), Supervised(), Accuracy())
"""What it runs where solved positions take the place of games."""

FINAL = FinalEvaluation()
"""What runs once, after the last iteration."""

__all__ = ["FINAL", "ITERATION", "SUPERVISED", "Stage"]
