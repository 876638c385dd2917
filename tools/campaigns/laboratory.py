"""Victims, launchers and attempt results shared by all campaigns."""

from __future__ import annotations

import fcntl
import random
import shutil
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Protocol

from campaigns.victims import VICTIMS, Victim, Victims
from campaigns.watch import SECONDS, Command, Ended, Launcher, Shell, Warm, watched


class Attempt(NamedTuple):
    """Result of an attempt."""

    what: str
    """Description of the attempt."""
    faults: list[str]
    ended: str = ""
    """Last message of the last command."""


class Campaign(Protocol):
    """Kind of attack, whose attempts depend only on their random numbers."""

    name: str
    count: int
    """Default number of attempts."""

    def attempt(self, draw: random.Random, place: Path, launcher: Launcher | None) -> Attempt:
        """Attack once in an empty folder; if a launcher is given, use only that one."""

    def close(self) -> list[str]:
        """End everything that the campaign started; return any faults."""


class Laboratory:
    """Folder of campaigns with its victims and launchers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = open(self.folder / ".lock", "w")  # noqa: SIM115  locked until exit
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemExit(f"{folder} is in use by another campaign") from None
        self.shell = Shell()
        self._warm: Warm | None = None
        self.victims = Victims(self.folder, self.shell)

    @property
    def warm(self) -> Warm:
        """Launcher that forks a warm process."""
        if self._warm is None:
            self._warm = Warm()
            self.victims.launcher = self._warm
        return self._warm

    def launcher(self, draw: random.Random, victim: Victim | None = None) -> Launcher:
        """Return the process launcher for one attempt in ten, and the forking one otherwise."""
        is_process = draw.random() < 0.1 or (victim is not None and victim.is_cache)
        return self.shell if is_process else self.warm

    def any_victim(self, draw: random.Random, resumable: bool = False) -> Victim:
        """Return a random victim, creating it if necessary."""
        candidates = [each for each in VICTIMS.values() if each.is_resumable or not resumable]
        victim = draw.choices(candidates, [each.weight for each in candidates])[0]
        self.victims.folder(victim)
        return victim

    def run(
        self, command: Command, launcher: Launcher, place: Path, undisturbed: float
    ) -> Ended:  # fmt: skip
        """Run a command with a time limit based on the seconds it takes undisturbed."""
        return watched(launcher, command, place / "notes", SECONDS + 3 * undisturbed)

    def clear(self, name: str) -> Path:
        """Return a new empty folder for an attempt."""
        place = self.folder / "work" / name
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        return place

    def __enter__(self) -> Laboratory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        if self._warm is not None:
            self._warm.close()
