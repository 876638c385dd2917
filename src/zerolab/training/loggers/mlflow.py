"""Logs of MLflow, in a database in the run's folder.

``mlflow ui --backend-store-uri sqlite:///runs/demo/mlflow.sqlite`` shows them.
"""

from __future__ import annotations

import re

from zerolab.core.nested_tables import flatten
from zerolab.store.run_folder import RunFolder
from zerolab.training.logger import LOGGERS, LoggerKind

_EXPERIMENT = "zerolab"
_MAX_VALUE = 500  # characters of a parameter
_REFUSED = re.compile(r"[^\w\-. :/]")
"""Characters that the name of a metric must not have, such as @ and ?."""


class MlflowLogger:
    """Log of a run in MLflow, in the run's file ``mlflow.sqlite``."""

    def __init__(self, run: RunFolder) -> None:
        from mlflow import MlflowClient

        path = (run.path / "mlflow.sqlite").resolve().as_posix()
        self._client = MlflowClient(tracking_uri=f"sqlite:///{path}")
        found = self._client.get_experiment_by_name(_EXPERIMENT)
        experiment = found.experiment_id if found else self._client.create_experiment(_EXPERIMENT)
        self._id = self._client.create_run(experiment, run_name=run.path.name).info.run_id
        for key, value in flatten(run.config):
            self._client.log_param(self._id, key, str(value)[:_MAX_VALUE])

    def log(self, numbers: dict[str, float], step: int) -> None:
        for name, value in numbers.items():
            self._client.log_metric(self._id, _REFUSED.sub("_", name), value, step=step)

    def close(self) -> None:
        self._client.set_terminated(self._id)


LOGGERS.add("mlflow", LoggerKind("mlflow", MlflowLogger))
