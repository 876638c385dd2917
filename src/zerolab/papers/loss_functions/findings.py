"""Claims of [Wang2019] and [Wang2020a] about loss functions, and their statistics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import permutations

from zerolab.papers.elo import (
    correlation_with_elo,
    elo_spread_ratio,
    fit_elo_model,
    lead_over_closest_rival,
    mean_contrast,
    mean_leads,
    weakest_elo_above_random,
)
from zerolab.papers.loss_functions import curve_claims
from zerolab.papers.loss_functions.curve_claims import (
    COMBINED_LOSS_CLAIM,
    CURVE_CLAIMS,
    SMALLEST_ELO_DIFFERENCE,
    SMALLEST_LOSS_DIFFERENCE,
    TRAINING_ELO_BIAS_CLAIM,
    CurveClaim,
    part_title,
)
from zerolab.papers.loss_functions.study import LOSS_SYMBOLS, final_loss, last_training_elo
from zerolab.papers.solved_accuracy import fit_accuracy_model
from zerolab.report.claims import Claim, Direction
from zerolab.studies.block_model import PerGameModels, fit_measure_models, ranked_lead
from zerolab.studies.claims import MissingEstimate
from zerolab.studies.finished_work import TrainedRun
from zerolab.studies.joint_estimates import estimate_largest, estimate_smallest
from zerolab.studies.results import Results
from zerolab.studies.statistics import ClaimEstimate, estimate_mean

_FIGURE = "[Wang2019, section V-C, Fig. 6], [Wang2020a, Fig. 11]"
_SECTION = "[Wang2019, section V-C], [Wang2020a, section 6.3.3]"
_PREREGISTERED = "preregistered after earlier runs with other seeds"
_SMALL = 100.0
"""Largest Elo difference between losses on a board that counts as small."""
_POOLED = 30.0
"""Smallest Elo difference of practical interest over several boards."""
_CLAIMED_BOARDS = ("othello-6x6", "connect_four-5x5", "connect_four-6x6")
"""Boards on which the papers find the value loss best."""
_SUM_BOARDS = ("othello-5x5", *_CLAIMED_BOARDS)
"""Boards on which the papers find the value loss better than the sum; Gobang is an exception."""
_GOBANG_BOARDS = ("gobang-5x5", "gobang-6x6")


def _leads(loss: str) -> str:
    others = ", ".join(symbol for target, symbol in LOSS_SYMBOLS.items() if target != loss)
    return f"tournament Elo of {LOSS_SYMBOLS[loss]} minus that of {others}, smallest difference"


def _claim(
    key: str,
    text: str,
    source: str,
    statistic: str,
    direction: Direction = "above",
    smallest: float = _POOLED,
    gatekeeper: Claim | None = None,
    threshold: float = 0.0,
    figure: str = "tournament-elo",
) -> Claim:
    opened_by = gatekeeper.key if gatekeeper else ""
    return Claim(key, text, source, statistic, threshold, direction, smallest, opened_by, figure)


VALUE_BEST_CLAIM = _claim(
    "value-loss-best",
    "In 6x6 Othello and in 5x5 and 6x6 Connect Four alike, minimising the value loss alone trains"
    " the strongest players.", _FIGURE, f"{_leads('value')} on the three boards",
    smallest=SMALLEST_ELO_DIFFERENCE,
)  # fmt: skip
VALUE_ABOVE_SUM_CLAIM = _claim(
    "value-above-sum",
    "On small boards of Othello and Connect Four, minimising the value loss trains stronger players"
    " than minimising the sum does.", "[Wang2019, introduction, section VI]",
    "tournament Elo of l_v minus that of l_+, mean over the four boards",
)  # fmt: skip
VALUE_ABOVE_SUM_ALL_CLAIM = _claim(
    "value-above-sum-everywhere",
    "On three games and two board sizes, the best choice is usually not the sum but the value"
    " loss.", "[Wang2020a, conclusion]",
    "tournament Elo of l_v minus that of l_+, mean difference over the six boards"
    f" ({_PREREGISTERED}; whether l_v is best on most boards is tested separately)",
)  # fmt: skip
VALUE_MOSTLY_BEST_CLAIM = _claim(
    "value-best-on-most-boards",
    "On most of the six boards, the value loss trains the strongest players (the paper's own figure"
    " shows this on three).", "[Wang2020a, conclusion]",
    f"{_leads('value')} on a board, fourth largest of the six boards (above 0 if l_v is the best of"
    " the four losses on at least four boards)",
    smallest=SMALLEST_ELO_DIFFERENCE, gatekeeper=VALUE_ABOVE_SUM_ALL_CLAIM,
)  # fmt: skip
SUM_SELDOM_BEST_CLAIM = _claim(
    "sum-seldom-best", "The best choice is usually not the sum.", "[Wang2020a, sections 1 and 7]",
    f"{_leads('sum')} on a board, third largest of the six boards (below 0 if another loss is"
    " better on at least four boards)", "below", SMALLEST_ELO_DIFFERENCE, VALUE_ABOVE_SUM_ALL_CLAIM,
)  # fmt: skip
PRODUCT_ELO_CLAIM = _claim(
    "product-as-strong-as-sum",
    "Over all six boards, minimising the product trains players as strong as minimising the sum"
    " does.", "zerolab, on [Wang2020a]",
    f"tournament Elo of l_x minus that of l_+, mean over the six boards ({_PREREGISTERED})",
    "equal to", 45.0,
)  # fmt: skip
POLICY_BEST_GOBANG_6X6_CLAIM = _claim(
    "policy-best-gobang-6x6",
    "In 6x6 Gobang, minimising the policy loss alone trains the strongest players.",
    "[Wang2020a, Fig. 11, section 6.3.3]", _leads("policy"), smallest=SMALLEST_ELO_DIFFERENCE,
)  # fmt: skip
POLICY_BEST_GOBANG_5X5_CLAIM = _claim(
    "policy-best-gobang-5x5",
    "In 5x5 Gobang, too, minimising the policy loss alone trains the strongest players.",
    "[Wang2020a, section 6.3.3]", _leads("policy"),
    smallest=SMALLEST_ELO_DIFFERENCE, gatekeeper=POLICY_BEST_GOBANG_6X6_CLAIM,
)  # fmt: skip
VALUE_BEST_ON_BOARD_CLAIMS = {
    part: _claim(
        f"value-best-{part}",
        f"In {part_title(part)}, minimising the value loss alone trains the strongest players.",
        _FIGURE, _leads("value"), smallest=SMALLEST_ELO_DIFFERENCE, gatekeeper=VALUE_BEST_CLAIM,
    )
    for part in _CLAIMED_BOARDS
}  # fmt: skip
SMALL_DIFFERENCES_CLAIM = _claim(
    "small-differences-othello-5x5", "In Othello 5x5, the difference between the losses is small.",
    _FIGURE, "largest absolute difference between the mean tournament Elo of two losses",
    "below", SMALLEST_ELO_DIFFERENCE, VALUE_BEST_CLAIM, threshold=_SMALL,
)  # fmt: skip
LOSS_MATTERS_MUCH_CLAIM = _claim(
    "loss-can-matter-much", "The choice of the loss can have a huge impact on strength.",
    "[Wang2019, section VI]",
    "largest difference between the mean tournament Elo of two losses on a board, maximum over the"
    " four boards of Othello and Connect Four (the threshold is twice that for a small difference)",
    "above", SMALLEST_ELO_DIFFERENCE, VALUE_BEST_CLAIM, threshold=2.0 * _SMALL,
)  # fmt: skip
BEST_LOSS_BY_GAME_CLAIM = _claim(
    "best-loss-depends-on-game",
    "Which loss trains the strongest players depends on the game: the value loss in Othello and"
    " Connect Four, the policy loss in Gobang.", "[Wang2020a, section 6.3.3, conclusion]",
    "tournament Elo of l_v minus that of l_p, mean over 6x6 Othello and 5x5 and 6x6 Connect Four,"
    " or of l_p minus l_v, mean over the Gobang boards, whichever is smaller",
    smallest=SMALLEST_ELO_DIFFERENCE, gatekeeper=VALUE_BEST_CLAIM,
)  # fmt: skip
VALUE_VARIES_LESS_CLAIMS = {
    part: _claim(
        f"value-loss-varies-less-{part}",
        f"In {part_title(part)}, players trained with the value loss differ little in strength.",
        _SECTION,
        "standard deviation of tournament Elo between runs with l_v, divided by that with the other"
        " losses", "below", 0.5, VALUE_BEST_CLAIM, threshold=1.0,
    )
    for part in _CLAIMED_BOARDS
}  # fmt: skip
SUM_COMPROMISE_CLAIM = _claim(
    "sum-is-a-compromise",
    "If nothing is known about the game, the sum may be a good compromise: on no board does it lose"
    " much strength compared with the best loss.", "[Wang2020a, sections 1 and 7]",
    "tournament Elo of l_p, l_v, l_x minus that of l_+, largest difference, maximum over the boards"
    " (the threshold is the one for a small difference)",
    "below", SMALLEST_ELO_DIFFERENCE, VALUE_ABOVE_SUM_CLAIM, threshold=_SMALL,
)  # fmt: skip
PRODUCT_GAINS_CLAIM = _claim(
    "product-above-sum-in-some-games",
    "In some games, minimising the product trains stronger players than minimising the sum does.",
    "[Wang2020a, section 6.3.3]",
    "tournament Elo of l_x minus that of l_+, maximum over the boards",
    smallest=SMALLEST_ELO_DIFFERENCE, gatekeeper=VALUE_ABOVE_SUM_CLAIM,
)  # fmt: skip
PRODUCT_IN_BOTH_CLAIM = _claim(
    "product-above-sum-in-both-games",
    "In Othello and Connect Four, minimising the product can train stronger players than minimising"
    " the sum does.", "[Wang2019, section V-C]", "tournament Elo of l_x minus that of l_+, mean"
    " over the four boards (our reading; the paper says that the product can do this)",
    gatekeeper=VALUE_ABOVE_SUM_CLAIM,
)  # fmt: skip
PRODUCT_BOARDS = ("othello-5x5", "othello-6x6", "connect_four-5x5")
"""Boards for which the papers compare minimising the product with minimising the sum."""
PRODUCT_LIKE_SUM_CLAIM = Claim(
    "product-losses-like-sum",
    "Minimising the product or the sum leads to similar policy losses and value losses in 5x5 and"
    " 6x6 Othello, and likewise in 5x5 Connect Four.",
    "[Wang2019, section V-A], [Wang2020a, section 6.3.1, without 6x6 Othello]",
    "absolute difference between l_x and l_+ in final policy loss or final value loss, maximum over"
    " both losses on the three boards",
    SMALLEST_LOSS_DIFFERENCE,
    "below",
    SMALLEST_LOSS_DIFFERENCE,
    figure="losses-othello",
)
VALUE_TRAINING_ELO_CLAIM = _claim(
    "value-highest-training-elo", "Minimising the value loss achieves the highest training Elo (the"
    " paper names no game; the preceding sentence is about Gobang).", "[Wang2020a, section 6.3.3]",
    "final training Elo of l_v minus that of l_p, l_+, l_x, mean over boards, smallest difference",
    smallest=SMALLEST_ELO_DIFFERENCE, gatekeeper=TRAINING_ELO_BIAS_CLAIM, figure="training-elo",
)  # fmt: skip
ALL_LOSSES_LEARN_CLAIM = _claim(
    "all-learn", "With every loss, players become stronger than Random.",
    "zerolab, on [Wang2020a, Fig. 11]",
    "mean Elo relative to Random of the weakest combination of board and loss",
    smallest=SMALLEST_ELO_DIFFERENCE, gatekeeper=VALUE_ABOVE_SUM_CLAIM,
)  # fmt: skip
VALUE_ACCURACY_CLAIM = _claim(
    "value-above-sum-accuracy",
    "According to a solver, minimising the value loss trains better players than minimising the sum"
    " does.", "zerolab, on [Wang2020a]",
    "strong accuracy of search on solved positions, l_v minus l_+, mean over the four boards of"
    " Othello and Connect Four", smallest=0.01, gatekeeper=VALUE_ABOVE_SUM_CLAIM, figure="accuracy",
)  # fmt: skip


def loss_statistics(results: Results) -> dict[Claim, ClaimEstimate | MissingEstimate]:
    """Return the statistic of each claim, or the reason why it is missing."""
    boards = list(dict.fromkeys(run.part for run in results.design.runs))
    everywhere = fit_elo_model(results, boards, "loss", list(LOSS_SYMBOLS))
    single_losses = [
        _fit(results, PRODUCT_BOARDS, partial(final_loss, name)) for name in ("policy", "value")
    ]
    pairs = [{one: 1.0, other: -1.0} for one, other in permutations(LOSS_SYMBOLS, 2)]

    def elo_on(parts: Sequence[str]) -> PerGameModels | MissingEstimate:
        if isinstance(everywhere, MissingEstimate) or not set(parts) <= set(boards):
            return fit_elo_model(results, parts, "loss", list(LOSS_SYMBOLS))
        return everywhere

    def lead(loss: str, part: str) -> ClaimEstimate | MissingEstimate:
        return lead_over_closest_rival(elo_on([part]), loss, _rivals(loss), [part])

    def lead_on(loss: str, parts: Sequence[str], rank: int) -> ClaimEstimate | MissingEstimate:
        model = elo_on(parts)
        if isinstance(model, MissingEstimate):
            return model
        return ranked_lead(model, loss, _rivals(loss), parts, rank)

    return {
        VALUE_BEST_CLAIM: lead_on("value", _CLAIMED_BOARDS, len(_CLAIMED_BOARDS)),
        VALUE_ACCURACY_CLAIM: mean_contrast(
            fit_accuracy_model(results, _SUM_BOARDS, "loss", list(LOSS_SYMBOLS), "search"),
            _VALUE_MINUS_SUM,
        ),
        VALUE_ABOVE_SUM_CLAIM: mean_contrast(elo_on(_SUM_BOARDS), _VALUE_MINUS_SUM, _SUM_BOARDS),
        POLICY_BEST_GOBANG_6X6_CLAIM: lead("policy", "gobang-6x6"),
        POLICY_BEST_GOBANG_5X5_CLAIM: lead("policy", "gobang-5x5"),
        VALUE_MOSTLY_BEST_CLAIM: lead_on("value", boards, len(boards) // 2 + 1),
        SUM_SELDOM_BEST_CLAIM: lead_on("sum", boards, max(1, len(boards) // 2)),
        VALUE_TRAINING_ELO_CLAIM: lead_over_closest_rival(
            _fit(results, boards, last_training_elo), "value", _rivals("value"), ()
        ),
        VALUE_ABOVE_SUM_ALL_CLAIM: mean_contrast(everywhere, _VALUE_MINUS_SUM),
        PRODUCT_ELO_CLAIM: mean_contrast(everywhere, _PRODUCT_MINUS_SUM),
        **correlations(results, boards),
        PRODUCT_LIKE_SUM_CLAIM: _largest(
            single_losses,
            [
                ({"product": sign, "sum": -sign}, [board])
                for sign in (1.0, -1.0) for board in PRODUCT_BOARDS
            ],
        ),
        COMBINED_LOSS_CLAIM: _largest(
            [_fit(results, boards, partial(final_loss, "sum"))],
            [({"sum": 0.5, "product": 0.5, single: -1.0}, ()) for single in ("policy", "value")],
        ),
        BEST_LOSS_BY_GAME_CLAIM: _smaller_lead_by_game(elo_on([*_CLAIMED_BOARDS, *_GOBANG_BOARDS])),
        SUM_COMPROMISE_CLAIM: _largest(
            [everywhere],
            [({rival: 1.0, "sum": -1.0}, [board]) for rival in _rivals("sum") for board in boards],
        ),
        PRODUCT_GAINS_CLAIM: _largest(
            [everywhere], [(_PRODUCT_MINUS_SUM, [board]) for board in boards]
        ),
        PRODUCT_IN_BOTH_CLAIM: mean_contrast(elo_on(_SUM_BOARDS), _PRODUCT_MINUS_SUM, _SUM_BOARDS),
        LOSS_MATTERS_MUCH_CLAIM: _largest(
            [elo_on(_SUM_BOARDS)], [(pair, [board]) for pair in pairs for board in _SUM_BOARDS]
        ),
        **{
            claim: elo_spread_ratio(results, part, "loss", "value", _rivals("value"))
            for part, claim in VALUE_VARIES_LESS_CLAIMS.items()
        },
        **{claim: lead("value", part) for part, claim in VALUE_BEST_ON_BOARD_CLAIMS.items()},
        SMALL_DIFFERENCES_CLAIM: _largest(
            [elo_on(["othello-5x5"])], [(pair, ["othello-5x5"]) for pair in pairs]
        ),
        ALL_LOSSES_LEARN_CLAIM: weakest_elo_above_random(results, boards, "loss", [*LOSS_SYMBOLS]),
        curve_claims.LARGER_BOARDS_CLAIM: curve_claims.largest_decrease_difference(results),
        curve_claims.GOBANG_LOW_VALUE_LOSS_CLAIM: curve_claims.first_value_loss_in_gobang(results),
        curve_claims.FINAL_LOSSES_CLAIM: curve_claims.difference_from_published(results),
        **{each.claim: _loss_statistic(results, each) for each in CURVE_CLAIMS},
    }  # fmt: skip


_VALUE_MINUS_SUM = {"value": 1.0, "sum": -1.0}
_PRODUCT_MINUS_SUM = {"product": 1.0, "sum": -1.0}


def _rivals(loss: str) -> list[str]:
    return [each for each in LOSS_SYMBOLS if each != loss]


def _fit(
    results: Results, parts: Sequence[str], measure: Callable[[TrainedRun], float]
) -> PerGameModels | MissingEstimate:
    return fit_measure_models(results, parts, "loss", list(LOSS_SYMBOLS), measure)


def _loss_statistic(results: Results, claimed: CurveClaim) -> ClaimEstimate | MissingEstimate:
    model = _fit(results, [claimed.part], claimed.measure)
    if isinstance(model, MissingEstimate):
        return model
    if claimed.smallest_lead_of:
        rivals = [target for target in LOSS_SYMBOLS if target not in claimed.smallest_lead_of]
        return estimate_smallest(mean_leads(model, claimed.smallest_lead_of, rivals))
    if claimed.smallest_mean_of:
        return estimate_smallest(
            [
                estimate_mean(
                    [claimed.measure(run) for run in results.runs_where(claimed.part, loss=target)]
                )
                for target in claimed.smallest_mean_of
            ]
        )
    if abs(sum(claimed.contrast_weights.values())) < 1e-9:
        return model.contrast(claimed.contrast_weights)
    runs = {
        target: {
            run.seed: claimed.measure(run) for run in results.runs_where(claimed.part, loss=target)
        }
        for target in claimed.contrast_weights
    }
    seeds = set.intersection(*(set(by_seed) for by_seed in runs.values()))
    if not seeds:
        return MissingEstimate(f"{claimed.part}: no seed has runs with all losses of the claim")
    return estimate_mean(
        [
            sum(weight * runs[target][seed] for target, weight in claimed.contrast_weights.items())
            for seed in sorted(seeds, key=str)
        ]
    )


def _largest(
    models: Sequence[PerGameModels | MissingEstimate],
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
    model: PerGameModels | MissingEstimate,
) -> ClaimEstimate | MissingEstimate:
    """Return the smaller lead: of the policy loss in Gobang, or of the value loss elsewhere."""
    if isinstance(model, MissingEstimate):
        return model
    return estimate_smallest(
        [
            model.contrast({"value": 1.0, "policy": -1.0}, _CLAIMED_BOARDS),
            model.contrast({"policy": 1.0, "value": -1.0}, _GOBANG_BOARDS),
        ]
    )


def correlations(
    results: Results, boards: Sequence[str]
) -> dict[Claim, ClaimEstimate | MissingEstimate]:
    """Return correlations of losses and training Elo with each other and with tournament Elo."""
    within, between = [[target] for target in LOSS_SYMBOLS], [list(LOSS_SYMBOLS)]

    def with_elo(
        measure: Callable[[TrainedRun], float],
        groups: Sequence[Sequence[str]],
        parts: Sequence[str] = boards,
    ) -> ClaimEstimate | MissingEstimate:
        return correlation_with_elo(results, parts, "loss", groups, measure)

    return {
        curve_claims.TRAINING_ELO_BIAS_CLAIM: with_elo(last_training_elo, within),
        curve_claims.CROSS_LOSS_ELO_BIAS_CLAIM: with_elo(last_training_elo, between),
        curve_claims.COMBINED_BIAS_CLAIM: with_elo(
            last_training_elo, [["sum", "product"]], [*curve_claims.BOARD_TREND_CLAIMS]
        ),
        curve_claims.LOSS_IS_NOT_STRENGTH_CLAIM: with_elo(partial(final_loss, "sum"), between),
        curve_claims.LOSS_ELO_TREND_CLAIM: curve_claims.mean_trend(results, boards),
        **{
            claim: curve_claims.mean_trend(results, [part])
            for part, claim in curve_claims.BOARD_TREND_CLAIMS.items()
        },
    }
