"""Evaluators, and a cache of evaluations by position.

A cached evaluation serves equal positions within a step and in later steps. This does not change
results if evaluations do not depend on the batch (see `SearchSettings.cache`). The table has a
fixed size. A position can be stored in any of four adjacent entries, where it replaces the position
that was requested first or, with several leaves per step, the least recently used one.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from zerolab.core.compiled import inlined, kernel
from zerolab.core.errors import UserError
from zerolab.core.memory import CACHE_LINE_BYTES, copy_row, prefetch
from zerolab.core.streams import mix64

ExtraOutput = Literal["draws", "action_values"]
"""Optional evaluator outputs in addition to priors and values."""

_OUTPUT_DESCRIPTIONS = {
    "draws": "probabilities of a draw (draw_value)",
    "action_values": "action values (fpu)",
}


class Evaluator(Protocol):
    """Source of priors and values of positions, through which the search calls a network."""

    def evaluate(
        self, states: NDArray[np.uint64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return priors float32[N, actions] and values float32[N] of uint64[N, words] states.

        Illegal actions may have nonzero priors; the search masks and renormalises them. Values are
        in [-1, 1], from the point of view of the side to move. The search requests equal states in
        a batch only once and may reuse evaluations (see `SearchSettings.deduplicate` and
        `SearchSettings.cache`).
        """
        ...


class Evaluation(NamedTuple):
    """Evaluator outputs for N positions; extra outputs that were not requested are None."""

    priors: NDArray[np.float32]
    """float32[N, actions]; see `Evaluator.evaluate`."""
    values: NDArray[np.float32]
    """float32[N]: P(win) - P(loss) for the side to move."""
    draw_probabilities: NDArray[np.float32] | None = None
    """float32[N]: P(draw)."""
    action_values: NDArray[np.float32] | None = None
    """float32[N, actions]: value of each action for the side to move."""

    def take(self, rows: slice) -> Evaluation:
        """Return the evaluations of some of the positions."""
        draw_probabilities, action_values = self.draw_probabilities, self.action_values
        return Evaluation(
            self.priors[rows],
            self.values[rows],
            None if draw_probabilities is None else draw_probabilities[rows],
            None if action_values is None else action_values[rows],
        )


NO_EVALUATIONS = Evaluation(np.empty((0, 0), np.float32), np.empty(0, np.float32))
"""Evaluations of an empty batch."""


