"""Training facts, computed from stored examples or from solved positions."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core import streams
from zerolab.core.errors import UserError, quoted
from zerolab.evaluation.positions import Positions, content_digest, read_positions
from zerolab.networks.head import Head
from zerolab.networks.network_settings import NetworkSettings
from zerolab.oracles.oracle import ILLEGAL
from zerolab.replay.window import Window
from zerolab.replay.window_rules import Iterations, NoMerging
from zerolab.rules.catalogue import game_name
from zerolab.rules.facts import VECTOR_COLUMNS, Facts, Numbers, SearchFacts
from zerolab.rules.rules import Game
from zerolab.store.examples import Examples
from zerolab.training.learn_settings import TARGETS, LearnSettings, SupervisedSettings
from zerolab.training.published_bugs import PublishedBugs


def window_rows(
    examples: Examples,
    discount: float,
    columns: Container[str],
    features: NDArray[np.float16] | None = None,
) -> tuple[NDArray[np.uint64], Facts]:
    """Return the states and facts of the fully searched moves.

    Vector columns of the facts are left empty unless they are in `columns`. `features`, if given,
    is the result of `later_features`. Each ply before the end of the game multiplies the outcome by
    `discount`, and the remaining probability counts as a draw, as if every ply could end the game
    in a draw.
    """
    values = examples.outcomes * np.float64(discount) ** examples.plies_left
    facts: dict[str, NDArray[Any]] = {
        **{name: getattr(examples, name) for name in SearchFacts.forms()},
        "values": values,
        "draws": 1 - np.abs(values),
        "plies_left": examples.plies_left,
        "plies": examples.plies,
    }
    if "replies" in columns:
        facts["replies"] = _replies(examples)
    if "moves" in columns:
        facts["moves"] = np.zeros_like(examples.policies)
        facts["moves"][np.arange(len(examples.actions)), examples.actions] = 1
    if features is not None:
        facts["features"] = features
    full = examples.full
    return examples.states[full], _facts(facts, columns).rows(full)


def _facts(facts: Mapping[str, NDArray[Any]], columns: Container[str]) -> Facts:
    """Return facts for the window, with scalars as float32 and only the vectors in `columns`."""
    empty = np.empty((len(facts["values"]), 0), np.float16)
    vectors = {
        name: facts.get(name, empty) if name in columns else empty for name in VECTOR_COLUMNS
    }
    scalars = [name for name in Facts.forms() if name not in vectors]
    return Facts(**vectors, **{name: facts[name].astype(np.float32) for name in scalars})


def _replies(examples: Examples) -> Numbers:
    """Return the policies of the opponent's next moves; NaN for moves without a full search."""
    replies = np.full_like(examples.policies, np.nan)
    follows = (np.diff(examples.games) == 0) & (np.diff(examples.plies) == 1) & examples.full[1:]
    replies[:-1][follows] = examples.policies[1:][follows]
    return replies


def later_features(
    examples: Examples, features: NDArray[np.float16], plies: Sequence[int]
) -> NDArray[np.float16]:
    """Return the features of later positions, float16[N, len(plies) * feature_count], ply by ply.

    `features`, float16[N, feature_count], are those of the examples themselves. Positions after the
    last move of a game have NaN.
    """
    count, feature_count = features.shape
    targets = np.full((count, len(plies), feature_count), np.nan, np.float16)
    for column, ply in enumerate(plies):
        now, later = slice(max(0, count - ply)), slice(ply, None)
        is_same_game = examples.games[now] == examples.games[later]
        is_same_game &= examples.plies[now] + ply == examples.plies[later]
        targets[now, column][is_same_game] = features[later][is_same_game]
    return targets.reshape(count, len(plies) * feature_count)


_TRAINING_SHARE, _VALIDATION_SHARE = 0.8, 0.1


def file_settings(path: Path) -> dict[str, str]:
    """Return the settings, by dotted key, for learning from a file of solved positions.

    Raises UserError if the file cannot be used.
    """
    positions, about = read_positions(path)
    return {
        "game": game_name(positions.game),
        "supervised.positions": str(path),
        "supervised.digest": content_digest(positions, about),
    }


class SolvedSplit(NamedTuple):
    """The parts of a file of solved positions. All positions of a game are in the same part."""

    training: Positions
    validation: Positions
    test: Positions


def read_split(
    settings: SupervisedSettings, game: Game, locate: Callable[[str], Path] = Path
) -> SolvedSplit | None:
    """Return the positions to learn from; None if the run learns from its own games.

    `locate` maps a file name in the settings to a path, as `RunFolder.positions_path` does. Raises
    UserError if the file cannot be used or its digest differs.
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


def split_by_game(positions: Positions) -> SolvedSplit:
    """Split positions by game number, so that games keep their part if the file is extended."""
    keys = streams.streams(
        0, 0, positions.games, np.zeros_like(positions.games), streams.DATASET_SPLIT
    )
    share = (keys >> np.uint64(11)).astype(np.float64) * 2.0**-53
    ends = [_TRAINING_SHARE, _TRAINING_SHARE + _VALIDATION_SHARE]
    parts = np.searchsorted(ends, share, side="right")
    return SolvedSplit(*(positions.take(np.flatnonzero(parts == part)) for part in range(3)))


def label_outcomes(positions: Positions, bugs: PublishedBugs) -> NDArray[np.int8]:
    """Return the target outcomes for the side to move, int8[n]: -1, 0 or 1."""
    exact = np.sign(positions.best).astype(np.int8)
    return bugs.solved_outcomes(exact, positions.plies % 2 == 0)


def label_facts(
    positions: Positions, bugs: PublishedBugs, columns: Container[str] = VECTOR_COLUMNS
) -> Facts:
    """Return the facts about solved positions, with NaN where unknown.

    The policy is uniform over the best moves [Clausen2021], and action values are exact outcomes.
    Vector columns are left empty unless they are in `columns`.
    """
    best = positions.values == positions.best[:, None]
    values = label_outcomes(positions, bugs).astype(np.float32)
    results = np.sign(positions.values).astype(np.float16)
    facts = Facts.unknown(*best.shape)
    facts |= {
        "policies": (best / best.sum(axis=1, keepdims=True)).astype(np.float16),
        "action_values": np.where(positions.values == ILLEGAL, np.float16(np.nan), results),
        "values": values,
        "draws": 1 - np.abs(values),
        "plies": positions.plies,
    }
    return _facts(facts, columns)


def solved_window(
    positions: Positions, bugs: PublishedBugs, learn: LearnSettings, columns: Container[str]
) -> Window:
    """Return a window of all these positions, ignoring the window and merging in `learn`.

    Vector columns of facts are left empty unless they are in `columns`.
    """
    unlimited = {"window": Iterations(iterations=1), "merging": NoMerging()}
    window = bugs.window(positions.game, learn.model_copy(update=unlimited))
    window.add(positions.states, label_facts(positions, bugs, columns))
    return window


def check_heads(network: NetworkSettings, positions: Positions) -> None:
    """Raise UserError if solved positions have no targets for a head."""
    facts = label_facts(positions.take(np.arange(1)), PublishedBugs())
    facts = facts.map(lambda column: column.astype(np.float32))

    def has_target(head: Head) -> bool:
        return not bool(np.isnan(head.target(facts, TARGETS)).all())

    if unusable := [head.name for head in network.heads if not has_target(head)]:
        usable = ", ".join(quoted(head.name) for head in network.heads if has_target(head))
        raise UserError(
            f"network.heads has {quoted(unusable[0])}, for which solved positions have no targets:"
            f" expected only heads such as {usable or quoted('policy')}"
        )
