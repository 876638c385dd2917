"""Networks, optimiser states and agents as safetensors files.

A file consists of named arrays and a header in JSON with a digest of everything, as safetensors
itself does not detect changed bytes. An agent file (docs/decisions/0072-sharing.md) may come from
anyone. It contains nothing that can run, and everything is checked before use; the checks here are
those that need no knowledge of networks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field
from safetensors import safe_open
from safetensors.numpy import load, save

from zerolab.core.config import Settings, validate
from zerolab.core.errors import UserError, one_line, quoted
from zerolab.core.files import write_bytes
from zerolab.store.checks import (
    UNREADABLE,
    check_schema,
    damaged,
    digest,
    read_bytes,
    reading,
    require_file,
)
from zerolab.store.state import Environment

SCHEMA = 1
HEADER_KEY = "zerolab"
"""The key of the header among a safetensors file's metadata."""

_LENGTH_BYTES = 8
_LARGEST_HEADER = 1 << 22
"""Bytes; safetensors itself takes 100 MB, which JSON turns into gigabytes."""

Arrays = dict[str, NDArray[Any]]


def save_arrays(path: Path, kind: str, arrays: Mapping[str, NDArray[Any]], **about: Any) -> None:
    """Write arrays of a `kind`, with facts about them, replacing the file atomically.

    Equal contents give equal bytes. Raises UserError if the file cannot be written.
    """
    # Encoded first: a full disk raises OSError here, but not in the writer of safetensors.
    write_bytes(path, encode_arrays(_header_of(kind, about), arrays))


