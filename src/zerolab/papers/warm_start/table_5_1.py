"""Report on Table 5.1 of [Wang2021b]: measured and published score rates, and the claims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from zerolab.papers.elo import GAME_TITLES
from zerolab.papers.warm_start.comparison import PublishedScoreComparison, draw_score_comparisons
from zerolab.papers.warm_start.study import (
    BOARDS,
    CHANGED_RHEA_SPECS,
    HALF_RHEA,
    MCTS,
    PLAYER_SPECS,
    PUBLISHED_GAMES_PER_PAIR,
    PUBLISHED_PLAYOUTS,
    PUBLISHED_SCORES,
    RANDOM,
    RAVE,
    RAVE_INTERPRETATIONS,
    RHEA,
    SINGLE_RHEA,
)
from zerolab.report.claims import Claim, Direction
from zerolab.report.document import Block, Document, Heading, Paragraph, Picture
from zerolab.report.table import Z95, Column, Table
from zerolab.studies.claims import MissingEstimate
from zerolab.studies.finished_work import PairTotal, PlayedTournament
from zerolab.studies.joint_estimates import estimate_smallest
from zerolab.studies.results import Results, provenance, verdict_section
from zerolab.studies.statistics import BinomialEstimate, ClaimEstimate


class ComparedPair(NamedTuple):
    """Pair of players on one board, with the result of all their games."""

    player: str
    opponent: str
    result: PairTotal
    """Result for `player`."""
    comparison: PublishedScoreComparison | None
    """Comparison with the published score rate, or None if there is no published rate."""

    @property
    def title(self) -> str:
        """Names of both players."""
        return f"{self.player} against {self.opponent}"


def table_5_1_report(results: Results) -> Document:
    """Return the report on all finished tournaments."""
    blocks = verdict_section(results, results.judge(table_5_1_statistics))
    if results.tournaments:
        blocks += [*_comparison(results), *_matrices(results), *_readings(results)]
        blocks += _rhea_settings(results)
    return Document(
        "Table 5.1 of the warm-start paper: players without a network",
        _caveats(results),
        blocks,
        provenance(results),
    )


def _caveats(results: Results) -> str:
    games = results.design.tournaments[0].games_per_pair
    if results.scale == "smoke":
        return (
            f"Scale smoke: {games} games per pair with few playouts, which only shows that the"
            " study works. The numbers below are due to chance and allow no conclusions about the"
            " strength of the players."
        )
    return (
        f"Scale {results.scale}: the published design of {games} games per pair with"
        f" {PUBLISHED_PLAYOUTS} playouts per move. The program behind the published numbers is not"
        " public, so differences cannot be explained or attributed to either program. The results"
        " do not apply to other boards or budgets, or to players with a network."
    )


def compared_pairs(
    tournament: PlayedTournament, published_rates: Mapping[tuple[str, str], float | None]
) -> Iterator[ComparedPair]:
    """Yield the results of pairs of players, compared with any published score rates.

    `published_rates` maps each pair to its published score rate, or to None.
    """
    (planned,) = tournament.planned_tournaments
    specs = dict(zip(PLAYER_SPECS, planned.agent_specs, strict=True))
    for (player, opponent), published in published_rates.items():
        result = tournament.pair_total(specs[player], specs[opponent])
        comparison = None
        if published is not None:
            comparison = PublishedScoreComparison(
                result.score, result.effective_games, published, PUBLISHED_GAMES_PER_PAIR
            )
        yield ComparedPair(player, opponent, result, comparison)


def table_5_1_statistics(results: Results) -> dict[Claim, ClaimEstimate | MissingEstimate]:
    """Return the statistic of each claim about the table, or the reason why it is missing."""
    pairs = {claim: _share_won(results, *pair) for pair, claim in TABLE_CLAIMS.items()}
    return {
        STRENGTH_ORDER_CLAIM: _smallest_share(results, ORDERED_PAIRS),
        RHEA_INSENSITIVE_CLAIM: _smallest_share(results, _CHANGED_PAIRS),
        **pairs,
    }


def _smallest_share(
    results: Results, pairs: Sequence[tuple[str, str, str]]
) -> ClaimEstimate | MissingEstimate:
    """Return the smallest share of games that the first-listed player of a pair won.

    Each of `pairs` is a game and two players.
    """
    shares = []
    for pair in pairs:
        share = _share_won(results, *pair)
        if isinstance(share, MissingEstimate):
            return share
        shares.append(share)
    return estimate_smallest(shares)


def _share_won(
    results: Results, part: str, player: str, opponent: str
) -> BinomialEstimate | MissingEstimate:
    """Return the share of decisive games against an opponent that a player won."""
    if part not in results.tournaments:
        return MissingEstimate(results.unfinished_message(part))
    (pair,) = compared_pairs(results.tournaments[part], {(player, opponent): None})
    score, effective_score = pair.result
    trials = effective_score.decisive(score)
    share = score.wins / (score.wins + score.losses) if trials else 0.0
    return BinomialEstimate(share * trials, trials)


def _finished(results: Results) -> Iterator[tuple[str, PlayedTournament]]:
    return ((part, results.tournaments[part]) for part in BOARDS if part in results.tournaments)


def _comparison(results: Results) -> Iterator[Block]:
    by_game = {
        part: list(compared_pairs(tournament, PUBLISHED_SCORES[part]))
        for part, tournament in _finished(results)
    }
    players = ", ".join(results.design.tournaments[0].agent_specs)
    yield Heading("Measured and published score rates")
    yield Paragraph(
        f"The players are {players}. {_agreement(by_game)} About one pair in twenty would differ by"
        f" chance alone. Colours alternate, and a draw counts as half a win.{_repeats(by_game)}"
    )
    yield _picture("table-5.1", "Table 5.1, measured and published", by_game)
    yield _pair_table("score-rates", "Score rates", by_game)
    yield Paragraph(
        "RHEA's published 48 % against Random in Othello is what random moves would score. In"
        " Gobang and Connect Four, only the player who moved last can have won, so a program that"
        " assigns outcomes to the wrong side would still play well. In Othello it would not. This"
        " could explain the number but cannot be verified without the program."
    )


def _agreement(by_game: Mapping[str, list[ComparedPair]]) -> str:
    comparisons = [
        pair.comparison
        for game_pairs in by_game.values()
        for pair in game_pairs
        if pair.comparison is not None
    ]
    agreeing = sum(comparison.agrees for comparison in comparisons)
    return (
        f"{agreeing} of {len(comparisons)} pairs agree with the published"
        f" {PUBLISHED_GAMES_PER_PAIR} games, which means that the 95 % interval of the difference"
        f" [Newcombe1998] includes 0 (|z| is at most {Z95:.2f})."
    )


def _repeats(by_game: Mapping[str, list[ComparedPair]]) -> str:
    pair_results = [pair.result for game_pairs in by_game.values() for pair in game_pairs]
    games = sum(result.score.game_count for result in pair_results)
    effective = sum(result.effective_games for result in pair_results)
    if effective == games:
        return ""
    start = " Some games repeat others: the intervals are those of"
    return f"{start} {effective:.0f} independent games, not of {games}."


def _picture(name: str, title: str, by_game: Mapping[str, list[ComparedPair]]) -> Picture:
    panels = {
        GAME_TITLES[part]: {pair.title: pair.comparison for pair in game_pairs if pair.comparison}
        for part, game_pairs in by_game.items()
    }
    return Picture(
        name,
        draw_score_comparisons(panels, title, "score rate, %"),
        "Bars are 95 % intervals over games [Wilson1927]. Shaded rows mark score rates that differ"
        " by more than chance.",
    )


def _pair_table(name: str, title: str, by_game: Mapping[str, list[ComparedPair]]) -> Table:
    columns: list[str | Column] = [
        "game", "pair", "won", "drawn", "lost", Column("effective games", ".0f"),
        Column("score rate", ".1%"), Column("published", ".1%"), Column("z", "+.2f"), "verdict",
    ]  # fmt: skip
    rows = [
        [
            GAME_TITLES[part], pair.title, *pair.result.score,
            pair.result.effective_games,
            pair.result.score.interval(pair.result.effective_games),
            *(
                (None,) * 3 if (c := pair.comparison) is None
                else (c.published_rate, c.z_score, c.agreement)
            ),
        ]
        for part, game_pairs in by_game.items()
        for pair in game_pairs
    ]  # fmt: skip
    return Table(name, title, columns, rows)


def _matrices(results: Results) -> Iterator[Block]:
    yield Heading("Tables in the paper's layout")
    yield Paragraph(
        "Score rate of the column player against the row player, in percent, with the published"
        " rate in brackets."
    )
    for part, tournament in _finished(results):
        measured = score_rate_matrix(
            {
                pair[:2]: pair.result.score.score_rate
                for pair in compared_pairs(tournament, PUBLISHED_SCORES[part])
            }
        )
        published = score_rate_matrix(PUBLISHED_SCORES[part])
        names = list(published)
        rows = [
            [
                row,
                *(
                    None if row == column
                    else f"{100 * measured[row][column]:.1f} ({100 * published[row][column]:.1f})"
                    for column in names
                ),
            ]
            for row in names
        ]  # fmt: skip
        yield Table(f"matrix-{part}".replace("_", "-"), GAME_TITLES[part], ["player", *names], rows)


def score_rate_matrix(cells: Mapping[tuple[str, str], float]) -> dict[str, dict[str, float]]:
    """Return the score rate of the column player against the row player, by row and column."""
    table: dict[str, dict[str, float]] = {name: {} for name in (RANDOM, MCTS, RAVE, RHEA)}
    for (column, row), rate in cells.items():
        table[row][column] = rate
        table[column][row] = 1.0 - rate
    return table


def _readings(results: Results) -> Iterator[Block]:
    yield Heading("Other readings of RAVE")
    yield Paragraph(
        "The RAVE above counts the mover's actions, including the action in the state itself, and"
        " playout moves [Gelly2011]. It plays the most visited action. The text of [Wang2020b]"
        " allows other readings on three points."
    )
    for player, behaviour in RAVE_INTERPRETATIONS.items():
        by_game = {
            part: list(compared_pairs(tournament, _rates_of_reading(part, player)))
            for part, tournament in _finished(results)
        }
        name = player.removeprefix("RAVE, ")
        yield Paragraph(f"{player} {behaviour}. With this reading, {_agreement(by_game)}")
        slug = name.replace(" ", "-")
        yield _picture(slug, f"Table 5.1, {player}", by_game)
        yield _pair_table(f"{slug}-rates", f"Score rates of {player}", by_game)


def _rates_of_reading(part: str, reading: str) -> dict[tuple[str, str], float | None]:
    """Return RAVE's published rates for a reading, and None for RAVE against the reading."""
    names = {player: player for player in PLAYER_SPECS} | {RAVE: reading}
    rates: dict[tuple[str, str], float | None] = {
        (names[player], names[opponent]): rate
        for (player, opponent), rate in PUBLISHED_SCORES[part].items()
        if RAVE in (player, opponent)
    }
    return {**rates, (RAVE, reading): None}


