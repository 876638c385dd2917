"""Loggers, which copy the metrics of a training run to experiment trackers.

Loggers are the classes at the end of this file. Other packages can register more in modules named
in the ``zerolab.loggers`` entry-point group.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import NamedTuple, Protocol

from zerolab.core.errors import MissingExtraError, UserError, one_line
from zerolab.core.files import atomic_replace, check_not_symlink, make_folder
from zerolab.core.nested_tables import flatten
from zerolab.core.registry import Registry, load_plugins
from zerolab.store.checks import require_regular_file, user_errors_on_write
from zerolab.store.run_folder import RunFolder
from zerolab.training.reporting import read_records


class Logger(Protocol):
    """Open connection to an experiment tracker."""

    def log(self, numbers: dict[str, float], step: int) -> None:
        """Log numbers, such as ``learn/loss/policy``, of an iteration."""
        ...

    def close(self) -> None:
        """Write pending numbers, and close the connection."""
        ...


class LoggerKind(NamedTuple):
    """An experiment tracker, and the package that it needs."""

    package: str
    """Package to import, which is also the name of zerolab's extra."""
    open: Callable[[RunFolder], Logger]
    """Function that begins a new log of a run, since not every tracker can continue a log."""


LOGGERS: Registry[LoggerKind] = Registry("logger")

TENSORBOARD = "tensorboard"
"""Logger of every run, if its package is installed."""


def default_loggers() -> list[str]:
    """Return the names of the loggers that every run has."""
    return [TENSORBOARD] if _is_installed(TENSORBOARD) else []


def require_loggers(names: Iterable[str]) -> None:
    """Raise UserError for an unknown logger, and MissingExtraError if its package is missing."""
    load_plugins("loggers")
    for name in names:
        package = LOGGERS[name].package
        if not _is_installed(package):
            raise MissingExtraError.for_package(f"the log of {name}", package, package)


def _is_installed(package: str) -> bool:
    """Return whether a package can be imported; an empty folder with its name does not count."""
    try:
        spec = find_spec(package)
    except ModuleNotFoundError:  # the parent of a module is missing
        return False
    return spec is not None and spec.origin is not None


def open_loggers(names: Iterable[str], run: RunFolder) -> RunLoggers:
    """Return the open logs of a run, by the names of their loggers.

    Raises UserError like `require_loggers`, and if a tracker cannot log the run.
    """
    distinct = list(dict.fromkeys(names))
    if distinct:
        require_loggers(distinct)
    log = RunLoggers(run)
    for name in distinct:
        try:
            log.loggers[name] = LOGGERS[name].open(run)
        except Exception as error:
            log.close()
            raise UserError(f"{name} cannot log {run.path}: {one_line(error)}") from error
    return log


class RunLoggers:
    """Open logs of a run, which receive the metrics of its finished stages."""

    def __init__(self, run: RunFolder) -> None:
        self._run = run
        self.loggers: dict[str, Logger] = {}
        self._logged = 0

    def update(self) -> None:
        """Log the records that this object has not yet logged, including those before a resume.

        Raises UserError if a tracker fails; the run's records are saved nevertheless.
        """
        if not self.loggers:
            return
        records = read_records(self._run)
        for record in records[self._logged :]:
            numbers = {f"{record.log_group}/{name}": value for name, value in record.numbers()}
            for name, logger in self.loggers.items():
                try:
                    logger.log(numbers, record.iteration)
                except Exception as error:
                    advice = "" if name == TENSORBOARD else f": resume without --log {name}"
                    raise UserError(
                        f"{name} cannot log {self._run.path}: {one_line(error)}; finished stages"
                        f" are saved{advice}"
                    ) from error
        self._logged = len(records)

    def close(self) -> None:
        """Close all logs; then raise UserError if a tracker failed."""
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
_MAX_VALUE = 500  # maximum length of a parameter in characters
_MAX_PARAMS, _MAX_METRICS = 100, 1000  # maximum numbers per transaction
_REFUSED = re.compile(r"[^\w\-. :/]")
"""Characters not allowed in names of metrics, such as @ and ?."""