def encode_arrays(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return the content of a file: arrays, and a header with the digest of all of it."""
    ordered = {name: np.asarray(arrays[name], order="C") for name in sorted(arrays)}
    whole = {**header, "digest": content_digest(header, ordered)}
    content: bytes = save(ordered, {HEADER_KEY: json.dumps(whole, sort_keys=True)})
    return content


def file_digest(kind: str, arrays: Mapping[str, NDArray[Any]], **about: Any) -> str:
    """Return the digest of the file that `save_arrays` would write (`read_digest`)."""
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
    """Return the digest in a file's header, which depends on all of its content.

    Only the header is read. Raises UserError if it is missing, damaged, or of another kind.
    """
    with _opened(path) as opened:
        header = _header(path, opened.metadata() or {})
    if header.get("kind") != kind:
        raise UserError(f"{path} holds {header.get('kind')}, expected {kind}")
    return str(header.get("digest"))


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a file; raise UserError for any error in opening or reading it."""
    require_file(path)
    with reading(path):
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
        if length > _LARGEST_HEADER:
            raise damaged(path, f"its header has {length:,} bytes")
        with safe_open(path, framework="numpy") as opened:
            yield opened


def _header(path: Path, metadata: Mapping[str, str]) -> dict[str, Any]:
    if HEADER_KEY not in metadata:
        raise UserError(f"{path} was not written by zerolab")
    header = json.loads(metadata[HEADER_KEY])
    if not isinstance(header, dict):
        raise damaged(path, "its header is no table")
    check_schema(path, header.get("schema"), SCHEMA)
    return header


def content_digest(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> str:
    """Return a digest of a header and arrays."""
    parts = [json.dumps(header, sort_keys=True).encode()]
    for name in sorted(arrays):
        array = arrays[name]
        parts += [f"{name} {array.dtype} {array.shape}".encode(), array.tobytes()]
    return digest(*parts)


WEIGHTS = "weights"
"""The kind of these files."""
OPTIMIZER = "optimizer state"
"""The kind of files with the optimiser state of a network."""

_LARGEST = 1 << 32


class StoredNetwork(NamedTuple):
    """A network in a file of a run."""

    content: bytes
    """The whole file."""
    digest: str
    """The digest that identifies it (`read_digest`)."""
    game: str
    iteration: int
    settings: Mapping[str, Any]
    """Settings of the architecture, including `name`."""
    weights: Arrays


def read_network(path: Path) -> StoredNetwork:
    """Return the network in a file; raise UserError if it is missing, damaged or foreign."""
    weights, about = load_arrays(path, WEIGHTS)
    game, iteration, settings = (about.get(key) for key in ("game", "iteration", "network"))
    if not isinstance(settings, Mapping) or not isinstance(settings.get("name"), str):
        raise damaged(path, "it does not say which network its weights are of")
    if not isinstance(game, str) or not isinstance(iteration, int):
        raise damaged(path, "it does not say what its weights are of")
    content = read_bytes(path, _LARGEST)
    return StoredNetwork(content, read_digest(path, WEIGHTS), game, iteration, settings, weights)


def read_optimizer(path: Path, network: StoredNetwork) -> Arrays:
    """Return the state of the optimiser in a file; raise UserError unless it is the network's."""
    state, about = load_arrays(path, OPTIMIZER)
    if (about.get("game"), about.get("iteration")) != (network.game, network.iteration):
        raise damaged(path, f"it is not of network {network.iteration} of {network.game}")
    return state


AGENT_SCHEMA = 1
AGENT = "agent"
"""The kind of these files."""
AGENT_SUFFIX = ".zerolab"
MAX_AGENT_BYTES = 64 << 20
"""Largest size of a file, enough for 16 million weights."""

MAX_TEXT = 250
"""Longest name in the header, in characters."""

_MAX_HEADER = 1 << 20  # bytes; 256 residual blocks need a third of it
_AGENT_LENGTH_BYTES = 8
_DTYPES = {"BOOL", "F16", "F32", "F64", "I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64"}
_ENTRY = {"dtype", "shape", "data_offsets"}
_EXPECTED = "expected a file that zerolab export has written"


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError(f"{quoted(text)}: expected text that can be printed")
    return text


_Text = Annotated[str, Field(max_length=MAX_TEXT), AfterValidator(_printable)]
"""Text from a file that is shown to users."""


class AgentSource(Settings):
    """The network of another run that a run started from."""

    run: _Text
    """The name of its folder, without parent folders."""
    iteration: int = Field(ge=0)
    game: _Text
    digest: _Text
    """The digest of the network."""
    transfer: _Text
    """The weights taken from it (docs/transfer.md)."""


class AgentOrigin(Settings):
    """The origin of a network according to its run, without dates.

    It is not verified: the digest detects damage, but does not identify the author.
    """

    run: _Text
    """The name of the run's folder, without parent folders."""
    run_digest: _Text
    """The digest of the run's settings, including the seed."""
    preset: _Text
    seed: int
    iteration: int = Field(ge=0)
    """The iteration that trained the network; 0 for an untrained one."""
    games: int = Field(ge=0)
    """Self-play games up to that iteration."""
    positions: int = Field(ge=0)
    """Positions of self-play up to that iteration."""
    started_from: AgentSource | None = None
    environments: tuple[Environment, ...] = ()
    """Hardware and library versions of the run up to that iteration."""
    written_by: _Text
    """The version of zerolab that wrote the file."""


class AgentHeader(Settings):
    """The header of an agent file."""

    game: _Text
    network: dict[str, Any]
    """The settings of the network, including `name`."""
    search: dict[str, Any]
    """The settings of the search in training."""
    origin: AgentOrigin


class StoredAgent(NamedTuple):
    """The intact content of a file, not yet checked to be a network."""

    header: AgentHeader
    weights: Arrays
    digest: str
    """The digest of all content, which identifies it."""


def encode_agent(header: AgentHeader, weights: Arrays) -> bytes:
    """Return the content of an agent file; equal agents give equal bytes.

    Raises UserError for weights that are too large for such a file.
    """
    content = encode_arrays(_table(header), weights)
    if len(content) > MAX_AGENT_BYTES:
        raise UserError(
            f"the agent has {len(content):,} bytes: expected at most {MAX_AGENT_BYTES:,}"
        )
    return content


def agent_digest(header: AgentHeader, weights: Arrays) -> str:
    """Return the digest of an agent file."""
    return content_digest(_table(header), weights)


def _table(header: AgentHeader) -> dict[str, Any]:
    return {"schema": AGENT_SCHEMA, "kind": AGENT, **header.model_dump(mode="json")}


def decode_agent(content: bytes, source: str) -> StoredAgent:
    """Return the agent in the content of a file, with its digest checked.

    `source` is what messages call the file. Raises UserError for content that is too large,
    damaged, of another kind, or of a newer version.
    """
    if len(content) > MAX_AGENT_BYTES:
        raise UserError(
            f"{source} has {len(content):,} bytes: expected an agent of at most {MAX_AGENT_BYTES:,}"
        )
    table = _agent_header(content, source)
    check_schema(Path(source), table.get("schema"), AGENT_SCHEMA)
    if table.get("kind") != AGENT:
        raise UserError(f"{source} holds {quoted(table.get('kind'))}, no agent: {_EXPECTED}")
    with _decoding(source):
        weights = load(content)
        digest = table.pop("digest", None)
        intact = digest == content_digest(table, weights)
    if not intact:
        raise _damaged_agent(source, "its digest does not match")
    facts = {name: x for name, x in table.items() if name not in ("schema", "kind")}
    return StoredAgent(validate(AgentHeader, facts, source=source), weights, str(digest))


def _agent_header(content: bytes, source: str) -> dict[str, Any]:
    """Return the zerolab header of a safetensors file.

    The file may have no other metadata, and only arrays of numbers.
    """
    with _decoding(source):
        length = int.from_bytes(content[:_AGENT_LENGTH_BYTES], "little")
        if not 0 < length <= min(_MAX_HEADER, len(content) - _AGENT_LENGTH_BYTES):
            raise UserError(f"{source} is no agent, or not all of one: {_EXPECTED}")
        arrays = json.loads(content[_AGENT_LENGTH_BYTES : _AGENT_LENGTH_BYTES + length].decode())
        metadata = arrays.pop("__metadata__", None)
        if not isinstance(metadata, Mapping) or set(metadata) != {HEADER_KEY}:
            raise UserError(f"{source} is no agent: {_EXPECTED}")
        for entry in arrays.values():
            if entry["dtype"] not in _DTYPES:
                kind = quoted(entry["dtype"])
                raise UserError(f"{source} has arrays of {kind}: expected whole numbers or floats")
            if set(entry) != _ENTRY:
                raise _damaged_agent(
                    source, f"{one_line(sorted(set(entry) ^ _ENTRY)[0])} is unexpected"
                )
        table = json.loads(metadata[HEADER_KEY])
        if not isinstance(table, dict):
            raise _damaged_agent(source, "its header is no table")
        return table


def require_finite(weights: Arrays) -> None:
    """Raise UserError for the first array with an infinite or NaN weight."""
    for name in sorted(weights):
        if not np.isfinite(weights[name]).all():
            raise UserError(f"{name} is not finite: expected finite weights")


def _damaged_agent(source: str, why: object) -> UserError:
    return UserError(f"{source} is damaged ({one_line(why)}): get it again from where it came from")


@contextmanager
def _decoding(source: str) -> Iterator[None]:
    """Raise UserError for any error in decoding a file."""
    try:
        yield
    except UNREADABLE as error:
        raise _damaged_agent(source, error) from error
