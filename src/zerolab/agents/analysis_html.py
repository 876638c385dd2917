"""Analyses as HTML for notebooks: the board with the visits of the moves, value and best line."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from zerolab.report.board_svg import Hint, draw_board, signed
from zerolab.rules.position_board import board_of

if TYPE_CHECKING:
    from zerolab.agents.analysis import Analysis


def hints_of(analysis: Analysis) -> dict[int, Hint]:
    """Return a hint for each move, by action: its share of the visits, its prior or its score."""
    moves = analysis.moves
    if is_exact(analysis):
        highest = max(move.value for move in moves if move.value is not None)
        return {
            move.action: Hint(0.0, None, move.value == highest, int(move.value))
            for move in moves
            if move.value is not None
        }
    total = sum(move.visits or 0 for move in moves)
    shares = [(move.visits or 0) / total if total else move.prior or 0.0 for move in moves]
    most = max(shares)
    return {
        move.action: Hint(share, move.value, share == most)
        for move, share in zip(moves, shares, strict=True)
        if share > 0
    }


def is_exact(analysis: Analysis) -> bool:
    """Return whether the values are exact scores, as those of the agent ``perfect``."""
    best = analysis.best
    return best.value is not None and best.visits is None and best.prior is None


def value_text(analysis: Analysis) -> str:
    """Return the value with its sign: a whole number if exact, otherwise two decimal places."""
    value = analysis.value
    return "" if value is None else signed(value, 0 if is_exact(analysis) else 2)


def analysis_html(analysis: Analysis) -> str:
    """Return an analysis as HTML, with the board as SVG."""
    position = analysis.position
    side = "X" if position.first_to_move else "O"
    facts = [f"{escape(analysis.agent)} plays <b>{escape(analysis.best.name)}</b>"]
    if analysis.value is not None:
        facts.append(f"value {value_text(analysis)} for {side}")
    if analysis.principal_variation:
        facts.append(f"best line {escape(' '.join(analysis.principal_variation))}")
    board = draw_board(board_of(position, hints_of(analysis)))
    return f"<div>{board}<div>{'; '.join(facts)}</div></div>"
