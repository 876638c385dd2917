"""Evaluators, and a cache of evaluations by position.

The cache serves equal positions within a step and in later steps. Neither use changes results if
evaluations do not depend on the batch (see `SearchSettings.cache`). The table has a fixed size: a
position can be stored in any of four adjacent entries, and the oldest of them is replaced.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from zerolab.core.compiled import inlined, kernel
from zerolab.core.errors import UserError
from zerolab.core.memory import LINE, copy_row, prefetch
from zerolab.core.streams import mix

ExtraOutput = Literal["draws", "action_values"]
"""Optional evaluator outputs in addition to priors and values."""

_NEEDS = {"draws": "probabilities of a draw (draw_value)", "action_values": "action values (fpu)"}


class Evaluator(Protocol):
    """Source of priors and values for batches of positions: the search's interface to a network."""

    def evaluate(
        self, states: NDArray[np.uint64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return priors float32[N, actions] and values float32[N] of uint64[N, words] states.

        Illegal actions may have nonzero priors; the search masks and renormalises them. Values are
        in [-1, 1], from the perspective of the side to move. The search requests equal states in a
        batch only once and may reuse evaluations (see `SearchSettings.deduplicate` and `.cache`).
        """
        ...


class Evaluation(NamedTuple):
    """Evaluator outputs for N positions; extra outputs that were not requested are None."""

    priors: NDArray[np.float32]
    """float32[N, actions]; see `Evaluator.evaluate`."""
    values: NDArray[np.float32]
    """float32[N]: P(win) - P(loss) for the side to move."""
    draws: NDArray[np.float32] | None = None
    """float32[N]: P(draw)."""
    action_values: NDArray[np.float32] | None = None
    """float32[N, actions]: value of each action for the side to move."""

    def rows(self, rows: slice) -> Evaluation:
        """Return the evaluations of a range of positions."""
        draws, action_values = self.draws, self.action_values
        return Evaluation(
            self.priors[rows],
            self.values[rows],
            None if draws is None else draws[rows],
            None if action_values is None else action_values[rows],
        )


@runtime_checkable
class DetailedEvaluator(Evaluator, Protocol):
    """Evaluator with outputs in addition to priors and values."""

    def evaluate_more(
        self, states: NDArray[np.uint64], extra_outputs: Collection[ExtraOutput]
    ) -> tuple[
        NDArray[np.float32],
        NDArray[np.float32],
        NDArray[np.float32] | None,
        NDArray[np.float32] | None,
    ]:
        """Return the fields of an `Evaluation`; outputs that were not requested are None.

        Raises UserError for outputs that the evaluator does not support.
        """
        ...


def evaluate(
    evaluator: Evaluator, states: NDArray[np.uint64], extra_outputs: Collection[ExtraOutput]
) -> Evaluation:
    """Evaluate uint64[N, words] states; raise UserError for unsupported extra outputs."""
    if not extra_outputs:
        return Evaluation(*evaluator.evaluate(states))
    require_outputs(evaluator, extra_outputs)
    assert isinstance(evaluator, DetailedEvaluator)
    return Evaluation(*evaluator.evaluate_more(states, extra_outputs))


def require_outputs(evaluator: Evaluator, extra_outputs: Collection[ExtraOutput]) -> None:
    """Raise UserError if extra outputs are requested from an evaluator without any."""
    if extra_outputs and not isinstance(evaluator, DetailedEvaluator):
        needed = " and ".join(_NEEDS[each] for each in sorted(extra_outputs))
        raise UserError(f"the search needs {needed}: expected a network with the matching head")


class UniformEvaluator:
    """Evaluator for searches without a network: equal priors and value 0.

    The search recognises this evaluator and runs entirely inside one kernel, without batches.
    """

    def __init__(self, actions: int) -> None:
        self.actions = actions

    def evaluate(
        self, states: NDArray[np.uint64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return ones and zeros; see `Evaluator.evaluate`."""
        count = len(states)
        return np.ones((count, self.actions), np.float32), np.zeros(count, np.float32)


_WAYS = 4
NO_ENTRY = -1

_TAG = np.dtype([("step", np.int64), ("hash", np.uint32), ("row", np.int32)])
"""Identity of the position in an entry; four tags fit in one CPU cache line."""


class Cache(NamedTuple):
    """Hash table of `size` evaluations, a power of two; probing wraps around at the end.

    `step`, `hash` and `row` of an entry are adjacent in memory, as are state, value and priors.
    """

    step: NDArray[np.int64]  # [size] the requesting step, 0 in empty entries
    hash: NDArray[np.uint32]  # [size] the upper half of the state's hash
    row: NDArray[np.int32]  # [size] the row in that step's batch
    states: NDArray[np.uint64]  # [size, words]
    values: NDArray[np.float32]  # [size]
    priors: NDArray[np.float32]  # [size, actions]
    draws: NDArray[np.float32]  # [size], or [0] if not requested
    action_values: NDArray[np.float32]  # [size, actions], or [size, 0]


def empty_cache(
    positions: int, words: int, actions: int, extra_outputs: Collection[str] = ()
) -> Cache:
    """Allocate a cache for at least `positions` positions."""
    size, width = _shape(positions, words, actions)
    tags = np.zeros(size, _TAG)
    state = 2 * words
    entries = np.zeros((size, width), np.float32)
    return Cache(
        step=tags["step"],
        hash=tags["hash"],
        row=tags["row"],
        states=entries[:, :state].view(np.uint64),
        values=entries[:, state],
        priors=entries[:, state + 1 : state + 1 + actions],
        draws=np.empty(size if "draws" in extra_outputs else 0, np.float32),
        action_values=np.empty(
            (size, actions if "action_values" in extra_outputs else 0), np.float32
        ),
    )


def cache_bytes(
    positions: int, words: int, actions: int, extra_outputs: Collection[str] = ()
) -> int:
    """Return the size of a cache in bytes; see `empty_cache` for the arguments."""
    size, width = _shape(positions, words, actions)
    extra_width = ("draws" in extra_outputs) + actions * ("action_values" in extra_outputs)
    return size * (_TAG.itemsize + 4 * (width + extra_width))


def _shape(positions: int, words: int, actions: int) -> tuple[int, int]:
    """Return the number of entries and their width in float32 values: state, value and priors."""
    size = max(_WAYS, 1 << (positions - 1).bit_length())
    line = LINE // 4
    return size, -(-(2 * words + 1 + actions) // line) * line


@inlined
def hash_state(state):
    """Return a 64-bit hash of all words of a state."""
    key = np.uint64(0)
    for word in range(state.shape[0]):
        key = mix(key ^ state[word])
    return key


@kernel
def hash_states(states, hashes):
    """Write the hashes of uint64[N, words] states into uint64[N]."""
    for i in range(states.shape[0]):
        hashes[i] = hash_state(states[i])


@inlined
def prefetch_tags(cache, key):
    """Prefetch the tags of the entries that can contain the state with hash `key`."""
    entry = np.int64(key & np.uint64(cache.step.shape[0] - 1))
    prefetch(cache.step, (entry,), 0)
    prefetch(cache.step, (entry + _WAYS - 1,), 0)


@inlined
def prefetch_entry(cache, key):
    """Prefetch the entry that contains the state with hash `key`, or would receive it."""
    size = cache.step.shape[0]
    tag = np.uint32(key >> np.uint64(32))
    entry = np.int64(key & np.uint64(size - 1))
    likely = entry
    for _ in range(_WAYS):
        if cache.hash[entry] == tag:
            likely = entry
            break
        if cache.step[entry] < cache.step[likely]:
            likely = entry
        entry = (entry + 1) & (size - 1)
    prefetch(cache.states, (likely,), 0)


@inlined
def find(cache, state, key, earliest):
    """Return the entry of a state requested in step `earliest` or later, or NO_ENTRY.

    `key` is the hash of the state.
    """
    size = cache.step.shape[0]
    tag = np.uint32(key >> np.uint64(32))
    entry = np.int64(key & np.uint64(size - 1))
    for _ in range(_WAYS):
        step = cache.step[entry]
        if cache.hash[entry] == tag and step >= earliest and step > 0:
            same = True
            for word in range(state.shape[0]):
                same &= cache.states[entry, word] == state[word]
            if same:
                return entry
        entry = (entry + 1) & (size - 1)
    return NO_ENTRY


@inlined
def reserve(cache, state, key, step, row):
    """Reserve an entry for a state whose evaluation will be row `row` of this step's batch.

    `key` is the hash of the state. Returns NO_ENTRY if this step has already reserved every
    candidate entry.
    """
    size = cache.step.shape[0]
    entry = np.int64(key & np.uint64(size - 1))
    oldest = entry
    for _ in range(_WAYS):
        if cache.step[entry] < cache.step[oldest]:
            oldest = entry
        entry = (entry + 1) & (size - 1)
    if cache.step[oldest] == step:
        return NO_ENTRY
    cache.step[oldest] = step
    cache.hash[oldest] = np.uint32(key >> np.uint64(32))
    cache.row[oldest] = row
    copy_row(state, cache.states[oldest])
    return oldest