@runtime_checkable
class ExtraOutputEvaluator(Evaluator, Protocol):
    """Evaluator that can provide extra outputs: draw probabilities and action values."""

    def evaluate_with_extras(
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
    require_extra_outputs(evaluator, extra_outputs)
    assert isinstance(evaluator, ExtraOutputEvaluator)
    return Evaluation(*evaluator.evaluate_with_extras(states, extra_outputs))


def require_extra_outputs(evaluator: Evaluator, extra_outputs: Collection[ExtraOutput]) -> None:
    """Raise UserError if extra outputs are requested from an evaluator that provides none."""
    if extra_outputs and not isinstance(evaluator, ExtraOutputEvaluator):
        needed = " and ".join(_OUTPUT_DESCRIPTIONS[each] for each in sorted(extra_outputs))
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
        """Return equal priors and zero values; see `Evaluator.evaluate`."""
        count = len(states)
        return np.ones((count, self.actions), np.float32), np.zeros(count, np.float32)


def has_network(evaluator: Evaluator) -> bool:
    """Return True unless the evaluator is for searches without a network."""
    return not isinstance(evaluator, UniformEvaluator)


_WAYS = 4
NO_ENTRY = -1
CACHED_ROW = -1
"""`EvaluationCache.batch_row` of an entry from an earlier step that a waiting leaf will use."""

_TAG = np.dtype([("request_step", np.int64), ("upper_hash", np.uint32), ("batch_row", np.int32)])
"""Tag that identifies the position in an entry; four tags fit in one CPU cache line."""


class EvaluationCache(NamedTuple):
    """Hash table of `size` evaluations, where `size` is a power of two; probing wraps around.

    `request_step`, `upper_hash` and `batch_row` of an entry are adjacent in memory, as are state,
    value and priors.
    """

    request_step: NDArray[np.int64]  # [size] step of the request or of the last wait, 0 if empty
    upper_hash: NDArray[np.uint32]  # [size] upper half of the hash of the state
    batch_row: NDArray[np.int32]  # [size] row in the batch of that step, or CACHED_ROW
    states: NDArray[np.uint64]  # [size, words]
    values: NDArray[np.float32]  # [size]
    priors: NDArray[np.float32]  # [size, actions]
    draw_probabilities: NDArray[np.float32]  # [size], or [0] if not requested
    action_values: NDArray[np.float32]  # [size, actions], or [size, 0]


def new_evaluation_cache(
    position_count: int, word_count: int, action_count: int, extra_outputs: Collection[str] = ()
) -> EvaluationCache:
    """Allocate a cache for at least `position_count` positions.

    Only the tags are initialised, since empty entries are never read and clearing all entries would
    take longer than a short search.
    """
    size, width = _shape(position_count, word_count, action_count)
    tags = np.zeros(size, _TAG)
    state = 2 * word_count
    entries = np.empty((size, width), np.float32)
    return EvaluationCache(
        request_step=tags["request_step"],
        upper_hash=tags["upper_hash"],
        batch_row=tags["batch_row"],
        states=entries[:, :state].view(np.uint64),
        values=entries[:, state],
        priors=entries[:, state + 1 : state + 1 + action_count],
        draw_probabilities=np.empty(size if "draws" in extra_outputs else 0, np.float32),
        action_values=np.empty(
            (size, action_count if "action_values" in extra_outputs else 0), np.float32
        ),
    )


def cache_bytes(
    position_count: int, word_count: int, action_count: int, extra_outputs: Collection[str] = ()
) -> int:
    """Return the size of a cache in bytes; see `new_evaluation_cache` for the arguments."""
    size, width = _shape(position_count, word_count, action_count)
    extra_width = ("draws" in extra_outputs) + action_count * ("action_values" in extra_outputs)
    return size * (_TAG.itemsize + 4 * (width + extra_width))


def _shape(positions: int, words: int, actions: int) -> tuple[int, int]:
    """Return the number of entries and their width in float32 values: state, value and priors."""
    size = max(_WAYS, 1 << (positions - 1).bit_length())
    line = CACHE_LINE_BYTES // 4
    return size, -(-(2 * words + 1 + actions) // line) * line


@inlined
def hash_state(state):
    """Return a 64-bit hash of all words of a state."""
    state_hash = np.uint64(0)
    for word in range(state.shape[0]):
        state_hash = mix64(state_hash ^ state[word])
    return state_hash


@kernel
def hash_states(states, hashes):
    """Write the hashes of `states`, uint64[N, words], to `hashes`, uint64[N]."""
    for i in range(states.shape[0]):
        hashes[i] = hash_state(states[i])


@inlined
def prefetch_tags(cache, state_hash):
    """Prefetch the tags of all entries that can contain a state with hash `state_hash`."""
    entry = np.int64(state_hash & np.uint64(cache.request_step.shape[0] - 1))
    prefetch(cache.request_step, (entry,), 0)
    prefetch(cache.request_step, (entry + _WAYS - 1,), 0)


@inlined
def prefetch_entry(cache, state_hash):
    """Prefetch the entry of a state with hash `state_hash`, or the entry that it would replace."""
    size = cache.request_step.shape[0]
    upper_hash = np.uint32(state_hash >> np.uint64(32))
    entry = np.int64(state_hash & np.uint64(size - 1))
    likely = entry
    for _ in range(_WAYS):
        if cache.upper_hash[entry] == upper_hash:
            likely = entry
            break
        if cache.request_step[entry] < cache.request_step[likely]:
            likely = entry
        entry = (entry + 1) & (size - 1)
    prefetch(cache.states, (likely,), 0)


@inlined
def find_entry(cache, state, state_hash, earliest_step):
    """Return the entry of a state requested in step `earliest_step` or later, or NO_ENTRY.

    `state_hash` is the hash of the state.
    """
    size = cache.request_step.shape[0]
    upper_hash = np.uint32(state_hash >> np.uint64(32))
    entry = np.int64(state_hash & np.uint64(size - 1))
    for _ in range(_WAYS):
        step = cache.request_step[entry]
        if cache.upper_hash[entry] == upper_hash and step >= earliest_step and step > 0:
            same = True
            for word in range(state.shape[0]):
                same &= cache.states[entry, word] == state[word]
            if same:
                return entry
        entry = (entry + 1) & (size - 1)
    return NO_ENTRY


@inlined
def reserve_entry(cache, state, state_hash, step_number, batch_row):
    """Reserve an entry for a state whose evaluation will be row `batch_row` of this step's batch.

    `state_hash` is the hash of the state. Returns NO_ENTRY if this step has already reserved all
    entries that can contain the state.
    """
    size = cache.request_step.shape[0]
    entry = np.int64(state_hash & np.uint64(size - 1))
    oldest = entry
    for _ in range(_WAYS):
        if cache.request_step[entry] < cache.request_step[oldest]:
            oldest = entry
        entry = (entry + 1) & (size - 1)
    if cache.request_step[oldest] == step_number:
        return NO_ENTRY
    cache.request_step[oldest] = step_number
    cache.upper_hash[oldest] = np.uint32(state_hash >> np.uint64(32))
    cache.batch_row[oldest] = batch_row
    copy_row(state, cache.states[oldest])
    return oldest
