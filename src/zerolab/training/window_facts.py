"""Facts in the replay window, computed from stored examples or from solved positions."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core import streams
from zerolab.core.errors import UserError, quoted
from zerolab.evaluation.positions import (
    SolvedPositions,
    content_digest,
    read_positions,
    replay_move_sequences,
)
from zerolab.networks.heads import FeaturesHead
from zerolab.networks.network_settings import NetworkSettings
from zerolab.networks.objectives import Head
from zerolab.oracles.oracle import ILLEGAL_VALUE
from zerolab.replay.window import Window
from zerolab.replay.window_rules import IterationsWindow, NoMerging
from zerolab.rules.catalogue import game_name
from zerolab.rules.facts import VECTOR_COLUMN_NAMES, Facts, FloatArray, SearchFacts
from zerolab.rules.rules import Game
from zerolab.store.examples import Examples
from zerolab.training.learn_settings import SOLVED_TARGET_OPTIONS, LearnSettings, SupervisedSettings
from zerolab.training.published_bugs import EnabledBugs
from zerolab.training.train_settings import AccuracySettings


def states_and_facts(
    examples: Examples,
    discount: float,
    vector_columns: Container[str],
    features: NDArray[np.float16] | None = None,
    surprise_weight: float = 0.0,
) -> tuple[NDArray[np.uint64], Facts]:
    """Return the states and facts of the fully searched moves of an iteration.

    Vector columns of the facts are empty unless they are in `vector_columns`. `features` is the
    result of `later_features`, if a head predicts features. Each ply before the end of the game
    multiplies the outcome by `discount`. The remaining probability counts as a draw, as if every
    ply could end the game in a draw. `surprise_weight` is `learn.surprise_weight`.
    """
    full = examples.full
    values = examples.discounted_outcomes(discount)
    facts: dict[str, NDArray[Any]] = {
        **{name: getattr(examples, name) for name in SearchFacts.column_forms()},
        "values": values,
        "draws": 1 - np.abs(values),
        "plies_left": examples.plies_left,
        "plies": examples.plies,
        "sampling_weights": np.ones_like(values),
    }
    if surprise_weight:
        facts["sampling_weights"] = _sampling_weights(examples.surprises, full, surprise_weight)
    if "reply_policies" in vector_columns:
        facts["reply_policies"] = _reply_policies(examples)
    if "played_actions" in vector_columns:
        facts["played_actions"] = np.zeros_like(examples.policies)
        facts["played_actions"][np.arange(len(examples.actions)), examples.actions] = 1
    if features is not None:
        facts["features"] = features
    return examples.states[full], _facts(facts, vector_columns).take(full)


def _facts(facts: Mapping[str, NDArray[Any]], vector_columns: Container[str]) -> Facts:
    """Return facts for the window: scalar columns, as float32, and those in `vector_columns`."""
    empty = np.empty((len(facts["values"]), 0), np.float16)
    vectors = {
        name: facts.get(name, empty) if name in vector_columns else empty
        for name in VECTOR_COLUMN_NAMES
    }
    scalars = [name for name in Facts.column_forms() if name not in vectors]
    return Facts(**vectors, **{name: facts[name].astype(np.float32) for name in scalars})


def _sampling_weights(
    surprises: FloatArray, full: NDArray[np.bool_], weight: float
) -> NDArray[np.float64]:
    """Return float64[N]: (1 - weight) + weight * surprise / mean surprise.

    The mean is over the fully searched moves. This is policy surprise weighting [KataGoMethods].
    """
    precise = surprises.astype(np.float64)
    mean = precise[full].mean() if full.any() else 0.0
    relative = precise / mean if mean > 0 else np.ones_like(precise)
    return (1 - weight) + weight * relative


def _reply_policies(examples: Examples) -> FloatArray:
    """Return the policies of the opponent's next moves; NaN where there was no full search."""
    replies = np.full_like(examples.policies, np.nan)
    follows = (np.diff(examples.games) == 0) & (np.diff(examples.plies) == 1) & examples.full[1:]
    replies[:-1][follows] = examples.policies[1:][follows]
    return replies


