"""Claims of [Wang2019] and [Wang2020a] about losses and training Elo during training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import NamedTuple

from zerolab.papers.elo import GAME_TITLES, WeightedMean, sum_of_weighted_means
from zerolab.papers.loss_functions import study
from zerolab.papers.loss_functions.study import GAMES, LOSS_SYMBOLS, PUBLISHED_LOSSES
from zerolab.report.claims import Claim, Direction
from zerolab.studies.claims import MissingEstimate, estimate_unless_missing
from zerolab.studies.finished_work import TrainedRun
from zerolab.studies.joint_estimates import estimate_largest
from zerolab.studies.results import Results
from zerolab.studies.statistics import ClaimEstimate

SMALLEST_ELO_DIFFERENCE = 50.0
"""Smallest Elo difference of practical interest on one board."""
SMALLEST_LOSS_DIFFERENCE = 0.1
"""Smallest loss difference of practical interest; published policy losses range from 0.4 to 2.5."""


def part_title(part: str) -> str:
    """Return the game and board size of a part, such as ``Othello 5x5``."""
    game, size = part.rsplit("-", 1)
    return f"{GAME_TITLES[game]} {size}"


_BOTH_LOSSES = "[Wang2019, section V-A], [Wang2020a, section 6.3.1]"
_LOSSES: Mapping[str, str] = {
    "othello-5x5": _BOTH_LOSSES, "othello-6x6": "[Wang2019, section V-A]",
    "connect_four-5x5": _BOTH_LOSSES, "gobang-5x5": "[Wang2020a, section 6.3.1]",
}  # fmt: skip
"""Source of the findings about the losses on a board."""
_TRAINING_ELO = "[Wang2019, section V-B], [Wang2020a, section 6.3.2]"

TRAINING_ELO_BIAS_CLAIM = Claim(
    "training-elo-misleads",
    "Training Elo is biased and cannot replace a tournament: it hardly predicts the ranking of runs"
    " (tested within each loss, where no difference between losses contributes).",
    "[Wang2019, section V-B], [Wang2020a, conclusion]",
    "rank correlation between training Elo and tournament Elo, both relative to the runs with the"
    " same seed, over runs trained with the same loss on the same board, mean over losses and"
    " boards (the threshold is ours)",
    0.5,
    "below",
    0.2,
    figure="training-elo-final",
)
COMBINED_LOSS_CLAIM = Claim(
    "combinations-reach-lowest-loss", "A combination of both losses reaches the lowest loss.",
    "[Wang2019, section V-C], [Wang2020a, section 6.3.3]",
    "policy loss plus value loss at the end, mean of l_+ and l_x minus l_p and minus l_v, larger"
    " difference, mean over all boards",
    0.0, "below", SMALLEST_LOSS_DIFFERENCE, figure="losses-othello",
)  # fmt: skip
CROSS_LOSS_ELO_BIAS_CLAIM = Claim(
    "training-elo-misleads-between-losses",
    "Training Elo is incomparable among runs, those with different losses included: it hardly"
    " predicts their ranking.",
    "[Wang2019, abstract, section V-B], [Wang2020a, conclusion]",
    "rank correlation between training Elo and tournament Elo over all runs on a board, mean over"
    " boards", 0.5, "below", 0.2, TRAINING_ELO_BIAS_CLAIM.key, "training-elo-final",
)  # fmt: skip
COMBINED_BIAS_CLAIM = Claim(
    "training-elo-of-combinations-misleads",
    "In 6x6 Othello and 5x5 Connect Four, the training Elo of the sum and the product is"
    " inconsistent (the captions do not say with what; tested against tournaments).",
    "[Wang2019, Fig. 5], [Wang2020a, Fig. 10]",
    "rank correlation between training Elo and tournament Elo over the runs with l_+ or l_x on a"
    " board, mean over the two boards",
    0.5, "below", 0.2, TRAINING_ELO_BIAS_CLAIM.key, "training-elo-final",
)  # fmt: skip
LOSS_IS_NOT_STRENGTH_CLAIM = Claim(
    "small-loss-is-not-strength", "A smaller loss does not always mean a stronger player.",
    "[Wang2019, section IV-B], [Wang2020a, section 5.3]",
    "rank correlation between the final sum of policy loss and value loss and tournament Elo over"
    " all runs on a board, mean over boards (-1 if the smaller loss were always stronger; the limit"
    " is ours)", -0.5, "above", 0.2, TRAINING_ELO_BIAS_CLAIM.key, "tournament-elo",
)  # fmt: skip
_TREND = "rank correlation over iterations between the minimised loss and candidates' training Elo"
LOSS_ELO_TREND_CLAIM = Claim(
    "losses-do-not-tell-training-elo",
    "Losses and training Elo are by no means exchangeable: during training, they give different"
    " impressions.", _TRAINING_ELO,
    f"{_TREND}, mean over runs (-1 if Elo rose whenever the loss fell; the threshold is ours)",
    -0.5, "above", 0.2, TRAINING_ELO_BIAS_CLAIM.key, "training-elo",
)  # fmt: skip
BOARD_TREND_CLAIMS = {
    part: Claim(
        f"trends-differ-{part}",
        f"In {part_title(part)}, the trends of losses and of training Elo are inconsistent.",
        "[Wang2019, section VI]", f"{_TREND}, mean over runs (the threshold is ours)",
        -0.5, "above", 0.2, TRAINING_ELO_BIAS_CLAIM.key, "training-elo",
    )
    for part in ("connect_four-5x5", "othello-6x6")
}  # fmt: skip
LARGER_BOARDS_CLAIM = Claim(
    "losses-alike-on-6x6",
    "On 6x6 boards, the curves of the losses are very similar to those on 5x5 boards (for Othello,"
    " [Wang2019] calls the value loss with the sum a contrast).",
    "[Wang2019, section V-A, Connect Four], [Wang2020a, section 6.3.1]",
    "decrease in a loss from the first iteration to the middle or to the last, absolute difference"
    " between 6x6 and 5x5 boards, maximum over both points, the three games and the eight"
    " combinations of policy loss or value loss and loss function",
    0.2, "below", SMALLEST_LOSS_DIFFERENCE, COMBINED_LOSS_CLAIM.key, "losses-othello",
)  # fmt: skip
GOBANG_LOW_VALUE_LOSS_CLAIM = Claim(
    "value-loss-starts-low-in-gobang",
    "While the sum or the product is minimised, the value loss in 5x5 Gobang is low from the"
    " beginning, unlike in Othello and Connect Four.", _LOSSES["gobang-5x5"],
    "value loss after the first iteration, mean of l_+ and l_x, 5x5 Gobang minus 5x5 Othello and"
    " minus 5x5 Connect Four, larger difference",
    0.0, "below", SMALLEST_LOSS_DIFFERENCE, COMBINED_LOSS_CLAIM.key, "losses-gobang",
)  # fmt: skip
FINAL_LOSSES_CLAIM = Claim(
    "final-losses-as-published", "The losses end at the published values.",
    _BOTH_LOSSES,
    "mean final loss minus the number in the text, largest absolute difference of 15 numbers for"
    " boards, losses and minimised losses (those of 0 and below 0.1 have findings of their own)",
    SMALLEST_LOSS_DIFFERENCE, "below", SMALLEST_LOSS_DIFFERENCE, COMBINED_LOSS_CLAIM.key,
    "losses-othello",
)  # fmt: skip


class CurveClaim(NamedTuple):
    """Claim about the losses or the training Elo of runs on one board."""

    claim: Claim
    part: str
    measure: Callable[[TrainedRun], float]
    contrast_weights: Mapping[str, float]
    """Weight of each loss function; a single weight of 1 tests the mean over that loss function's
    runs."""
    smallest_mean_of: Sequence[str] = ()
    """Loss functions whose smallest mean is tested, instead of a weighted sum."""
    smallest_lead_of: Sequence[str] = ()
    """Loss functions whose smallest lead over the others is tested, instead of a weighted sum."""


def largest_decrease_difference(results: Results) -> ClaimEstimate | MissingEstimate:
    """Return the largest absolute difference in a loss's decrease between 6x6 and 5x5 boards."""
    differences = []
    for game, loss, name, share in product(GAMES, LOSS_SYMBOLS, ("policy", "value"), (0.5, 1.0)):
        measure = partial(study.loss_decrease, name, share=share)
        for sign in (1.0, -1.0):
            large = WeightedMean(sign, f"{game}-6x6", loss, measure)
            small = WeightedMean(-sign, f"{game}-5x5", loss, measure)
            differences.append(sum_of_weighted_means(results, "loss", [large, small]))
    return estimate_unless_missing(estimate_largest, differences)


