"""Named arrays in safetensors files, with a header that says whose they are.

The header carries a digest: safetensors itself does not notice a changed byte.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save

from zerolab.core.errors import UserError
from zerolab.core.files import write_bytes
from zerolab.store.checks import check_schema, damaged, digest, reading, require_file

SCHEMA = 1
OWNER = "zerolab"
"""The key of the header among a safetensors file's metadata."""

_LENGTH_BYTES = 8
_LARGEST_HEADER = 1 << 22
"""Bytes; safetensors itself takes 100 MB, which JSON turns into gigabytes."""

Arrays = dict[str, NDArray[Any]]


def save_arrays(path: Path, kind: str, arrays: Mapping[str, NDArray[Any]], **about: Any) -> None:
    """Write arrays of a `kind`, with facts about them, replacing the file in one step.

    Equal contents give equal bytes. Raises UserError where the file cannot be written.
    """
    # Through bytes: a full disk is an OSError here, and not one in safetensors' own writer.
    write_bytes(path, encoded(_header_of(kind, about), arrays))


def encoded(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return the content of a file: arrays, and a header with the digest of all of it."""
    ordered = {name: np.asarray(arrays[name], order="C") for name in sorted(arrays)}
    whole = {**header, "digest": content_digest(header, ordered)}
    content: bytes = save(ordered, {OWNER: json.dumps(whole, sort_keys=True)})
    return content


def file_digest(kind: str, arrays: Mapping[str, NDArray[Any]], **about: Any) -> str:
    """Return the digest of the file that `save_arrays` would write; see `read_digest`."""
    return content_digest(_header_of(kind, about), arrays)


def _header_of(kind: str, about: Mapping[str, Any]) -> dict[str, Any]:
    return {"schema": SCHEMA, "kind": kind, **about}


def load_arrays(path: Path, kind: str) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays of a file and the facts about them.

    Raises UserError if the file is missing, damaged, of another kind or of a newer version.
    """
    with _opened(path) as opened:
        header = _header(path, opened.metadata() or {})
        arrays = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    found = header.pop("digest", None)
    if found != content_digest(header, arrays):
        raise damaged(path, "its digest does not match")
    if header.get("kind") != kind:
        raise UserError(f"{path} holds {header.get('kind')}, expected {kind}")
    return arrays, header


def read_digest(path: Path, kind: str) -> str:
    """Return the digest that stands in a file's header, which all of its content decides.

    Only the header is read. Raises UserError if it is missing, damaged, or of another kind.
    """
    with _opened(path) as opened:
        header = _header(path, opened.metadata() or {})
    if header.get("kind") != kind:
        raise UserError(f"{path} holds {header.get('kind')}, expected {kind}")
    return str(header.get("digest"))


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a file; raise UserError for whatever is wrong with it, now or as it is read."""
    require_file(path)
    with reading(path):
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
        if length > _LARGEST_HEADER:
            raise damaged(path, f"its header has {length:,} bytes")
        with safe_open(path, framework="numpy") as opened:
            yield opened


def _header(path: Path, metadata: Mapping[str, str]) -> dict[str, Any]:
    if OWNER not in metadata:
        raise UserError(f"{path} was not written by zerolab")
    header = json.loads(metadata[OWNER])
    if not isinstance(header, dict):
        raise damaged(path, "its header is no table")
    check_schema(path, header.get("schema"), SCHEMA)
    return header


def content_digest(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> str:
    """Return a digest of a header and arrays that changes when anything in them does."""
    parts = [json.dumps(header, sort_keys=True).encode()]
    for name in sorted(arrays):
        array = arrays[name]
        parts += [f"{name} {array.dtype} {array.shape}".encode(), array.tobytes()]
    return digest(*parts)
