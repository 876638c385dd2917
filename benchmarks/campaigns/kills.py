"""Commands that are killed or fail anywhere and are begun again: they end as if nothing had been.

What is killed at an operation on files is one process of the command, at a random moment the first
one or all of them. Where an operation fails, the command says so in one line; with or without
that, what is left is finished by the same command. Every value is then as in a folder that was
never disturbed.
"""

from __future__ import annotations

import errno
import json
import math
import random
from collections import Counter
from pathlib import Path
from typing import Any

from campaigns.contents import contents, differences
from campaigns.inject import CALLS, Plan, counted
from campaigns.laboratory import Attempt, Laboratory
from campaigns.victims import KEYS, Victim
from campaigns.watch import BENCHMARKS, Command, Ended, Launcher, with_paths

ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EMFILE)
_KILLED = (0, 2, -9)
_HOOK = Path(__file__).parent / "hook"


class Kills:
    """SIGKILL, up to three times, then the same command once more."""

    name = "kills"
    count = 200
    _most = 3

    def __init__(self, laboratory: Laboratory) -> None:
        self._laboratory = laboratory
        self._expected: dict[str, dict[str, Any]] = {}
        self._counts: dict[str, Counter[str]] = {}

    def attempt(self, draw: random.Random, place: Path, launcher: Launcher | None) -> Attempt:
        """Disturb a command, and let it finish."""
        victim = self._laboratory.any_victim(draw, resumable=True)
        launcher = launcher or self._laboratory.launcher(draw)
        work = place / "here"
        self._laboratory.victims.lay_out(victim, work)
        self._prepare(victim)
        done, faults = [f"{victim.name}:"], []
        for _ in range(draw.randint(1, self._most)):
            told, ended = self._disturb(draw, victim, work, place, launcher)
            done.append(told)
            faults += self._faults(ended)
        seconds = self._laboratory.victims.seconds(victim, victim.make)
        ended = self._laboratory.run(_making(victim, work), launcher, place, seconds)
        faults += ended.faults((0,))
        found = contents(work / victim.target) if (work / victim.target).is_dir() else {}
        if unequal := differences(found, self._expected[victim.name]):
            faults.append(f"wrong: {', '.join(unequal[:5])}")
        return Attempt(" ".join(done), faults, ended.message)

    def close(self) -> list[str]:
        """Nothing is left to end."""
        return []

    def _faults(self, ended: Ended) -> list[str]:
        return ended.faults(_KILLED)

    def _prepare(self, victim: Victim) -> None:
        """Find out once what a victim holds, and how many operations it takes to make it."""
        if victim.name in self._counts:
            return
        laboratory = self._laboratory
        path = laboratory.folder / "counts" / f"{victim.name}.json"
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            place = laboratory.clear(f"counts-{victim.name}")
            laboratory.victims.lay_out(victim, place / "here")
            lines = place / "lines"
            lines.touch()
            plan = Plan(str(place / "here"), counts=str(lines))
            command = _making(victim, place / "here", plan)
            faults = laboratory.run(command, laboratory.warm, place, 600).faults((0,))
            if faults:
                raise RuntimeError(f"{victim.name} cannot be made: {faults}")
            path.write_text(json.dumps(counted(lines)))
        self._counts[victim.name] = Counter(json.loads(path.read_text()))
        self._expected[victim.name] = contents(laboratory.victims.folder(victim) / victim.target)

    def _disturb(
        self, draw: random.Random, victim: Victim, work: Path, place: Path, launcher: Launcher
    ) -> tuple[str, Ended]:  # fmt: skip
        """Kill the command; return at what, in words."""
        seconds = self._laboratory.victims.seconds(victim, victim.make)
        if draw.random() < 0.3:
            after, whole = draw.uniform(0, 1.2 * seconds), draw.random() < 0.5
            command = _making(victim, work)._replace(kill_after=after, kills_all=whole)
            told = f"{'all' if whole else 'first process'} after {after:.2f} s;"
        else:
            plan = self._plan(draw, victim, work)
            command = _making(victim, work, plan)
            told = f"at {plan.call} {plan.number};"
        return told, self._laboratory.run(command, launcher, place, seconds)

    def _plan(self, draw: random.Random, victim: Victim, work: Path) -> Plan:
        counts = self._counts[victim.name]
        call = draw.choice([call for call in CALLS if counts[call]])
        return Plan(str(work), call, math.ceil((1 - draw.random()) * counts[call]))


class Faults(Kills):
    """System calls that fail: no room, an error of the disk, no permission, too many files."""

    name = "faults"
    count = 150
    _most = 1

    def _faults(self, ended: Ended) -> list[str]:
        return ended.faults()

    def _disturb(
        self, draw: random.Random, victim: Victim, work: Path, place: Path, launcher: Launcher
    ) -> tuple[str, Ended]:  # fmt: skip
        """Let an operation fail; return which one, in words."""
        error = draw.choice(ERRORS)
        plan = self._plan(draw, victim, work)._replace(error=error, lasts=draw.random() < 0.5)
        seconds = self._laboratory.victims.seconds(victim, victim.make)
        ended = self._laboratory.run(_making(victim, work, plan), launcher, place, seconds)
        later = " and later ones" if plan.lasts else ""
        return f"{errno.errorcode[error]} at {plan.call} {plan.number}{later};", ended


def _making(victim: Victim, work: Path, plan: Plan | None = None) -> Command:
    """Return the command that makes or resumes a victim, under a plan."""
    more = {**plan.environment(), **with_paths(_HOOK, BENCHMARKS)} if plan else {}
    keys = KEYS.get(victim.make[0], "")
    return Command(victim.make, work, keys, {**dict(victim.environment), **more})
