"""Window sizes: published schedules, and iterations needed on resuming."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerolab.core.config import validate
from zerolab.core.errors import UserError
from zerolab.replay.window_rules import (
    IterationsWindow,
    LinearGrowthWindow,
    PositionsWindow,
    PowerLawWindow,
)


def test_slow_window_has_the_published_sizes():
    """500,000 positions, growing to 2,000,000 over iterations 5 to 15 [Clausen2021]."""
    sizes = [LinearGrowthWindow().max_positions(iteration, 10**9) for iteration in range(1, 18)]
    assert sizes[:5] == [500_000] * 5
    assert sizes[5:15] == [500_000 + 150_000 * step for step in range(1, 11)]
    assert sizes[15:] == [2_000_000] * 2
    assert LinearGrowthWindow().last_scheduled_iteration == 15


def test_katago_window_has_the_published_size():
    """About 22 million after the 241 million positions of the main run [Wu2019]."""
    window = PowerLawWindow()
    assert window.max_positions(1, 10) == window.max_positions(1, 250_000) == 250_000
    assert window.max_positions(1, 241_000_000) == pytest.approx(22e6, rel=0.1)
    slope = (window.max_positions(1, 251_000) - window.max_positions(1, 250_000)) / 1000
    assert slope == pytest.approx(0.4, abs=0.01)


def test_power_law_with_exponent_1_is_a_constant_share():
    window = PowerLawWindow(c=100, alpha=1, beta=0.25)
    assert [window.max_positions(1, total) for total in (50, 100, 104, 500)] == [100, 100, 101, 200]


def test_iteration_window_counts_from_the_latest():
    window = IterationsWindow(iterations=3)
    assert [window.oldest_iteration(iteration) for iteration in (1, 3, 4, 9)] == [1, 1, 2, 7]
    assert window.max_positions(9, 10**9) is None


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        (LinearGrowthWindow, {"first": 20, "final": 10}, "final = 10 is less than first = 20"),
        (LinearGrowthWindow, {"begin": 5, "end": 5}, "end = 5 is not after begin = 5"),
        (LinearGrowthWindow, {"begin": 9, "end": 2}, "end = 2 is not after begin = 9"),
        (PositionsWindow, {"size": 0}, "size = 0: expected at least 1"),
        (PowerLawWindow, {"alpha": 0}, "alpha = 0: expected more than 0"),
        (PowerLawWindow, {"beta": 1.5}, "beta = 1.5: expected at most 1"),
        (IterationsWindow, {"iterations": 0}, "iterations = 0: expected at least 1"),
    ],
)
def test_impossible_windows_get_one_line_errors(kind, values, message):
    with pytest.raises(UserError) as caught:
        validate(kind, values)
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


_WINDOWS = st.one_of(
    st.builds(IterationsWindow, iterations=st.integers(1, 5)),
    st.builds(PositionsWindow, size=st.integers(1, 60)),
    st.builds(
        PowerLawWindow, c=st.integers(1, 40), alpha=st.floats(0.1, 1), beta=st.floats(0.1, 1)
    ),
    st.tuples(*[st.integers(1, 30)] * 2, *[st.integers(1, 6)] * 2).map(
        lambda t: LinearGrowthWindow(first=t[0], final=t[0] + t[1], begin=t[2], end=t[2] + t[3])
    ),
)


def _positions_left(window, played, first):
    """Return (iteration, number) of positions that remain when starting at iteration `first`."""
    remaining = []
    for iteration in range(first, len(played) + 1):
        remaining += [(iteration, number) for number in range(played[iteration - 1])]
        remaining = [
            position for position in remaining if position[0] >= window.oldest_iteration(iteration)
        ]
        limit = window.max_positions(iteration, sum(played[:iteration]))
        remaining = remaining if limit is None else remaining[-limit:]
    return remaining


@given(_WINDOWS, st.lists(st.integers(1, 30), min_size=1, max_size=12))
def test_resuming_loads_exactly_the_needed_iterations(window, played):
    requested = []

    def count(iteration):
        requested.append(iteration)
        return played[iteration - 1]

    first = window.first_needed_iteration(len(played), sum(played), count)
    expected = _positions_left(window, played, 1)
    assert _positions_left(window, played, first) == expected
    assert first == expected[0][0]
    assert requested == list(range(len(played), first - 1, -1))
