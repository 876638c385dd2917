"""Train a small agent with a callback for every stage: python train_and_watch.py FOLDER."""

from __future__ import annotations

import sys
from pathlib import Path

import zerolab


def main(folder: Path) -> None:
    """Train in a folder, or resume an interrupted run there, and then play a match."""
    run = zerolab.train(
        "gobang:3x3:3",
        preset="smoke",
        run=folder,
        settings={"iterations": 3, "search.simulations": 16},
        on_stage=lambda record: print(f"iteration {record.iteration}: {record.stage} finished"),
    )
    for line in run.metrics("learn"):
        print(f"iteration {line['iteration']}: losses {line['loss']}")
    print("saved networks:", run.network_iterations())

    match = zerolab.play_match(str(folder), "random", games=20, openings=2)
    print("against random:", match.score)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python train_and_watch.py FOLDER")
    main(Path(sys.argv[1]))
