"""Loggers, which copy the numbers of a training run to programs that track experiments.

A logger is a class at the end of this file, or in a module of another package that registers it
when it is imported and that an entry point in the group ``zerolab.loggers`` names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from typing import NamedTuple, Protocol

from zerolab.core.errors import MissingExtraError, UserError, one_line
from zerolab.core.files import make_folder
from zerolab.core.nested_tables import flatten
from zerolab.core.registry import Registry, load_plugins
from zerolab.store.run_folder import RunFolder
from zerolab.training.reporting import read_records


class Logger(Protocol):
    """Open connection to a program that tracks experiments."""

    def log(self, numbers: dict[str, float], step: int) -> None:
        """Log numbers, such as ``learn/loss/policy``, of an iteration."""
        ...

    def close(self) -> None:
        """Write what is still waiting, and close the connection."""
        ...


class LoggerKind(NamedTuple):
    """A program that tracks experiments, and the package that it needs."""

    package: str
    """Package to import, which is also the name of zerolab's extra."""
    open: Callable[[RunFolder], Logger]
    """Function that begins a new log of a run; not every program can continue one."""


LOGGERS: Registry[LoggerKind] = Registry("logger")


def require_loggers(names: Iterable[str]) -> None:
    """Raise UserError for an unknown logger, and MissingExtraError if its package is missing."""
    load_plugins("loggers")
    for name in names:
        package = LOGGERS[name].package
        if not _is_installed(package):
            raise MissingExtraError.of(f"the log of {name}", package, package)


def _is_installed(package: str) -> bool:
    """Return whether a package can be imported; an empty folder of its name does not count."""
    try:
        spec = find_spec(package)
    except ModuleNotFoundError:  # the parent of a module is missing
        return False
    return spec is not None and spec.origin is not None


def open_loggers(names: Iterable[str], run: RunFolder) -> RunLog:
    """Return the open logs of a run, by the names of their loggers.

    Raises UserError as `require_loggers` does, and if a program refuses.
    """
    distinct = list(dict.fromkeys(names))
    if distinct:
        require_loggers(distinct)
    log = RunLog(run)
    for name in distinct:
        try:
            log.loggers[name] = LOGGERS[name].open(run)
        except Exception as error:
            log.close()
            raise UserError(f"{name} cannot log {run.path}: {one_line(error)}") from error
    return log


class RunLog:
    """Open logs of a run, which receive the numbers of its finished stages."""

    def __init__(self, run: RunFolder) -> None:
        self._run = run
        self.loggers: dict[str, Logger] = {}
        self._logged = 0

    def update(self) -> None:
        """Log the records that this object has not logged yet, including those before a resume.

        Raises UserError if a program refuses; the records are saved in the run all the same.
        """
        if not self.loggers:
            return
        records = read_records(self._run)
        for record in records[self._logged :]:
            numbers = {f"{record.tag}/{name}": value for name, value in record.numbers()}
            for name, logger in self.loggers.items():
                try:
                    logger.log(numbers, record.iteration)
                except Exception as error:
                    raise UserError(
                        f"{name} cannot log {self._run.path}: {one_line(error)}; finished stages"
                        f" are saved: resume without --log {name}"
                    ) from error
        self._logged = len(records)

    def close(self) -> None:
        """Close all logs; raise UserError at the end if a program refuses."""
        refused = []
        for name, logger in self.loggers.items():
            try:
                logger.close()
            except Exception as error:
                refused.append(
                    f"{name} cannot close the log of {self._run.path}: {one_line(error)}"
                )
        if refused:
            raise UserError("\n".join(refused))


_EXPERIMENT = "zerolab"
_MAX_VALUE = 500  # characters of a parameter
_REFUSED = re.compile(r"[^\w\-. :/]")
"""Characters that the name of a metric must not have, such as @ and ?."""


class MlflowLogger:
    """Log of a run in MLflow, in the run's file ``mlflow.sqlite``.

    ``mlflow ui --backend-store-uri sqlite:///runs/demo/mlflow.sqlite`` shows it.
    """

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


_PROJECT = "zerolab"


class TrackioLogger:
    """Log of a run in trackio, in its local folder, under the path of the run.

    ``trackio show --project zerolab`` shows it.
    """

    def __init__(self, run: RunFolder) -> None:
        import trackio

        self._trackio = trackio
        name = run.path.as_posix().replace("/", "-")
        trackio.init(_PROJECT, name=name, config=run.config, resume="never", embed=False)

    def log(self, numbers: dict[str, float], step: int) -> None:
        self._trackio.log(numbers, step=step)

    def close(self) -> None:
        self._trackio.finish()


LOGGERS.add("trackio", LoggerKind("trackio", TrackioLogger))


class WandbLogger:
    """Log of a run in Weights & Biases, offline in its ``wandb`` folder until ``wandb sync``."""

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
