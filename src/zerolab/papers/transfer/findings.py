"""Claims about transfer and their statistics.

[Hongcharoen2018] publishes a method without results, so its claims are expectations: training on a
game should be faster and yield a better network if it continues from a network of another game. The
thesis pairs only Connect Four with Othello. The primary claims state its expectations for its
method (new heads on a fine-tuned trunk) and for all pairs of different games. Claims with the
source ``zerolab`` were stated before anything was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import mean

from zerolab.papers.elo import missing_for_unfinished_tournaments
from zerolab.papers.transfer.measures import (
    BoardPair,
    ValueBySeed,
    accuracy_gains,
    curve_mean,
    elo_gains,
    iterations_saved,
    mean_over_board_pairs,
    near_and_far_pairs,
    planned_board_pairs,
    tournament_iterations,
)
from zerolab.papers.transfer.similarity import TrunkSimilarity, compare_trunks
from zerolab.papers.transfer.study import FINE_TUNED, FROZEN, MAPPED, RANDOM_FROZEN, SCRATCH
from zerolab.report.claims import Claim
from zerolab.studies.claims import MissingEstimate
from zerolab.studies.results import Results
from zerolab.studies.statistics import ClaimEstimate

_NEGLIGIBLE = 25.0
"""Largest negligible Elo lead, which corresponds to a score rate of 53.6 %."""

_ALL = "averaged over all pairs of boards, by seed"
_GAMES = "averaged over the pairs of different games, by seed"
_SIZES = "averaged over the pairs of sizes of a game, by seed"
_ACCURACY = "strong accuracy of the policy on solved positions"
_EXPECTED = (
    "(the thesis expects this but reports no result, and transfers only from Connect Four to"
    " Othello)"
)

HELPS_TRAINING_CLAIM = Claim(
    "helps-training",
    "Transfer should improve performance: networks that start from the trunk of another game are"
    f" better after the same number of iterations {_EXPECTED}.",
    "[Hongcharoen2018, sections 1.1 and 1.3, expectation]",
    f"{_ACCURACY}, mean over all iterations, fine-tuned minus from scratch, {_GAMES}",
    0.0,
    "above",
    0.01,
    figure="gain",
)
SAVED_ITERATIONS_CLAIM = Claim(
    "saves-iterations",
    "Training is expected to be faster if it starts from another game's network: from its trunk, it"
    " takes fewer iterations to reach the accuracy attained halfway by training from scratch"
    f" {_EXPECTED}.",
    "[Hongcharoen2018, abstract, expectation]",
    f"iterations to reach the mean {_ACCURACY} attained halfway by runs from scratch (all"
    f" iterations if never reached), from scratch minus fine-tuned, {_GAMES}",
    0.0,
    "above",
    0.5,
    figure="saved",
)
STRONGER_AT_END_CLAIM = Claim(
    "stronger-at-the-end",
    "Transfer should improve performance: a trained network that started from the trunk of another"
    f" game is stronger {_EXPECTED}.",
    "[Hongcharoen2018, section 1.1, expectation]",
    f"tournament Elo of the final networks, fine-tuned minus from scratch, {_GAMES}",
    0.0,
    "above",
    _NEGLIGIBLE,
    HELPS_TRAINING_CLAIM.key,
    "elo-in-the-end",
)
FROZEN_WORSE_CLAIM = Claim(
    "frozen-worse-late",
    "After training, a frozen trunk is worse than a fine-tuned trunk.",
    "zerolab, on [Yosinski2014]",
    f"tournament Elo of the final networks, fine-tuned minus frozen, {_ALL}",
    0.0,
    "above",
    30.0,
    HELPS_TRAINING_CLAIM.key,
    "elo",
)
NEAR_HELPS_MORE_CLAIM = Claim(
    "near-helps-more",
    "Transfer from another size of the same game helps more than transfer from other games.",
    "zerolab, on [Yosinski2014]",
    f"{_ACCURACY} of fine-tuned runs over all iterations, from another size minus from other games,"
    " averaged over the boards that have both, by seed",
    0.0,
    "above",
    0.01,
    HELPS_TRAINING_CLAIM.key,
    "gain",
)
LEAD_DISAPPEARS_CLAIM = Claim(
    "nothing-left",
    "After training, the lead over training from scratch has disappeared.",
    "zerolab",
    f"tournament Elo of the final networks, fine-tuned minus from scratch, {_ALL} (less than"
    f" {_NEGLIGIBLE:g} is negligible)",
    0.0,
    "not above",
    _NEGLIGIBLE,
    SAVED_ITERATIONS_CLAIM.key,
    "elo-in-the-end",
)
FROZEN_BEATS_RANDOM_TRUNK_CLAIM = Claim(
    "frozen-not-random",
    "A frozen trunk trained on another board is better than a frozen random trunk.",
    "zerolab, on [Yosinski2014]",
    f"tournament Elo of the final networks, frozen minus random frozen, {_ALL}",
    0.0,
    "above",
    30.0,
    HELPS_TRAINING_CLAIM.key,
    "elo",
)
MAPPED_SIZES_START_CLAIM = Claim(
    "mapped-sizes-play-at-once",
    "Before training, a network from another size of the game plays better than an untrained one.",
    "zerolab, on [Soemers2023]",
    f"tournament Elo of the networks before training, mapped minus from scratch, {_SIZES}",
    0.0,
    "above",
    30.0,
    SAVED_ITERATIONS_CLAIM.key,
    "elo-at-once",
)
MAPPED_GAMES_START_CLAIM = Claim(
    "mapped-games-play-at-once",
    "Before training, a network with planes and actions mapped from another game plays better than"
    " an untrained one.",
    "zerolab, on [Soemers2023]",
    f"tournament Elo of the networks before training, mapped minus from scratch, {_GAMES}",
    0.0,
    "above",
    30.0,
    SAVED_ITERATIONS_CLAIM.key,
    "elo-at-once",
)
FIRST_LAYERS_STAY_CLAIM = Claim(
    "first-layers-stay",
    "Fine-tuning changes the first layer of the trunk less than the last layer.",
    "zerolab, on [Yosinski2014]",
    "linear CKA with the source's trunk, first layer minus last: that of the fine-tuned trunk minus"
    f" that of a trunk trained from scratch on the same board, {_ALL}",
    0.0,
    "above",
    0.05,
    HELPS_TRAINING_CLAIM.key,
    "cka-fine-tuned",
)

_ELO_CLAIMS = (
    STRONGER_AT_END_CLAIM,
    FROZEN_WORSE_CLAIM,
    LEAD_DISAPPEARS_CLAIM,
    FROZEN_BEATS_RANDOM_TRUNK_CLAIM,
    MAPPED_SIZES_START_CLAIM,
    MAPPED_GAMES_START_CLAIM,
)
TRANSFER_CLAIMS = (
    HELPS_TRAINING_CLAIM,
    SAVED_ITERATIONS_CLAIM,
    NEAR_HELPS_MORE_CLAIM,
    FIRST_LAYERS_STAY_CLAIM,
    *_ELO_CLAIMS,
)


def transfer_statistics(results: Results) -> dict[Claim, ClaimEstimate | MissingEstimate]:
    """Return the statistic of each claim, or the reason why it is missing."""
    trunks = compare_trunks(results)
    board_pairs = planned_board_pairs(results.design)
    return {claim: _statistic(results, board_pairs, trunks, claim) for claim in TRANSFER_CLAIMS}


def _statistic(
    results: Results, board_pairs: Sequence[BoardPair], trunks: TrunkSimilarity, claim: Claim
) -> ClaimEstimate | MissingEstimate:
    targets = list(dict.fromkeys(pair.target for pair in board_pairs))
    missing = missing_for_unfinished_tournaments(results, targets) if claim in _ELO_CLAIMS else None
    if missing := missing or _unfinished_runs(results):
        return missing
    if claim is NEAR_HELPS_MORE_CLAIM:
        return mean_over_board_pairs(_near_minus_far(results, board_pairs))
    if claim is FIRST_LAYERS_STAY_CLAIM:
        return mean_over_board_pairs([trunks.first_layer_cka_excess(pair) for pair in board_pairs])
    claimed_pairs = [pair for pair in board_pairs if _is_claimed(claim, pair)]
    if not claimed_pairs:
        return MissingEstimate("the selected boards include no pair that this claim is about")
    return mean_over_board_pairs([_BY_PAIR[claim](results, pair) for pair in claimed_pairs])


def _is_claimed(claim: Claim, pair: BoardPair) -> bool:
    """Return whether a claim is about a pair of boards."""
    if claim in (
        HELPS_TRAINING_CLAIM,
        SAVED_ITERATIONS_CLAIM,
        STRONGER_AT_END_CLAIM,
        MAPPED_GAMES_START_CLAIM,
    ):
        return not pair.is_near
    return claim is not MAPPED_SIZES_START_CLAIM or pair.is_near


def _unfinished_runs(results: Results) -> MissingEstimate | None:
    unfinished_runs = len(results.design.runs) - len(results.runs)
    if not unfinished_runs:
        return None
    verb = "is" if unfinished_runs == 1 else "are"
    total = len(results.design.runs)
    return MissingEstimate(f"{unfinished_runs} of {total} runs {verb} not finished")


def _near_minus_far(results: Results, board_pairs: Sequence[BoardPair]) -> list[ValueBySeed]:
    """Return the mean gain from near sources minus that from far sources, for each target."""
    differences: list[ValueBySeed] = []
    for kinds in near_and_far_pairs(board_pairs).values():
        near, far = (
            [accuracy_gains(results, pair, FINE_TUNED, curve_mean) for pair in kind]
            for kind in kinds
        )
        seeds = set.intersection(*(set(by_seed) for by_seed in (*near, *far)))
        differences.append(
            {
                seed: mean(by_seed[seed] for by_seed in near)
                - mean(by_seed[seed] for by_seed in far)
                for seed in seeds
            }
        )
    return differences


def _last_elo(method: str, baseline: str) -> Callable[[Results, BoardPair], ValueBySeed]:
    def of_pair(results: Results, pair: BoardPair) -> ValueBySeed:
        return elo_gains(
            results, pair, method, tournament_iterations(results, pair.target)[-1], baseline
        )

    return of_pair


_BY_PAIR: Mapping[Claim, Callable[[Results, BoardPair], ValueBySeed]] = {
    HELPS_TRAINING_CLAIM: lambda results, pair: accuracy_gains(
        results, pair, FINE_TUNED, curve_mean
    ),
    SAVED_ITERATIONS_CLAIM: lambda results, pair: iterations_saved(results, pair, FINE_TUNED),
    STRONGER_AT_END_CLAIM: _last_elo(FINE_TUNED, SCRATCH),
    FROZEN_WORSE_CLAIM: _last_elo(FINE_TUNED, FROZEN),
    LEAD_DISAPPEARS_CLAIM: _last_elo(FINE_TUNED, SCRATCH),
    FROZEN_BEATS_RANDOM_TRUNK_CLAIM: _last_elo(FROZEN, RANDOM_FROZEN),
    MAPPED_SIZES_START_CLAIM: lambda results, pair: elo_gains(results, pair, MAPPED, 0),
    MAPPED_GAMES_START_CLAIM: lambda results, pair: elo_gains(results, pair, MAPPED, 0),
}