def difference_from_published(results: Results) -> ClaimEstimate | MissingEstimate:
    """Return the largest absolute difference between mean final losses and published ones."""
    differences = []
    for (part, loss), levels in PUBLISHED_LOSSES.items():
        for name, level in levels.items():
            mean = sum_of_weighted_means(
                results, "loss", [WeightedMean(1.0, part, loss, partial(study.final_loss, name))]
            )
            if isinstance(mean, MissingEstimate):
                return mean
            excess = mean.value - level
            differences += [mean._replace(value=excess), mean._replace(value=-excess)]
    return estimate_largest(differences)


def first_value_loss_in_gobang(results: Results) -> ClaimEstimate | MissingEstimate:
    """Return the larger difference in the first value loss between Gobang and other games."""

    def first_value_loss(run: TrainedRun) -> float:
        return run.last_epoch_losses[0]["value"]

    return estimate_unless_missing(
        estimate_largest,
        [
            sum_of_weighted_means(
                results,
                "loss",
                [
                    WeightedMean(weight, part, loss, first_value_loss)
                    for part, weight in (("gobang-5x5", 0.5), (other, -0.5))
                    for loss in ("sum", "product")
                ],
            )
            for other in ("othello-5x5", "connect_four-5x5")
        ],
    )


def mean_trend(results: Results, parts: Sequence[str]) -> ClaimEstimate | MissingEstimate:
    """Return the mean correlation of loss and training Elo over the runs of some boards."""
    pairs = [*product(parts, LOSS_SYMBOLS)]
    terms = [WeightedMean(1.0 / len(pairs), *pair, study.loss_elo_correlation) for pair in pairs]
    return sum_of_weighted_means(results, "loss", terms)


