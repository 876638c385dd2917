"""Named arrays in safetensors files, with a header that tells whose they are.

The header carries a digest: safetensors itself does not notice a changed byte.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from zerolab.core.errors import UserError
from zerolab.core.files import replacing

SCHEMA = 1

Arrays = dict[str, NDArray[Any]]


def save_arrays(path: Path, kind: str, arrays: Mapping[str, NDArray[Any]], **about: Any) -> None:
    """Write arrays of a `kind`, with facts about them, replacing the file in one step.

    Equal contents give equal bytes.
    """
    ordered = {name: np.asarray(arrays[name], order="C") for name in sorted(arrays)}
    header = {"schema": SCHEMA, "kind": kind, "digest": _digest(ordered), **about}
    with replacing(path) as temporary:
        save_file(ordered, temporary, {"zerolab": json.dumps(header, sort_keys=True)})


def load_arrays(path: Path, kind: str) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays of a file and the facts about them.

    Raises UserError if the file is missing, damaged, of another kind or of a newer version.
    """
    try:
        with safe_open(path, framework="numpy") as opened:
            header = _header(path, opened.metadata() or {})
            arrays = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise UserError(f"{path} is missing; restore it from a backup") from None
    except (SafetensorError, OSError, ValueError) as error:
        raise UserError(f"{path} is damaged ({error}); restore it from a backup") from None
    if header.get("kind") != kind:
        raise UserError(f"{path} holds {header.get('kind')}, expected {kind}")
    if header.get("digest") != _digest(arrays):
        raise UserError(f"{path} is damaged (its digest does not fit); restore it from a backup")
    return arrays, header


def _header(path: Path, metadata: Mapping[str, str]) -> dict[str, Any]:
    if "zerolab" not in metadata:
        raise UserError(f"{path} was not written by zerolab")
    header: dict[str, Any] = json.loads(metadata["zerolab"])
    check_schema(path, header.get("schema"), SCHEMA)
    return header


def check_schema(path: Path, found: Any, known: int) -> None:
    """Raise UserError where a file's schema version is not one this version can read."""
    if not isinstance(found, int):
        raise UserError(f"{path} was not written by zerolab: it names no schema version")
    if found > known:
        raise UserError(
            f"{path} has schema version {found}, newer than the {known} known here: update zerolab"
        )


def _digest(arrays: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
