"""Random words after `zerolab`: a line and code 2, or work that SIGTERM ends at once."""

from __future__ import annotations

import os
import random
import shlex
from pathlib import Path

from campaigns.grammar import vector
from campaigns.laboratory import Attempt, Laboratory
from campaigns.victims import KEYS, VICTIMS, copy
from campaigns.watch import Command, Launcher

_PATIENCE = 6.0  # seconds until a command that works is stopped
_HERE = ("run", "dataset", "tournament", "pgn", "agent")


class Arguments:
    """Commands with words of a grammar, in a folder with something of most kinds."""

    name = "arguments"
    count = 1000

    def __init__(self, laboratory: Laboratory) -> None:
        self._laboratory = laboratory

    def attempt(self, draw: random.Random, place: Path, launcher: Launcher | None) -> Attempt:
        """Run a command, and stop it where it works."""
        launcher = launcher or self._laboratory.launcher(draw)
        work = place / "here"
        for name in _HERE:
            copy(self._laboratory.victims.folder(VICTIMS[name]), work)
        (work / "folder.png").mkdir()
        (work / "null.png").symlink_to("/dev/null")
        os.mkfifo(work / "pipe")
        words = vector(draw)
        startup = 0.0 if launcher is not self._laboratory.shell else 6.0
        command = Command(
            tuple(words), work, KEYS.get(words[0], ""), stop_after=_PATIENCE + startup
        )
        ended = self._laboratory.run(command, launcher, place, 0.0)
        stopped = " (stopped)" if ended.stopped else ""
        return Attempt(
            f"zerolab {shlex.join(words)[:2000]}{stopped}", ended.faults(), ended.message
        )

    def close(self) -> list[str]:
        """Nothing is left to end."""
        return []
