"""Fragments and numba's own inlining: equal results, and the choice between them."""

from __future__ import annotations

import sys
import warnings
from typing import NamedTuple

import numba
import numpy as np
import pytest

from zerolab.core import compiled, fragments
from zerolab.core.compiled import CompiledInterface, choose_inlining, inlined, kernel
from zerolab.core.errors import SlowFallbackWarning
from zerolab.core.fragments import FAST_INLINING
from zerolab.core.inlining import STANDARD_INLINING, check_inlining

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="tests compiled code")

both_ways = pytest.mark.parametrize(
    "way", [FAST_INLINING, STANDARD_INLINING], ids=["fragments", "plain"]
)


class Walk(NamedTuple):
    steps: np.ndarray
    visits: np.ndarray


class DoubleSteps:
    @staticmethod
    def advance(walk, at):
        return (at + 2 * walk.steps[at]) % len(walk.steps)


def visit(walk, at):
    walk.visits[at] += 1
    return walk.visits.copy()


def playing(advance, visit):
    """Return a function that walks and adds up the largest number of visits at every ply."""

    def play(walk, plies):
        at = total = 0
        for _ in range(plies):
            at = advance(walk, at)
            total += visit(walk, at).max()
        return total

    return play


@both_ways
def test_kernel_with_an_interface_and_a_helper_computes_what_python_does(way, monkeypatch):
    monkeypatch.setattr(compiled, "_INLINING", way)
    walks = CompiledInterface("walk")

    @walks.declare
    def advance(walk, at):
        raise AssertionError

    walks.implement(Walk, DoubleSteps)
    steps = np.random.default_rng(3).integers(1, 7, 40)
    in_kernel, in_python = (Walk(steps, np.zeros(40, np.int64)) for _ in range(2))
    total = kernel(playing(advance, inlined(visit)))(in_kernel, 500)
    assert total == playing(DoubleSteps.advance, visit)(in_python, 500)
    assert in_kernel.visits.tolist() == in_python.visits.tolist()


@both_ways
def test_both_ways_pass_the_check(way):
    check_inlining(way)


def test_check_finds_wrong_results():
    def last_argument_ignored(function):
        return FAST_INLINING.compile_helper(lambda pair, by: pair.source)

    with pytest.raises(RuntimeError, match="wrong results"):
        check_inlining(FAST_INLINING._replace(compile_helper=last_argument_ignored))


def _break_lowering(monkeypatch):
    def run_pass(self, state):
        raise AttributeError("'JITCodeLibrary' has no\nsuch attribute")

    monkeypatch.setattr(fragments._FragmentLowering, "run_pass", run_pass)


def test_newer_numba_with_changed_internals_inlines_plainly_and_warns(monkeypatch):
    monkeypatch.setattr(compiled, "NEWEST_TESTED_NUMBA", (0, 61))
    assert choose_inlining() is FAST_INLINING
    _break_lowering(monkeypatch)
    with pytest.warns(SlowFallbackWarning, match=r"pip install 'numba<0\.62'.*no such attribute"):
        assert choose_inlining() is STANDARD_INLINING


def test_missing_internals_inline_plainly_and_warn(monkeypatch):
    monkeypatch.setitem(sys.modules, "zerolab.core.fragments", None)
    with pytest.warns(SlowFallbackWarning, match="kernels compile more slowly"):
        assert choose_inlining() is STANDARD_INLINING
    monkeypatch.setattr(compiled, "is_multiprocessing_child", lambda: True)
    with warnings.catch_warnings(action="error"):
        assert choose_inlining() is STANDARD_INLINING


def test_tested_numba_is_not_checked_at_every_start(monkeypatch):
    monkeypatch.setattr(compiled, "NEWEST_TESTED_NUMBA", numba.version_info.short)
    _break_lowering(monkeypatch)
    assert choose_inlining() is FAST_INLINING
