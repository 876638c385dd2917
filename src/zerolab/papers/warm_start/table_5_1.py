"""Report on Table 5.1 of [Wang2021b]: measured and published score rates, RAVE in two readings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from zerolab.papers.elo import GAME_TITLES
from zerolab.papers.warm_start.comparison import Comparison, draw_comparisons
from zerolab.papers.warm_start.findings import PUBLISHED_SCORES, TABLE_CLAIMS
from zerolab.papers.warm_start.study import (
    BOARDS,
    MCTS,
    PLAYERS,
    PUBLISHED_GAMES,
    PUBLISHED_PLAYOUTS,
    RANDOM,
    RAVE,
    RHEA,
    TREE_ONLY,
)
from zerolab.play.pair_results import PairResult, pair_result
from zerolab.report.claims import Claim, ClaimTable
from zerolab.report.document import Block, Document, Heading, Paragraph, Picture
from zerolab.report.interval import Z95
from zerolab.report.table import Column, Table
from zerolab.studies.claims import Missing, judge
from zerolab.studies.results import PlayedTournament, Results, provenance
from zerolab.studies.statistics import BinomialEstimate


class Pair(NamedTuple):
    """All games of two players on one board."""

    player: str
    opponent: str
    result: PairResult
    """From the view of `player`."""
    comparison: Comparison | None
    """With the published number, if there is one."""

    @property
    def title(self) -> str:
        """Both names."""
        return f"{self.player} against {self.opponent}"


def table_5_1_report(results: Results) -> Document:
    """Return the report on the tournaments that are finished."""
    blocks: list[Block] = [Heading("Findings"), ClaimTable(judge(table_findings(results)))]
    if not results.tournaments:
        blocks.append(Paragraph(f"No tournament is finished: {results.missing()}."))
    else:
        blocks += [*_comparison(results), *_matrices(results), *_tree_only(results)]
    return Document(
        "Table 5.1 of the warm-start paper: players without a network",
        _limits(results),
        blocks,
        provenance(results),
    )


def _limits(results: Results) -> str:
    games = results.design.tournaments[0].games
    if results.scale == "smoke":
        return (
            f"Scale smoke: {games} games per pair and few playouts, which show that everything"
            " works. Nothing follows about the strength of the players: the numbers below are"
            " chance."
        )
    return (
        f"Scale {results.scale}: the published design, {games} games per pair and"
        f" {PUBLISHED_PLAYOUTS} playouts per move. The program behind the published numbers is not"
        " public, so a difference cannot be blamed on either side, nor explained. Nothing follows"
        " about other boards and budgets, nor about players with a network."
    )


def pairs(
    played: PlayedTournament, wanted: Mapping[tuple[str, str], float | None]
) -> Iterator[Pair]:
    """Yield pairs of players with their games, beside published numbers where there are any."""
    specs = dict(zip(PLAYERS, played.planned.agents, strict=True))
    for (player, opponent), published in wanted.items():
        names = specs[player], specs[opponent]
        games = [game for game in played.games if {game.first, game.second} == set(names)]
        result = pair_result(*names, games)
        beside = None if published is None else Comparison(result.score, published, PUBLISHED_GAMES)
        yield Pair(player, opponent, result, beside)


def table_findings(results: Results) -> dict[Claim, BinomialEstimate | Missing]:
    """Return the statistic of every claim about the table."""
    found: dict[Claim, BinomialEstimate | Missing] = {}
    for (part, *players), claim in TABLE_CLAIMS.items():
        if part in results.tournaments:
            (pair,) = pairs(results.tournaments[part], {(players[0], players[1]): None})
            score = pair.result.distinct
            found[claim] = BinomialEstimate(score.wins, score.wins + score.losses)
        else:
            found[claim] = Missing(results.missing(part))
    return found


def _played(results: Results) -> Iterator[tuple[str, PlayedTournament]]:
    return ((part, results.tournaments[part]) for part in BOARDS if part in results.tournaments)


def _comparison(results: Results) -> Iterator[Block]:
    found = {part: list(pairs(played, PUBLISHED_SCORES[part])) for part, played in _played(results)}
    players = ", ".join(results.design.tournaments[0].agents)
    yield Heading("Score rates beside the published ones")
    yield Paragraph(
        f"The players: {players}. {_agreement(found)} By chance alone one pair in twenty would"
        f" differ. Colours alternate, and a draw counts half.{_repeats(found)}"
    )
    yield _picture("table-5.1", "Table 5.1, measured and published", found)
    yield _pair_table("score-rates", "Score rates", found)
    yield Paragraph(
        "The published 48 % of RHEA against Random in Othello is what random moves score. In Gobang"
        " and Connect Four only the player who moved last can have won, so an outcome read from the"
        " wrong side would go unnoticed there, but not in Othello. This would explain the number;"
        " it cannot be proved without the program behind it."
    )


def _agreement(found: Mapping[str, list[Pair]]) -> str:
    compared = [
        pair.comparison for each in found.values() for pair in each if pair.comparison is not None
    ]
    agree = sum(each.agrees for each in compared)
    return (
        f"{agree} of {len(compared)} pairs agree with the published {PUBLISHED_GAMES} games: the"
        f" 95 % interval of the difference [Newcombe1998] includes 0, |z| is at most {Z95:.2f}."
    )


def _repeats(found: Mapping[str, list[Pair]]) -> str:
    games = [pair.result for each in found.values() for pair in each]
    repeats = sum(result.score.games - result.distinct.games for result in games)
    if not repeats:
        return ""
    return f" {repeats} games repeat another one, which makes intervals slightly too narrow."


def _picture(name: str, title: str, found: Mapping[str, list[Pair]]) -> Picture:
    panels = {
        GAME_TITLES[part]: {pair.title: pair.comparison for pair in each if pair.comparison}
        for part, each in found.items()
    }
    return Picture(
        name,
        draw_comparisons(panels, title, "score rate, %"),
        "Bars are 95 % intervals over games [Wilson1927]; a line is shaded where both numbers"
        " differ by more than chance explains.",
    )


def _pair_table(name: str, title: str, found: Mapping[str, list[Pair]]) -> Table:
    columns: list[str | Column] = [
        "game", "pair", "won", "drawn", "lost", "distinct games", Column("score rate", ".1%"),
        Column("published", ".1%"), Column("z", "+.2f"), "verdict",
    ]  # fmt: skip
    rows = [
        [
            GAME_TITLES[part], pair.title, *pair.result.score, pair.result.distinct.games,
            pair.result.score.interval(),
            *((None,) * 3 if (c := pair.comparison) is None else (c.published, c.z, c.verdict)),
        ]
        for part, each in found.items()
        for pair in each
    ]  # fmt: skip
    return Table(name, title, columns, rows)


def _matrices(results: Results) -> Iterator[Block]:
    yield Heading("In the layout of the paper")
    yield Paragraph(
        "Score rates of the column's player against the row's, in percent; published in brackets."
    )
    for part, played in _played(results):
        measured = matrix(
            {
                pair[:2]: pair.result.score.score_rate
                for pair in pairs(played, PUBLISHED_SCORES[part])
            }
        )
        published = matrix(PUBLISHED_SCORES[part])
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


def matrix(cells: Mapping[tuple[str, str], float]) -> dict[str, dict[str, float]]:
    """Return the paper's matrix by row and column: the score rate of the column against the row."""
    table: dict[str, dict[str, float]] = {name: {} for name in (RANDOM, MCTS, RAVE, RHEA)}
    for (column, row), rate in cells.items():
        table[row][column] = rate
        table[column][row] = 1.0 - rate
    return table


def _tree_only(results: Results) -> Iterator[Block]:
    found = {part: list(pairs(played, _tree_pairs(part))) for part, played in _played(results)}
    yield Heading("RAVE that counts moves in the tree alone")
    yield Paragraph(
        "RAVE above also counts the moves of playouts [Gelly2011]. The formula of [Wang2020b] can"
        " be read as counting moves within the tree alone. In this reading"
        f" {_agreement(found)}"
    )
    yield _picture("tree-only", "Table 5.1, RAVE counting moves in the tree alone", found)
    yield _pair_table("tree-only-rates", "Score rates of this RAVE", found)


def _tree_pairs(part: str) -> dict[tuple[str, str], float | None]:
    """Return the published numbers of RAVE for the other reading, and the pair of both."""
    beside: dict[tuple[str, str], float | None] = {
        (_other_reading(player), _other_reading(opponent)): rate
        for (player, opponent), rate in PUBLISHED_SCORES[part].items()
        if RAVE in (player, opponent)
    }
    return {**beside, (RAVE, TREE_ONLY): None}


def _other_reading(player: str) -> str:
    return TREE_ONLY if player == RAVE else player
