"""Training examples on disk: what happened in the games, from which every target is computed.

They hold neither targets nor the planes that networks see (docs/decisions/0017). The files are npz
archives that numpy alone can read. Deflate at level 1 compresses real examples to between 0.33 and
0.39 of their size; level 6 saves another tenth and takes two to nine times as long to write.

Runs that learn features of another network keep these in the same files, as a further member.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core.errors import UserError
from zerolab.core.files import replacing
from zerolab.store.archives import open_archive
from zerolab.store.checks import check_schema, damaged

SCHEMA = 2
_HEADER = "zerolab.json"
_FEATURES = "features"
_MIDNIGHT = (1980, 1, 1, 0, 0, 0)  # a time of day in the archive would differ between equal runs


class Examples(NamedTuple):
    """The moves of an iteration's games and how they were searched, ordered by game and ply."""

    states: NDArray[np.uint64]
    """uint64[N, words]: before the move."""
    policies: NDArray[np.float16]
    """float16[N, actions]: what the search recommends, such as the shares of the visits."""
    root_values: NDArray[np.float16]
    """float16[N]: the mover's expected outcome according to the search; NaN where there was none,
    as for random plies by the search service."""
    root_draws: NDArray[np.float16]
    """float16[N]: the probability of a draw according to the search; NaN where it kept none."""
    action_values: NDArray[np.float16]
    """float16[N, actions]: the mover's expected outcome by action; NaN where not searched."""
    outcomes: NDArray[np.int8]
    """int8[N]: the final outcome for the mover."""
    plies_left: NDArray[np.int16]
    """int16[N]: plies from here to the end of the game, at least 1."""
    games: NDArray[np.int32]
    """int32[N]: the game's number."""
    plies: NDArray[np.int16]
    """int16[N]: counted from 0."""
    actions: NDArray[np.int16]
    """int16[N]: the move."""
    full: NDArray[np.bool_]
    """bool[N]: whether the move was fully searched; the others are never trained on."""


_COLUMNS = {  # dtype and number of axes
    "states": ("uint64", 2),
    "policies": ("float16", 2),
    "root_values": ("float16", 1),
    "root_draws": ("float16", 1),
    "action_values": ("float16", 2),
    "outcomes": ("int8", 1),
    "plies_left": ("int16", 1),
    "games": ("int32", 1),
    "plies": ("int16", 1),
    "actions": ("int16", 1),
    "full": ("bool", 1),
}


def save_examples(
    path: Path, examples: Examples, features: NDArray[np.float16] | None = None, **about: Any
) -> None:
    """Write an npz file with facts about it, replacing the old one in one step.

    `features`, float16[N, width], are those of the examples' positions, if there are any. Equal
    contents give equal bytes. Raises UserError where the file cannot be written.
    """
    with (
        replacing(path) as temporary,
        zipfile.ZipFile(temporary, "w", compresslevel=1) as archive,
    ):
        for name, content in _members(examples, features, about):
            entry = zipfile.ZipInfo(name, _MIDNIGHT)
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)


def _members(
    examples: Examples, features: NDArray[np.float16] | None, about: dict[str, Any]
) -> Iterator[tuple[str, bytes]]:
    yield _HEADER, json.dumps({"schema": SCHEMA, **about}, sort_keys=True).encode()
    more = {} if features is None else {_FEATURES: features}
    for name, column in (*examples._asdict().items(), *more.items()):
        written = BytesIO()
        np.lib.format.write_array(written, np.asarray(column, order="C"), allow_pickle=False)
        yield f"{name}.npy", written.getvalue()


def load_examples(path: Path) -> tuple[Examples, dict[str, Any]]:
    """Return the examples of an npz file and the facts about them.

    Raises UserError if the file is missing, damaged, foreign or of a newer version.
    """
    columns, about = _read(path, _COLUMNS)
    return Examples(**columns), about


def count_full(path: Path) -> tuple[int, dict[str, Any]]:
    """Return how many moves of an npz file were fully searched, and the facts about the file.

    Only what is needed for that is read. Raises UserError as `load_examples` does.
    """
    columns, about = _read(path, {"full": _COLUMNS["full"]})
    return int(columns["full"].sum()), about


def load_features(path: Path) -> tuple[NDArray[np.float16], dict[str, Any]]:
    """Return the features in an npz file, float16[N, width], and the facts about the file.

    Raises UserError as `load_examples` does, and where there are none.
    """
    forms = {_FEATURES: ("float16", 2), "plies": _COLUMNS["plies"]}
    columns, about = _read(path, forms)
    return columns[_FEATURES], about


def _read(
    path: Path, forms: Mapping[str, tuple[str, int]]
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read some columns, of the same length, and the facts about a file."""
    with open_archive(path) as archive:
        if _HEADER not in archive:
            raise UserError(f"{path} was not written by zerolab")
        about = json.loads(archive.text(_HEADER))
        if not isinstance(about, dict):
            raise damaged(path, "its header is no table")
        check_schema(path, about.get("schema"), SCHEMA)
        return archive.columns(forms), about
