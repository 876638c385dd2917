"""When a trained candidate replaces the best network: one type per criterion.

Another package adds one by registering it in `GATES` from a module that the entry-point group
``zerolab.training`` names.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from zerolab.core.config import Choice, require_even
from zerolab.core.registry import Registry
from zerolab.ratings.score import Score


class Gate(Choice):
    """Base of gates: the games that candidate and best network play, and the verdict on them."""

    games: int = Field(default=40, ge=2, le=1_000_000)
    """n: games per iteration, half of them with each colour. [Wang2019], [Wang2020a], [Wang2020b]:
    40 ([Wang2020a] sweeps 20 to 100); [Hongcharoen2018]: 100."""

    openings: int = Field(default=0, ge=0, le=1000)
    """Random plies at the start of a game, so that games differ; each opening is played twice, with
    colours exchanged. The papers: 0, which lets two networks without randomness repeat games."""

    @field_validator("games")
    @classmethod
    def _even(cls, games: int) -> int:
        return require_even(games)

    def accepts(self, score: Score, los: float) -> bool:
        """Return whether the candidate replaces the best network.

        `score` is the candidate's in all games, `los` the likelihood that it is stronger, judged
        from distinct games.
        """
        raise NotImplementedError


GATES: Registry[type[Gate]] = Registry("gate")


class WinRate(Gate):
    """Accepts a candidate that wins a share of the decisive games.

    Accepted if wins / (wins + losses) >= u: draws are ignored, and without a decisive game the
    candidate is rejected, as in [AZG].
    """

    name: Literal["win_rate"] = "win_rate"

    threshold: float = Field(default=0.6, ge=0, le=1)
    """u: the least share of the decisive games that a candidate has to win. [Wang2019],
    [Wang2020a], [Wang2020b]: 0.6 ([Wang2020a] sweeps 0.5 to 0.7);
    [Hongcharoen2018]: 0.55."""

    def accepts(self, score: Score, los: float) -> bool:
        """See `Gate.accepts`."""
        decisive = score.wins + score.losses
        return decisive > 0 and score.wins / decisive >= self.threshold


class Los(Gate):
    """Accepts a candidate that its games show to be stronger with some likelihood.

    The likelihood of superiority is that of the model of [BayesElo]. Games start from paired random
    openings, and a repeated game counts once: otherwise a few games, played again and again, would
    pass for much evidence.
    """

    name: Literal["los"] = "los"

    openings: int = Field(default=4, ge=1, le=1000)
    """Random plies at the start of a game; each opening is played twice, with colours exchanged."""

    min_los: float = Field(default=0.95, ge=0.5, lt=1)
    """The likelihood of superiority that a candidate needs."""

    def accepts(self, score: Score, los: float) -> bool:
        """See `Gate.accepts`."""
        return los >= self.min_los


class Always(Gate):
    """Accepts every candidate, as in the factorial part of [Wang2020a] and in [Silver2018].

    Games, if there are any, only measure the training Elo.
    """

    name: Literal["always"] = "always"

    games: int = Field(default=0, ge=0, le=1_000_000)
    """Games per iteration. [Wang2020a]: 0."""

    def accepts(self, score: Score, los: float) -> bool:
        """See `Gate.accepts`."""
        return True


for _kind in (WinRate, Los, Always):
    GATES.add(_kind.model_fields["name"].default, _kind)
