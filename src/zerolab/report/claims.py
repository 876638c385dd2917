"""Claims of papers and the verdicts on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from zerolab.report.table import P_VALUE_FORMAT, Cell, Column, Interval, Table

Direction = Literal["above", "below", "equal to", "not below", "not above"]
"""Relation between the true statistic and the threshold of a claim.

A statistic is *equal to* the threshold if it differs by less than the smallest effect of
interest, and *not below* or *not above* it if it is on the wrong side by at most that effect."""

VerdictWord = Literal["holds", "does not hold", "equal", "undecided", "no data"]


@dataclass(frozen=True)
class Claim:
    """Published finding, or one of our own questions, and the statistic that tests it."""

    key: str
    """Short name, such as ``value-loss-best``."""
    text: str
    """Finding in one sentence."""
    source: str
    """Source of the finding, such as ``[Wang2021b, Fig. 5.1]``; for a question of our own,
    ``zerolab``, followed by a comma and the publication it is about, if any."""
    statistic: str
    """Description of the statistic, with its runs and its unit."""
    threshold: float
    """Value with which the claim compares the statistic."""
    direction: Direction
    """Relation of the statistic to the threshold that the claim asserts."""
    smallest_effect: float
    """Smallest difference from the threshold that is of interest, above 0."""
    gatekeeper: str = ""
    """Key of the primary claim that must be decided before this claim is tested; empty for a
    primary claim."""
    figure: str = ""
    """Name of the report's figure that shows the statistic; empty for the report as a whole."""

    def __post_init__(self) -> None:
        if not self.smallest_effect > 0.0:
            raise ValueError(
                f"{self.key}: smallest_effect = {self.smallest_effect}: expected a positive number"
            )

    @property
    def is_primary(self) -> bool:
        """True if the claim is tested first."""
        return not self.gatekeeper

    @property
    def is_published(self) -> bool:
        """True if the finding is published, False if the question is our own."""
        return not self.source.startswith("zerolab")

    @property
    def claimed_relation(self) -> str:
        """Claimed relation in words, such as ``above 0`` or ``equal to 0 within 50``."""
        within = "" if self.direction in ("above", "below") else f" within {self.smallest_effect:g}"
        return f"{self.direction} {self.threshold:g}{within}"

    @property
    def claimed_range(self) -> tuple[float, float]:
        """Ends of the range of values for which the claim holds; unbounded ends are infinite."""
        match self.direction:
            case "above":
                return self.threshold, math.inf
            case "below":
                return -math.inf, self.threshold
            case "not below":
                return self.threshold - self.smallest_effect, math.inf
            case "not above":
                return -math.inf, self.threshold + self.smallest_effect
            case "equal to":
                return self.threshold - self.smallest_effect, self.threshold + self.smallest_effect


@dataclass(frozen=True)
class Verdict:
    """Result of testing a claim."""

    claim: Claim
    estimate: Interval | None
    """Estimate of the statistic; None without data."""
    p_value: float | None
    """p-value of the decision: the smallest of those for the claimed relation, its opposite and
    equality; None without data."""
    adjusted_p_value: float | None
    """`p_value` adjusted for the number of claims in the family [Holm1979]."""
    word: VerdictWord
    """Verdict in words."""
    note: str = ""
    """Reason for a missing test, for missing data, or for no decision despite a small `p_value`."""
    power: float | None = None
    """Probability of the correct decision if the true statistic differs from the threshold by
    `Claim.smallest_effect` or, for claims of equality and non-inferiority, equals the threshold.
    None if unknown."""
    detectable_effect: float | None = None
    """Value of `Claim.smallest_effect` for which `power` would be 80 %; None if unknown."""
    needed_seeds: int | None = None
    """Number of seeds with which `power` would be 80 %; None if decided or unknown."""
    needed_hours: float | None = None
    """Core hours for the seeds still missing; None if decided or unknown."""

    @property
    def is_decided(self) -> bool:
        """True if the claim holds or does not hold, or if the statistic equals the threshold."""
        return self.word in ("holds", "does not hold", "equal")

    @property
    def title(self) -> str:
        """Verdict in words, with the bound of an equality."""
        if self.word != "equal":
            return self.word
        threshold = f" to {self.claim.threshold:g}" if self.claim.threshold else ""
        return f"equal{threshold} within {self.claim.smallest_effect:g}"

    def as_dict(self) -> dict[str, Any]:
        """Return all fields for JSON; unknown ends of intervals are None."""
        estimate = self.estimate
        return {
            "key": self.claim.key,
            "claim": self.claim.text,
            "source": self.claim.source,
            "statistic": self.claim.statistic,
            "threshold": self.claim.threshold,
            "direction": self.claim.direction,
            "smallest": self.claim.smallest_effect,
            "primary": self.claim.is_primary,
            "value": None if estimate is None else estimate.value,
            "low": None if estimate is None else _finite_number(estimate.low),
            "high": None if estimate is None else _finite_number(estimate.high),
            "p": self.p_value,
            "adjusted_p": self.adjusted_p_value,
            "verdict": self.word,
            "note": self.note,
            "power": self.power,
            "detectable": self.detectable_effect,
            "needed_seeds": self.needed_seeds,
            "needed_hours": self.needed_hours,
        }


def _finite_number(number: float) -> float | None:
    return number if math.isfinite(number) else None


@dataclass(frozen=True)
class ClaimTable:
    """Verdicts on the claims of a study."""

    verdicts: Sequence[Verdict]
    name: str = "claims"

    def as_table(self) -> Table:
        """Return the verdicts as a table."""
        columns: list[str | Column] = [
            "key", "claim", "source", "statistic", "claimed", "primary", "found",
            Column("p", P_VALUE_FORMAT), Column("adjusted p", P_VALUE_FORMAT), "verdict", "note",
            Column("smallest effect of interest", "g"), Column("power", ".0%"),
            Column("effect detectable with 80 % power", ".2g"), "seeds needed",
            Column("core hours needed", ".3g"),
        ]  # fmt: skip
        rows: list[list[Cell]] = [
            [
                each.claim.key, each.claim.text, each.claim.source, each.claim.statistic,
                each.claim.claimed_relation, "yes" if each.claim.is_primary else "no",
                each.estimate, each.p_value, each.adjusted_p_value, each.title, each.note,
                each.claim.smallest_effect, each.power,
                each.detectable_effect, each.needed_seeds, each.needed_hours,
            ]
            for each in self.verdicts
        ]  # fmt: skip
        return Table(self.name, "Claims", columns, rows)
