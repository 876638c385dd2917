"""How long commands take to answer: medians of whole processes, in seconds.

Usage: python benchmarks/startup.py [ROUNDS]
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from time import perf_counter

COMMANDS = {
    "python alone": [sys.executable, "-c", "pass"],
    "zerolab --help": ["--help"],
    "zerolab games": ["games"],
    "zerolab perft othello:6x6 6, cached": ["perft", "othello:6x6", "6"],
    "zerolab train --help": ["train", "--help"],
    "zerolab match --help": ["match", "--help"],
    "zerolab settings": ["settings"],
}


def seconds(arguments: list[str]) -> float:
    """Run one command and return how long it took."""
    zerolab = [sys.executable, "-m", "zerolab.cli.main"]
    command = arguments if arguments[0] == sys.executable else [*zerolab, *arguments]
    began = perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return perf_counter() - began


def main() -> None:
    """Measure every command in turns and print a JSON list."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    for arguments in COMMANDS.values():
        seconds(arguments)
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(rounds):
        for name, arguments in COMMANDS.items():
            taken[name].append(seconds(arguments))
    medians = {name: statistics.median(values) for name, values in taken.items()}
    limit = medians.pop("python alone")
    print(
        json.dumps(
            [
                {
                    "name": f"startup/{name}",
                    "unit": "seconds",
                    "median": round(median, 3),
                    "limit": round(limit, 3),
                    "ratio": round(median / limit, 1),
                }
                for name, median in medians.items()
            ],
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