def later_features(
    examples: Examples, features: NDArray[np.float16], plies_ahead: Sequence[int]
) -> NDArray[np.float16]:
    """Return the features of later positions, float16[N, len(plies_ahead) * feature_count].

    `features`, float16[N, feature_count], are the features of the examples. Each row of the result
    contains the features of the positions `plies_ahead` plies later, in this order; NaN after the
    last move of the game.
    """
    count, feature_count = features.shape
    targets = np.full((count, len(plies_ahead), feature_count), np.nan, np.float16)
    for column, ply in enumerate(plies_ahead):
        now, later = slice(max(0, count - ply)), slice(ply, None)
        is_same_game = examples.games[now] == examples.games[later]
        is_same_game &= examples.plies[now] + ply == examples.plies[later]
        targets[now, column][is_same_game] = features[later][is_same_game]
    return targets.reshape(count, len(plies_ahead) * feature_count)


def later_states(
    positions: SolvedPositions, plies_ahead: int
) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Return rows, int64[n], and the states `plies_ahead` plies after them, uint64[n, words].

    The later moves are those that led to the game's last position. Positions in between may be
    missing, because solved positions exclude those without a choice. Rows are omitted if the game's
    last position is fewer than `plies_ahead` plies later, or was reached by other moves: in public
    test sets, a game consists of symmetric positions.
    """
    if plies_ahead == 0:
        return np.arange(len(positions)), positions.states
    last_rows = _last_rows(positions)
    rows = np.flatnonzero(_has_later_ply(positions, last_rows, plies_ahead))
    rows = rows[_is_on_line(positions, rows, last_rows[rows])]
    lengths = positions.plies + plies_ahead
    begins = positions.offsets[last_rows[rows]]
    lines = [
        positions.moves[begin : begin + length]
        for begin, length in zip(begins, lengths[rows], strict=True)
    ]
    moves = np.concatenate([np.empty(0, np.int16), *lines])
    offsets = np.concatenate([[0], np.cumsum(lengths[rows])])
    states, _, invalid = replay_move_sequences(positions.game, moves, offsets)
    assert invalid is None  # the moves lead to a solved position
    return rows, states


def _is_on_line(
    positions: SolvedPositions, rows: NDArray[np.int64], last_rows: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return, for each row, whether the moves of its last row begin with its own, bool[n]."""
    begins, lengths = positions.offsets[rows], positions.plies[rows]
    pairs = zip(begins, positions.offsets[last_rows], lengths, strict=True)
    moves = positions.moves
    return np.array(
        [np.array_equal(moves[a : a + n], moves[b : b + n]) for a, b, n in pairs], np.bool_
    )


def _last_rows(positions: SolvedPositions) -> NDArray[np.int64]:
    """Return the row of the last position in the game of each position, int64[N]."""
    by_game = np.lexsort((positions.plies, positions.game_numbers))
    games, counts = np.unique(positions.game_numbers, return_counts=True)
    rows: NDArray[np.int64] = by_game[np.cumsum(counts) - 1]
    return rows[np.searchsorted(games, positions.game_numbers)]


def _has_later_ply(
    positions: SolvedPositions, last_rows: NDArray[np.int64], ply: int
) -> NDArray[np.bool_]:
    later: NDArray[np.bool_] = positions.plies + ply <= positions.plies[last_rows]
    return later


_TRAINING_SHARE, _VALIDATION_SHARE = 0.8, 0.1


def solved_file_settings(path: Path) -> dict[str, str]:
    """Return the settings, by dotted key, of a run that learns from a file of solved positions.

    Raises UserError if the file cannot be used.
    """
    positions, about = read_positions(path)
    return {
        "game": game_name(positions.game),
        "supervised.positions": str(path),
        "supervised.digest": content_digest(positions, about),
    }


class SolvedPositionSplit(NamedTuple):
    """The parts of a file of solved positions. All positions of a game are in the same part."""

    training: SolvedPositions
    validation: SolvedPositions
    test: SolvedPositions


def read_accuracy_positions(
    settings: AccuracySettings, training_digest: str, game: Game, locate: Callable[[str], Path]
) -> SolvedPositions | None:
    """Return the positions on which accuracy is measured; None if it is not measured.

    `locate` is as in `read_solved_split`. Raises UserError for positions with the digest
    `training_digest`, from which the run learns.
    """
    if not settings.every:
        return None
    positions, about = read_positions(locate(settings.positions), game)
    if not len(positions):
        raise UserError(
            f"{settings.positions} has no positions: expected positions for measuring accuracy"
        )
    if training_digest and content_digest(positions, about) == training_digest:
        raise UserError(
            f"accuracy.positions = {quoted(settings.positions)}: the run learns from these"
            " positions; expected others"
        )
    return positions


