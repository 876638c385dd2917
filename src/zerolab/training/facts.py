"""Facts to learn from, made of stored examples or of solved positions."""

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

    Vector columns of the facts that are not in `columns` stay empty. `features`, float16[N,
    features], are those of `later_features` if they are known. An outcome is multiplied by
    `discount` for every ply that leads to it; the rest counts as a draw, as if each ply could end
    the game in one.
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
        facts["moves"] = _moves(examples)
    if features is not None:
        facts["features"] = features
    full = examples.full
    return examples.states[full], _facts(facts, columns).rows(full)


def _facts(facts: Mapping[str, NDArray[Any]], columns: Container[str]) -> Facts:
    """Return facts as the window keeps them: single columns in float32, `columns` of the others."""
    nothing = np.empty((len(facts["values"]), 0), np.float16)
    vectors = {
        name: facts.get(name, nothing) if name in columns else nothing for name in VECTOR_COLUMNS
    }
    single = [name for name in Facts.forms() if name not in vectors]
    return Facts(**vectors, **{name: facts[name].astype(np.float32) for name in single})


def _replies(examples: Examples) -> Numbers:
    """Return the policies at the opponent's next move, NaN where none was fully searched."""
    replies = np.full_like(examples.policies, np.nan)
    follows = (np.diff(examples.games) == 0) & (np.diff(examples.plies) == 1) & examples.full[1:]
    replies[:-1][follows] = examples.policies[1:][follows]
    return replies


def _moves(examples: Examples) -> Numbers:
    moves = np.zeros_like(examples.policies)
    moves[np.arange(len(moves)), examples.actions] = 1
    return moves


def later_features(
    examples: Examples, features: NDArray[np.float16], plies: Sequence[int]
) -> NDArray[np.float16]:
    """Return the features of later positions, float16[N, len(plies) * width], ply by ply.

    `features`, float16[N, width], are those of the examples. NaN marks positions after the last
    move of a game.
    """
    count, width = features.shape
    later = np.full((count, len(plies), width), np.nan, np.float16)
    for place, ply in enumerate(plies):
        now, then = slice(max(0, count - ply)), slice(ply, None)
        goes_on = examples.games[now] == examples.games[then]
        goes_on &= examples.plies[now] + ply == examples.plies[then]
        later[now, place][goes_on] = features[then][goes_on]
    return later.reshape(count, len(plies) * width)


_TRAINING, _VALIDATION = 0.8, 0.1


def file_settings(path: Path) -> dict[str, str]:
    """Return the settings, by dotted keys, of a run that learns from a file of solved positions.

    Raises UserError for a file that cannot be used.
    """
    positions, about = read_positions(path)
    return {
        "game": game_name(positions.game),
        "supervised.positions": str(path),
        "supervised.digest": content_digest(positions, about),
    }


class SolvedSplit(NamedTuple):
    """The parts of a file of solved positions. Positions of one game are in the same part."""

    training: Positions
    validation: Positions
    test: Positions


def read_split(
    settings: SupervisedSettings, game: Game, locate: Callable[[str], Path] = Path
) -> SolvedSplit | None:
    """Return the positions to learn from, None if a run learns from its own games.

    `locate` returns the path of a file named in settings, such as `RunFolder.positions_path`.
    Raises UserError for a file that cannot be used, or whose digest differs.
    """
    if not settings.positions:
        return None
    positions, about = read_positions(locate(settings.positions), game)
    found = content_digest(positions, about)
    if settings.digest != found:
        raise UserError(
            f"{quoted(settings.positions)} has the digest {found}, not {settings.digest}: expected"
            " the file that this run learns from"
        )
    parts = split_by_game(positions)
    for name, part in parts._asdict().items():
        if len(part) < 2:
            raise UserError(
                f"{quoted(settings.positions)} has {len(positions)} positions, too few for a part"
                f" for {name}: expected hundreds at least"
            )
    return parts


def split_by_game(positions: Positions) -> SolvedSplit:
    """Split positions by the numbers of their games alone, so that a larger file splits alike."""
    keys = streams.streams(
        0, 0, positions.games, np.zeros_like(positions.games), streams.DATASET_SPLIT
    )
    share = (keys >> np.uint64(11)).astype(np.float64) * 2.0**-53
    parts = np.searchsorted([_TRAINING, _TRAINING + _VALIDATION], share, side="right")
    return SolvedSplit(*(positions.take(np.flatnonzero(parts == part)) for part in range(3)))


def label_outcomes(positions: Positions, bugs: PublishedBugs) -> NDArray[np.int8]:
    """Return the outcomes for the movers that are learnt, int8[n]: -1, 0 or 1."""
    exact = np.sign(positions.best).astype(np.int8)
    return bugs.solved_outcomes(exact, positions.plies % 2 == 0)


def label_facts(
    positions: Positions, bugs: PublishedBugs, columns: Container[str] = VECTOR_COLUMNS
) -> Facts:
    """Return the facts about solved positions; NaN where unknown.

    The policy is uniform over the best moves [Clausen2021]; values of actions are their outcomes.
    Vector columns not among `columns` are left empty.
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
    """Return a window of all these positions, regardless of the window and merging in `learn`.

    Vector columns of facts not among `columns` are left empty.
    """
    whole = {"window": Iterations(iterations=1), "merging": NoMerging()}
    window = bugs.window(positions.game, learn.model_copy(update=whole))
    window.add(positions.states, label_facts(positions, bugs, columns))
    return window


def check_heads(network: NetworkSettings, positions: Positions) -> None:
    """Raise UserError for a head that solved positions have no targets for."""
    facts = label_facts(positions.take(np.arange(1)), PublishedBugs())
    facts = facts.map(lambda each: each.astype(np.float32))

    def learns(head: Head) -> bool:
        return not bool(np.isnan(head.target(facts, TARGETS)).all())

    if unfit := [head.name for head in network.heads if not learns(head)]:
        fit = ", ".join(quoted(head.name) for head in network.heads if learns(head))
        raise UserError(
            f"network.heads has {quoted(unfit[0])}, for which solved positions have no targets:"
            f" expected only heads such as {fit or quoted('policy')}"
        )
