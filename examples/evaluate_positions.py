"""Evaluate positions as arrays: python evaluate_positions.py RUN [DATASET.parquet]."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import zerolab


def main(spec: str, dataset: Path | None = None) -> None:
    """Evaluate all positions after at most one move, and then a file of solved positions."""
    network = zerolab.load_network(spec)
    start = zerolab.Position.start(network.game)
    positions = [start, *(start.play(action) for action in start.legal_actions)]
    priors, values = network.evaluate(positions)
    print(network, "priors", priors.shape, "values", values.round(2))

    if dataset is not None:
        solved = zerolab.read_positions(dataset)
        priors, values = network.evaluate_states(solved.states)
        chosen = np.where(solved.legal, priors, -1.0).argmax(axis=1)
        strong = solved.action_values[np.arange(len(solved)), chosen] == solved.position_values
        agreement = np.corrcoef(values, np.sign(solved.position_values))[0, 1]
        print(f"{len(solved)} positions: strong {strong.mean():.1%}, value r = {agreement:.2f}")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: python evaluate_positions.py RUN [DATASET.parquet]")
    try:
        main(sys.argv[1], Path(sys.argv[2]) if len(sys.argv) > 2 else None)
    except zerolab.UserError as error:
        sys.exit(f"evaluate_positions.py: {error}")