def _on_board(
    key: str,
    part: str,
    text: str,
    statistic: str,
    measure: Callable[[TrainedRun], float],
    weights: Mapping[str, float],
    direction: Direction,
    gatekeeper: Claim = COMBINED_LOSS_CLAIM,
    smallest: float = SMALLEST_LOSS_DIFFERENCE,
    *,
    threshold: float = 0.0,
    source: str = "",
    smallest_mean_of: Sequence[str] = (),
    smallest_lead_of: Sequence[str] = (),
) -> CurveClaim:
    """Return a claim about losses, or about training Elo if opened by `TRAINING_ELO_BIAS_CLAIM`."""
    is_elo = gatekeeper is TRAINING_ELO_BIAS_CLAIM
    losses = f"losses-{part.rpartition('-')[0].replace('_', '-')}"
    claim = Claim(
        f"{key}-{part}", f"In {part_title(part)}, {text}",
        source or (_TRAINING_ELO if is_elo else _LOSSES[part]), statistic, threshold, direction,
        SMALLEST_ELO_DIFFERENCE if is_elo else smallest, gatekeeper.key,
        "training-elo" if is_elo else losses,
    )  # fmt: skip
    return CurveClaim(claim, part, measure, weights, smallest_mean_of, smallest_lead_of)


_EQUAL = dict.fromkeys(LOSS_SYMBOLS, 0.25)
_COMBINED = {"sum": 0.5, "product": 0.5}
_CAPTIONS = {
    "othello-5x5": "[Wang2019, Fig. 2], [Wang2020a, Fig. 7]",
    "othello-6x6": "[Wang2019, Fig. 3]",
    "connect_four-5x5": "[Wang2019, Fig. 4], [Wang2020a, Fig. 8]",
    "gobang-5x5": "[Wang2020a, Fig. 9]",
}
_LAST_MINUS = "training Elo of candidates in the last quarter of the iterations minus that in the"


def _loss_falls(fallen: str, minimised: str, part: str, note: str = "") -> CurveClaim:
    """Return the claim that a loss falls while it or another loss is being minimised."""
    own = fallen == minimised
    key = f"{fallen}-loss-falls" + ("" if own else f"-with-{minimised}")
    while_ = "while it is minimised" if own else f"too, while the {minimised} loss is minimised"
    return _on_board(
        key, part, f"the {fallen} loss falls{' ' if own else ', '}{while_}{note}.",
        f"decrease in the {fallen} loss with {LOSS_SYMBOLS[minimised]}",
        partial(study.loss_decrease, fallen), {minimised: 1.0}, "above",
    )  # fmt: skip


