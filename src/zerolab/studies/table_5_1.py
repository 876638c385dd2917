"""[Wang2021b, Table 5.1]: Random, MCTS, RAVE and RHEA without a network."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from pydantic import Field
from rich.console import Console
from rich.text import Text

from zerolab.agents.interface import Agent
from zerolab.agents.specs import parse_agents
from zerolab.core.config import validate
from zerolab.core.errors import UserError
from zerolab.core.figures import save_figure
from zerolab.core.files import write_text
from zerolab.play.results import PairResult, pair_results
from zerolab.play.tournament import Tournament, TournamentSettings
from zerolab.ratings.score import Score
from zerolab.rules.catalogue import game_name, parse_game
from zerolab.studies import folder as study_folder
from zerolab.studies.comparison import Comparison, Z
from zerolab.studies.figures import draw_comparisons
from zerolab.studies.interface import ProgressBar, Study, register_study
from zerolab.studies.tables import Table

SCHEMA = 1
"""Of results.json."""

PUBLISHED_GAMES = 500

PUBLISHED: Mapping[str, Mapping[tuple[str, str], float]] = {
    "gobang:6x6:4": {
        ("mcts", "random"): 0.970,
        ("rave", "random"): 1.000,
        ("rhea", "random"): 0.900,
        ("rave", "mcts"): 0.894,
        ("rhea", "mcts"): 0.340,
        ("rhea", "rave"): 0.170,
    },
    "connect_four:6x6": {
        ("mcts", "random"): 0.996,
        ("rave", "random"): 1.000,
        ("rhea", "random"): 0.800,
        ("rave", "mcts"): 0.730,
        ("rhea", "mcts"): 0.030,
        ("rhea", "rave"): 0.040,
    },
    "othello:6x6": {
        ("mcts", "random"): 0.985,
        ("rave", "random"): 0.980,
        ("rhea", "random"): 0.480,
        ("rave", "mcts"): 0.460,
        ("rhea", "mcts"): 0.010,
        ("rhea", "rave"): 0.050,
    },
}
"""The score rate of the first player of a pair against the second one [Wang2021b, Table 5.1],
in this one orientation; the other half of the paper's matrix is the complement."""

PLAYERS: Mapping[str, str] = {
    "random": "random",
    "mcts": "mcts:{playouts}?selection=puct",
    "rave": "rave:{playouts}",
    "rhea": "rhea:{playouts}",
}
"""The paper's names, and who they are here. Its MCTS has uniform priors in PUCT with c = 1, and the
value of one random playout for every leaf."""


@register_study
class Table51(Study):
    """Reproduce Table 5.1 of the warm-start paper: Random, MCTS, RAVE and RHEA on three games.

    Every pair of the four players, none of which has a network, plays on 6x6 Gobang, Connect Four
    and Othello. Win rates stand beside the published ones, each marked: agree, or differ. Games are
    stored as they are finished: a study that was stopped or killed is resumed by the same command.

    Examples:
      zerolab study table-5.1
      zerolab study table-5.1 --games 500 --folder studies/table-5.1 --json
      zerolab study table-5.1 --games 100 --playouts 400 --folder studies/more-playouts
      zerolab study table-5.1 --no-playout-moves --folder studies/tree-only
    """

    name: ClassVar[str] = "table-5.1"

    games: int = Field(default=PUBLISHED_GAMES, ge=2, le=1_000_000)
    """Games of every pair on each game, half with each colour. [Wang2021b]: 500."""

    playouts: int = Field(default=100, ge=1, le=1_000_000)
    """Playouts per move of MCTS, RAVE and RHEA. [Wang2021b]: 100."""

    seed: int = Field(default=0, ge=0, lt=1 << 63)
    """Seed of all random streams."""

    playout_moves: bool = True
    """Let RAVE count the moves of playouts, as in [Gelly2011]; without, only moves in the tree."""

    @property
    def players(self) -> list[str]:
        """The players in the order of PLAYERS, as every command names them."""
        rave = PLAYERS["rave"] + ("" if self.playout_moves else "?selection.playout_moves=false")
        specs = {**PLAYERS, "rave": rave}
        return [spec.format(playouts=self.playouts) for spec in specs.values()]

    def run(self, folder: Path, progress_bar: ProgressBar) -> Results:
        """See `Study.run`."""
        planned = [_GameTournament.of(self, game) for game in PUBLISHED]
        with study_folder.locked(folder, self), ExitStack() as stack:
            tournaments = [stack.enter_context(each.tournament(folder)) for each in planned]
            played = _play(planned, tournaments, progress_bar, str(folder)) or _played_before(
                folder
            )
            found = {
                each.game: each.compare(pair_results(tournament.games()))
                for each, tournament in zip(planned, tournaments, strict=True)
            }
            players = {
                role: agent.name for role, agent in zip(PLAYERS, planned[0].agents, strict=True)
            }
            results = Results(folder, self, players, found, played)
            results.save()
        return results


