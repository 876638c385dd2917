"""Loggers, which copy the numbers of a training run to programs that track experiments.

A logger is a file in `training/loggers`, or a module of another package that registers it when it
is imported and that an entry point in the group ``zerolab.loggers`` names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.util import find_spec
from typing import NamedTuple, Protocol

from zerolab.core.errors import MissingExtraError, UserError, one_line
from zerolab.core.registry import Registry, import_modules, load_plugins
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
    import_modules("zerolab.training.loggers")
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
