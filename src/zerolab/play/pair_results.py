"""Pairwise results: points, cross tables, cycles, and goodness of fit of the ratings.

Ratings order players linearly and cannot express that A beats B, B beats C and C beats A. This
module finds such cycles in a tournament and compares pairwise results with those that the ratings
predict.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.ratings.bayes import ELO_PER_NATURAL_UNIT
from zerolab.ratings.ratings import Ratings
from zerolab.ratings.results import (
    EffectiveScore,
    MatchScore,
    distinct_games,
    effective_game_count,
    effective_score_of,
    score_of,
)
from zerolab.report.table import Interval
from zerolab.store.games import GameRecord

Floats = NDArray[np.float64]


class PairResult(NamedTuple):
    """The results of all games between two agents."""

    first: str
    """Agent whose scores are given, regardless of who moves first. In the results of
    `pair_results`, it is the agent whose name comes first alphabetically."""
    second: str
    score: MatchScore
    """Score of `first` over all games."""
    effective_score: EffectiveScore
    """Effective numbers of games that `first` won, drew and lost."""
    moved_first_count: int
    """Number of games in which `first` moved first."""

    def __repr__(self) -> str:
        won, drawn, lost = self.score
        return f"<PairResult {self.first} against {self.second}: +{won} ={drawn} -{lost}>"

    @property
    def effective_games(self) -> float:
        """Effective number of games; see `EffectiveScore`."""
        return self.effective_score.total(self.score)

    @property
    def interval(self) -> Interval:
        """Score rate of `first` with its Wilson 95 % interval, which repeated games widen."""
        return self.score.interval(self.effective_games)

    def as_dict(self) -> dict[str, Any]:
        """Return the score of `first` over all games, with its interval, for JSON."""
        score_rate, low, high = self.interval
        return {
            **self.score._asdict(),
            "score_rate": score_rate,
            "low": low,
            "high": high,
            "effective_games": self.effective_games,
        }


class GameCounts(NamedTuple):
    """Counts over all games of a tournament or match."""

    game_count: int
    distinct_count: int
    """Number of distinct games. The same moves by another pair, or with colours swapped, count as a
    different game."""
    first_player_score: MatchScore
    """Total score of the players that moved first."""
    effective_count: float
    """Effective number of games; see `EffectiveScore`."""
    forfeit_counts: dict[str, int]
    """Number of forfeited games by agent, without agents that forfeited none."""


def count_games(games: Sequence[GameRecord]) -> GameCounts:
    """Count games, distinct games, results of the players that moved first, and forfeits."""
    forfeits = Counter(game.last_mover for game in games if game.is_forfeited)
    results = [game.result for game in games]
    return GameCounts(
        len(games),
        len(distinct_games(games)),
        MatchScore(results.count(1), results.count(0), results.count(-1)),
        effective_game_count(games),
        dict(sorted(forfeits.items())),
    )


def pair_results(games: Sequence[GameRecord]) -> list[PairResult]:
    """Return the results of all pairs that played each other, in alphabetical order."""
    pairs: dict[tuple[str, str], list[GameRecord]] = {}
    for game in games:
        pairs.setdefault((min(game[1:3]), max(game[1:3])), []).append(game)
    return [pair_result(*names, played) for names, played in sorted(pairs.items())]


def pair_result(first: str, second: str, games: Sequence[GameRecord]) -> PairResult:
    """Return the result of a pair's games from the point of view of `first`."""
    moved_first = sum(game.first == first for game in games)
    effective_score = effective_score_of(first, games)
    return PairResult(first, second, score_of(first, games), effective_score, moved_first)


def cross_table(agents: Sequence[str], pairs: Sequence[PairResult]) -> Floats:
    """Return the points per game of agent i against agent j, float64[n, n]; NaN without games."""
    number = {name: i for i, name in enumerate(agents)}
    table = np.full((len(agents), len(agents)), np.nan)
    for pair in pairs:
        i, j = number[pair.first], number[pair.second]
        table[i, j], table[j, i] = pair.score.score_rate, 1.0 - pair.score.score_rate
    return table


SIGNIFICANCE_LEVEL = 0.05
"""Significance level of sign tests."""


class Cycle(NamedTuple):
    """Cycle of three players: each beats the next, and the last beats the first."""

    players: tuple[str, str, str]
    p_values: tuple[float, float, float]
    """P-values of the sign tests of the three pairs, in player order."""


