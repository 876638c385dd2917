"""Claims of [Wang2019] and [Wang2020a] about losses and training Elo during training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import NamedTuple

from zerolab.papers.elo import GAME_TITLES
from zerolab.papers.loss_functions.study import TARGETS
from zerolab.report.claims import Claim, Direction
from zerolab.studies.finished_work import TrainedRun
from zerolab.training.records import GateRecord

SINGLE = 50.0
"""Smallest Elo difference worth knowing on one board."""
SMALLEST_LOSS = 0.1
"""Smallest difference of losses worth knowing; published policy losses lie between 0.4 and 2.5."""


def part_title(part: str) -> str:
    """Return the game and board size of a part, such as ``Othello 5x5``."""
    game, size = part.rsplit("-", 1)
    return f"{GAME_TITLES[game]} {size}"


BIAS_CLAIM = Claim(
    "training-elo-misleads",
    "Training Elo cannot replace a tournament: it hardly predicts the ranking of the runs of a"
    " loss.",
    "[Wang2019], [Wang2020a, conclusion]",
    "rank correlation between training Elo and tournament Elo over the runs of a loss, mean over"
    " losses and boards",
    0.5,
    "below",
    0.2,
    figure="training-elo-final",
)
PRODUCT_CLAIM = Claim(
    "product-losses-like-sum",
    "Minimising the product or the sum leads to the same policy loss and value loss.",
    "[Wang2019, section V-A]",
    "policy loss plus value loss at the end, l_x minus l_+, mean over all boards",
    0.0,
    "equal to",
    SMALLEST_LOSS,
    figure="losses-othello",
)


class CurveClaim(NamedTuple):
    """Claim about the losses or the training Elo of runs on one board."""

    claim: Claim
    part: str
    measure: Callable[[TrainedRun], float]
    weights: Mapping[str, float]
    """Weight of each loss function; a single weight of 1 tests its mean."""


def final_loss(name: str, run: TrainedRun) -> float:
    """Return a loss at the end of training."""
    return run.last_epoch_losses[-1][name]


def _fall(name: str, run: TrainedRun) -> float:
    """Return the decrease of a loss from the first to the last iteration."""
    losses = run.last_epoch_losses
    return losses[0][name] - losses[-1][name]


def late_fall(name: str, share: float, run: TrainedRun) -> float:
    """Return the decrease of a loss after the first `share` of the iterations."""
    losses = run.last_epoch_losses
    return losses[round(share * (len(losses) - 1))][name] - losses[-1][name]


def margin(run: TrainedRun) -> float:
    """Return the lowest other final loss minus that which is minimised."""
    losses, target = run.last_epoch_losses[-1], str(run.factors["loss"])
    return min(losses[name] for name in TARGETS if name != target) - losses[target]


def _gap(run: TrainedRun) -> float:
    """Return the final policy loss minus the final value loss."""
    return final_loss("policy", run) - final_loss("value", run)


def _last_training_elo(run: TrainedRun) -> float:
    return run.training_elos[-1]


def candidate_elos(run: TrainedRun) -> list[float]:
    """Return the training Elo of every candidate, including rejected ones.

    Unlike that of the best network, it can fall.
    """
    gates = [gate for gate in run.records_of(GateRecord) if gate.candidate_elo is not None]
    return [gate.candidate_elo for gate in gates]


def elo_change(run: TrainedRun) -> float:
    """Return the candidates' mean training Elo in the last quarter minus that in the first."""
    elos = candidate_elos(run)
    quarter = max(1, len(elos) // 4)
    return fmean(elos[-quarter:]) - fmean(elos[:quarter])


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
) -> CurveClaim:
    losses = f"losses-{part.rpartition('-')[0].replace('_', '-')}"
    figure = "training-elo" if source == _TRAINING_ELO else losses
    claim = Claim(
        f"{key}-{part}", f"In {part_title(part)}, {text}", source, statistic, 0.0, direction,
        smallest, opened_by.key, figure,
    )  # fmt: skip
    return CurveClaim(claim, part, measure, weights)


_TRAINING_ELO = "[Wang2019, Fig. 5], [Wang2020a, Fig. 10]"
_LOSSES = "[Wang2019, Fig. 2], [Wang2020a, Fig. 7]"
_CONNECT_FOUR_LOSSES = "[Wang2019, Fig. 4], [Wang2020a, Fig. 8]"
_MEAN = dict.fromkeys(TARGETS, 0.25)

