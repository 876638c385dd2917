"""Shared parts of all campaigns: victims, launchers, and the result of an attempt."""

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
    """The result of an attempt: what was tried, and the faults found."""

    what: str
    faults: list[str]
    ended: str = ""
    """The last message of the last command."""


class Campaign(Protocol):
    """A kind of attack; an attempt is a function of what it draws."""

    name: str
    count: int
    """Attempts by default."""

    def attempt(self, draw: random.Random, place: Path, launcher: Launcher | None) -> Attempt:
        """Attack once, in an empty folder; with a launcher, by that alone."""

    def close(self) -> list[str]:
        """End what has been started; return what is wrong about that."""


class Laboratory:
    """The folder of campaigns."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = open(self.folder / ".lock", "w")  # noqa: SIM115  it is held to the end
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemExit(f"{folder}: another campaign is at work there") from None
        self.shell = Shell()
        self._warm: Warm | None = None
        self.victims = Victims(self.folder, self.shell)

    @property
    def warm(self) -> Warm:
        """The process that forks."""
        if self._warm is None:
            self._warm = Warm()
            self.victims.launcher = self._warm
        return self._warm

    def launcher(self, draw: random.Random, victim: Victim | None = None) -> Launcher:
        """Return a process for one attempt in ten, and a fork for the others."""
        is_process = draw.random() < 0.1 or (victim is not None and victim.is_cache)
        return self.shell if is_process else self.warm

    def any_victim(self, draw: random.Random, resumable: bool = False) -> Victim:
        """Return a victim, made by now."""
        chosen = [each for each in VICTIMS.values() if each.is_resumable or not resumable]
        victim = draw.choices(chosen, [each.weight for each in chosen])[0]
        self.victims.folder(victim)
        return victim

    def run(
        self, command: Command, launcher: Launcher, place: Path, undisturbed: float
    ) -> Ended:  # fmt: skip
        """Run a command that takes so many seconds when nothing disturbs it."""
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