class MlflowLogger:
    """Log of a run in MLflow, in the run's file ``mlflow.sqlite``.

    ``mlflow ui --backend-store-uri sqlite:///runs/demo/mlflow.sqlite`` shows the log.
    """

    def __init__(self, run: RunFolder) -> None:
        from mlflow import MlflowClient
        from mlflow.entities import Param

        path = (run.path / "mlflow.sqlite").resolve().as_posix()
        self._client = MlflowClient(tracking_uri=f"sqlite:///{path}")
        found = self._client.get_experiment_by_name(_EXPERIMENT)
        experiment = found.experiment_id if found else self._client.create_experiment(_EXPERIMENT)
        self._id = self._client.create_run(experiment, run_name=run.path.name).info.run_id
        params = [Param(key, str(value)[:_MAX_VALUE]) for key, value in flatten(run.config)]
        for start in range(0, len(params), _MAX_PARAMS):
            self._client.log_batch(self._id, params=params[start : start + _MAX_PARAMS])

    def log(self, numbers: dict[str, float], step: int) -> None:
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        metrics = [
            Metric(_REFUSED.sub("_", name), value, now, step) for name, value in numbers.items()
        ]
        for start in range(0, len(metrics), _MAX_METRICS):
            self._client.log_batch(self._id, metrics[start : start + _MAX_METRICS])

    def close(self) -> None:
        self._client.set_terminated(self._id)


LOGGERS.add("mlflow", LoggerKind("mlflow", MlflowLogger))


_PROJECT = "zerolab"


class TrackioLogger:
    """Log of a run in trackio's local folder, named after the path of the run.

    ``trackio show --project zerolab`` shows the log.
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
    """Log of a run in Weights & Biases, kept in the ``wandb`` folder until ``wandb sync``."""

    def __init__(self, run: RunFolder) -> None:
        import wandb

        make_folder(run.path / "wandb")
        settings = wandb.Settings(silent=True, console="off")
        self._run = wandb.init(
            project=_PROJECT, name=run.path.name, dir=run.path, config=run.config, mode="offline",
            settings=settings,
        )  # fmt: skip
        # An iteration has several stages, and each call to `log` begins a new step.
        self._run.define_metric("*", step_metric="iteration")

    def log(self, numbers: dict[str, float], step: int) -> None:
        self._run.log({**numbers, "iteration": step})

    def close(self) -> None:
        self._run.finish()


LOGGERS.add("wandb", LoggerKind("wandb", WandbLogger))


_EVENT_FILE = "events.out.tfevents.0000000000.zerolab"  # TensorBoard looks for "tfevents"


class TensorBoardLogger:
    """Log of a run for TensorBoard.

    Every number is a scalar named STAGE/NAME; the iteration is the step. The wall time of an event
    is the cumulative training time in seconds. New events are appended to the file, so that a
    running TensorBoard can follow it. A file that contradicts the events is replaced.
    """

    def __init__(self, run: RunFolder) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.record_writer import RecordWriter

        folder = run.path / "tensorboard"
        check_not_symlink(folder)
        make_folder(folder)
        self._path = folder / _EVENT_FILE
        check_not_symlink(self._path)
        if self._path.exists():
            require_regular_file(self._path)
        self._written = self._path.read_bytes() if self._path.exists() else None
        self._elapsed = 0.0
        self._events = BytesIO()
        self._writer = RecordWriter(self._events)
        self._writer.write(Event(wall_time=0.0, file_version="brain.Event:2").SerializeToString())

    def log(self, numbers: dict[str, float], step: int) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        seconds = (value for tag, value in numbers.items() if tag.endswith("/wall_seconds"))
        self._elapsed += sum(seconds)
        scalars = [Summary.Value(tag=tag, simple_value=value) for tag, value in numbers.items()]
        event = Event(wall_time=self._elapsed, step=step, summary=Summary(value=scalars))
        self._writer.write(event.SerializeToString())
        if self._written is None or len(self._events.getbuffer()) > len(self._written):
            self._write()

    def close(self) -> None:
        self._write()

    def _write(self) -> None:
        content, written = self._events.getvalue(), self._written
        if written is not None and content.startswith(written):
            with user_errors_on_write(self._path), open(self._path, "ab") as file:
                file.write(content[len(written) :])
        else:
            with atomic_replace(self._path) as temporary:
                temporary.write_bytes(content)
        self._written = content


def export_tensorboard(run: RunFolder) -> Path:
    """Write the events of a run's finished stages; return their folder."""
    log = open_loggers([TENSORBOARD], run)
    log.update()
    log.close()
    return run.path / "tensorboard"


LOGGERS.add(TENSORBOARD, LoggerKind(TENSORBOARD, TensorBoardLogger))
