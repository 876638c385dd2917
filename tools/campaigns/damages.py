"""Damaged files, which commands must either report in one line or read successfully."""

from __future__ import annotations

import random
from pathlib import Path

from campaigns.damage import damage
from campaigns.laboratory import Attempt, Laboratory
from campaigns.victims import KEYS, copy
from campaigns.watch import Command, Launcher

_RARELY_READ = (".png", ".svg", ".html", ".md", ".lock", ".zerolab", "environment.json")
"""Suffixes of files that commands write but rarely read."""


class Damages:
    """Random commands that read victims after a random file has been damaged."""

    name = "damages"
    count = 1000

    def __init__(self, laboratory: Laboratory) -> None:
        self._laboratory = laboratory

    def attempt(self, draw: random.Random, place: Path, launcher: Launcher | None) -> Attempt:
        """Damage a file and run a command that reads the victim."""
        laboratory = self._laboratory
        victim = laboratory.any_victim(draw)
        launcher = launcher or laboratory.launcher(draw, victim)
        words = draw.choice(victim.read)
        seconds = laboratory.victims.seconds(victim, words)
        work = place / "here"
        copy(laboratory.victims.folder(victim), work)
        target = work / victim.target
        files = _files(target)
        read = [each for each in files if not each.name.endswith(_RARELY_READ)]
        path = draw.choice(read if read and draw.random() < 0.9 else files)
        other = laboratory.any_victim(draw)
        others = _files(laboratory.victims.folder(other) / other.target)
        way = damage(path, others, draw)
        command = Command(words, work, KEYS.get(words[0], ""), dict(victim.environment))
        ended = laboratory.run(command, launcher, place, seconds)
        what = f"{way} {victim.name}/{path.relative_to(work)}: {' '.join(words)}"
        return Attempt(what, ended.faults(), ended.message)

    def close(self) -> list[str]:
        """Return no faults, since there is nothing to clean up."""
        return []


def _files(target: Path) -> list[Path]:
    """Return the files of a victim except its lock."""
    if target.is_file():
        return [target]
    return sorted(path for path in target.rglob("*") if path.is_file() and path.name != ".lock")
