"""Files of all kinds, damaged; then a command that reads them: a line, or as if nothing were."""

from __future__ import annotations

import random
from pathlib import Path

from campaigns.damage import damage
from campaigns.laboratory import Attempt, Laboratory
from campaigns.victims import KEYS, copy
from campaigns.watch import Command, Launcher


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
        is_cache = victim.name == "cache"  # a fork would have chosen its own by now
        launcher = launcher or (laboratory.shell if is_cache else laboratory.launcher(draw))
        words = draw.choice(victim.read)
        seconds = laboratory.victims.seconds(victim, words)
        work = place / "here"
        copy(laboratory.victims.folder(victim), work)
        target = work / victim.target
        path = draw.choice(_files(target))
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
