"""[Wang2021b, Table 5.1]: Random, MCTS, RAVE and RHEA without a network."""

from __future__ import annotations

from typing import ClassVar

from zerolab.studies.analyses.table_5_1 import (
    GAMES,
    PLAYERS,
    PUBLISHED_GAMES,
    PUBLISHED_PLAYOUTS,
    document,
)
from zerolab.studies.design import Design, PlannedTournament
from zerolab.studies.interface import Scale, Study, register_study
from zerolab.studies.report.document import Document
from zerolab.studies.results import Results

FEWEST_PLAYOUTS = 20
"""Which RHEA needs for its first population."""


@register_study
class Table51(Study):
    """Reproduce Table 5.1 of the warm-start paper: Random, MCTS, RAVE and RHEA on three games.

    All pairs of the four players, none of which has a network, and of a RAVE that counts moves in
    the tree alone, play 500 games with 100 playouts per move on 6x6 Gobang, Connect Four and
    Othello. Win rates stand beside the published ones, each marked: agree, or differ. Half a minute
    is enough for that, so all scales but smoke are the published one.

    Examples:
      zerolab study table-5.1
      zerolab study table-5.1 --only othello --json
    """

    name: ClassVar[str] = "table-5.1"

    def design(self, scale: Scale) -> Design:
        """See `Study.design`."""
        smoke = scale == "smoke"
        games = 2 if smoke else PUBLISHED_GAMES
        playouts = FEWEST_PLAYOUTS if smoke else PUBLISHED_PLAYOUTS
        agents = [spec.format(playouts=playouts) for spec in PLAYERS.values()]
        tournaments = [
            PlannedTournament(part, game, agents=agents, games=games)
            for part, game in GAMES.items()
        ]
        return Design([], tournaments)

    def document(self, results: Results) -> Document:
        """See `Study.document`."""
        return document(results)