class CycleStatistics(NamedTuple):
    """Numbers of triples of players who played each other, and of cycles among these triples."""

    triple_count: int
    decided_count: int
    """Number of triples in which every pair has a winner on points."""
    cyclic_count: int
    """Number of decided triples that form a cycle on points, whether significant or not."""
    significant_cycles: list[Cycle]
    """Cycles in which all three sign tests reject equality, strongest evidence first."""
    max_expected_by_chance: float
    """Upper bound on the expected number of significant cycles if all players are equal."""

    @property
    def cyclic_fraction(self) -> float | None:
        """Fraction of decided triples that are cyclic; 1/4 is expected from coin tosses."""
        return self.cyclic_count / self.decided_count if self.decided_count else None


def sign_test(pair: PairResult) -> float:
    """Return the two-sided p-value for equally likely wins and losses, ignoring draws.

    It is exact unless games are repeated. Then the regularised incomplete beta function extends the
    binomial tail to fractional effective numbers of games.
    """
    from scipy.special import betainc  # noqa: PLC0415  slow to import

    wins, _, losses = pair.score
    if not wins + losses:
        return 1.0
    weight = pair.effective_score.decisive(pair.score) / (wins + losses)
    extreme, other = weight * max(wins, losses), weight * min(wins, losses)
    return min(1.0, 2 * float(betainc(extreme, other + 1, 0.5)))


def find_cycles(
    pairs: Sequence[PairResult], significance_level: float = SIGNIFICANCE_LEVEL
) -> CycleStatistics:
    """Find cycles among all triples of players; sign tests use effective numbers of games."""
    players = sorted({name for pair in pairs for name in pair[:2]})
    points = cross_table(players, pairs)
    has_games = ~np.isnan(points)
    beats = has_games & (np.nan_to_num(points) > 0.5)
    p_values, stronger = _sign_tests(players, pairs, significance_level)
    significant = [
        Cycle(
            (players[i], players[j], players[k]), (p_values[i, j], p_values[j, k], p_values[k, i])
        )
        for i, j, k in _directed_triangles(stronger)
    ]
    triples = _closed_walks(has_games) // 6
    return CycleStatistics(
        triples,
        _closed_walks(beats | beats.T) // 6,
        _closed_walks(beats) // 3,
        sorted(significant, key=lambda cycle: max(cycle.p_values)),
        triples * 2 * (significance_level / 2) ** 3,
    )


