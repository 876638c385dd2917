"""Logs of Weights & Biases, offline in the run's folder; ``wandb sync`` sends them on request."""

from __future__ import annotations

from zerolab.core.files import make_folder
from zerolab.store.run_folder import RunFolder
from zerolab.training.logger import LOGGERS, LoggerKind

_PROJECT = "zerolab"


class WandbLogger:
    """Log of a run in Weights & Biases, in the run's folder ``wandb``."""

    def __init__(self, run: RunFolder) -> None:
        import wandb

        make_folder(run.path / "wandb")
        settings = wandb.Settings(silent=True, console="off")
        self._run = wandb.init(
            project=_PROJECT, name=run.path.name, dir=run.path, config=run.config, mode="offline",
            settings=settings,
        )  # fmt: skip
        # An iteration has several stages, and each call of `log` begins a new step.
        self._run.define_metric("*", step_metric="iteration")

    def log(self, numbers: dict[str, float], step: int) -> None:
        self._run.log({**numbers, "iteration": step})

    def close(self) -> None:
        self._run.finish()


LOGGERS.add("wandb", LoggerKind("wandb", WandbLogger))
