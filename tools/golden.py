"""Compute digests of results to check that a code change does not affect them.

python tools/golden.py before.json                        # before the change
python tools/golden.py after.json --against before.json   # after the change

The installed `zerolab` computes small runs, a tournament and studies. Digests cover games, weights,
metrics and tables. They exclude times, memory and key names, which can change independently of
results.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import re
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file

_COMMAND = (sys.executable, "-m", "zerolab")

_MINI = (
    "iterations=2",
    "selfplay.parallel_games=16",
    "selfplay.mode.plies=8",
    "network.filters=8",
    "network.blocks=2",
    "search.simulations=16",
    "gate.games=4",
    "final_evaluation.games=4",
)
_EXTENDED = (
    "iterations=2",
    "selfplay.parallel_games=8",
    "selfplay.mode.plies=10",
    "network.filters=8",
    "network.blocks=1",
    "network.squeeze_excite=4",
    "network.head_filters=4",
    "learn.schedule.anneal_iterations=2",
    "learn.window.begin=1",
    "learn.window.end=2",
    "search.simulations=16",
    "final_evaluation.games=2",
)

RUNS: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "gobang": ("gobang:3x3:3", "smoke", ()),
    "othello": ("othello:6x6", "smoke", ("warm_start.variant=wrora",)),
    "rave": ("connect_four:5x5", "smoke", ("warm_start.variant=rave",)),
    "gumbel": ("connect_four:5x5", "smoke", ("search.root.name=gumbel", "learn.symmetries=all")),
    "caps": (
        "gobang:5x5:4",
        "smoke",
        ("selfplay.budget.name=playout_cap", "selfplay.budget.simulations=4"),
    ),
    "service": ("connect_four:5x5", "smoke", ("selfplay.mode.name=service",)),
    "retry": ("connect_four:5x5", "smoke", ("selfplay.mode.name=retry",)),
    "big_tree": (
        "connect_four:5x5",
        "smoke",
        ("selfplay.mode.name=big_tree", "selfplay.late_policy_target=visits"),
    ),
    "mini": ("connect_four:6x7", "mini", _MINI),
    "extended": ("connect_four:6x7", "connect4-extended", _EXTENDED),
}
"""Game, preset and assignments of each run."""

TOURNAMENT = (
    "tournament", "random", "mcts:25", "rave:25", "rhea:20", "--game", "connect_four:5x5",
    "--games", "4", "--openings", "2", "--json",
)  # fmt: skip

STUDIES = (
    "warm-start",
    "loss-functions",
    "hyperparameter-sweep",
    "hyperparameter-screening",
    "hyperparameter-correlation",
    "connect4-efficiency",
    "connect4-extensions",
    "connect4-supervised",
    "transfer",
    "published-bugs",
    "table-5.1",
)

_TABLES_OF_TIMES = (
    "connect4-efficiency-smoke/claims.csv",
    "connect4-efficiency-smoke/time-of-a-move.csv",
    "connect4-extensions-smoke/claims.csv",
    "connect4-extensions-smoke/time-of-a-move.csv",
    "hyperparameter-correlation-smoke/claims.csv",
    "hyperparameter-correlation-smoke/front-shares.csv",
    "hyperparameter-correlation-smoke/runs.csv",
    "hyperparameter-screening-smoke/claims.csv",
    "hyperparameter-screening-smoke/effects.csv",
    "hyperparameter-screening-smoke/runs.csv",
    "hyperparameter-sweep-smoke/claims.csv",
    "hyperparameter-sweep-smoke/hours.csv",
    "hyperparameter-sweep-smoke/runs.csv",
)
"""Tables that depend on training times."""

_TIMES = re.compile(r"second|wall|hour|memory|time|schema|speed|version|core|machine|device")


def run(*arguments: str) -> str:
    """Run a zerolab command and return its output."""
    process = subprocess.run([*_COMMAND, *arguments], capture_output=True, text=True, check=False)
    if process.returncode:
        raise SystemExit(f"zerolab {' '.join(arguments)} failed:\n{process.stderr[-2000:]}")
    return process.stdout


def digest(values: object) -> str:
    """Return a short digest of an object with a canonical `repr`."""
    return hashlib.sha256(repr(values).encode()).hexdigest()[:16]


def leaves(value: Any, key: str = "") -> Iterator[str]:
    """Yield the numbers and booleans in nested data, except measurements of time."""
    if isinstance(value, Mapping):
        for name, entry in value.items():
            yield from leaves(entry, str(name))
    elif isinstance(value, list):
        for entry in value:
            yield from leaves(entry, key)
    elif isinstance(value, int | float) and not _TIMES.search(key):
        yield repr(value)


def weights(path: Path) -> str:
    """Return a digest of the arrays in a weights file, ignoring their names."""
    arrays = load_file(path).values()
    return digest(sorted(digest((each.shape, each.tobytes())) for each in arrays))


def run_digests(folder: Path) -> dict[str, str]:
    """Return digests of a run's games, weights and metrics."""
    with closing(sqlite3.connect(folder / "games.sqlite")) as database:
        games = database.execute("SELECT iteration, number, actions, result FROM games")
        digests = {"games": digest(sorted(games))}
    for path in sorted((folder / "checkpoints").glob("*.safetensors")):
        digests[path.stem] = weights(path)
    lines = (folder / "metrics.jsonl").read_text("utf-8").splitlines()
    digests["metrics"] = digest([sorted(leaves(json.loads(line))) for line in lines])
    return digests