def _rhea_settings(results: Results) -> Iterator[Block]:
    pairs = [(RHEA, HALF_RHEA), (RHEA, SINGLE_RHEA), (HALF_RHEA, RANDOM), (SINGLE_RHEA, RANDOM)]
    pairs += [(RHEA, name) for name in CHANGED_RHEA_SPECS]
    by_game = {
        part: list(compared_pairs(tournament, dict.fromkeys(pairs)))
        for part, tournament in _finished(results)
    }
    yield Heading("RHEA with other settings")
    yield Paragraph(
        f"{HALF_RHEA} has half of RHEA's playouts per move, and {SINGLE_RHEA} evaluates each"
        " individual with one playout instead of two. The others have half or twice the mutation"
        " rate, population or horizon. The paper compares them in words only."
    )
    yield _pair_table("rhea-rates", "Score rates of RHEA with other settings", by_game)


_TABLE = "[Wang2021b, Table 5.1]"
_RHEA_SECTION = "[Wang2021b, section 5.4]"
_OURS = f"zerolab, on {_RHEA_SECTION}"
_SHARE = 0.05
"""Smallest difference in shares of games that is of practical interest."""

STRENGTH_ORDER_CLAIM = Claim(
    "table-order",
    "RAVE is stronger than MCTS, MCTS than RHEA, and RHEA than Random, in nearly all cases.",
    "[Wang2021b, section 5.4, Table 5.1]",
    "share of decisive games that the stronger player won, minimum over the seven pairs of"
    " neighbours in this ranking for which the table reports this result",
    0.5,
    "above",
    _SHARE,
    figure="table-5.1",
)
ORDERED_PAIRS: Sequence[tuple[str, str, str]] = [
    *((part, RAVE, MCTS) for part in ("gobang", "connect_four")),
    *((part, MCTS, RHEA) for part in BOARDS),
    *((part, RHEA, RANDOM) for part in ("gobang", "connect_four")),
]
"""Pairs of `STRENGTH_ORDER_CLAIM` by game, the stronger player first: all but RAVE against MCTS and
RHEA against Random in Othello."""

