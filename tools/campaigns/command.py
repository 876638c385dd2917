"""Command line of the campaigns."""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from campaigns.arguments import Arguments
from campaigns.damages import Damages
from campaigns.journal import Journal
from campaigns.kills import Faults, Kills
from campaigns.laboratory import Attempt, Campaign, Laboratory
from campaigns.requests import Requests

CAMPAIGNS: dict[str, Callable[[Laboratory], Campaign]] = {
    each.name: each for each in (Kills, Faults, Damages, Arguments, Requests)
}

_USAGE = """python tools/campaigns CAMPAIGN --folder FOLDER [--count N] [--seed S] [--only N]

Attack zerolab with kills, faults, damages, arguments, requests, or all of them in turn. Each
attempt is determined by the seed and its number, and recorded as a line in FOLDER/journal.jsonl.
Repeat the command to resume it. Requires Linux. Nothing is sent to other machines."""


def main(words: list[str] | None = None) -> int:
    """Run campaigns and print a table; return 1 if any attempt found a fault."""
    parser = argparse.ArgumentParser(
        usage=_USAGE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("campaign", choices=[*CAMPAIGNS, "all"])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument(
        "--count", type=int, help="number of attempts; by default that of the campaign"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="repeat only this attempt, as a process")
    options = parser.parse_args(words)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped; repeat the command to resume"))
    names = list(CAMPAIGNS) if options.campaign == "all" else [options.campaign]
    with Laboratory(options.folder) as laboratory:
        journal = Journal(laboratory.folder)
        for name in names:
            campaign = CAMPAIGNS[name](laboratory)
            try:
                if options.only is not None:
                    return _repeat(campaign, laboratory, options.seed, options.only)
                _run(campaign, laboratory, journal, options.seed, options.count)
            finally:
                _close(campaign, journal, options.seed)
        journal.show(names, options.seed)
    return int(any(each["faults"] for n in names for each in journal.attempts(n, options.seed)))


def _run(
    campaign: Campaign, laboratory: Laboratory, journal: Journal, seed: int, count: int | None
) -> None:  # fmt: skip
    """Make the attempts that are not in the journal yet."""
    total = count or campaign.count
    for number in range(1, total + 1):
        if journal.has(campaign.name, seed, number):
            continue
        began = time.monotonic()
        attempt, doubtful = _checked(campaign, laboratory, seed, number)
        journal.add(
            {
                "campaign": campaign.name, "seed": seed, "number": number, "what": attempt.what,
                "faults": attempt.faults, "ended": attempt.ended, "only_as_a_fork": doubtful,
                "seconds": round(time.monotonic() - began, 2),
            }
        )  # fmt: skip
        result = "; ".join(attempt.faults) or "fine"
        line = f"{campaign.name} {number}/{total}: {attempt.what} {result}"
        print(line.encode("unicode_escape").decode()[:500], file=sys.stderr)


def _checked(
    campaign: Campaign, laboratory: Laboratory, seed: int, number: int
) -> tuple[Attempt, list[str]]:  # fmt: skip
    """Make an attempt in a fork; if it finds a fault, repeat it as a process to confirm."""
    attempt = _attempt(campaign, laboratory, seed, number, as_process=False)
    if not attempt.faults:
        return attempt, []
    repeated = _attempt(campaign, laboratory, seed, number, as_process=True)
    return repeated, [] if repeated.faults else attempt.faults


def _attempt(
    campaign: Campaign, laboratory: Laboratory, seed: int, number: int, as_process: bool
) -> Attempt:  # fmt: skip
    """Make an attempt; its folder remains if it finds a fault."""
    place = laboratory.clear(f"{campaign.name}-{seed}-{number}")
    draw = random.Random(f"{campaign.name} {seed} {number}")
    attempt = campaign.attempt(draw, place, laboratory.shell if as_process else None)
    if not attempt.faults:
        shutil.rmtree(place, ignore_errors=True)
    return attempt


def _repeat(campaign: Campaign, laboratory: Laboratory, seed: int, number: int) -> int:
    attempt = _attempt(campaign, laboratory, seed, number, as_process=True)
    print(json.dumps(attempt._asdict(), indent=1))
    return int(bool(attempt.faults))


def _close(campaign: Campaign, journal: Journal, seed: int) -> None:
    """End a campaign; record faults found while ending it as attempts with numbers below 1."""
    if faults := campaign.close():
        number = 0
        while journal.has(campaign.name, seed, number):
            number -= 1
        journal.add(
            {
                "campaign": campaign.name, "seed": seed, "number": number, "what": "the end",
                "faults": faults, "ended": "", "only_as_a_fork": [], "seconds": 0.0,
            }
        )  # fmt: skip
