"""Commands that are killed or fail; repeating them must give the results of an undisturbed run.

A kill at a file operation ends one process of the command. A kill at a random time ends the first
process or all of them. If an operation fails, the command must report it in one line. Repeating the
command must then finish the work, and everything promised in docs/files.md must be the same as in
an undisturbed folder.
"""

from __future__ import annotations

import errno
import json
import math
import random
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from campaigns.inject import CALLS, Plan, counted
from campaigns.laboratory import Attempt, Laboratory
from campaigns.victims import KEYS, Victim
from campaigns.watch import BENCHMARKS, Command, Ended, Launcher, with_paths
from promised import contents, differences

ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EMFILE)
_KILLED = (0, 2, -9)
_LONGEST = 600.0  # maximum seconds of an undisturbed command
_HOOK = Path(__file__).parent / "hook"


class _Undisturbed(NamedTuple):
    """Measurements of an undisturbed command that creates a victim."""

    seconds: float
    counts: Counter[str]
    """Largest number of operations of each kind in any process."""
    contents: dict[str, Any]


class Kills:
    """Commands that are killed up to three times and then repeated."""

    name = "kills"
    count = 200
    _most = 3

    def __init__(self, laboratory: Laboratory) -> None:
        self._laboratory = laboratory
        self._undisturbed: dict[str, _Undisturbed] = {}

    def attempt(self, draw: random.Random, place: Path, launcher: Launcher | None) -> Attempt:
        """Disturb a command, and then repeat it undisturbed."""
        victim = self._laboratory.any_victim(draw, resumable=True)
        launcher = launcher or self._laboratory.launcher(draw, victim)
        work = place / "here"
        self._laboratory.victims.lay_out(victim, work)
        reference = self._measure_undisturbed(victim)
        steps, faults = [f"{victim.name}:"], []
        for _ in range(draw.randint(1, self._most)):
            description, command = self._disturbed(draw, victim, work)
            ended = self._laboratory.run(command, launcher, place, reference.seconds)
            steps.append(f"{description}: code {ended.code};")
            faults += self._faults(ended)
        ended = self._laboratory.run(_making(victim, work), launcher, place, reference.seconds)
        faults += ended.faults((0,))
        different = [] if victim.is_cache else differences(contents(work), reference.contents)
        if different:
            faults.append(f"wrong: {', '.join(different[:5])}")
        return Attempt(" ".join(steps), faults, ended.message)

    def close(self) -> list[str]:
        """Return no faults, since there is nothing to clean up."""
        return []

    def _faults(self, ended: Ended) -> list[str]:
        return ended.faults(_KILLED)

    def _measure_undisturbed(self, victim: Victim) -> _Undisturbed:
        """Return the measurements for a victim, which are made once and stored."""
        if victim.name not in self._undisturbed:
            path = self._laboratory.folder / "undisturbed" / f"{victim.name}.json"
            if not path.exists():
                path.parent.mkdir(exist_ok=True)
                path.write_text(json.dumps(self._counted(victim)))
            stored = json.loads(path.read_text())
            expected = contents(self._laboratory.victims.folder(victim))
            counts = Counter(stored["counts"])
            self._undisturbed[victim.name] = _Undisturbed(stored["seconds"], counts, expected)
        return self._undisturbed[victim.name]

    def _counted(self, victim: Victim) -> dict[str, Any]:
        """Create a victim again and count its operations."""
        laboratory = self._laboratory
        place = laboratory.clear(f"count-{victim.name}")
        laboratory.victims.lay_out(victim, place / "here")
        lines = place / "lines"
        lines.touch()
        command = _making(victim, place / "here", Plan(str(place / "here"), counts=str(lines)))
        launcher = laboratory.shell if victim.is_cache else laboratory.warm
        ended = laboratory.run(command, launcher, place, _LONGEST)
        if faults := ended.faults((0,)):
            raise RuntimeError(f"{victim.name} cannot be created: {faults}")
        return {"seconds": ended.seconds, "counts": counted(lines)}

    def _disturbed(self, draw: random.Random, victim: Victim, work: Path) -> tuple[str, Command]:
        """Return a description of the kill, and the command to kill."""
        if draw.random() < 0.3:
            after = draw.uniform(0, self._measure_undisturbed(victim).seconds)
            kills_all = draw.random() < 0.5
            command = _making(victim, work)._replace(kill_after=after, kills_all=kills_all)
            return f"{'all' if kills_all else 'first process'} after {after:.2f} s", command
        plan = self._plan(draw, victim, work)
        return f"at {plan.call} {plan.number}", _making(victim, work, plan)

    def _plan(self, draw: random.Random, victim: Victim, work: Path) -> Plan:
        counts = self._measure_undisturbed(victim).counts
        call = draw.choice([call for call in CALLS if counts[call]])
        return Plan(str(work), call, math.ceil((1 - draw.random()) * counts[call]))


class Faults(Kills):
    """Commands whose file operations fail from a full disk, I/O errors, permissions or limits."""

    name = "faults"
    count = 150
    _most = 1

    def _faults(self, ended: Ended) -> list[str]:
        return ended.faults()

    def _disturbed(self, draw: random.Random, victim: Victim, work: Path) -> tuple[str, Command]:
        """Return a description of the failing operation, and the command."""
        error = draw.choice(ERRORS)
        plan = self._plan(draw, victim, work)._replace(error=error, lasts=draw.random() < 0.5)
        later = " and later ones" if plan.lasts else ""
        description = f"{errno.errorcode[error]} at {plan.call} {plan.number}{later}"
        return description, _making(victim, work, plan)


def _making(victim: Victim, work: Path, plan: Plan | None = None) -> Command:
    """Return the command that creates or resumes a victim, disturbed by a plan if given."""
    hook = {**plan.environment(), **with_paths(_HOOK, BENCHMARKS)} if plan else {}
    keys = KEYS.get(victim.make[0], "")
    return Command(victim.make, work, keys, {**dict(victim.environment), **hook})
