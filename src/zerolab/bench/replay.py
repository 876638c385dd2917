"""The window: an iteration's positions merged into it, compared with writing them down."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zerolab.bench.measure import GAMES, Measurement, in_turns
from zerolab.replay.facts import WIDE, Facts
from zerolab.replay.interface import Merging
from zerolab.replay.merging import Newest, NoMerging
from zerolab.replay.window import Window
from zerolab.replay.windows.slow import Slow
from zerolab.rules import interface as rules
from zerolab.rules.catalogue import parse_game

_WINDOW = 2_000_000
_NEW = 300_000
_KNOWN = 0.4
"""Share of positions that come from a common stock, as openings do."""
_TURNS = 13
"""Iterations after which the same positions come again: nearly all have left the window by then."""


def measure_replay(rounds: int) -> Iterator[Measurement]:
    """Measure, on one core, how fast a full window takes up an iteration with merging."""
    for name in GAMES[:2]:
        merging, plain = (_Filling(name, kind) for kind in (Newest(), NoMerging()))
        rate, best = in_turns(merging.add, plain.add, rounds)
        yield Measurement(
            f"replay/merge/{name}", "positions/s", rate, best,
            "a window of as many positions without merging",
            note=merging.note,
        )  # fmt: skip


class _Filling:
    """A full window, to which one iteration after the other is added."""

    def __init__(self, name: str, merging: Merging) -> None:
        game = parse_game(name)
        random = np.random.default_rng(0)
        size = Slow(first=_WINDOW, final=_WINDOW)
        self._window = Window(game, size, merging)
        self._facts = _facts(random, rules.actions(game))
        self._iterations = [_states(random, rules.words(game)) for _ in range(_TURNS)]
        for _ in range(_TURNS):
            self.add()
        assert len(self._window) == _WINDOW

    def add(self) -> float:
        """Add an iteration; return the number of its positions."""
        states = self._iterations[self._window.contents.iteration % _TURNS]
        self._window.add(states, self._facts)
        return float(_NEW)

    @property
    def note(self) -> str:
        """What a position takes, and how many of the latest iteration were merged."""
        contents = self._window.contents
        return f"{contents.bytes_each} bytes per position, {contents.merged / _NEW:.0%} merged"


def _states(random: np.random.Generator, words: int) -> NDArray[np.uint64]:
    """Return states of an iteration: new ones, and known ones, the lower the more common."""
    states = random.integers(1 << 32, 1 << 63, (_NEW, words), np.uint64)
    known = random.random(_NEW) < _KNOWN
    ranks = np.minimum(random.pareto(1.0, _NEW) * 100, 1 << 20)
    states[known] = ranks.astype(np.uint64)[known, None]
    return states


def _facts(random: np.random.Generator, actions: int) -> Facts:
    """Return random facts as heads for policy, value and reply need them."""
    single, nothing = random.random(_NEW, np.float32), np.empty((_NEW, 0), np.float16)
    policies = random.random((_NEW, actions), np.float32).astype(np.float16)
    columns: dict[str, Any] = dict.fromkeys(Facts._fields, single)
    columns |= dict.fromkeys(WIDE, nothing)
    return Facts(**columns | {"policies": policies, "replies": policies})