def read_solved_split(
    settings: SupervisedSettings, game: Game, locate: Callable[[str], Path] = Path
) -> SolvedPositionSplit | None:
    """Return the positions to learn from; None if the run learns from its own games.

    `locate` maps a file name in the settings to a path, as `RunFolder.solved_positions_path`
    does. Raises UserError if the file cannot be used or has a different digest.
    """
    if not settings.positions:
        return None
    positions, about = read_positions(locate(settings.positions), game)
    digest = content_digest(positions, about)
    if settings.digest != digest:
        raise UserError(
            f"{quoted(settings.positions)} has the digest {digest}, not {settings.digest}: expected"
            " the file that this run learns from"
        )
    parts = split_by_game(positions)
    for name, part in parts._asdict().items():
        if len(part) < 2:
            raise UserError(
                f"{quoted(settings.positions)} has {len(positions)} positions, too few for a"
                f" {name} part: expected at least several hundred"
            )
    return parts


def split_by_game(positions: SolvedPositions) -> SolvedPositionSplit:
    """Split positions by game; if the file is extended, every game stays in its part."""
    keys = streams.stream_keys(
        0, 0, positions.game_numbers, np.zeros_like(positions.game_numbers), streams.DATASET_SPLIT
    )
    share = (keys >> np.uint64(11)).astype(np.float64) * 2.0**-53
    ends = [_TRAINING_SHARE, _TRAINING_SHARE + _VALIDATION_SHARE]
    parts = np.searchsorted(ends, share, side="right")
    return SolvedPositionSplit(
        *(positions.take(np.flatnonzero(parts == part)) for part in range(3))
    )


def outcome_labels(positions: SolvedPositions, bugs: EnabledBugs) -> NDArray[np.int8]:
    """Return the target outcomes for the side to move, int8[n]: -1, 0 or 1."""
    exact = np.sign(positions.position_values).astype(np.int8)
    return bugs.relabelled_outcomes(exact, positions.plies % 2 == 0)


def solved_facts(
    positions: SolvedPositions,
    bugs: EnabledBugs,
    vector_columns: Container[str] = VECTOR_COLUMN_NAMES,
    features: NDArray[np.float16] | None = None,
) -> Facts:
    """Return the facts of solved positions; unknown facts are NaN.

    The policy is uniform over the best moves [Clausen2021], and action values are exact outcomes.
    Vector columns are empty unless they are in `vector_columns`. `features` are the targets of a
    head that predicts features, if any.
    """
    best = positions.action_values == positions.position_values[:, None]
    values = outcome_labels(positions, bugs).astype(np.float32)
    results = np.sign(positions.action_values).astype(np.float16)
    facts = Facts.nan_columns(*best.shape)
    facts |= {
        "policies": (best / best.sum(axis=1, keepdims=True)).astype(np.float16),
        "action_values": np.where(
            positions.action_values == ILLEGAL_VALUE, np.float16(np.nan), results
        ),
        "values": values,
        "draws": 1 - np.abs(values),
        "plies": positions.plies,
    }
    if features is not None:
        facts["features"] = features
    return _facts(facts, vector_columns)


def solved_window(
    positions: SolvedPositions,
    bugs: EnabledBugs,
    learn: LearnSettings,
    vector_columns: Container[str],
    features: NDArray[np.float16] | None = None,
) -> Window:
    """Return a window that uses all positions equally often, regardless of the window in `learn`.

    `vector_columns` and `features` are as in `solved_facts`.
    """
    unlimited = {
        "window": IterationsWindow(iterations=1), "merging": NoMerging(), "surprise_weight": 0.0
    }  # fmt: skip
    window = bugs.new_window(positions.game, learn.model_copy(update=unlimited))
    window.add(positions.states, solved_facts(positions, bugs, vector_columns, features))
    return window


def require_solved_targets(network: NetworkSettings, positions: SolvedPositions) -> None:
    """Raise UserError if solved positions have no targets for one of the network's heads."""
    facts = solved_facts(positions.take(np.arange(1)), EnabledBugs())
    facts = facts.map_columns(lambda column: column.astype(np.float32))

    def has_target(head: Head) -> bool:
        if isinstance(head, FeaturesHead):
            last_rows = _last_rows(positions)
            return any(_has_later_ply(positions, last_rows, ply).any() for ply in head.plies)
        return not bool(np.isnan(head.compute_targets(facts, SOLVED_TARGET_OPTIONS)).all())

    if unusable := [head.name for head in network.heads if not has_target(head)]:
        usable = ", ".join(quoted(head.name) for head in network.heads if has_target(head))
        raise UserError(
            f"network.heads has {quoted(unusable[0])}, for which solved positions have no targets:"
            f" expected only heads such as {usable or quoted('policy')}"
        )