def _sign_tests(
    players: Sequence[str], pairs: Sequence[PairResult], significance_level: float
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return p-values of pairs, float64, and whether player i is significantly stronger, bool.

    Both arrays have the shape [n, n]. The p-value of a pair without games is 1.
    """
    number = {name: i for i, name in enumerate(players)}
    p_values = np.ones((len(players), len(players)))
    stronger = np.zeros(p_values.shape, np.bool_)
    for pair in pairs:
        i, j = number[pair.first], number[pair.second]
        p_values[i, j] = p_values[j, i] = sign_test(pair)
        ahead = pair.score.wins > pair.score.losses
        stronger[(i, j) if ahead else (j, i)] = p_values[i, j] < significance_level
    return p_values, stronger


def _closed_walks(edges: NDArray[np.bool_]) -> int:
    """Return the number of closed walks of length three in a directed graph."""
    steps = edges.astype(np.int64)
    return int(np.trace(steps @ steps @ steps))


def _directed_triangles(edges: NDArray[np.bool_]) -> list[tuple[int, int, int]]:
    """Return all directed cycles of length three, each starting at its lowest index."""
    triangles = []
    for i, j in zip(*(side.tolist() for side in np.nonzero(edges)), strict=True):
        if i < j:
            ends = np.flatnonzero(edges[j] & edges[:, i]).tolist()
            triangles += [(i, j, k) for k in ends if k > i]
    return triangles


class PairResidual(NamedTuple):
    """Deviation of a pair's points from those predicted by the ratings."""

    first: str
    second: str
    total_points: float
    """Points of `first` over all games."""
    expected_points: float
    """Points of `first` predicted by the ratings."""
    standardised_difference: float
    """Points minus expected points, in standard errors, which repeated games increase."""


class GoodnessOfFit(NamedTuple):
    """Goodness of fit of the ratings to pairwise results."""

    residuals: list[PairResidual]
    """Residuals in descending order of absolute standardised difference."""
    chi_square: float
    degrees_of_freedom: int
    """Number of pairs minus number of fitted strengths."""

    @property
    def p_value(self) -> float | None:
        """Probability of a fit at least this bad by chance.

        None unless `degrees_of_freedom` is positive.
        """
        if self.degrees_of_freedom <= 0:
            return None
        from scipy.special import chdtrc  # noqa: PLC0415  slow to import

        return float(chdtrc(self.degrees_of_freedom, self.chi_square))


def goodness_of_fit(pairs: Sequence[PairResult], ratings: Ratings) -> GoodnessOfFit:
    """Compare pairwise results with ratings fitted to the same games.

    All strengths but one are fitted. The advantage of the first player cancels in a pair that plays
    both colours, and draw_elo hardly changes its expected points. It does change their variance: in
    small tournaments, virtual draws raise draw_elo so much that the predicted variances are too
    small. The predicted draws are therefore reduced to the observed number.
    """
    elo = {rating.player: rating.elo_model for rating in ratings.player_ratings}
    predictions = [_predict(pair, elo[pair.first] - elo[pair.second], ratings) for pair in pairs]
    draws = predicted_draws = 0.0
    for pair, prediction in zip(pairs, predictions, strict=True):
        weight = pair.effective_games / pair.score.game_count
        draws += weight * pair.score.draws
        predicted_draws += weight * prediction.draws
    draw_share = min(1.0, draws / predicted_draws) if predicted_draws else 1.0
    residuals = sorted(
        (_residual(*each, draw_share) for each in zip(pairs, predictions, strict=True)),
        key=lambda each: -abs(each.standardised_difference),
    )
    total = sum(each.standardised_difference**2 for each in residuals)
    return GoodnessOfFit(residuals, total, len(pairs) - (len(elo) - 1))


class _Prediction(NamedTuple):
    """Results of a pair that the ratings predict."""

    points: float
    """Expected points of the player named first."""
    draws: float
    """Expected number of draws."""
    variance_without_draws: float
    """Variance of the points if games with the same expected points were never drawn."""


def _predict(pair: PairResult, difference: float, ratings: Ratings) -> _Prediction:
    """Return the prediction for a pair, whose difference in Elo is on the model scale."""
    moved_first = pair.moved_first_count
    moved_second = pair.score.game_count - moved_first
    mean_1, draw_1 = _expectation(difference, ratings)
    mean_2, draw_2 = _expectation(-difference, ratings)
    return _Prediction(
        moved_first * mean_1 + moved_second * (1.0 - mean_2),
        moved_first * draw_1 + moved_second * draw_2,
        moved_first * mean_1 * (1.0 - mean_1) + moved_second * mean_2 * (1.0 - mean_2),
    )


def _residual(pair: PairResult, prediction: _Prediction, draw_share: float) -> PairResidual:
    """Return the residual of a pair if only a share of the predicted draws occurs."""
    games = pair.score.game_count
    # A draw is half a point from both a win and a loss, so it reduces the variance by 1/4.
    variance = prediction.variance_without_draws - draw_share * prediction.draws / 4.0
    variance = max(variance, games * _MIN_VARIANCE) * games / pair.effective_games
    points, expected = pair.score.score_rate * games, prediction.points
    difference = (points - expected) / math.sqrt(variance)
    return PairResidual(pair.first, pair.second, points, expected, difference)


_MIN_VARIANCE = 1e-12
"""Lower bound on the variance per game: between very unequal players, rounding makes results
certain."""


def _expectation(difference: float, ratings: Ratings) -> tuple[float, float]:
    """Return the mean of the first player's points in one game, and the probability of a draw.

    `difference` is the Elo of the first player minus that of the second.
    """
    lead = difference + ratings.model.first_move_advantage
    win = 1.0 / (1.0 + math.exp((ratings.model.draw_elo - lead) / ELO_PER_NATURAL_UNIT))
    loss = 1.0 / (1.0 + math.exp((ratings.model.draw_elo + lead) / ELO_PER_NATURAL_UNIT))
    draw = 1.0 - win - loss
    return win + 0.5 * draw, draw
