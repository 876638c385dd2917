"""Analyse a position with plain MCTS, MCTS with RAVE, and the exact solver."""

from __future__ import annotations

import zerolab


def main() -> None:
    """Print the board, each agent's analysis, and the optimal moves."""
    position = zerolab.Position.start("gobang:4x4:3")
    for move in ("b2", "a1"):
        position = position.play(move)
    print(position)

    for agent in ("mcts:900", "rave:900"):
        analysis = zerolab.analyse(position, agent, seed=1)
        print(f"\n{agent} plays {analysis.chosen_move.name}, expects {analysis.value:+.2f}")
        print("line:", " ".join(analysis.principal_variation))
        for move in analysis.moves[:3]:
            print(f"  {move.name}: {move.visits} visits, value {move.value:+.2f}")

    values = zerolab.solve(position)
    best = [move for move, value in values.items() if value == max(values.values())]
    print("\nbest moves under perfect play:", *best)


if __name__ == "__main__":
    main()
