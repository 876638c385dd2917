"""One large search of one position, compared with the network's own best rate on ready states."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from zerolab.agents.search_player import SearchPlayer
from zerolab.bench.measure import Measurement, in_turns
from zerolab.bench.selfplay import WORKLOADS, Network, make_evaluator
from zerolab.core.threads import available_cores
from zerolab.rules import host
from zerolab.rules.catalogue import parse_game
from zerolab.search.settings import SearchSettings

_GAMES = ("connect_four:6x7", "othello:6x6")
_SIMULATIONS = 10_000


def measure_single_root(rounds: int) -> Iterator[Measurement]:
    """Measure the search of a first position as a person's analysis runs it, in waves."""
    for title, network, *_ in WORKLOADS:
        for name in _GAMES:
            subject, limit = SingleRoot(name, network), Network(name, network)
            rate, best = in_turns(subject.search, limit.evaluate, rounds)
            yield Measurement(
                f"single-root/{title}/{name}",
                "positions/s",
                rate,
                best,
                "the network's best batched positions/s",
                subject.shares(),
            )


class SingleRoot:
    """A player that thinks about the first position with an untrained network."""

    def __init__(self, name: str, network: dict[str, Any]) -> None:
        self._game = parse_game(name)
        settings = SearchSettings(simulations=_SIMULATIONS, cache=0)
        evaluator = make_evaluator(name, network)
        self._player = SearchPlayer(self._game, "subject", settings, evaluator)
        self._player.search_in_waves()

    def search(self) -> float:
        """Search the first position on all cores; return the number of evaluated positions."""
        torch.set_num_threads(available_cores())
        self._player.start(1)
        keys = np.zeros(1, np.uint64)
        self._player.choose(np.zeros(1, np.int64), host.start(self._game)[None], keys)
        return float(self._player.search.counts["evaluated"])

    def shares(self) -> dict[str, float]:
        """Return how the time of the last search was spent, in shares of 1."""
        seconds = self._player.search.seconds
        return {part: each / sum(seconds.values()) for part, each in seconds.items()}
