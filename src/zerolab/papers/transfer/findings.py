"""Findings on transfer as claims that can be tested, with the statistic of each.

[Hongcharoen2018] publishes a method without results, so its claims are its aims. Claims of
``zerolab`` were fixed before anything was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from zerolab.papers.elo import unfinished
from zerolab.papers.transfer.measures import (
    BySeed,
    Pair,
    early,
    elo_gains,
    gains,
    pairs,
    saved,
    seed_means,
    stages,
    targets_of_both_kinds,
    whole,
)
from zerolab.papers.transfer.similarity import LayerByLayer
from zerolab.papers.transfer.study import FINE_TUNED, FROZEN, MAPPED, RANDOM_FROZEN, SCRATCH
from zerolab.report.claims import Claim
from zerolab.studies.claims import Missing
from zerolab.studies.results import Results
from zerolab.studies.statistics import Estimate

_LITTLE = 25.0
"""Elo below which a lead counts as nothing: 53.6 % of the points."""

_BY_SEED = "mean over all pairs of boards, by seed"
_ACCURACY = "strong accuracy of the policy on solved positions"

EARLY = Claim(
    "helps-early",
    "A trunk trained on another board makes training better at first.",
    "[Hongcharoen2018]",
    f"{_ACCURACY}, mean over the first quarter of the iterations, fine-tuned minus from scratch,"
    f" {_BY_SEED}",
    0.0,
    "above",
)
SAVES = Claim(
    "saves-iterations",
    "Such a trunk takes fewer iterations to the halfway accuracy of training from scratch.",
    "[Hongcharoen2018]",
    f"iterations to the {_ACCURACY} that runs from scratch have, on average, after half of their"
    f" iterations: from scratch minus fine-tuned, {_BY_SEED}",
    0.0,
    "above",
)
FROZEN_WORSE = Claim(
    "frozen-worse-late",
    "In the end a frozen trunk is worse than a fine-tuned one.",
    "[Yosinski2014]",
    f"tournament Elo of the last networks, fine-tuned minus frozen, {_BY_SEED}",
    0.0,
    "above",
)
NEAR = Claim(
    "near-helps-more",
    "Another size of the same game helps more than other games.",
    "[Yosinski2014]",
    f"{_ACCURACY}, mean over all iterations, of fine-tuned runs: from another size minus from other"
    " games, mean over the boards that have both, by seed",
    0.0,
    "above",
)
NOTHING_LEFT = Claim(
    "nothing-left",
    "In the end nothing is left of the lead over training from scratch.",
    "zerolab",
    f"tournament Elo of the last networks, fine-tuned minus from scratch, {_BY_SEED}; less than"
    f" {_LITTLE:g} counts as nothing",
    _LITTLE,
    "below",
)
NOT_RANDOM = Claim(
    "frozen-not-random",
    "A frozen trunk trained on another board is better than a frozen random one.",
    "zerolab",
    f"tournament Elo of the last networks, frozen minus random frozen, {_BY_SEED}",
    0.0,
    "above",
)
ZERO_SHOT = Claim(
    "mapped-plays-at-once",
    "A network mapped by meaning plays better than an untrained one before it learns.",
    "[Soemers2023]",
    f"tournament Elo of networks 0, mapped minus from scratch, {_BY_SEED}",
    0.0,
    "above",
)
LAYERS = Claim(
    "first-layers-stay",
    "Fine-tuning changes the first layer less than the last one of the trunk.",
    "[Yosinski2014]",
    "linear CKA of the trunk after training with that of the source, first layer minus last one,"
    f" {_BY_SEED}",
    0.0,
    "above",
)

CLAIMS = (EARLY, SAVES, FROZEN_WORSE, NEAR, NOTHING_LEFT, NOT_RANDOM, ZERO_SHOT, LAYERS)


def transfer_findings(results: Results, trunks: LayerByLayer) -> dict[Claim, Estimate | Missing]:
    """Return the statistic of every claim."""
    every = pairs(results.design)
    return {claim: _statistic(results, every, trunks, claim) for claim in CLAIMS}


def _statistic(
    results: Results, every: Sequence[Pair], trunks: LayerByLayer, claim: Claim
) -> Estimate | Missing:
    targets = list(dict.fromkeys(pair.target for pair in every))
    is_of_games = claim in (FROZEN_WORSE, NOTHING_LEFT, NOT_RANDOM, ZERO_SHOT)
    missing = unfinished(results, targets) if is_of_games else None
    if missing := missing or _untrained(results):
        return missing
    if claim is NEAR:
        return seed_means(_near_less_far(results, every))
    if claim is LAYERS:
        return seed_means([trunks.drop(pair) for pair in every])
    return seed_means([_BY_PAIR[claim](results, pair) for pair in every])


def _untrained(results: Results) -> Missing | None:
    left = len(results.design.runs) - len(results.runs)
    if not left:
        return None
    return Missing(f"{left} of {len(results.design.runs)} runs are not finished")


def _near_less_far(results: Results, every: Sequence[Pair]) -> list[BySeed]:
    """Return, by target, the mean gain from near sources minus that from far ones, by seed."""
    found: list[BySeed] = []
    for near, far in targets_of_both_kinds(every).values():
        kinds = [[gains(results, pair, FINE_TUNED, whole) for pair in kind] for kind in (near, far)]
        seeds = set.intersection(*(set(each) for kind in kinds for each in kind))
        means = [{seed: sum(e[seed] for e in kind) / len(kind) for seed in seeds} for kind in kinds]
        found.append({seed: means[0][seed] - means[1][seed] for seed in seeds})
    return found


def _last_elo(way: str, base: str) -> Callable[[Results, Pair], BySeed]:
    def of_pair(results: Results, pair: Pair) -> BySeed:
        return elo_gains(results, pair, way, stages(results, pair.target)[-1], base)

    return of_pair


_BY_PAIR: Mapping[Claim, Callable[[Results, Pair], BySeed]] = {
    EARLY: lambda results, pair: gains(results, pair, FINE_TUNED, early),
    SAVES: lambda results, pair: saved(results, pair, FINE_TUNED),
    FROZEN_WORSE: _last_elo(FINE_TUNED, FROZEN),
    NOTHING_LEFT: _last_elo(FINE_TUNED, SCRATCH),
    NOT_RANDOM: _last_elo(FROZEN, RANDOM_FROZEN),
    ZERO_SHOT: lambda results, pair: elo_gains(results, pair, MAPPED, 0),
}