RHEA_INSENSITIVE_CLAIM = Claim(
    "rhea-is-not-sensitive",
    "RHEA is not sensitive to its parameters, except to the number of playouts.",
    _RHEA_SECTION,
    "RHEA plays against a variant with half or twice the mutation rate, population or horizon, or"
    " with half the playouts per individual; smaller of the two sides' shares of decisive games,"
    " minimum over all variants and games",
    0.4,
    "above",
    _SHARE,
    STRENGTH_ORDER_CLAIM.key,
)
_CHANGED_PAIRS: Sequence[tuple[str, str, str]] = [
    (part, *pair)
    for part in BOARDS
    for name in (*CHANGED_RHEA_SPECS, SINGLE_RHEA)
    for pair in ((RHEA, name), (name, RHEA))
]

_VERBS: Mapping[Direction, str] = {
    "above": "beats", "below": "loses to", "not above": "does not convincingly beat",
    "not below": "is no worse than",
}  # fmt: skip
_IN_WORDS = {
    HALF_RHEA: "RHEA with 50 playouts",
    SINGLE_RHEA: "RHEA with one playout per individual",
}


def _table_claim(part: str, player: str, opponent: str, direction: Direction, source: str) -> Claim:
    verb = _VERBS[direction]
    names = [_IN_WORDS.get(name, name) for name in (player, opponent)]
    key = f"{player} {verb} {opponent} {part}".lower().replace(",", "")
    return Claim(
        key.replace(" ", "-").replace("_", "-"),
        f"{names[0]} {verb} {names[1]} in {GAME_TITLES[part]}.",
        source,
        f"share of decisive games against {names[1]} that {names[0]} won",
        0.5,
        direction,
        _SHARE,
        STRENGTH_ORDER_CLAIM.key,
        "table-5.1",
    )


