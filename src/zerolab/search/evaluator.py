"""Evaluators, and a cache of their evaluations by position.

The cache serves equal positions of a step and those of later steps. Both uses change nothing where
evaluations do not depend on the batch (see `SearchSettings.cache`). The table is bounded: a
position may be stored in any of four neighbouring entries, of which the oldest is replaced.
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
"""Outputs of an evaluator beyond priors and values."""

_NEEDS = {"draws": "probabilities of a draw (draw_value)", "action_values": "action values (fpu)"}


class Evaluator(Protocol):
    """Gives priors and values for a batch of positions; a search's only view of a network."""

    def evaluate(
        self, states: NDArray[np.uint64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return priors float32[N, actions] and values float32[N] of uint64[N, words] states.

        Priors may give weight to illegal actions: the search masks and renormalises them. Values
        lie in [-1, 1] and are those of the player to move. The search requests equal states of a
        batch once and may reuse evaluations (see `SearchSettings.deduplicate` and `.cache`).
        """
        ...


class Evaluation(NamedTuple):
    """An evaluator's outputs for N positions; extra outputs that were not wanted are None."""

    priors: NDArray[np.float32]
    """float32[N, actions]; see `Evaluator.evaluate`."""
    values: NDArray[np.float32]
    """float32[N]: P(win) - P(loss) of the player to move."""
    draws: NDArray[np.float32] | None = None
    """float32[N]: P(draw)."""
    action_values: NDArray[np.float32] | None = None
    """float32[N, actions]: the value of each action for the player who takes it."""

    def rows(self, rows: slice) -> Evaluation:
        """Return the evaluations of some of the positions."""
        draws, action_values = self.draws, self.action_values
        return Evaluation(
            self.priors[rows],
            self.values[rows],
            None if draws is None else draws[rows],
            None if action_values is None else action_values[rows],
        )


@runtime_checkable
class DetailedEvaluator(Evaluator, Protocol):
    """An evaluator with more outputs than priors and values."""

    def evaluate_more(
        self, states: NDArray[np.uint64], wanted: Collection[ExtraOutput]
    ) -> tuple[
        NDArray[np.float32],
        NDArray[np.float32],
        NDArray[np.float32] | None,
        NDArray[np.float32] | None,
    ]:
        """Return the fields of an `Evaluation`; those that are not wanted are None.

        Raises UserError for an output that the evaluator lacks.
        """
        ...


def evaluate(
    evaluator: Evaluator, states: NDArray[np.uint64], wanted: Collection[ExtraOutput]
) -> Evaluation:
    """Evaluate uint64[N, words] states; raise UserError if the evaluator lacks a wanted output."""
    if not wanted:
        return Evaluation(*evaluator.evaluate(states))
    require_outputs(evaluator, wanted)
    assert isinstance(evaluator, DetailedEvaluator)
    return Evaluation(*evaluator.evaluate_more(states, wanted))


def require_outputs(evaluator: Evaluator, wanted: Collection[ExtraOutput]) -> None:
    """Raise UserError if extra outputs are wanted of an evaluator that has none."""
    if wanted and not isinstance(evaluator, DetailedEvaluator):
        needed = " and ".join(_NEEDS[each] for each in sorted(wanted))
        raise UserError(f"the search needs {needed}: expected a network with a head for it")


class UniformEvaluator:
    """Equal priors and the value 0: a search without a network.

    The search recognises this evaluator and then runs whole inside one kernel, without batches.
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
"""Identity of an entry's position: four tags fit one line of the processor's cache."""


class Cache(NamedTuple):
    """`size` evaluations, a power of two; the last entries wrap around to the first.

    `step`, `hash` and `row` of an entry are adjacent in memory; so are state, value and priors.
    """

    step: NDArray[np.int64]  # [size] the step that requested it, 0 where there is none
    hash: NDArray[np.uint32]  # [size] the upper half of the hash of its state
    row: NDArray[np.int32]  # [size] its row in that step's batch
    states: NDArray[np.uint64]  # [size, words]
    values: NDArray[np.float32]  # [size]
    priors: NDArray[np.float32]  # [size, actions]
    draws: NDArray[np.float32]  # [size], or [0] where they are not wanted
    action_values: NDArray[np.float32]  # [size, actions], or [size, 0]


def empty_cache(positions: int, words: int, actions: int, wanted: Collection[str] = ()) -> Cache:
    """Allocate a cache for at least `positions` positions, with some extra outputs."""
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
        draws=np.empty(size if "draws" in wanted else 0, np.float32),
        action_values=np.empty((size, actions if "action_values" in wanted else 0), np.float32),
    )


def cache_bytes(positions: int, words: int, actions: int, wanted: Collection[str] = ()) -> int:
    """Return the memory of a cache; the arguments are those of `empty_cache`."""
    size, width = _shape(positions, words, actions)
    others = ("draws" in wanted) + actions * ("action_values" in wanted)
    return size * (_TAG.itemsize + 4 * (width + others))


def _shape(positions: int, words: int, actions: int) -> tuple[int, int]:
    """Return the number of entries, and the float32 values of state, value and priors of one."""
    size = max(_WAYS, 1 << (positions - 1).bit_length())
    line = LINE // 4
    return size, -(-(2 * words + 1 + actions) // line) * line


@inlined
def hash_state(state):
    """Return 64 bits that depend on every word of a state."""
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
    """Prefetch the tags that decide whether the state with the hash `key` is in the cache."""
    entry = np.int64(key & np.uint64(cache.step.shape[0] - 1))
    prefetch(cache.step, (entry,), 0)
    prefetch(cache.step, (entry + _WAYS - 1,), 0)


@inlined
def prefetch_entry(cache, key):
    """Prefetch the entry of the state with the hash `key`, or the one where it would be stored."""
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

    `key` is the state's hash.
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
    """Reserve an entry for a state whose evaluation is row `row` of the batch of this step.

    `key` is the state's hash. Returns NO_ENTRY if all its entries wait for this step's
    evaluations.
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
