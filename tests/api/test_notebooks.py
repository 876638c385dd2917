"""Output in notebooks: short reprs, tables and figures as HTML, and data frames."""

from __future__ import annotations

import math
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import zerolab
from zerolab.api import runs
from zerolab.api.runs import notebook_reporter
from zerolab.training.reporting import NullReporter, RunClock, parse_records

GAME = "gobang:3x3:3"
LEDGER = Path(__file__).parents[2] / "docs/results/table-5.1/ledger.parquet"
GAMES = [("strong", "weak", 1), ("weak", "strong", -1), ("weak", "strong", 0)] * 9


class Shown(HTMLParser):
    """Table cells, and counts of tables and images, in HTML with balanced tags."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.tables = self.images = 0
        self._open: list[str] = []
        self.feed(html)
        assert self._open == []

    def handle_starttag(self, tag, attributes):
        self.tables += tag == "table"
        if tag == "img":
            self.images += 1
            assert dict(attributes)["src"].startswith("data:image/")
        else:
            self._open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if self._open and any(tag in ("td", "th") for tag in self._open):
            self.cells[-1] += data


@pytest.fixture(scope="module")
def match():
    return zerolab.play_match("mcts:60", "random", game=GAME, games=6, openings=1)


@pytest.fixture(scope="module")
def tournament(tmp_path_factory):
    folder = tmp_path_factory.mktemp("notebooks") / "tournament"
    agents = ["random", "mcts:5", "mcts:50"]
    return zerolab.play_tournament(agents, game=GAME, games=4, folder=folder)


def test_every_public_object_has_a_short_repr(run, match, tournament, records):
    position = zerolab.Position.start("gobang:8x8:5").random_playout()
    analysis = zerolab.analyse(zerolab.Position.start(GAME), "mcts:30")
    ratings = zerolab.rate(GAMES)
    empty = np.zeros(0, np.int64)
    positions = zerolab.SolvedPositions(
        zerolab.parse_game(GAME), empty, empty.astype(np.int16), np.zeros(1, np.int64),
        np.zeros((0, 2), np.uint64), np.zeros((0, 9), np.int32),
    )  # fmt: skip
    objects = [
        position, analysis, analysis.chosen_move, zerolab.load_agent("mcts:30", GAME), match,
        match.score, match.elo_difference(), *match.games, ratings, ratings.model,
        *ratings.player_ratings, tournament, *tournament.pairs, tournament.ratings, run,
        run.network(), *records, *zerolab.run_costs(run.path), zerolab.SearchSettings(),
        zerolab.SearchSettings(simulations=10, selection={"name": "uct", "c": 1.25}),
        zerolab.parse_game(GAME), zerolab.study_report(LEDGER), positions,
    ]  # fmt: skip
    for each in objects:
        text = repr(each)
        assert "\n" not in text
        assert len(text) <= 100 + len(str(run.path)), text
        assert "array(" not in text
        assert re.search(r"\d\.\d{5}", text) is None, text


def test_settings_show_what_differs_from_defaults():
    assert repr(zerolab.SearchSettings()) == "SearchSettings()"
    settings = zerolab.SearchSettings(simulations=7)
    assert repr(settings) == "SearchSettings(simulations=7)"


def test_match_shows_score_and_elo(match):
    shown = Shown(match._repr_html_())
    assert (shown.tables, shown.images) == (1, 0)
    assert {"mcts:60", "random", "won"} <= set(shown.cells)
    frame = match.to_pandas()
    assert list(frame["number"]) == list(range(6))
    points = sum(row.result if row.first == match.a else -row.result for row in frame.itertuples())
    assert points == match.score.wins - match.score.losses


def test_ratings_and_tournament_show_tables_and_figures(tournament):
    ratings = zerolab.rate(GAMES)
    shown = Shown(ratings._repr_html_())
    assert (shown.tables, shown.images) == (1, 1)
    assert list(ratings.to_pandas()["player"]) == ["strong", "weak"]
    assert ratings.to_pandas()["elo"].iloc[0] == ratings.player_ratings[0].elo
    shown = Shown(tournament._repr_html_())
    assert (shown.tables, shown.images) == (3, 1)
    assert {"random", "mcts:5", "mcts:50"} <= set(shown.cells)
    assert len(tournament.to_pandas()) == 3


def test_run_shows_iterations_and_curves(run):
    shown = Shown(run._repr_html_())
    assert (shown.tables, shown.images) == (1, 1)
    rows = run.to_pandas()
    assert set(rows["stage"]) == {line["stage"] for line in run.metrics()}
    losses = [line["loss"]["policy"] for line in run.metrics("learn")]
    assert list(rows["loss/policy"].dropna()) == losses
    assert f"{losses[-1]:.3f}" in shown.cells


def test_analysis_as_data_frame_has_one_row_per_move():
    analysis = zerolab.analyse(zerolab.Position.start(GAME), "mcts:30")
    frame = analysis.to_pandas()
    assert list(frame["name"]) == [move.name for move in analysis.moves]
    assert frame["visits"].sum() == 30
    assert np.issubdtype(frame["value"].dtype, np.floating)


def test_study_report_shows_verdicts():
    report = zerolab.study_report(LEDGER)
    assert zerolab.study_report(LEDGER.parent).document.title == report.document.title
    shown = Shown(report._repr_html_())
    assert shown.tables >= 2
    assert len(repr(report)) <= 120
    assert "verdict" in shown.cells
    with pytest.raises(zerolab.UserError, match="nowhere"):
        zerolab.study_report("nowhere.parquet")


def test_missing_pandas_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(zerolab.UserError, match=r'requires pandas.* the "notebook" extra') as error:
        zerolab.rate(GAMES).to_pandas()
    assert "\n" not in str(error.value)


class FakeNotebook:
    """IPython as `notebook_progress` uses it: a shell with a kernel, and displays."""

    def __init__(self, monkeypatch) -> None:
        self.shown: list[str] = []
        module, display = ModuleType("IPython"), ModuleType("IPython.display")
        module.get_ipython = lambda: SimpleNamespace(kernel=object())
        display.display = self._display
        monkeypatch.setitem(sys.modules, "IPython", module)
        monkeypatch.setitem(sys.modules, "IPython.display", display)

    def _display(self, shown, *, display_id):
        self.update(shown)
        return self

    def update(self, shown):
        self.shown.append(shown._repr_html_())
        assert len(repr(shown)) < 200


def test_training_shows_a_progress_bar_in_notebooks_only(run, monkeypatch, capfd):
    fake = FakeNotebook(monkeypatch)
    reporter = notebook_reporter(RunClock(3))
    monkeypatch.setattr(runs, "_SECONDS", math.inf)
    reporter.stage_started(2, "self-play", 8, "games")
    reporter.progress(5, "<slow>")
    monkeypatch.setattr(runs, "_SECONDS", 0.0)
    reporter.progress(6, "<slow>")
    reporter.stage_finished(parse_records(run.metrics("learn"))[0])
    begun, started, halfway, finished = fake.shown
    assert begun == "starting training"
    assert '<progress value="0" max="8"' in started
    assert "iteration 2/3, self-play: 6 of 8 games, &lt;slow&gt;" in halfway
    assert "policy loss" in finished
    monkeypatch.delitem(sys.modules, "IPython")
    assert isinstance(notebook_reporter(RunClock(3)), NullReporter)
    assert capfd.readouterr() == ("", "")
