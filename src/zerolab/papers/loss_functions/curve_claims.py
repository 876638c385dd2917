"""Claims of [Wang2019] and [Wang2020a] about losses and training Elo during training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import NamedTuple

from zerolab.papers.elo import GAME_TITLES
from zerolab.papers.loss_functions.study import TARGETS
from zerolab.report.claims import Claim, Direction
from zerolab.studies.claims import MissingEstimate
from zerolab.studies.finished_work import TrainedRun
from zerolab.studies.joint_estimates import estimate_largest
from zerolab.studies.results import Results
from zerolab.studies.statistics import ClaimEstimate, mean_of, weighted_sum
from zerolab.training.records import GateRecord

SINGLE = 50.0
"""Smallest Elo difference of practical interest on one board."""
SMALLEST_LOSS = 0.1
"""Smallest loss difference of practical interest; published policy losses range from 0.4 to 2.5."""


def part_title(part: str) -> str:
    """Return the game and board size of a part, such as ``Othello 5x5``."""
    game, size = part.rsplit("-", 1)
    return f"{GAME_TITLES[game]} {size}"


BIAS_CLAIM = Claim(
    "training-elo-misleads",
    "Training Elo cannot replace a tournament: it hardly predicts the ranking of runs trained with"
    " the same loss.",
    "[Wang2019, section V-B], [Wang2020a, conclusion]",
    "rank correlation between training Elo and tournament Elo over runs trained with the same loss,"
    " mean over losses and boards",
    0.5,
    "below",
    0.2,
    figure="training-elo-final",
)
PRODUCT_BOARDS = ("othello-5x5", "othello-6x6", "connect_four-5x5")
"""Boards for which the papers compare minimising the product with minimising the sum."""
PRODUCT_CLAIM = Claim(
    "product-losses-like-sum",
    "In 5x5 and 6x6 Othello and in 5x5 Connect Four, minimising the product or the sum leads to the"
    " same policy loss and value loss.",
    "[Wang2019, section V-A], [Wang2020a, section 6.3.1]",
    "larger absolute difference between l_x and l_+ in final policy loss or final value loss, each"
    " averaged over the three boards",
    SMALLEST_LOSS,
    "below",
    SMALLEST_LOSS,
    figure="losses-othello",
)

SIZES_CLAIM = Claim(
    "losses-alike-on-6x6",
    "On 6x6 boards, the curves of the losses are very similar to those on 5x5 boards.",
    "[Wang2020a, section 6.3.1]",
    "decrease in a loss from the first to the last iteration, absolute difference between 6x6 and"
    " 5x5 boards, mean over the three games, largest of the eight combinations of policy loss or"
    " value loss and loss function",
    0.2,
    "below",
    SMALLEST_LOSS,
    PRODUCT_CLAIM.key,
    "losses-othello",
)


class CurveClaim(NamedTuple):
    """Claim about the losses or the training Elo of runs on one board."""

    claim: Claim
    part: str
    measure: Callable[[TrainedRun], float]
    weights: Mapping[str, float]
    """Weight of each loss function; a single weight of 1 tests the mean over that loss function's
    runs."""
    smallest_of: Sequence[str] = ()
    """Loss functions whose smallest mean is tested, instead of a weighted sum."""
    leader: str = ""
    """Loss function whose smallest lead over the others is tested, instead of a weighted sum."""


def final_loss(name: str, run: TrainedRun) -> float:
    """Return a loss at the end of training."""
    return run.last_epoch_losses[-1][name]


def _fall(name: str, run: TrainedRun) -> float:
    """Return the decrease in a loss from the first to the last iteration."""
    losses = run.last_epoch_losses
    return losses[0][name] - losses[-1][name]


def difference_between_sizes(results: Results) -> ClaimEstimate | MissingEstimate:
    """Return the largest absolute difference in mean decrease between 6x6 and 5x5 boards."""
    differences = []
    for name in ("policy", "value"):
        for target in TARGETS:
            terms = []
            for game in GAME_TITLES:
                for size, sign in (("6x6", 1.0), ("5x5", -1.0)):
                    part = f"{game}-{size}"
                    runs = results.runs_where(part, loss=target)
                    if not runs:
                        return MissingEstimate(
                            results.unfinished_message(part) or f"no runs of {part}"
                        )
                    fall = mean_of([_fall(name, run) for run in runs])
                    terms.append((sign / len(GAME_TITLES), fall))
            differences.append(weighted_sum(terms))
    negative = [each._replace(value=-each.value) for each in differences]
    return estimate_largest([*differences, *negative])


def _smaller_fall(run: TrainedRun) -> float:
    """Return the decrease in the policy loss or in the value loss, whichever is smaller."""
    return min(_fall("policy", run), _fall("value", run))


def late_fall(name: str, share: float, run: TrainedRun) -> float:
    """Return the decrease in a loss after the first `share` of the iterations."""
    losses = run.last_epoch_losses
    return losses[round(share * (len(losses) - 1))][name] - losses[-1][name]


def margin(run: TrainedRun) -> float:
    """Return the lowest other final loss minus the minimised one."""
    losses, target = run.last_epoch_losses[-1], str(run.factors["loss"])
    return min(losses[name] for name in TARGETS if name != target) - losses[target]


def value_margin(run: TrainedRun) -> float:
    """Return the lowest other final loss minus the final value loss."""
    losses = run.last_epoch_losses[-1]
    return min(losses[name] for name in TARGETS if name != "value") - losses["value"]


def _last_training_elo(run: TrainedRun) -> float:
    return run.training_elos[-1]


def candidate_elos(run: TrainedRun) -> list[float]:
    """Return the training Elo of every candidate, including rejected ones.

    Unlike the best network's Elo, it can fall.
    """
    gates = [gate for gate in run.records_of(GateRecord) if gate.candidate_elo is not None]
    return [gate.candidate_elo for gate in gates]


def elo_change(run: TrainedRun) -> float:
    """Return the candidates' mean training Elo in the last quarter minus that in the first."""
    elos = candidate_elos(run)
    quarter = max(1, len(elos) // 4)
    return fmean(elos[-quarter:]) - fmean(elos[:quarter])


def late_elo_change(run: TrainedRun) -> float:
    """Return the candidates' mean training Elo in the last quarter minus that in the second."""
    elos = candidate_elos(run)
    quarter = max(1, len(elos) // 4)
    return fmean(elos[-quarter:]) - fmean(elos[quarter : 2 * quarter] or elos[:1])


def _on_board(
    key: str,
    part: str,
    text: str,
    source: str,
    statistic: str,
    measure: Callable[[TrainedRun], float],
    weights: Mapping[str, float],
    direction: Direction,
    smallest: float,
    opened_by: Claim,
    smallest_of: Sequence[str] = (),
    leader: str = "",
) -> CurveClaim:
    losses = f"losses-{part.rpartition('-')[0].replace('_', '-')}"
    figure = "training-elo" if opened_by is BIAS_CLAIM else losses
    claim = Claim(
        f"{key}-{part}", f"In {part_title(part)}, {text}", source, statistic, 0.0, direction,
        smallest, opened_by.key, figure,
    )  # fmt: skip
    return CurveClaim(claim, part, measure, weights, smallest_of, leader)


_TRAINING_ELO = "[Wang2019, Fig. 5], [Wang2020a, Fig. 10]"
_LOSSES = "[Wang2019, Fig. 2], [Wang2020a, Fig. 7]"
_LARGE_OTHELLO_LOSSES = "[Wang2019, Fig. 3]"
_CONNECT_FOUR_LOSSES = "[Wang2019, Fig. 4], [Wang2020a, Fig. 8]"
_GOBANG_LOSSES = "[Wang2020a, Fig. 9]"
_GOBANG_TRAINING = "[Wang2020a, section 6.3.3, Fig. 10]"
_MEAN = dict.fromkeys(TARGETS, 0.25)
_COMBINED = {"sum": 0.5, "product": 0.5}


def _weights_against_others(loss: str) -> dict[str, float]:
    """Return the weights for a loss minus the mean of the others."""
    return {each: 1.0 if each == loss else -1 / 3 for each in TARGETS}


def _loss_falls(fallen: str, minimised: str, part: str, source: str) -> CurveClaim:
    """Return the claim that a loss falls while it or another loss is minimised."""
    own = fallen == minimised
    key = f"{fallen}-loss-falls" + ("" if own else f"-with-{minimised}")
    while_ = "while it is minimised" if own else f"too, while the {minimised} loss is minimised"
    return _on_board(
        key, part, f"the {fallen} loss falls{' ' if own else ', '}{while_}.", source,
        f"decrease in the {fallen} loss with {TARGETS[minimised]}", partial(_fall, fallen),
        {minimised: 1.0}, "above", SMALLEST_LOSS, PRODUCT_CLAIM,
    )  # fmt: skip


CURVE_CLAIMS: Sequence[CurveClaim] = [
    _on_board("degenerates", "connect_four-5x5",
              "training Elo degenerates: it falls during training, although the losses fall.",
              _TRAINING_ELO,
              "training Elo of candidates in the last quarter of the iterations minus that in the"
              " first, mean over the losses",
              elo_change, _MEAN, "below", SINGLE, BIAS_CLAIM),
    _on_board("combined-rise-faster", "othello-6x6",
              "training Elo rises faster with the sum or the product than with a single loss.",
              _TRAINING_ELO, "final training Elo, mean of l_+ and l_x minus mean of l_p and l_v",
              _last_training_elo, {"sum": 0.5, "product": 0.5, "policy": -0.5, "value": -0.5},
              "above", SINGLE, BIAS_CLAIM),
    _on_board("policy-rises-fastest", "othello-5x5",
              "training Elo rises fastest with the policy loss.", _TRAINING_ELO,
              "final training Elo of l_p minus that of l_v, l_+, l_x, smallest difference",
              _last_training_elo, {}, "above", SINGLE, BIAS_CLAIM, leader="policy"),
    *(
        _on_board("value-rises-highest", part,
                  "training Elo ends highest with the value loss.",
                  source, "final training Elo of l_v minus that of l_p, l_+, l_x, smallest"
                  " difference", _last_training_elo, {}, "above", SINGLE, BIAS_CLAIM,
                  leader="value")
        for part, source in (("connect_four-6x6", _TRAINING_ELO),
                             ("gobang-5x5", _GOBANG_TRAINING), ("gobang-6x6", _GOBANG_TRAINING))
    ),
    _on_board("rises", "connect_four-6x6", "training Elo still clearly improves.", _TRAINING_ELO,
              "training Elo of candidates in the last quarter of the iterations minus that in the"
              " first, mean over the losses",
              elo_change, _MEAN, "above", SINGLE, BIAS_CLAIM),
    _on_board("policy-stagnates", "connect_four-6x6",
              "training Elo soon stagnates, or improves very slowly, while the policy loss is"
              " minimised.", _TRAINING_ELO,
              "training Elo of candidates in the last quarter of the iterations minus that in the"
              " second, l_p minus the mean of the other losses", late_elo_change,
              _weights_against_others("policy"), "below", SINGLE, BIAS_CLAIM),
    *(
        _on_board("policy-loss-stays", part,
                  "the policy loss hardly changes while the value loss is minimised.", source,
                  "decrease in the policy loss with l_v", partial(_fall, "policy"), {"value": 1.0},
                  "equal to", 0.2, PRODUCT_CLAIM)
        for part, source in (("othello-5x5", _LOSSES), ("othello-6x6", _LARGE_OTHELLO_LOSSES))
    ),
    _on_board("policy-loss-stays", "connect_four-5x5",
              "the policy loss hardly changes while the value loss is minimised, after a slight"
              " decrease at the beginning.", _CONNECT_FOUR_LOSSES,
              "decrease in the policy loss with l_v after a tenth of the iterations",
              partial(late_fall, "policy", 0.1), {"value": 1.0}, "equal to", 0.2, PRODUCT_CLAIM),
    *(
        _on_board("value-loss-stagnates", part,
                  "the value loss stops changing early while the policy loss is minimised.", source,
                  f"decrease in the value loss with l_p after {100 * share:.0f} % of the"
                  " iterations",
                  partial(late_fall, "value", share), {"policy": 1.0}, "equal to", SMALLEST_LOSS,
                  PRODUCT_CLAIM)
        for part, share, source in (("othello-5x5", 0.05, _LOSSES),
                                    ("othello-6x6", 0.1, _LARGE_OTHELLO_LOSSES),
                                    ("connect_four-5x5", 0.25, _CONNECT_FOUR_LOSSES))
    ),
    *(
        _on_board("value-loss-vanishes", part,
                  "the value loss falls to about 0 while the sum or the product is minimised.",
                  source, "final value loss, mean of l_+ and l_x", partial(final_loss, "value"),
                  _COMBINED, "equal to", SMALLEST_LOSS, PRODUCT_CLAIM)
        for part, source in (("othello-5x5", _LOSSES), ("connect_four-5x5", _CONNECT_FOUR_LOSSES))
    ),
    _on_board("value-loss-vanishes-alone", "gobang-5x5",
              "the value loss falls to less than 0.1 while it is minimised.", _GOBANG_LOSSES,
              "final value loss with l_v", partial(final_loss, "value"), {"value": 1.0}, "equal to",
              SMALLEST_LOSS, PRODUCT_CLAIM),
    _on_board("value-loss-stationary", "gobang-5x5",
              "the value loss is stationary from the beginning while the sum or the product is"
              " minimised.",
              _GOBANG_LOSSES, "decrease in the value loss, mean of l_+ and l_x",
              partial(_fall, "value"), _COMBINED, "equal to", SMALLEST_LOSS, PRODUCT_CLAIM),
    _on_board("value-loss-returns", "othello-6x6",
              "the value loss ends about where it began while the sum or the product is minimised.",
              _LARGE_OTHELLO_LOSSES, "decrease in the value loss, mean of l_+ and l_x",
              partial(_fall, "value"), _COMBINED, "equal to", SMALLEST_LOSS, PRODUCT_CLAIM),
    _on_board("policy-loss-falls-combined", "othello-6x6",
              "the policy loss falls while the sum or the product is minimised.",
              _LARGE_OTHELLO_LOSSES, "decrease in the policy loss, mean of l_+ and l_x",
              partial(_fall, "policy"), _COMBINED, "above", SMALLEST_LOSS, PRODUCT_CLAIM),
    *(_loss_falls(*each) for each in (
        ("policy", "policy", "othello-5x5", _LOSSES),
        ("policy", "policy", "othello-6x6", _LARGE_OTHELLO_LOSSES),
        ("policy", "policy", "connect_four-5x5", _CONNECT_FOUR_LOSSES),
        ("policy", "policy", "gobang-5x5", _GOBANG_LOSSES),
        ("value", "value", "othello-5x5", _LOSSES),
        ("value", "value", "othello-6x6", _LARGE_OTHELLO_LOSSES),
        ("value", "value", "connect_four-5x5", _CONNECT_FOUR_LOSSES),
        ("value", "policy", "connect_four-5x5", _CONNECT_FOUR_LOSSES),
        ("value", "policy", "gobang-5x5", _GOBANG_LOSSES),
    )),
    *(
        _on_board("both-losses-fall", part,
                  "both losses fall while the sum or the product is minimised.", source,
                  "decrease in the policy loss or the value loss, whichever is smaller, mean of l_+"
                  " and l_x", _smaller_fall, _COMBINED, "above", SMALLEST_LOSS, PRODUCT_CLAIM)
        for part, source in (("othello-5x5", _LOSSES), ("connect_four-5x5", _CONNECT_FOUR_LOSSES))
    ),
    *(
        _on_board("minimised-loss-lowest", part,
                  "the minimised loss is the lowest of the four, except when the sum is minimised.",
                  source,
                  "lowest other loss minus the minimised loss at the end, smallest of l_p, l_v and"
                  " l_x", margin, {}, "above", SMALLEST_LOSS, PRODUCT_CLAIM,
                  smallest_of=[target for target in TARGETS if target != "sum"])
        for part, source in (("othello-5x5", _LOSSES), ("othello-6x6", _LARGE_OTHELLO_LOSSES))
    ),
    *(
        _on_board("value-loss-lowest", part,
                  "the value loss is the lowest of the four, whichever is minimised.", source,
                  "lowest other loss minus the value loss at the end, smallest of the four losses",
                  value_margin, {}, "above", SMALLEST_LOSS, PRODUCT_CLAIM,
                  smallest_of=[*TARGETS])
        for part, source in (("connect_four-5x5", _CONNECT_FOUR_LOSSES),
                             ("gobang-5x5", _GOBANG_LOSSES))
    ),
    *(
        _on_board("rises", part, "training Elo rises with every loss.", _TRAINING_ELO,
                  "training Elo of candidates in the last quarter of the iterations minus that in"
                  " the first, smallest of the four losses", elo_change, {}, "above", SINGLE,
                  BIAS_CLAIM, smallest_of=[*TARGETS])
        for part in ("othello-5x5", "othello-6x6")
    ),
]  # fmt: skip
"""Claims about losses and training Elo on one board."""
