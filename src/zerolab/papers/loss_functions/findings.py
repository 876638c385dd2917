"""Claims of [Wang2019] and [Wang2020a] about loss functions, and their statistics."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import NamedTuple

from zerolab.papers.elo import (
    GAME_TITLES,
    RunElos,
    fit_elo,
    observed_elo_correlation,
    removed_runs_note,
    run_elos,
    standard_error,
    unfinished_tournaments_note,
)
from zerolab.papers.loss_functions.study import TARGETS
from zerolab.papers.run_models import contrast, fit_runs, smallest_lead
from zerolab.papers.solved_accuracy import fit_accuracy
from zerolab.report.claims import Claim, Direction
from zerolab.studies.block_model import GamesModel
from zerolab.studies.claims import MissingEstimate
from zerolab.studies.finished_work import TrainedRun
from zerolab.studies.joint_estimates import estimate_largest, estimate_smallest
from zerolab.studies.results import Results
from zerolab.studies.statistics import ClaimEstimate, StudentEstimate, mean_of, weighted_sum
from zerolab.training.records import GateRecord

_FIGURE = "[Wang2019], [Wang2020a, Fig. 11]"
_POOLED, _SINGLE = 30.0, 50.0
"""Smallest Elo difference worth knowing, over several boards and on one board."""
_CLAIMED_BOARDS = ("othello-6x6", "connect_four-5x5", "connect_four-6x6")
"""Boards on which the papers find the value loss best."""
_SUM_BOARDS = ("othello-5x5", *_CLAIMED_BOARDS)
"""Boards on which the papers find the value loss better than the sum; they except Gobang."""
_SMALLEST_LOSS = 0.1  # worth knowing; the published policy losses lie between 0.4 and 2.5


def part_title(part: str) -> str:
    """Return the game and board size of a part, such as ``Othello 5x5``."""
    game, size = part.rsplit("-", 1)
    return f"{GAME_TITLES[game]} {size}"


def _leads(loss: str) -> str:
    others = ", ".join(symbol for target, symbol in TARGETS.items() if target != loss)
    return f"tournament Elo of {TARGETS[loss]} minus that of {others}, smallest difference"


VALUE_CLAIM = Claim(
    "value-loss-best",
    "In 6x6 Othello and in 5x5 and 6x6 Connect Four, minimising the value loss alone trains the"
    " strongest players.",
    _FIGURE,
    f"{_leads('value')}, mean over the three boards",
    0.0,
    "above",
    _POOLED,
    figure="tournament-elo",
)
SUM_CLAIM = Claim(
    "value-above-sum",
    "On small boards of Othello and Connect Four, minimising the value loss trains stronger players"
    " than the usual sum.",
    "[Wang2019, abstract], [Wang2020a, conclusion]",
    "tournament Elo of l_v minus that of l_+, mean over the four boards",
    0.0,
    "above",
    _POOLED,
    figure="tournament-elo",
)
POLICY_CLAIM = Claim(
    "policy-best-gobang-6x6",
    "In 6x6 Gobang, minimising the policy loss alone trains the strongest players.",
    "[Wang2020a, Fig. 11, section 6.3]",
    _leads("policy"),
    0.0,
    "above",
    _SINGLE,
    figure="tournament-elo",
)
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
    _SMALLEST_LOSS,
    figure="losses-othello",
)


class _LossClaim(NamedTuple):
    """Claim about the losses or the training Elo of runs on one board."""

    claim: Claim
    part: str
    measure: Callable[[TrainedRun], float]
    weights: Mapping[str, float]
    """Weight of each loss function; a single weight of 1 tests its mean."""


def _final(name: str, run: TrainedRun) -> float:
    return run.last_epoch_losses[-1][name]


def _fall(name: str, run: TrainedRun) -> float:
    """Return the decrease of a loss from the first to the last iteration."""
    losses = run.last_epoch_losses
    return losses[0][name] - losses[-1][name]


def _late_fall(name: str, share: float, run: TrainedRun) -> float:
    """Return the decrease of a loss after the first `share` of the iterations."""
    losses = run.last_epoch_losses
    return losses[round(share * (len(losses) - 1))][name] - losses[-1][name]


def _margin(run: TrainedRun) -> float:
    """Return the lowest other final loss minus that which is minimised."""
    losses, target = run.last_epoch_losses[-1], str(run.factors["loss"])
    return min(losses[name] for name in TARGETS if name != target) - losses[target]


def _gap(run: TrainedRun) -> float:
    """Return the final policy loss minus the final value loss."""
    return _final("policy", run) - _final("value", run)


def _last_training_elo(run: TrainedRun) -> float:
    return run.training_elos[-1]


def candidate_elos(run: TrainedRun) -> list[float]:
    """Return the training Elo of every candidate, including rejected ones.

    Unlike that of the best network, it can fall.
    """
    gates = [gate for gate in run.records_of(GateRecord) if gate.candidate_elo is not None]
    return [gate.candidate_elo for gate in gates]


def _elo_change(run: TrainedRun) -> float:
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
) -> _LossClaim:
    losses = f"losses-{part.rpartition('-')[0].replace('_', '-')}"
    figure = "training-elo" if source == _TRAINING_ELO else losses
    claim = Claim(
        f"{key}-{part}", f"In {part_title(part)}, {text}", source, statistic, 0.0, direction,
        smallest, opened_by.key, figure,
    )  # fmt: skip
    return _LossClaim(claim, part, measure, weights)


_TRAINING_ELO = "[Wang2019, Fig. 5], [Wang2020a, Fig. 10]"
_LOSSES = "[Wang2019, Fig. 2], [Wang2020a, Fig. 7]"
_CONNECT_FOUR_LOSSES = "[Wang2019, Fig. 4], [Wang2020a, Fig. 8]"
_MEAN = dict.fromkeys(TARGETS, 0.25)

LOSS_CLAIMS: Sequence[_LossClaim] = [
    _on_board("degenerates", "connect_four-5x5",
              "training Elo degenerates: it falls during training.",
              _TRAINING_ELO,
              "training Elo of candidates in the last quarter of the iterations minus that in the"
              " first, mean over the losses",
              _elo_change, _MEAN, "below", _SINGLE, BIAS_CLAIM),
    _on_board("combined-rise-faster", "othello-6x6",
              "training Elo rises further with the sum or the product than with a single loss.",
              _TRAINING_ELO, "final training Elo, mean of l_+ and l_x minus mean of l_p and l_v",
              _last_training_elo, {"sum": 0.5, "product": 0.5, "policy": -0.5, "value": -0.5},
              "above", _SINGLE, BIAS_CLAIM),
    _on_board("policy-rises-fastest", "othello-5x5",
              "training Elo rises furthest with the policy loss.", _TRAINING_ELO,
              "final training Elo of l_p minus the mean of the other losses", _last_training_elo,
              {"policy": 1.0, "value": -1 / 3, "sum": -1 / 3, "product": -1 / 3}, "above", _SINGLE,
              BIAS_CLAIM),
    _on_board("value-rises-policy-stagnates", "connect_four-6x6",
              "training Elo rises further with the value loss than with the policy loss.",
              _TRAINING_ELO, "final training Elo of l_v minus that of l_p", _last_training_elo,
              {"value": 1.0, "policy": -1.0}, "above", _SINGLE, BIAS_CLAIM),
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
              partial(_late_fall, "policy", 0.1), {"value": 1.0}, "equal to", 0.2, PRODUCT_CLAIM),
    *(
        _on_board("value-loss-stagnates", part,
                  "the value loss stops changing early while the policy loss is minimised.", source,
                  f"decrease of the value loss with l_p after {100 * share:.0f} % of the"
                  " iterations",
                  partial(_late_fall, "value", share), {"policy": 1.0}, "equal to", _SMALLEST_LOSS,
                  PRODUCT_CLAIM)
        for part, share, source in (("othello-5x5", 0.05, _LOSSES),
                                    ("othello-6x6", 0.1, "[Wang2019, Fig. 3]"))
    ),
    *(
        _on_board("value-loss-vanishes", part,
                  "the value loss falls to about 0 while the sum or the product is minimised.",
                  source, "final value loss, mean of l_+ and l_x", partial(_final, "value"),
                  {"sum": 0.5, "product": 0.5}, "equal to", _SMALLEST_LOSS, PRODUCT_CLAIM)
        for part, source in (("othello-5x5", _LOSSES), ("connect_four-5x5", _CONNECT_FOUR_LOSSES))
    ),
    _on_board("value-loss-low-at-once", "gobang-5x5",
              "the value loss is low from the beginning while the sum or the product is minimised.",
              "[Wang2020a, Fig. 9]", "decrease of the value loss, mean of l_+ and l_x",
              partial(_fall, "value"), {"sum": 0.5, "product": 0.5}, "equal to", _SMALLEST_LOSS,
              PRODUCT_CLAIM),
    _on_board("policy-loss-falls", "othello-5x5", "the policy loss falls while it is minimised.",
              _LOSSES, "decrease of the policy loss with l_p", partial(_fall, "policy"),
              {"policy": 1.0}, "above", _SMALLEST_LOSS, PRODUCT_CLAIM),
    _on_board("both-losses-fall", "othello-5x5", "both losses fall while the sum is minimised.",
              _LOSSES, "decrease of policy loss plus value loss with l_+",
              lambda run: _fall("policy", run) + _fall("value", run), {"sum": 1.0}, "above",
              _SMALLEST_LOSS, PRODUCT_CLAIM),
    *(
        _on_board("value-loss-lowest", part, "the value loss is always the lower one.", source,
                  "final policy loss minus final value loss, mean over the losses", _gap, _MEAN,
                  "above", _SMALLEST_LOSS, PRODUCT_CLAIM)
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
        _SMALLEST_LOSS,
        PRODUCT_CLAIM.key,
        "losses-othello",
    )
    for part, source in (("othello-5x5", _LOSSES), ("othello-6x6", "[Wang2019, Fig. 3]"))
}
"""Claims that the minimised loss is the lowest, by board."""

BEST_ON_BOARD = {
    part: Claim(
        f"value-best-{part}",
        f"In {part_title(part)}, minimising the value loss alone trains the strongest players.",
        _FIGURE,
        _leads("value"),
        0.0,
        "above",
        _SINGLE,
        VALUE_CLAIM.key,
        "tournament-elo",
    )
    for part in _CLAIMED_BOARDS
}
SMALL_CLAIM = Claim(
    "small-differences-othello-5x5",
    "In Othello 5x5, the difference between the losses is small.",
    _FIGURE,
    "largest absolute difference between the mean tournament Elo of two losses",
    100.0,
    "below",
    _SINGLE,
    VALUE_CLAIM.key,
    figure="tournament-elo",
)
LEARNING_CLAIM = Claim(
    "all-learn",
    "With every loss, players become stronger than Random.",
    "zerolab, on [Wang2020a, Fig. 11]",
    "mean Elo relative to Random of the weakest combination of board and loss",
    0.0,
    "above",
    _SINGLE,
    SUM_CLAIM.key,
    figure="tournament-elo",
)
ACCURACY_CLAIM = Claim(
    "value-above-sum-accuracy",
    "According to a solver, minimising the value loss trains better players than the sum.",
    "zerolab, on [Wang2020a]",
    "strong accuracy of search on solved positions, l_v minus l_+, mean over the four boards of"
    " Othello and Connect Four",
    0.0,
    "above",
    0.01,
    SUM_CLAIM.key,
    "accuracy",
)


def loss_statistics(results: Results) -> dict[Claim, ClaimEstimate | MissingEstimate]:
    """Return the statistic of each claim, or the reason why it is missing."""
    boards = list(dict.fromkeys(run.part for run in results.design.runs))
    everywhere = fit_elo(results, boards, "loss", list(TARGETS))

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
        BIAS_CLAIM: training_elo_correlation(results),
        PRODUCT_CLAIM: contrast(
            _fit(results, boards, lambda run: _final("policy", run) + _final("value", run)),
            {"product": 1.0, "sum": -1.0},
        ),
        **{
            claim: smallest_lead(elo_on([part]), "value", _rivals("value"), [part])
            for part, claim in BEST_ON_BOARD.items()
        },
        SMALL_CLAIM: _largest_difference(elo_on(["othello-5x5"]), "othello-5x5"),
        LEARNING_CLAIM: weakest_elo(results, boards),
        **{each.claim: _loss_statistic(results, each) for each in LOSS_CLAIMS},
        **{claim: _smallest_margin(results, part) for part, claim in LOWEST_CLAIMS.items()},
    }


def _rivals(loss: str) -> list[str]:
    return [each for each in TARGETS if each != loss]


def _fit(
    results: Results, parts: Sequence[str], measure: Callable[[TrainedRun], float]
) -> GamesModel | MissingEstimate:
    return fit_runs(results, parts, "loss", list(TARGETS), measure)


def _loss_statistic(results: Results, claimed: _LossClaim) -> ClaimEstimate | MissingEstimate:
    model = _fit(results, [claimed.part], claimed.measure)
    if isinstance(model, MissingEstimate):
        return model
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


def _smallest_margin(results: Results, part: str) -> ClaimEstimate | MissingEstimate:
    if isinstance(missing := _fit(results, [part], _margin), MissingEstimate):
        return missing
    targets = [target for target in TARGETS if target != "sum"]
    return estimate_smallest(
        [
            mean_of([_margin(run) for run in results.runs_where(part, loss=target)])
            for target in targets
        ]
    )


def _largest_difference(
    model: GamesModel | MissingEstimate, part: str
) -> ClaimEstimate | MissingEstimate:
    if isinstance(model, MissingEstimate):
        return model
    pairs = [(one, other) for one in TARGETS for other in TARGETS if one != other]
    return estimate_largest(
        [model.contrast({one: 1.0, other: -1.0}, [part]) for one, other in pairs]
    )


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
    """Return the mean correlation between training Elo and tournament Elo, within losses."""
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
