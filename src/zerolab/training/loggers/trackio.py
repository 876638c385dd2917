"""Logs of trackio, in its local folder; ``trackio show --project zerolab`` shows them."""

from __future__ import annotations

from zerolab.store.run_folder import RunFolder
from zerolab.training.logger import LOGGERS, LoggerKind

_PROJECT = "zerolab"


class TrackioLogger:
    """Log of a run in trackio, under the path of the run."""

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