CURVE_CLAIMS: Sequence[CurveClaim] = [
    _on_board("degenerates", "connect_four-5x5",
              "training Elo degenerates: it falls during training.",
              _TRAINING_ELO,
              "training Elo of candidates in the last quarter of the iterations minus that in the"
              " first, mean over the losses",
              elo_change, _MEAN, "below", SINGLE, BIAS_CLAIM),
    _on_board("combined-rise-faster", "othello-6x6",
              "training Elo rises further with the sum or the product than with a single loss.",
              _TRAINING_ELO, "final training Elo, mean of l_+ and l_x minus mean of l_p and l_v",
              _last_training_elo, {"sum": 0.5, "product": 0.5, "policy": -0.5, "value": -0.5},
              "above", SINGLE, BIAS_CLAIM),
    _on_board("policy-rises-fastest", "othello-5x5",
              "training Elo rises furthest with the policy loss.", _TRAINING_ELO,
              "final training Elo of l_p minus the mean of the other losses", _last_training_elo,
              {"policy": 1.0, "value": -1 / 3, "sum": -1 / 3, "product": -1 / 3}, "above", SINGLE,
              BIAS_CLAIM),
    _on_board("value-rises-policy-stagnates", "connect_four-6x6",
              "training Elo rises further with the value loss than with the policy loss.",
              _TRAINING_ELO, "final training Elo of l_v minus that of l_p", _last_training_elo,
              {"value": 1.0, "policy": -1.0}, "above", SINGLE, BIAS_CLAIM),
    *(
        _on_board("policy-loss-stays", part,
                  "the policy loss hardly changes while the value loss is minimised.", source,
                  "decrease of the policy loss with l_v", partial(_fall, "policy"), {"value": 1.0},
                  "equal to", 0.2, PRODUCT_CLAIM)
        for part, source in (("othello-5x5", _LOSSES), ("othello-6x6", "[Wang2019, Fig. 3]"))
    ),
    _on_board("policy-loss-stays", "connect_four-5x5",
              "the policy loss hardly changes while the value loss is minimised, after a slight"
              " decrease at the beginning.", _CONNECT_FOUR_LOSSES,
              "decrease of the policy loss with l_v after a tenth of the iterations",
              partial(late_fall, "policy", 0.1), {"value": 1.0}, "equal to", 0.2, PRODUCT_CLAIM),
    *(
        _on_board("value-loss-stagnates", part,
                  "the value loss stops changing early while the policy loss is minimised.", source,
                  f"decrease of the value loss with l_p after {100 * share:.0f} % of the"
                  " iterations",
                  partial(late_fall, "value", share), {"policy": 1.0}, "equal to", SMALLEST_LOSS,
                  PRODUCT_CLAIM)
        for part, share, source in (("othello-5x5", 0.05, _LOSSES),
                                    ("othello-6x6", 0.1, "[Wang2019, Fig. 3]"))
    ),
    *(
        _on_board("value-loss-vanishes", part,
                  "the value loss falls to about 0 while the sum or the product is minimised.",
                  source, "final value loss, mean of l_+ and l_x", partial(final_loss, "value"),
                  {"sum": 0.5, "product": 0.5}, "equal to", SMALLEST_LOSS, PRODUCT_CLAIM)
        for part, source in (("othello-5x5", _LOSSES), ("connect_four-5x5", _CONNECT_FOUR_LOSSES))
    ),
    _on_board("value-loss-low-at-once", "gobang-5x5",
              "the value loss is low from the beginning while the sum or the product is minimised.",
              "[Wang2020a, Fig. 9]", "decrease of the value loss, mean of l_+ and l_x",
              partial(_fall, "value"), {"sum": 0.5, "product": 0.5}, "equal to", SMALLEST_LOSS,
              PRODUCT_CLAIM),
    _on_board("policy-loss-falls", "othello-5x5", "the policy loss falls while it is minimised.",
              _LOSSES, "decrease of the policy loss with l_p", partial(_fall, "policy"),
              {"policy": 1.0}, "above", SMALLEST_LOSS, PRODUCT_CLAIM),
    _on_board("both-losses-fall", "othello-5x5", "both losses fall while the sum is minimised.",
              _LOSSES, "decrease of policy loss plus value loss with l_+",
              lambda run: _fall("policy", run) + _fall("value", run), {"sum": 1.0}, "above",
              SMALLEST_LOSS, PRODUCT_CLAIM),
    *(
        _on_board("value-loss-lowest", part, "the value loss is always the lower one.", source,
                  "final policy loss minus final value loss, mean over the losses", _gap, _MEAN,
                  "above", SMALLEST_LOSS, PRODUCT_CLAIM)
        for part, source in (("connect_four-5x5", "[Wang2020a, Fig. 8]"),
                             ("gobang-5x5", "[Wang2020a, Fig. 9]"))
    ),
]  # fmt: skip
"""Claims about losses and training Elo on one board."""

LOWEST_CLAIMS = {
    part: Claim(
        f"minimised-loss-lowest-{part}",
        f"In {part_title(part)}, the minimised loss is the lowest of the four, except for the sum.",
        source,
        "lowest other loss minus the minimised loss at the end, smallest of l_p, l_v and l_x",
        0.0,
        "above",
        SMALLEST_LOSS,
        PRODUCT_CLAIM.key,
        "losses-othello",
    )
    for part, source in (("othello-5x5", _LOSSES), ("othello-6x6", "[Wang2019, Fig. 3]"))
}
"""Claims that the minimised loss is the lowest, by board."""
