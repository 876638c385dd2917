"""Files of all kinds, damaged; then a command that reads them: a line, or as if nothing were."""

from __future__ import annotations

import random
from pathlib import Path

from campaigns.damage import damage
from campaigns.laboratory import Attempt, Laboratory
from campaigns.victims import KEYS, copy
from campaigns.watch import Command, Launcher

_DRAWN = (".png", ".svg", ".html", ".md", ".lock", ".zerolab", "environment.json")
"""Ends of names of files that are written and hardly read."""


class Damages:
    """A random file of a random victim is damaged; a random command reads the victim."""

    name = "damages"
    count = 1000

    def __init__(self, laboratory: Laboratory) -> None:
        self._laboratory = laboratory

    def attempt(self, draw: random.Random, place: Path, launcher: Launcher | None) -> Attempt:
        """Damage a file, and let a command read it."""
        laboratory = self._laboratory
        victim = laboratory.any_victim(draw)
        launcher = launcher or laboratory.launcher(draw, victim)
        words = draw.choice(victim.read)
        seconds = laboratory.victims.seconds(victim, words)
        work = place / "here"
        copy(laboratory.victims.folder(victim), work)
        target = work / victim.target
        files = _files(target)
        read = [each for each in files if not each.name.endswith(_DRAWN)]
        path = draw.choice(read if read and draw.random() < 0.9 else files)
        other = laboratory.any_victim(draw)
        others = _files(laboratory.victims.folder(other) / other.target)
        way = damage(path, others, draw)
        command = Command(words, work, KEYS.get(words[0], ""), dict(victim.environment))
        ended = laboratory.run(command, launcher, place, seconds)
        what = f"{way} {victim.name}/{path.relative_to(work)}: {' '.join(words)}"
        return Attempt(what, ended.faults(), ended.message)

    def close(self) -> list[str]:
        """Nothing is left to end."""
        return []


def _files(target: Path) -> list[Path]:
    """Return the files of a victim, but for its lock."""
    if target.is_file():
        return [target]
    return sorted(path for path in target.rglob("*") if path.is_file() and path.name != ".lock")
