"""Random playouts from the first position: on one core, and what a second thread adds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from zerolab.bench.measure import GAMES, Measurement, in_turns
from zerolab.core import streams
from zerolab.core.compiled import inlined, kernel
from zerolab.rules import host
from zerolab.rules import interface as rules
from zerolab.rules.catalogue import parse_game
from zerolab.rules.interface import MOST_PLIES, Rules
from zerolab.rules.playouts import random_bits

_STATES = 1024
_COUNT = 256


def measure_playouts(rounds: int) -> Iterator[Measurement]:
    """Measure each game beside the random numbers of as many plies, drawn and written down."""
    for name in GAMES:
        subject = _Playouts(name)
        rate, best = in_turns(subject.play, subject.draw, 5 * rounds)
        once, generic = in_turns(subject.play, subject.play_generic, rounds)
        two, one = in_turns(subject.play_on_two_threads, subject.play, rounds)
        note = f"{once / generic:.1f} of the generic playout, 2 threads {two / one:.2f} of one"
        limit_of = "random numbers alone, drawn and written down"
        yield Measurement(f"playout/{name}", "playouts/s", rate, best, limit_of, note=note)


class _Playouts:
    def __init__(self, name: str) -> None:
        self._game = parse_game(name)
        self._states = np.repeat(host.start(self._game)[None], _STATES, axis=0)
        self._out = self._states[0].copy()
        self._trace = np.empty(1 + MOST_PLIES, np.int32)
        self._lengths = np.empty(_STATES, np.int64)
        self._seed = 0
        _measure_lengths(self._game, self._states, self._out, self._trace, self._lengths)

    def play(self, threads: int = 1) -> float:
        """Play games that are new each time: a processor learns the branches of known ones."""
        self._seed += 1
        numbers = np.arange(_STATES)
        keys = streams.streams(self._seed, 0, numbers, np.zeros_like(numbers), streams.PLAYOUT)
        host.playout_batch(self._game, self._states, keys, _COUNT, threads)
        return float(_STATES * _COUNT)

    def play_on_two_threads(self) -> float:
        """Play as many on two threads."""
        return self.play(threads=2)

    def play_generic(self) -> float:
        """Play fewer, as a game does that has no playout of its own."""
        self._seed += 1
        key, start = np.uint64(self._seed), self._states[0]
        _play_generic(self._game, start, key, _STATES * _COUNT // 4, self._out, self._trace)
        return float(_STATES * _COUNT // 4)

    def draw(self) -> float:
        """Draw and write what as many playouts of such lengths draw and write."""
        self._seed += 1
        _draw(self._lengths, np.uint64(self._seed), _COUNT, self._trace)
        return float(_STATES * _COUNT)


_generic_playout = inlined(Rules.playout)


@kernel
def _play_generic(game: Any, state: Any, key: Any, count: Any, out: Any, moves: Any) -> None:
    for number in range(count):
        _generic_playout(game, state, streams.fold(key, number), out, moves)


@kernel
def _measure_lengths(game: Any, states: Any, out: Any, moves: Any, lengths: Any) -> None:
    for i in range(states.shape[0]):
        rules.playout(game, states[i], streams.fold(np.uint64(0), i), out, moves)
        lengths[i] = moves[0]


@kernel
def _draw(lengths: Any, key: Any, count: Any, moves: Any) -> None:
    for i in range(lengths.shape[0]):
        for number in range(count):
            stream = streams.fold(key + np.uint64(i), number)
            random = np.uint64(0)
            for ply in range(lengths[i]):
                random = random_bits(stream, ply, random)
                moves[1 + ply] = streams.below(random, lengths[i])
            moves[0] = lengths[i]