class Pair(NamedTuple):
    """Two players on one game, by their names in the paper."""

    player: str
    opponent: str
    comparison: Comparison
    """From the view of `player`."""
    distinct: int
    """Different games among all of theirs."""

    @property
    def title(self) -> str:
        """Return who played whom."""
        return f"{self.player} against {self.opponent}"


@dataclass(frozen=True)
class _GameTournament:
    """The tournament of one game."""

    game: str
    settings: TournamentSettings
    agents: Sequence[Agent]
    """In the order of PLAYERS."""

    @classmethod
    def of(cls, study: Table51, game: str) -> _GameTournament:
        """Return the tournament of a game; raise UserError for agents that cannot be."""
        agents = parse_agents(study.players, parse_game(game))
        chosen = {
            "game": game_name(agents[0].game),
            "games": study.games,
            "seed": study.seed,
            "players": {agent.name: agent.identity for agent in agents},
        }
        return cls(game, validate(TournamentSettings, chosen), agents)

    def tournament(self, folder: Path) -> AbstractContextManager[Tournament]:
        """Return the context that holds the tournament's own folder; see `Tournament.locked`."""
        path = folder / self.game.replace(":", "-")
        saved = Tournament.saved(path) if path.is_dir() else None
        if saved is not None and saved.settings != self.settings:  # those of the study are equal
            raise UserError(
                f"{path} has other players: another version of zerolab began it; choose another"
                " --folder"
            )
        return Tournament.locked(path, self.settings)

    def compare(self, pairs: Sequence[PairResult]) -> list[Pair]:
        """Return all pairs in the order in which they were published."""
        names = {role: agent.name for role, agent in zip(PLAYERS, self.agents, strict=True)}
        found = {frozenset(pair[:2]): pair for pair in pairs}
        compared = []
        for (player, opponent), published in PUBLISHED[self.game].items():
            pair = found[frozenset((names[player], names[opponent]))]
            turned = pair.first != names[player]
            score = Score(*reversed(pair.score)) if turned else pair.score
            comparison = Comparison(score, published, PUBLISHED_GAMES)
            compared.append(Pair(player, opponent, comparison, pair.distinct.games))
        return compared


class Played(NamedTuple):
    """What the last command that played any games did."""

    games: int
    seconds: float
    """On the wall clock, compiling included where kernels were not yet."""


def _play(
    planned: Sequence[_GameTournament],
    tournaments: Sequence[Tournament],
    progress_bar: ProgressBar,
    title: str,
) -> Played | None:
    """Play what is left of all tournaments; return None if that is nothing."""
    total = sum(tournament.games_left() for tournament in tournaments)
    if not total:
        return None
    began, done = time.monotonic(), 0
    with progress_bar(title, total, "games") as update:
        for plan, tournament in zip(planned, tournaments, strict=True):
            left, before = tournament.games_left(), done
            if left:
                tournament.play(
                    plan.agents[0].game, plan.agents,
                    lambda over, note, before=before, game=plan.game: update(  # type: ignore[misc]
                        before + over, note or game
                    ),
                )  # fmt: skip
            done += left
    return Played(total, time.monotonic() - began)


_RESULTS = "results.json"


def _played_before(folder: Path) -> Played | None:
    """Return what the results of an earlier command say; None where they cannot be read."""
    try:
        return Played(**json.loads((folder / _RESULTS).read_text("utf-8"))["played"])
    except (OSError, ValueError, LookupError, TypeError):
        return None


