"""Training examples on disk: states and targets, never planes (DESIGN 4)."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core.errors import UserError
from zerolab.core.files import replacing
from zerolab.store.arrays import check_schema

SCHEMA = 1
_MIDNIGHT = (1980, 1, 1, 0, 0, 0)


class Examples(NamedTuple):
    """The positions of an iteration's games, ordered by game number and ply."""

    states: NDArray[np.uint64]  # [N, words]
    policies: NDArray[np.float16]  # [N, actions]
    values: NDArray[np.int8]  # [N] the final outcome for the mover
    games: NDArray[np.int32]  # [N] game number
    plies: NDArray[np.int16]  # [N] ply, counted from 0


_DTYPES = tuple(map(np.dtype, ("uint64", "float16", "int8", "int32", "int16")))


def save_examples(path: Path, examples: Examples) -> None:
    """Write an npz file, replacing the old one in one step; equal contents give equal bytes."""
    arrays = {**examples._asdict(), "schema": np.array(SCHEMA)}
    with (
        replacing(path) as temporary,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
    ):
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy", _MIDNIGHT)
            entry.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(entry, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asarray(array, order="C"), allow_pickle=False)


def load_examples(path: Path) -> Examples:
    """Read an npz file; raise UserError if it is missing, damaged, foreign or newer."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays: dict[str, NDArray[Any]] = dict(archive.items())
    except FileNotFoundError:
        raise UserError(f"{path} is missing; restore it from a backup") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise UserError(f"{path} is damaged ({error}); restore it from a backup") from None
    schema = arrays.pop("schema", None)
    check_schema(path, int(schema) if schema is not None and schema.ndim == 0 else None, SCHEMA)
    if set(arrays) != set(Examples._fields):
        raise UserError(f"{path} holds {', '.join(arrays)}, expected {', '.join(Examples._fields)}")
    examples = Examples(**arrays)
    lengths = {len(array) for array in examples}
    fitting = [arrays[name].dtype for name in Examples._fields] == list(_DTYPES)
    if len(lengths) != 1 or not fitting:
        raise UserError(f"{path} is damaged (columns do not fit each other)")
    return examples