_CLAIMED: Sequence[tuple[str, str, str, Direction, str]] = [
    *((part, RAVE, MCTS, "above", _TABLE) for part in ("gobang", "connect_four")),
    ("othello", RAVE, MCTS, "not above", f"zerolab, on {_TABLE}"),
    *((part, RHEA, MCTS, "below", _TABLE) for part in BOARDS),
    *((part, RHEA, RANDOM, "above", _TABLE) for part in ("gobang", "connect_four")),
    ("othello", RHEA, RANDOM, "not above", _RHEA_SECTION),
    *((part, RHEA, RAVE, "below", _TABLE) for part in BOARDS),
    *((part, player, RANDOM, "above", _TABLE) for player in (MCTS, RAVE) for part in BOARDS),
    *((part, HALF_RHEA, RANDOM, "above", _RHEA_SECTION) for part in ("gobang", "connect_four")),
    *((part, RHEA, HALF_RHEA, "above", _RHEA_SECTION) for part in BOARDS),
    *((part, RHEA, SINGLE_RHEA, "not below", _OURS) for part in BOARDS),
]
TABLE_CLAIMS: Mapping[tuple[str, str, str], Claim] = {
    (part, player, opponent): _table_claim(part, player, opponent, direction, source)
    for part, player, opponent, direction, source in _CLAIMED
}
"""Claims by game, player and opponent.

Where a player does not convincingly beat another, the margin of 0.05 is about that of the paper's
binomial tests, in which 54.4 % of 500 games differ from half. The paper also says that RHEA works
with 50 playouts, but worse than with 100, and that two playouts per individual are "a bit more
stable" than one. It gives no numbers for either and does not say that two are stronger."""
