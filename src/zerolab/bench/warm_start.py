"""What the enhancements of W cost: RAVE beside PUCT, WRoRa beside Baseline."""

from __future__ import annotations

from collections.abc import Iterator

from zerolab.bench.measure import GAMES, Measurement, in_turns
from zerolab.bench.selfplay import WORKLOADS, SelfPlay
from zerolab.bench.trees import Trees
from zerolab.search.settings import SearchSettings
from zerolab.training.warm_start.settings import WarmStartSettings, warm_start_search


def measure_warm_start(rounds: int) -> Iterator[Measurement]:
    """Measure trees with a constant evaluator, and self-play with the network of the papers."""
    for name in GAMES:
        rave, puct = Trees(name, "rave"), Trees(name)
        rate, limit = in_turns(rave.search_all, puct.search_all, 5 * rounds)
        yield Measurement(f"warm-start/rave/{name}", "simulations/s", rate, limit, "PUCT")
    title, network, games, simulations = WORKLOADS[0]
    plain = SearchSettings(simulations=simulations)
    warm = warm_start_search(plain, WarmStartSettings(variant="wrora"), weight=0.6)
    for name in GAMES:
        wrora, baseline = (SelfPlay(name, network, games, search) for search in (warm, plain))
        rate, limit = in_turns(wrora.play, baseline.play, rounds)
        yield Measurement(
            f"warm-start/wrora/{title}/{name}", "simulations/s", rate, limit, "Baseline",
            wrora.shares(),
        )  # fmt: skip
