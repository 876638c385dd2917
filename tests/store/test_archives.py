"""Malformed npz archives, which are refused before anything large is decompressed."""

from __future__ import annotations

import io
import json
import struct
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from store.toy import examples
from zerolab.core.errors import UserError
from zerolab.store import examples as archives
from zerolab.store import examples as examples_module


def _zeros(rows: int) -> dict[str, np.ndarray]:
    columns = {name: np.asarray(column) for name, column in examples(1).columns().items()}
    return {
        name: np.zeros((rows, *column.shape[1:]), column.dtype) for name, column in columns.items()
    }


def _write_archive(path: Path, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def _members(columns: dict[str, np.ndarray]) -> dict[str, bytes]:
    members = {"zerolab.json": json.dumps({"schema": examples_module.SCHEMA}).encode()}
    for name, column in columns.items():
        buffer = io.BytesIO()
        np.save(buffer, column)
        members[f"{name}.npy"] = buffer.getvalue()
    return members


def _peak_bytes(path: Path, expected: str) -> int:
    """Return the peak memory in bytes while an archive is refused."""
    tracemalloc.start()
    try:
        with pytest.raises(UserError, match=expected) as caught:
            examples_module.load_examples(path)
        assert len(str(caught.value).splitlines()) == 1
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_decompression_bomb_is_not_expanded(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "_FREE_BYTES", 0)
    path = tmp_path / "0001.npz"
    _write_archive(path, _members(_zeros(200_000)))
    assert _peak_bytes(path, "it expands to 20,401,536 bytes, expected at most") < 1 << 20


def test_archive_is_not_expanded_beyond_declared_size(tmp_path):
    path, members = tmp_path / "0001.npz", _members(_zeros(10))
    length = len(members["states.npy"])
    members["states.npy"] += bytes(1 << 25)
    _write_archive(path, members)
    declared = struct.pack("<L", length)
    path.write_bytes(path.read_bytes().replace(struct.pack("<L", length + (1 << 25)), declared))
    assert _peak_bytes(path, "Bad CRC-32") < 4 << 20


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("states.npy", b"", "damaged"),
        ("states.npy", b"\x93NUMPY\2\0" + bytes(100), "unsupported npy version"),
        ("plies.npy", np.zeros(10, np.int64), "do not match each other"),
        ("plies.npy", np.zeros((10, 1), np.int16), "do not match each other"),
        ("plies.npy", np.zeros(11, np.int16), "do not match each other"),
        ("plies.npy", b"(10,)", "does not have the size"),
        ("zerolab.json", b"[]", "its header"),
        ("zerolab.json", b"[" * 100_000, "recursion"),
        ("zerolab.json", b"1" * 10_000, "damaged"),
    ],
    ids=["empty", "version", "dtype", "axes", "rows", "size", "list", "nested", "digits"],
)
def test_malformed_members_are_reported(tmp_path, name, content, expected):
    path, members = tmp_path / "0001.npz", _members(_zeros(10))
    if isinstance(content, np.ndarray):
        content = _members({"x": content})["x.npy"]
    elif content == b"(10,)":
        content = members[name].replace(b"(10,)", b"(99,)")
    _write_archive(path, {**members, name: content})
    with pytest.raises(UserError, match=expected):
        examples_module.load_examples(path)


def test_archive_with_thousands_of_members_is_refused(tmp_path):
    path = tmp_path / "0001.npz"
    _write_archive(path, {**_members(_zeros(10)), **{f"{i}": b"" for i in range(2000)}})
    with pytest.raises(UserError, match="its directory is"):
        examples_module.load_examples(path)
