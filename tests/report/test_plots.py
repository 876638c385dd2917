"""Study figures: contents, overlapping texts and reproducible files."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pytest

from zerolab.report.figures import RunSample, figure_bytes
from zerolab.report.interval_plots import IntervalRow, draw_grouped_runs, draw_intervals
from zerolab.report.table import Interval
from zerolab.report.xy_plots import (
    Curve,
    HeatMap,
    MapPoint,
    ScatterPoint,
    draw_curves,
    draw_heat_maps,
    draw_point_map,
    draw_scatter,
)
from zerolab.studies.statistics import StudentEstimate, estimate_mean, run_sample

GAMES = ("Othello, $5 and $6", "Connect Four 6x6", "Gobang 6x6:4")
LOSSES = ("policy", "value", "sum & product")


def bars():
    rng = np.random.default_rng(0)
    groups = {
        game: {loss: run_sample(rng.normal(0, 90, 8).tolist(), [40] * 8, 30.0) for loss in LOSSES}
        for game in GAMES
    }
    groups["one run"] = {"policy": run_sample([100.0]), "value": run_sample([])}
    return draw_grouped_runs(groups, "Elo of $8 runs$", "Elo")


def curves():
    rng = np.random.default_rng(0)
    runs = np.cumsum(rng.normal(1, 3, (4, 30)), axis=1)
    runs[1, 20:] = np.nan
    runs[:, 29] = np.nan
    x = range(1, 31)
    series = {
        "value": Curve(x, runs, np.full((4, 30), 2.0)),
        "policy": Curve(x, runs[:1]),
        "sum": Curve(x, []),
    }
    return draw_curves(dict.fromkeys(GAMES, series), "Elo, $x", "iteration", "Elo")


def heat():
    values = np.random.default_rng(0).normal(0, 150, (3, 2))
    values[1, 1] = np.nan
    heat = HeatMap(
        ("I 25", "I 50", "I 75"), ("E $1", "E $2"), values, abs(values) / 5, values * 0 + 9
    )
    return draw_heat_maps(dict.fromkeys(GAMES, heat), "Elo", "iterations", "episodes", "Elo")


def scatter():
    points = [ScatterPoint(i, 10 * math.sqrt(i) - i % 3, f"$I {i}", 1.0) for i in range(1, 15)]
    return draw_scatter({"one": points[::2], "other": points[1::2]}, "Elo", "hours", "Elo")


def point_map():
    points = [MapPoint(i, i % 4, 10.0 * i) for i in range(1, 15)]
    return draw_point_map(points, "Elo, $x", "hours", "other $ hours", "Elo")


def intervals():
    runs = [12.0, -5.0, 40.0, 22.0]
    rows = {
        "value above policy, $6x6": IntervalRow(estimate_mean(runs).interval, runs, [5.0] * 4),
        "one run": IntervalRow(StudentEstimate(3.0, math.inf, 0).interval, [3.0]),
        "without runs": IntervalRow(estimate_mean(runs).interval),
    }
    return draw_intervals(rows, "Differences", "Elo", threshold=0.0)


KINDS = (bars, curves, heat, point_map, scatter, intervals)


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def texts(figure):
    """Return all visible texts, excluding labels of ticks outside the axes."""
    from matplotlib.text import Text  # noqa: PLC0415

    hidden = set()
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        for tick in axis.get_major_ticks():
            if not low <= tick.get_loc() <= high:
                hidden |= {tick.label1, tick.label2}
    visible = (each for each in figure.findobj(Text) if each.get_text() and each.get_visible())
    return [each for each in visible if each not in hidden]


def legend(figure):
    return {each.get_text() for each in figure.legends[0].get_texts()}


@pytest.mark.parametrize("kind", KINDS)
def test_texts_do_not_overlap_or_leave_figure(kind):
    figure = kind()
    figure.draw_without_rendering()  # arranges the layout
    box = figure.bbox
    drawn = [(each.get_text(), each.get_window_extent()) for each in texts(figure)]
    for text, extent in drawn:
        inside = box.x0 <= extent.x0 and extent.x1 <= box.x1 + 1 and box.y0 <= extent.y0
        assert inside and extent.y1 <= box.y1 + 1, text
    for text in texts(figure):
        assert "$" not in text.get_text() or not text.get_parse_math()
    for (one, first), (other, second) in itertools.combinations(drawn, 2):
        across = min(first.x1, second.x1) - max(first.x0, second.x0)
        upright = min(first.y1, second.y1) - max(first.y0, second.y0)
        assert across < 1 or upright < 1, (one, other)


@pytest.mark.parametrize("kind", KINDS)
def test_equal_figures_give_equal_files(kind):
    first = figure_bytes(kind(), "svg")
    assert figure_bytes(kind(), "svg") == first
    assert b"<dc:date>" not in first


def test_png_files_are_small():
    assert len(figure_bytes(curves(), "png")) < 100_000


def test_bars_distinguish_runs_from_measurement_errors():
    figure = bars()
    assert {"one run", "mean of runs and its 95 % interval", "error of measuring a run, 95 %",
            "published", *LOSSES} == legend(figure)  # fmt: skip
    (axes,) = figure.axes
    runs = [line for line in axes.lines if line.get_marker() == "o"]
    assert sum(len(line.get_xdata()) for line in runs) == 9 * 8 + 1
    assert sum(line.get_marker() == "D" for line in axes.lines) == 9
    plain = draw_grouped_runs(
        {"a": {"": run_sample([1.0, 1.1, 1.2])}}, "hours", "hours", baseline=0.0
    )
    assert legend(plain) == {"one run", "mean of runs and its 95 % interval"}


def test_wide_interval_does_not_determine_axis():
    pair = run_sample([100.0, 180.0])  # the interval extends 40 times 12.7 to both sides
    figure = draw_grouped_runs(
        {"a": {"": pair}, "b": {"": run_sample([140.0, 150.0], [10.0, 10.0])}}, "", ""
    )
    low, high = figure.axes[0].get_ylim()
    assert 0 <= low < 100 and 180 < high < 300
    assert any("extend beyond the axis" in text for text in legend(figure))
    three = draw_grouped_runs({"a": {"": run_sample([100.0, 110.0, 120.0])}}, "", "")
    low, high = three.axes[0].get_ylim()
    assert low < 110 - 24.8 and high > 110 + 24.8  # 4.303 times 10 / sqrt(3)
    assert not any("extend beyond the axis" in text for text in legend(three))


def test_axis_without_margin_cuts_no_interval():
    """The axis ends just beyond the interval, and before matplotlib's margin of 5 %."""
    sample = RunSample([0.0, 1.0], [], None, Interval(0.5, -1.2, 2.2))
    figure = draw_grouped_runs({"a": {"": sample}}, "", "")
    assert figure.axes[0].get_ylim() == pytest.approx((-1.25, 2.25))
    assert not any("extend beyond the axis" in text for text in legend(figure))


