"""Work shared out among threads."""

from __future__ import annotations

import threading

import pytest

from zerolab.core.threads import in_parts


@pytest.mark.parametrize(("length", "parts"), [(0, 1), (1, 1), (10, 3), (2, 5), (7, 7)])
def test_parts_cover_the_whole_once(length, parts):
    ranges = in_parts(range, length, parts)
    assert len(ranges) == parts
    assert [number for part in ranges for number in part] == list(range(length))


def test_parts_run_at_the_same_time():
    meeting = threading.Barrier(3, timeout=20)
    assert in_parts(lambda begin, end: meeting.wait() >= 0, 3, 3) == [True] * 3


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_an_exception_is_raised_once_all_parts_are_done(failing):
    done = []

    def work(begin, end):
        done.append(begin)
        if begin == failing:
            raise ValueError(begin)

    with pytest.raises(ValueError, match=str(failing)):
        in_parts(work, 3, 3)
    assert sorted(done) == [0, 1, 2]
