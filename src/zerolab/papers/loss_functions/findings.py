"""Claims of [Wang2019] and [Wang2020a] about loss functions, and their statistics."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import permutations

from zerolab.papers.elo import (
    RunElos,
    contrast,
    elo_sample,
    fit_elo,
    fit_runs,
    observed_elo_correlation,
    removed_runs_note,
    run_elos,
    smallest_lead,
    standard_error,
    unfinished_tournaments_note,
)
from zerolab.papers.loss_functions.curve_claims import (
    BIAS_CLAIM,
    CURVE_CLAIMS,
    PRODUCT_BOARDS,
    PRODUCT_CLAIM,
    SINGLE,
    SIZES_CLAIM,
    SMALLEST_LOSS,
    CurveClaim,
    difference_between_sizes,
    final_loss,
    part_title,
)
from zerolab.papers.loss_functions.study import TARGETS
from zerolab.papers.solved_accuracy import fit_accuracy
from zerolab.report.claims import Claim, Direction
from zerolab.studies.block_model import GamesModel
from zerolab.studies.claims import MissingEstimate
from zerolab.studies.finished_work import TrainedRun
from zerolab.studies.joint_estimates import estimate_largest, estimate_smallest, spread_ratio
from zerolab.studies.results import Results
from zerolab.studies.statistics import ClaimEstimate, StudentEstimate, mean_of, weighted_sum

_FIGURE = "[Wang2019, section V-C, Fig. 6], [Wang2020a, Fig. 11]"
_SECTION = "[Wang2019, section V-C], [Wang2020a, section 6.3.3]"
_ANNOUNCED = "announced after earlier runs with other seeds"
_POOLED = 30.0
"""Smallest Elo difference worth knowing over several boards."""
_CLAIMED_BOARDS = ("othello-6x6", "connect_four-5x5", "connect_four-6x6")
"""Boards on which the papers find the value loss best."""
_SUM_BOARDS = ("othello-5x5", *_CLAIMED_BOARDS)
"""Boards on which the papers find the value loss better than the sum; Gobang is an exception."""
_GOBANG_BOARDS = ("gobang-5x5", "gobang-6x6")


def _leads(loss: str) -> str:
    others = ", ".join(symbol for target, symbol in TARGETS.items() if target != loss)
    return f"tournament Elo of {TARGETS[loss]} minus that of {others}, smallest difference"


def _claim(
    key: str,
    text: str,
    source: str,
    statistic: str,
    direction: Direction = "above",
    smallest: float = _POOLED,
    opened_by: Claim | None = None,
    threshold: float = 0.0,
    figure: str = "tournament-elo",
) -> Claim:
    opener = opened_by.key if opened_by else ""
    return Claim(key, text, source, statistic, threshold, direction, smallest, opener, figure)


VALUE_CLAIM = _claim(
    "value-loss-best",
    "In 6x6 Othello and in 5x5 and 6x6 Connect Four, minimising the value loss alone trains the"
    " strongest players.",
    _FIGURE,
    f"{_leads('value')}, mean over the three boards",
)
SUM_CLAIM = _claim(
    "value-above-sum",
    "On small boards of Othello and Connect Four, minimising the value loss trains stronger players"
    " than the usual sum.",
    "[Wang2019, section I, conclusion]",
    "tournament Elo of l_v minus that of l_+, mean over the four boards",
)
EVERYWHERE_CLAIM = _claim(
    "value-above-sum-everywhere",
    "On three games and two board sizes, the best choice is usually not the sum but the value"
    " loss.",
    "[Wang2020a, conclusion]",
    "tournament Elo of l_v minus that of l_+, mean over the six boards (computed before for earlier"
    " runs with other seeds)",
)
PRODUCT_ELO_CLAIM = _claim(
    "product-as-strong-as-sum",
    "Over all six boards, minimising the product trains players as strong as the sum.",
    "zerolab, on [Wang2020a]",
    f"tournament Elo of l_x minus that of l_+, mean over the six boards ({_ANNOUNCED})",
    "equal to",
    45.0,
)
POLICY_CLAIM = _claim(
    "policy-best-gobang-6x6",
    "In 6x6 Gobang, minimising the policy loss alone trains the strongest players.",
    "[Wang2020a, Fig. 11, section 6.3.3]",
    _leads("policy"),
    smallest=SINGLE,
)
BEST_ON_BOARD = {
    part: _claim(
        f"value-best-{part}",
        f"In {part_title(part)}, minimising the value loss alone trains the strongest players.",
        _FIGURE,
        _leads("value"),
        smallest=SINGLE,
        opened_by=VALUE_CLAIM,
    )
    for part in _CLAIMED_BOARDS
}
SMALL_CLAIM = _claim(
    "small-differences-othello-5x5",
    "In Othello 5x5, the difference between the losses is small.",
    _FIGURE,
    "largest absolute difference between the mean tournament Elo of two losses",
    "below",
    SINGLE,
    VALUE_CLAIM,
    threshold=100.0,
)
DEPENDS_CLAIM = _claim(
    "best-loss-depends-on-game",
    "Which loss trains the strongest players depends on the game: the value loss in Othello and"
    " Connect Four, the policy loss in Gobang.",
    "[Wang2020a, section 6.3.3, conclusion]",
    "tournament Elo of l_v minus that of l_p, mean over 6x6 Othello and 5x5 and 6x6 Connect Four,"
    " or of l_p minus l_v, mean over the Gobang boards, whichever is smaller",
    smallest=SINGLE,
    opened_by=VALUE_CLAIM,
)
STEADY_CLAIM = _claim(
    "value-loss-varies-less",
    "In 6x6 Othello and in 5x5 and 6x6 Connect Four, players trained with the value loss differ"
    " little in strength.",
    _SECTION,
    "standard deviation of tournament Elo between runs with l_v, divided by that with the other"
    " losses",
    "below",
    0.5,
    VALUE_CLAIM,
    threshold=1.0,
)
COMPROMISE_CLAIM = _claim(
    "sum-is-a-compromise",
    "If nothing is known about the game, the sum is a good compromise.",
    "[Wang2020a, sections 1 and 7]",
    f"{_leads('sum')}, mean over all boards",
    "not below",
    opened_by=SUM_CLAIM,
)
PRODUCT_GAINS_CLAIM = _claim(
    "product-above-sum-in-some-games",
    "In some games, minimising the product trains stronger players than the sum.",
    _SECTION,
    "tournament Elo of l_x minus that of l_+, largest of the boards",
    smallest=SINGLE,
    opened_by=SUM_CLAIM,
)
COMBINED_LOSS_CLAIM = _claim(
    "combinations-reach-lowest-loss",
    "A combination of both losses reaches the lowest loss.",
    _SECTION,
    "policy loss plus value loss at the end, mean of l_+ and l_x minus l_p and minus l_v, larger"
    " difference, mean over all boards",
    "below",
    SMALLEST_LOSS,
    PRODUCT_CLAIM,
    figure="losses-othello",
)
LEARNING_CLAIM = _claim(
    "all-learn",
    "With every loss, players become stronger than Random.",
    "zerolab, on [Wang2020a, Fig. 11]",
    "mean Elo relative to Random of the weakest combination of board and loss",
    smallest=SINGLE,
    opened_by=SUM_CLAIM,
)
ACCURACY_CLAIM = _claim(
    "value-above-sum-accuracy",
    "According to a solver, minimising the value loss trains better players than the sum.",
    "zerolab, on [Wang2020a]",
    "strong accuracy of search on solved positions, l_v minus l_+, mean over the four boards of"
    " Othello and Connect Four",
    smallest=0.01,
    opened_by=SUM_CLAIM,
    figure="accuracy",
)


def loss_statistics(results: Results) -> dict[Claim, ClaimEstimate | MissingEstimate]:
    """Return the statistic of each claim, or the reason why it is missing."""
    boards = list(dict.fromkeys(run.part for run in results.design.runs))
    everywhere = fit_elo(results, boards, "loss", list(TARGETS))

    losses = _fit(results, boards, lambda run: final_loss("policy", run) + final_loss("value", run))
    single_losses = [
        _fit(results, PRODUCT_BOARDS, partial(final_loss, name)) for name in ("policy", "value")
    ]

    def elo_on(parts: Sequence[str]) -> GamesModel | MissingEstimate:
        if isinstance(everywhere, MissingEstimate) or not set(parts) <= set(boards):
            return fit_elo(results, parts, "loss", list(TARGETS))
        return everywhere

    return {
        VALUE_CLAIM: smallest_lead(
            elo_on(_CLAIMED_BOARDS), "value", _rivals("value"), _CLAIMED_BOARDS
        ),
        ACCURACY_CLAIM: contrast(
            fit_accuracy(results, _SUM_BOARDS, "loss", list(TARGETS), "search"),
            {"value": 1.0, "sum": -1.0},
        ),
        SUM_CLAIM: contrast(elo_on(_SUM_BOARDS), {"value": 1.0, "sum": -1.0}, _SUM_BOARDS),
        POLICY_CLAIM: smallest_lead(
            elo_on(["gobang-6x6"]), "policy", _rivals("policy"), ["gobang-6x6"]
        ),
        EVERYWHERE_CLAIM: contrast(everywhere, {"value": 1.0, "sum": -1.0}),
        PRODUCT_ELO_CLAIM: contrast(everywhere, _PRODUCT_MINUS_SUM),
        BIAS_CLAIM: training_elo_correlation(results),
        PRODUCT_CLAIM: _largest(
            single_losses, [({"product": sign, "sum": -sign}, ()) for sign in (1.0, -1.0)]
        ),
        COMBINED_LOSS_CLAIM: _largest(
            [losses],
            [({"sum": 0.5, "product": 0.5, single: -1.0}, ()) for single in ("policy", "value")],
        ),
        DEPENDS_CLAIM: _smaller_lead_by_game(elo_on([*_CLAIMED_BOARDS, *_GOBANG_BOARDS])),
        COMPROMISE_CLAIM: smallest_lead(everywhere, "sum", _rivals("sum")),
        PRODUCT_GAINS_CLAIM: _largest(
            [everywhere], [(_PRODUCT_MINUS_SUM, [board]) for board in boards]
        ),
        STEADY_CLAIM: _relative_spread(results),
        **{
            claim: smallest_lead(elo_on([part]), "value", _rivals("value"), [part])
            for part, claim in BEST_ON_BOARD.items()
        },
        SMALL_CLAIM: _largest(
            [elo_on(["othello-5x5"])],
            [({one: 1.0, other: -1.0}, ["othello-5x5"]) for one, other in permutations(TARGETS, 2)],
        ),
        LEARNING_CLAIM: weakest_elo(results, boards),
        SIZES_CLAIM: difference_between_sizes(results),
        **{each.claim: _loss_statistic(results, each) for each in CURVE_CLAIMS},
    }


_PRODUCT_MINUS_SUM = {"product": 1.0, "sum": -1.0}


def _rivals(loss: str) -> list[str]:
    return [each for each in TARGETS if each != loss]


def _fit(
    results: Results, parts: Sequence[str], measure: Callable[[TrainedRun], float]
) -> GamesModel | MissingEstimate:
    return fit_runs(results, parts, "loss", list(TARGETS), measure)


def _loss_statistic(results: Results, claimed: CurveClaim) -> ClaimEstimate | MissingEstimate:
    model = _fit(results, [claimed.part], claimed.measure)
    if isinstance(model, MissingEstimate):
        return model
    if claimed.leader:
        return smallest_lead(model, claimed.leader, _rivals(claimed.leader))
    if claimed.smallest_of:
        return estimate_smallest(
            [
                mean_of(
                    [claimed.measure(run) for run in results.runs_where(claimed.part, loss=target)]
                )
                for target in claimed.smallest_of
            ]
        )
    if abs(sum(claimed.weights.values())) < 1e-9:
        return model.contrast(claimed.weights)
    runs = {
        target: {
            run.seed: claimed.measure(run) for run in results.runs_where(claimed.part, loss=target)
        }
        for target in claimed.weights
    }
    seeds = set.intersection(*(set(by_seed) for by_seed in runs.values()))
    return mean_of(
        [
            sum(weight * runs[target][seed] for target, weight in claimed.weights.items())
            for seed in sorted(seeds, key=str)
        ]
    )


def _largest(
    models: Sequence[GamesModel | MissingEstimate],
    contrasts: Sequence[tuple[Mapping[str, float], Sequence[str]]],
) -> ClaimEstimate | MissingEstimate:
    """Return the largest of several contrasts over all models.

    A contrast consists of weights by loss and the boards over which it is averaged, by default all.
    """
    estimates = []
    for model in models:
        if isinstance(model, MissingEstimate):
            return model
        estimates += [model.contrast(weights, boards) for weights, boards in contrasts]
    return estimate_largest(estimates)


def _smaller_lead_by_game(
    model: GamesModel | MissingEstimate,
) -> ClaimEstimate | MissingEstimate:
    """Return the lead of the loss that the paper finds best, in the games with the smaller lead."""
    if isinstance(model, MissingEstimate):
        return model
    return estimate_smallest(
        [
            model.contrast({"value": 1.0, "policy": -1.0}, _CLAIMED_BOARDS),
            model.contrast({"policy": 1.0, "value": -1.0}, _GOBANG_BOARDS),
        ]
    )


def _relative_spread(results: Results) -> ClaimEstimate | MissingEstimate:
    """Return the spread of Elo between runs with the value loss, relative to other losses."""
    parts = [part for part in _CLAIMED_BOARDS if part in results.design.parts]
    if missing := unfinished_tournaments_note(results, _CLAIMED_BOARDS):
        return missing
    groups: dict[str, list[Sequence[float]]] = {target: [] for target in TARGETS}
    for part in parts:
        for target in TARGETS:
            runs = results.runs_where(part, loss=target)
            if not runs:
                return removed_runs_note(results, part)
            groups[target].append(elo_sample(results.tournaments[part], runs).values)
    others = [each for target in _rivals("value") for each in groups[target]]
    ratio = spread_ratio(groups["value"], others)
    return MissingEstimate("one run per loss: no spread to compare") if ratio is None else ratio


def weakest_elo(results: Results, parts: Sequence[str]) -> ClaimEstimate | MissingEstimate:
    """Return the Elo, relative to Random, of the weakest combination of board and loss.

    The estimate accounts for the selection of the weakest combination after the fact. In a
    tournament of all seeds, it includes the error of Random's own rating; with a tournament per
    seed, this error is part of the spread.
    """
    if missing := unfinished_tournaments_note(results, parts):
        return missing
    above = []
    for part in parts:
        tournament = results.tournaments[part]
        randoms = tournament.agent_ratings()
        shared_error = standard_error(randoms[0]) if len(randoms) == 1 else 0.0
        for target in TARGETS:
            runs = results.runs_where(part, loss=target)
            if not runs:
                return removed_runs_note(results, part)
            lead = mean_of([tournament.elo_above_agent(run) for run in runs])
            error = StudentEstimate(0.0, shared_error, math.inf)
            above.append(weighted_sum([(1.0, lead), (1.0, error)]))
    return estimate_smallest(above)


def training_elo_correlation(results: Results) -> ClaimEstimate | MissingEstimate:
    """Return the mean correlation between training and tournament Elo, within boards and losses."""
    groups = elos_by_loss(results)
    return groups if isinstance(groups, MissingEstimate) else observed_elo_correlation(groups)


def elos_by_loss(results: Results) -> list[list[RunElos]] | MissingEstimate:
    """Return training Elo and tournament Elo of the runs of each board and loss."""
    parts = list(dict.fromkeys(run.part for run in results.design.runs))
    if missing := unfinished_tournaments_note(results, parts):
        return missing
    groups = []
    for part in parts:
        for target in TARGETS:
            runs = results.runs_where(part, loss=target)
            if not runs:
                return removed_runs_note(results, part)
            groups.append(run_elos(results.tournaments[part], runs))
    return groups