def table_digests(folder: Path) -> dict[str, str]:
    """Return digests of the numbers in report tables, except times."""
    digests = {}
    for path in sorted(folder.rglob("*.csv")):
        name = f"{path.relative_to(folder).parts[0]}/{path.name}"
        if name in _TABLES_OF_TIMES:
            continue
        with path.open(encoding="utf-8", newline="") as file:
            header, *rows = list(csv.reader(file))
        numbers = [
            [
                cell
                for title, cell in zip(header, row, strict=False)
                if _is_number(cell) and not _TIMES.search(title)
            ]
            for row in rows
        ]
        digests[name] = digest(numbers)
    return digests


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def compute() -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the name and digests of every case."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for case, (game, preset, assignments) in RUNS.items():
            sets = [word for each in assignments for word in ("--set", each)]
            run("train", game, "--preset", preset, "--run", str(folder / case), *sets)
            yield f"run {case}", run_digests(folder / case)
        tournament = run(*TOURNAMENT, "--folder", str(folder / "tournament"))
        yield "tournament", {"json": digest(sorted(leaves(json.loads(tournament))))}
        for study in STUDIES:
            run("study", study, "--scale", "smoke", "--folder", str(folder / "studies"))
            print(f"study {study}", flush=True)
        yield "studies", table_digests(folder / "studies")
    yield "settings", {"json": digest(sorted(leaves(json.loads(run("settings", "--json")))))}


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for every digest that is different or missing on one side."""
    for case in sorted({*before, *after}):
        old, new = before.get(case, {}), after.get(case, {})
        for part in sorted({*old, *new}):
            if old.get(part) != new.get(part):
                yield f"{case}, {part}: {old.get(part)} before, {new.get(part)} after"


def main() -> int:
    """Write the digests; with --against, print the differences and return 1 if there are any."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, help="file for the digests")
    parser.add_argument("--against", type=Path, help="digests to compare with")
    options = parser.parse_args()
    cases = {}
    for case, digests in compute():
        print(case, flush=True)
        cases[case] = digests
    options.file.write_text(json.dumps(cases, indent=1) + "\n", "utf-8")
    if options.against is None:
        return 0
    lines = list(differences(json.loads(options.against.read_text("utf-8")), cases))
    print("\n".join(lines) or "no differences")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
