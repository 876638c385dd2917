"""Rate agents without networks in a round robin, with Bayesian Elo."""

from __future__ import annotations

import zerolab


def main() -> None:
    """Print tournament ratings with 95 % intervals, and a comparison based on a list of results."""
    agents = ["random", "mcts:10", "mcts:100", "rave:100"]
    report = zerolab.play_tournament(agents, game="gobang:4x4:3", games=20, openings=2)
    for rating in report.ratings.player_ratings:
        elo, low, high = rating.interval
        print(f"{rating.player:10} {elo:+6.0f}  ({low:+.0f} to {high:+.0f})")

    ratings = zerolab.rate(
        [("Ann", "Bob", 1), ("Bob", "Ann", 0), ("Ann", "Cleo", -1), ("Cleo", "Bob", 1)]
    )
    difference = ratings.elo_difference("Cleo", "Bob")
    print(f"likelihood that Cleo is stronger than Bob: {difference.los:.0%}")


if __name__ == "__main__":
    main()
