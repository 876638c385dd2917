"""Expected effects of published bugs as claims that can be tested."""

from __future__ import annotations

from zerolab.report.claims import Claim

MIRROR = "mirrored-policy"
WINNER = "absolute-winner"


def _interaction(part: str, loss: str, text: str, source: str) -> Claim:
    return Claim(
        f"{part}-favours-{loss}",
        text,
        source,
        f"Elo of runs that minimise {loss} above those that minimise the sum: with the defect less"
        " without it",
        0.0,
        "above",
    )


MIRROR_CLAIM = _interaction(
    MIRROR, "value", "Unmirrored policies favour learning the value alone.", "[WangCode]"
)
WINNER_CLAIM = _interaction(
    WINNER, "policy", "Absolute winners favour learning the policy alone.", "[AZG]"
)
EASY_CLAIM = Claim(
    "absolute-winner-loss",
    "Absolute winners make the loss of the value less than half as large.",
    "[Wang2020a]",
    "loss of the value in the last epoch of runs that minimise the sum, with the defect divided by"
    " without",
    0.5,
    "below",
)
CLOSURE_CLAIM = Claim(
    "closure-hides-spread",
    "Sharing the last run's network hides how far runs differ.",
    "[WangCode]",
    "standard deviation of Elo within a loss, pooled over losses: between the names of one network"
    " divided by between runs with their own",
    1.0,
    "below",
)
LABEL_CLAIM = Claim(
    "labels-are-no-ceiling",
    "A perfect predictor scores less than 90 % on the defective labels.",
    "[Clausen2021, Table 1]",
    "share of the distinct held-out positions of the first data set whose label is the true"
    " outcome",
    0.9,
    "below",
)