CURVE_CLAIMS: Sequence[CurveClaim] = [
    _on_board("degenerates", "connect_four-5x5",
              "training Elo degenerates: it falls during training (falling losses have findings of"
              " their own).", f"{_LAST_MINUS} first, mean over the losses",
              study.training_elo_change, _EQUAL, "below", TRAINING_ELO_BIAS_CLAIM),
    _on_board("combined-rise-faster", "othello-6x6",
              "training Elo rises much faster with the sum and the product than with either single"
              " loss (tested by the final training Elo).", "final training Elo of l_+ and of l_x"
              " minus that of l_p and of l_v, minimum of four differences (the threshold is ours)",
              study.last_training_elo, {}, "above", TRAINING_ELO_BIAS_CLAIM,
              threshold=100.0, smallest_lead_of=[*_COMBINED]),
    _on_board("policy-rises-fastest", "othello-5x5",
              "training Elo rises fastest with the policy loss (tested by the final training Elo).",
              "final training Elo of l_p minus that of l_v, l_+, l_x, smallest difference",
              study.last_training_elo, {}, "above", TRAINING_ELO_BIAS_CLAIM,
              smallest_lead_of=["policy"]),
    *(
        _on_board("value-rises-highest", part,
                  f"training Elo ends highest with the value loss{note}.",
                  "final training Elo of l_v minus that of l_p, l_+, l_x, smallest difference",
                  study.last_training_elo, {}, "above", TRAINING_ELO_BIAS_CLAIM, source=source,
                  smallest_lead_of=["value"])
        for part, source, note in (
            ("connect_four-6x6", "", ""),
            *(
                (f"gobang-{size}", "[Wang2020a, section 6.3.3]",
                 " (the clause does not name the game; the preceding sentence is about Gobang)")
                for size in ("5x5", "6x6")
            ),
        )
    ),
    _on_board("rises", "connect_four-6x6",
              "training Elo still clearly improves (the same section also calls it stagnation).",
              f"{_LAST_MINUS} first, mean over the losses", study.training_elo_change, _EQUAL,
              "above", TRAINING_ELO_BIAS_CLAIM),
    _on_board("stagnates", "connect_four-6x6",
              "training Elo stagnates (the same section also calls it a clear improvement).",
              f"{_LAST_MINUS} second, mean over the losses", study.late_training_elo_change, _EQUAL,
              "equal to", TRAINING_ELO_BIAS_CLAIM),
    _on_board("policy-stagnates", "connect_four-6x6",
              "training Elo soon stagnates, or improves very slowly, while the policy loss is"
              " minimised.", f"{_LAST_MINUS} second, with l_p", study.late_training_elo_change,
              {"policy": 1.0}, "not above", TRAINING_ELO_BIAS_CLAIM),
    _on_board("value-rises-late", "othello-6x6",
              "training Elo rises with the value loss while that loss stagnates.",
              f"{_LAST_MINUS} second, with l_v", study.late_training_elo_change, {"value": 1.0},
              "above", TRAINING_ELO_BIAS_CLAIM),
    _on_board("value-loss-stagnates-alone", "othello-6x6",
              "the value loss stagnates while it is minimised (section V-A says that it falls).",
              "decrease in the value loss with l_v in the second half of the iterations",
              partial(study.late_loss_decrease, "value", 0.5), {"value": 1.0}, "equal to",
              source=_TRAINING_ELO),
    *(
        _on_board("policy-loss-stays", part,
                  "the policy loss hardly changes while the value loss is minimised.",
                  "decrease in the policy loss with l_v", partial(study.loss_decrease, "policy"),
                  {"value": 1.0}, "equal to", smallest=0.2)
        for part in ("othello-5x5", "othello-6x6")
    ),
    _on_board("policy-loss-stays", "connect_four-5x5",
              "the policy loss hardly changes while the value loss is minimised, after a slight"
              " decrease at the beginning.", "decrease in the policy loss with l_v after a tenth of"
              " the iterations", partial(study.late_loss_decrease, "policy", 0.1), {"value": 1.0},
              "equal to", smallest=0.2),
    *(
        _on_board("value-loss-stagnates", part,
                  "the value loss stops changing early while the policy loss is minimised.",
                  f"decrease in the value loss with l_p after {100 * share:.0f} % of the"
                  f" iterations ({origin})", partial(study.late_loss_decrease, "value", share),
                  {"policy": 1.0}, "equal to")
        for part, share, origin in (("othello-5x5", 0.05, "10 of 200 in the papers"),
                                    ("othello-6x6", 0.1, "10 of 100 in the paper"),
                                    ("connect_four-5x5", 0.25, "our choice"))
    ),
    _on_board("value-loss-falls-faster", "connect_four-5x5",
              "the value loss falls much quicker than the policy loss while the latter is"
              " minimised.", "decrease in the value loss minus that in the policy loss in the first"
              " quarter of the iterations, with l_p (a quarter of the published decreases is 0.2)",
              study.value_loss_decrease_lead, {"policy": 1.0}, "above", threshold=0.2),
    _on_board("value-loss-falls-quickly", "gobang-5x5",
              "the value loss falls quickly while it is minimised.",
              "decrease in the value loss in the first quarter of the iterations minus that after"
              " it, with l_v", study.value_loss_early_decrease_excess, {"value": 1.0}, "above"),
    *(
        _on_board("value-loss-vanishes", part,
                  "the value loss falls to about 0 while the sum or the product is minimised.",
                  "final value loss, mean of l_+ and l_x", partial(study.final_loss, "value"),
                  _COMBINED, "equal to")
        for part in ("othello-5x5", "connect_four-5x5")
    ),
    _on_board("value-loss-vanishes-alone", "gobang-5x5",
              "the value loss falls to less than 0.1 while it is minimised.",
              "final value loss with l_v", partial(study.final_loss, "value"), {"value": 1.0},
              "equal to"),
    _on_board("value-loss-stationary", "gobang-5x5",
              "the value loss is stationary from the beginning while the sum or the product is"
              " minimised.", "decrease in the value loss, mean of l_+ and l_x",
              partial(study.loss_decrease, "value"), _COMBINED, "equal to"),
    _on_board("value-loss-returns", "othello-6x6",
              "the value loss ends about where it began while the sum or the product is minimised.",
              "decrease in the value loss, mean of l_+ and l_x",
              partial(study.loss_decrease, "value"), _COMBINED, "equal to"),
    _on_board("value-loss-rises-first", "othello-6x6",
              "the value loss first increases slightly while the sum or the product is minimised.",
              "value loss in the middle half of the iterations minus the mean of first and last,"
              " mean of l_+ and l_x", study.value_loss_hump, _COMBINED, "above"),
    _on_board("policy-loss-falls-combined", "othello-6x6",
              "the policy loss falls while the sum or the product is minimised.",
              "decrease in the policy loss, mean of l_+ and l_x",
              partial(study.loss_decrease, "policy"), _COMBINED, "above"),
    *(_loss_falls(*each) for each in (
        ("policy", "policy", "othello-5x5"), ("policy", "policy", "othello-6x6"),
        ("policy", "policy", "connect_four-5x5"), ("policy", "policy", "gobang-5x5"),
        ("value", "value", "othello-5x5"),
        ("value", "value", "othello-6x6", " (section V-B calls it stagnating)"),
        ("value", "value", "connect_four-5x5"), ("value", "policy", "connect_four-5x5"),
        ("value", "policy", "gobang-5x5"),
    )),
    *(
        _on_board("both-losses-fall", part,
                  "both losses fall while the sum or the product is minimised.",
                  "decrease in the policy loss or the value loss, whichever is smaller, mean of l_+"
                  " and l_x", study.smaller_loss_decrease, _COMBINED, "above")
        for part in ("othello-5x5", "connect_four-5x5")
    ),
    *(
        _on_board("minimised-loss-lowest", part,
                  "the minimised loss is the lowest of the four, except when the sum is minimised.",
                  "lowest other loss minus the minimised loss at the end, minimum of l_p, l_v and"
                  " l_x", study.minimised_loss_margin, {}, "above", source=_CAPTIONS[part],
                  smallest_mean_of=[target for target in LOSS_SYMBOLS if target != "sum"])
        for part in ("othello-5x5", "othello-6x6")
    ),
    *(
        _on_board("value-loss-lowest", part,
                  "the value loss is the lowest of the four, whichever is minimised.",
                  "lowest other loss minus the value loss at the end, minimum of the four losses",
                  partial(study.loss_margin, "value"), {}, "above", source=_CAPTIONS[part],
                  smallest_mean_of=[*LOSS_SYMBOLS])
        for part in ("connect_four-5x5", "gobang-5x5")
    ),
    *(
        _on_board("rises", part, "training Elo rises with every loss.",
                  f"{_LAST_MINUS} first, minimum of the four losses", study.training_elo_change,
                  {}, "above", TRAINING_ELO_BIAS_CLAIM, smallest_mean_of=[*LOSS_SYMBOLS])
        for part in ("othello-5x5", "othello-6x6")
    ),
]  # fmt: skip
"""Claims about losses and training Elo on one board."""