def test_curves_are_means_with_standard_deviations():
    """Runs 1, 3 and 2, 6 have means 1.5, 4.5 and standard deviations 0.7071, 2.1213."""
    figure = draw_curves({"": {"a": Curve([1, 2], [[1, 3], [2, 6]])}}, "", "iteration", "Elo")
    (axes,) = figure.axes
    assert list(axes.lines[0].get_ydata()) == [1.5, 4.5]
    corners = axes.collections[0].get_paths()[0].vertices
    assert sorted({round(float(y), 4) for y in corners[:, 1]}) == [0.7929, 2.2071, 2.3787, 6.6213]
    assert legend(figure) == {"a", "mean of runs \N{PLUS-MINUS SIGN} one SD between runs"}
    assert "error of measuring the mean, 95 %" in legend(curves())


def test_single_panel_keeps_its_heading():
    curves = {"a": Curve([1, 2], [[1, 3]])}
    cell = HeatMap(("1",), ("2",), np.array([[1.0]]))
    for heading in ("Gobang 6x6", ""):
        figures = (
            draw_curves({heading: curves}, "", "iteration", "Elo"),
            draw_heat_maps({heading: cell}, "", "rows", "columns", "Elo"),
        )
        assert [figure.axes[0].get_title() for figure in figures] == [heading, heading]


def test_errors_of_runs_combine_in_mean():
    """Errors of 3 and 4 on two runs give an error of 2.5 on their mean."""
    figure = draw_curves(
        {"": {"a": Curve([1], [[1], [2]], [[3], [4]])}}, "", "iteration", "Elo"
    )  # fmt: skip
    (bar,) = figure.axes[0].collections[-1].get_segments()
    assert bar[:, 1] == pytest.approx([1.5 - 1.96 * 2.5, 1.5 + 1.96 * 2.5], abs=1e-3)


def test_heat_maps_have_numbers_in_cells():
    labels = [each.get_text() for each in texts(heat())]
    assert labels.count("no data") == 3
    assert sum(text.startswith("SD ") for text in labels) == 3 * 5
    assert any("SD: between runs; SE: error of measuring one run" in text for text in labels)
    empty = HeatMap(("a",), ("b",), np.array([[np.nan]]))
    assert "no data" in [
        each.get_text() for each in texts(draw_heat_maps({"": empty}, "", "", "", "Elo"))
    ]


def test_pareto_front_is_numbered():
    points = [ScatterPoint(1, 5, "cheap"), ScatterPoint(2, 4, "beaten"), ScatterPoint(3, 9, "good")]
    labels = {each.get_text() for each in texts(draw_scatter({"": points}, "", "hours", "Elo"))}
    assert "on the front\n1  cheap\n2  good" in labels
    assert {"1", "2"} <= labels
    means = [ScatterPoint(1, 5, standard_deviation=2.0, standard_error=1.0)]
    assert {
        "mean of runs \N{PLUS-MINUS SIGN} one SD between runs",
        "error of measuring the mean, 95 %",
    } <= legend(draw_scatter({"": means}, "", "hours", "Elo"))
    assert draw_scatter({}, "", "hours", "Elo")


def test_intervals_are_written_beside_their_lines():
    figure = intervals()
    labels = {each.get_text() for each in texts(figure)}
    assert "17 (\N{MINUS SIGN}13 to 47)" in labels
    assert "3 (no interval)" in labels
    assert {"no interval", "threshold", "one run"} <= legend(figure)
