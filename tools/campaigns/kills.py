"""Commands that are killed or fail anywhere and are begun again: they end as if nothing had been.

What is killed at an operation on files is one process of the command, at a random moment the first
one or all of them. Where an operation fails, the command says so in one line; with or without
that, what is left is finished by the same command. Everything that docs/files.md promises is then
as in a folder that was never disturbed.
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
_LONGEST = 600.0  # seconds for what is not disturbed
_HOOK = Path(__file__).parent / "hook"


class _Undisturbed(NamedTuple):
    """Measurements of an undisturbed run of the command that makes a victim."""

    seconds: float
    counts: Counter[str]
    """Operations of each kind in its busiest process."""
    contents: dict[str, Any]


class Kills:
    """SIGKILL, up to three times, then the same command once more."""

    name = "kills"
    count = 200
    _most = 3

    def __init__(self, laboratory: Laboratory) -> None:
        self._laboratory = laboratory
        self._undisturbed: dict[str, _Undisturbed] = {}

    def attempt(self, draw: random.Random, place: Path, launcher: Launcher | None) -> Attempt:
        """Disturb a command, and let it finish."""
        victim = self._laboratory.any_victim(draw, resumable=True)
        launcher = launcher or self._laboratory.launcher(draw, victim)
        work = place / "here"
        self._laboratory.victims.lay_out(victim, work)
        known = self._known(victim)
        done, faults = [f"{victim.name}:"], []
        for _ in range(draw.randint(1, self._most)):
            shown, command = self._disturbed(draw, victim, work)
            ended = self._laboratory.run(command, launcher, place, known.seconds)
            done.append(f"{shown}: code {ended.code};")
            faults += self._faults(ended)
        ended = self._laboratory.run(_making(victim, work), launcher, place, known.seconds)
        faults += ended.faults((0,))
        unequal = [] if victim.is_cache else differences(contents(work), known.contents)
        if unequal:
            faults.append(f"wrong: {', '.join(unequal[:5])}")
        return Attempt(" ".join(done), faults, ended.message)

    def close(self) -> list[str]:
        """Nothing is left to end."""
        return []

    def _faults(self, ended: Ended) -> list[str]:
        return ended.faults(_KILLED)

    def _known(self, victim: Victim) -> _Undisturbed:
        """Return what is known of a victim, found out once and kept."""
        if victim.name not in self._undisturbed:
            path = self._laboratory.folder / "undisturbed" / f"{victim.name}.json"
            if not path.exists():
                path.parent.mkdir(exist_ok=True)
                path.write_text(json.dumps(self._counted(victim)))
            kept = json.loads(path.read_text())
            expected = contents(self._laboratory.victims.folder(victim))
            counts = Counter(kept["counts"])
            self._undisturbed[victim.name] = _Undisturbed(kept["seconds"], counts, expected)
        return self._undisturbed[victim.name]

    def _counted(self, victim: Victim) -> dict[str, Any]:
        """Make a victim once more, and count."""
        laboratory = self._laboratory
        place = laboratory.clear(f"count-{victim.name}")
        laboratory.victims.lay_out(victim, place / "here")
        lines = place / "lines"
        lines.touch()
        command = _making(victim, place / "here", Plan(str(place / "here"), counts=str(lines)))
        launcher = laboratory.shell if victim.is_cache else laboratory.warm
        ended = laboratory.run(command, launcher, place, _LONGEST)
        if faults := ended.faults((0,)):
            raise RuntimeError(f"{victim.name} cannot be made: {faults}")
        return {"seconds": ended.seconds, "counts": counted(lines)}

    def _disturbed(self, draw: random.Random, victim: Victim, work: Path) -> tuple[str, Command]:
        """Return the moment of the kill, in words, and the command to kill."""
        if draw.random() < 0.3:
            after, whole = draw.uniform(0, self._known(victim).seconds), draw.random() < 0.5
            command = _making(victim, work)._replace(kill_after=after, kills_all=whole)
            return f"{'all' if whole else 'first process'} after {after:.2f} s", command
        plan = self._plan(draw, victim, work)
        return f"at {plan.call} {plan.number}", _making(victim, work, plan)

    def _plan(self, draw: random.Random, victim: Victim, work: Path) -> Plan:
        counts = self._known(victim).counts
        call = draw.choice([call for call in CALLS if counts[call]])
        return Plan(str(work), call, math.ceil((1 - draw.random()) * counts[call]))


class Faults(Kills):
    """System calls that fail: no room, an error of the disk, no permission, too many files."""

    name = "faults"
    count = 150
    _most = 1

    def _faults(self, ended: Ended) -> list[str]:
        return ended.faults()

    def _disturbed(self, draw: random.Random, victim: Victim, work: Path) -> tuple[str, Command]:
        """Return the command whose operation is to fail, and which one, in words."""
        error = draw.choice(ERRORS)
        plan = self._plan(draw, victim, work)._replace(error=error, lasts=draw.random() < 0.5)
        later = " and later ones" if plan.lasts else ""
        shown = f"{errno.errorcode[error]} at {plan.call} {plan.number}{later}"
        return shown, _making(victim, work, plan)


def _making(victim: Victim, work: Path, plan: Plan | None = None) -> Command:
    """Return the command that makes or resumes a victim, under a plan."""
    more = {**plan.environment(), **with_paths(_HOOK, BENCHMARKS)} if plan else {}
    keys = KEYS.get(victim.make[0], "")
    return Command(victim.make, work, keys, {**dict(victim.environment), **more})