@dataclass(frozen=True)
class Results:
    """The measured table beside the published one; a `Report`."""

    folder: Path
    study: Table51
    players: Mapping[str, str]
    """The paper's names, and those that the tournaments know."""
    found: Mapping[str, Sequence[Pair]]
    """By game."""
    played: Played | None

    @property
    def pairs(self) -> list[Pair]:
        """All pairs on all games."""
        return [pair for pairs in self.found.values() for pair in pairs]

    def as_dict(self) -> dict[str, Any]:
        """Return what results.json holds; all shares are between 0 and 1."""
        return {
            "schema": SCHEMA,
            "study": self.study.name,
            "settings": self.study.model_dump(),
            "players": dict(self.players),
            "published_games": PUBLISHED_GAMES,
            "played": self.played._asdict() if self.played else None,
            "pairs": len(self.pairs),
            "agree": sum(pair.comparison.agrees for pair in self.pairs),
            "games": [
                {
                    "game": game,
                    "pairs": [_pair_dict(pair) for pair in pairs],
                    "column_beats_row": {
                        "measured": matrix(measured_cells(pairs)),
                        "published": matrix(PUBLISHED[game]),
                    },
                }
                for game, pairs in self.found.items()
            ],
        }

    def save(self) -> None:
        """Write results.json, and table and figure under the name of the study."""
        write_text(self.folder / _RESULTS, json.dumps(self.as_dict(), indent=1) + "\n")
        write_text(self.folder / f"{self.study.name}.md", self._markdown())
        panels = {
            game: {pair.title: pair.comparison for pair in pairs}
            for game, pairs in self.found.items()
        }
        study = self.study
        reading = "" if study.playout_moves else ", RAVE counting moves in the tree alone"
        title = (
            f"Table 5.1, {study.playouts} playouts per move, {study.games} games per pair{reading}"
        )
        figure = draw_comparisons(panels, title, "win rate, %, with 95 % interval")
        for ending in ("png", "svg"):
            save_figure(figure, self.folder / f"{self.study.name}.{ending}")

    def show(self, console: Console) -> None:
        """Print all tables."""
        for table in self._tables():
            console.print(table.for_terminal(), highlight=False)
            console.print()
        for line in self._remarks():
            console.print(Text(line), highlight=False)
        console.print(Text(f"tables and figure: {self.folder}"), highlight=False)

    def _markdown(self) -> str:
        name = self.study.name
        parts = [
            "# Table 5.1 of the warm-start paper, measured\n",
            *(f"{line}\n" for line in self._remarks()),
            f"![Measured and published win rates]({name}.png)\n",
            *(table.markdown() for table in self._tables()),
        ]
        return "\n".join(parts)

    def _remarks(self) -> list[str]:
        agree, count = sum(pair.comparison.agrees for pair in self.pairs), len(self.pairs)
        specs = ", ".join(self.players.values())
        lines = [
            f"{self.study.games} games per pair, colours in turn, draws half a point; seed"
            f" {self.study.seed}. Players: {specs}.",
            f"{agree} of {count} pairs agree with the published {PUBLISHED_GAMES} games: the 95 %"
            f" interval of the difference includes 0, so |z| is at most {Z:.2f}. By chance alone,"
            f" {0.05 * count:.1f} of {count} would differ.",
        ]
        if self.played is not None:
            done, seconds = self.played
            total = self.study.games * len(self.pairs)
            lines.append(
                f"The last command that played any played {done} of {total} games, in"
                f" {seconds:.0f} s."
            )
        if repeats := sum(self.study.games - pair.distinct for pair in self.pairs):
            lines.append(f"{repeats} games repeat another one, which makes intervals too narrow.")
        return lines

    def _tables(self) -> list[Table]:
        tables = []
        for game, pairs in self.found.items():
            tables += [_pair_table(game, pairs), _matrix_table(game, pairs)]
        return tables


def _pair_dict(pair: Pair) -> dict[str, Any]:
    who = {"player": pair.player, "opponent": pair.opponent}
    return {**who, **pair.comparison.as_dict(), "distinct_games": pair.distinct}


def measured_cells(pairs: Sequence[Pair]) -> dict[tuple[str, str], float]:
    """Return the measured shares as PUBLISHED has the published ones."""
    return {pair[:2]: pair.comparison.score.score_rate for pair in pairs}


def matrix(cells: Mapping[tuple[str, str], float]) -> dict[str, dict[str, float]]:
    """Return the paper's matrix by row and column: the score rate of the column against the row."""
    table: dict[str, dict[str, float]] = {row: {} for row in PLAYERS}
    for (column, row), rate in cells.items():
        table[row][column] = rate
        table[column][row] = 1.0 - rate
    return table


_HEADINGS = (
    "pair", "won", "drawn", "lost", "distinct games", "%", "95 % interval", "published %", "z", "",
)  # fmt: skip


def _pair_table(game: str, pairs: Sequence[Pair]) -> Table:
    rows = []
    for pair in pairs:
        compared = pair.comparison
        low, high = compared.interval
        rows.append(
            [
                pair.title, *map(str, compared.score), str(pair.distinct),
                f"{100 * compared.score.score_rate:.1f}", f"{100 * low:.1f} to {100 * high:.1f}",
                f"{100 * compared.published:.1f}", f"{compared.z:+.2f}", compared.verdict,
            ]
        )  # fmt: skip
    return Table(game, _HEADINGS, rows)


def _matrix_table(game: str, pairs: Sequence[Pair]) -> Table:
    measured, published = matrix(measured_cells(pairs)), matrix(PUBLISHED[game])
    rows = [
        [
            row,
            *(
                "" if row == column
                else f"{100 * measured[row][column]:.1f} ({100 * published[row][column]:.1f})"
                for column in PLAYERS
            ),
        ]
        for row in PLAYERS
    ]  # fmt: skip
    return Table(f"{game}: column beats row, % (published)", ["", *PLAYERS], rows)
