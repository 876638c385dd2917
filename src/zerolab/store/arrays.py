"""Networks, optimiser states and agents as safetensors files.

A file consists of named arrays and a JSON header with a digest of the entire content, since
safetensors itself does not detect changed bytes. Agent files (docs/decisions/0072-sharing.md) can
come from untrusted sources. They contain no executable code, and all content is checked before use.
This module contains the checks that do not depend on networks.
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
    DECODING_ERRORS,
    check_schema_version,
    damaged_file_error,
    hex_digest,
    read_bytes,
    require_regular_file,
    user_errors_on_read,
)
from zerolab.store.folder import RunEnvironment

SCHEMA = 1
_HEADER_KEY = "zerolab"
"""Key of the header in the metadata of a safetensors file."""

_LENGTH_BYTES = 8
_MAX_HEADER_BYTES = 1 << 22
"""safetensors itself accepts headers of 100 MB, which take gigabytes when parsed as JSON."""

NamedArrays = dict[str, NDArray[Any]]


def save_arrays(path: Path, kind: str, arrays: Mapping[str, NDArray[Any]], **metadata: Any) -> None:
    """Write arrays and `metadata` to a file of the given `kind`, replacing it atomically.

    Equal contents result in identical bytes. Raises UserError if the file cannot be written.
    """
    # safetensors' own writer is not used: it does not raise OSError if the disk is full.
    write_bytes(path, encode_arrays(_header_of(kind, metadata), arrays))


def encode_arrays(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return the content of a file with arrays and a header; a digest is added to the header."""
    ordered = {name: np.asarray(arrays[name], order="C") for name in sorted(arrays)}
    full_header = {**header, "digest": _arrays_digest(header, ordered)}
    content: bytes = save(ordered, {_HEADER_KEY: json.dumps(full_header, sort_keys=True)})
    return content


def saved_arrays_digest(kind: str, arrays: Mapping[str, NDArray[Any]], **metadata: Any) -> str:
    """Return the digest of the file that `save_arrays` would write; see `read_digest`."""
    return _arrays_digest(_header_of(kind, metadata), arrays)


def _header_of(kind: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {"schema": SCHEMA, "kind": kind, **metadata}


def load_arrays(path: Path, kind: str) -> tuple[NamedArrays, dict[str, Any]]:
    """Return the arrays and metadata of a file.

    Raises UserError if the file is missing, damaged, or of a different kind or version.
    """
    with _open_safetensors(path) as file:
        header = _header(path, file.metadata() or {}, kind)
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if header.pop("digest", None) != _arrays_digest(header, arrays):
        raise damaged_file_error(path, "its digest does not match")
    return arrays, header


def read_digest(path: Path, kind: str) -> str:
    """Return the digest of a file's entire content, as recorded in its header.

    Only the header is read. Raises UserError if the file is missing, if its header is damaged, or
    if it is of a different kind or from a different version.
    """
    with _open_safetensors(path) as file:
        header = _header(path, file.metadata() or {}, kind)
    return str(header.get("digest"))


@contextmanager
def _open_safetensors(path: Path) -> Iterator[Any]:
    """Open a file; raise UserError for any error in opening or reading it."""
    require_regular_file(path)
    with user_errors_on_read(path):
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
        if length > _MAX_HEADER_BYTES:
            raise damaged_file_error(path, f"its header is {length:,} bytes long")
        with safe_open(path, framework="numpy") as opened:
            yield opened


def _header(path: Path, file_metadata: Mapping[str, str], kind: str) -> dict[str, Any]:
    if _HEADER_KEY not in file_metadata:
        raise UserError(f"{quoted(path)} was not written by zerolab")
    header = json.loads(file_metadata[_HEADER_KEY])
    if not isinstance(header, dict):
        raise damaged_file_error(path, "its header is not a table")
    check_schema_version(path, header.get("schema"), SCHEMA)
    if (found := header.get("kind")) != kind:
        raise UserError(f"{quoted(path)} contains {quoted(found)}: expected {quoted(kind)}")
    return header


def _arrays_digest(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> str:
    """Return a digest of a header and arrays."""
    parts = [json.dumps(header, sort_keys=True).encode()]
    for name in sorted(arrays):
        array = arrays[name]
        parts += [f"{name} {array.dtype} {array.shape}".encode(), array.tobytes()]
    return hex_digest(*parts)


WEIGHTS_KIND = "weights"
"""Kind of files with the weights of a network."""
OPTIMIZER_KIND = "optimizer state"
"""Kind of files with the optimiser state of a network."""

_MAX_BYTES = 1 << 32


class NetworkFile(NamedTuple):
    """Content of a network file of a run."""

    content: bytes
    """Bytes of the file."""
    digest: str
    """Digest that identifies the network (`read_digest`)."""
    game_name: str
    """Name of the game."""
    iteration: int
    """Iteration that trained the network; 0 for the initial network."""
    network_settings: Mapping[str, Any]
    """Settings of the architecture, including `name`."""
    weights: NamedArrays
    """Weights by name."""


def read_network_file(path: Path) -> NetworkFile:
    """Read a network file; raise UserError if it is missing, damaged or not a network file."""
    weights, metadata = load_arrays(path, WEIGHTS_KIND)
    game, iteration, settings = (metadata.get(key) for key in ("game", "iteration", "network"))
    if not isinstance(settings, Mapping) or not isinstance(settings.get("name"), str):
        raise damaged_file_error(path, "the settings of its network are missing")
    if not isinstance(game, str) or not isinstance(iteration, int):
        raise damaged_file_error(path, "the game or iteration of its network is missing")
    content = read_bytes(path, _MAX_BYTES)
    return NetworkFile(content, read_digest(path, WEIGHTS_KIND), game, iteration, settings, weights)


def read_optimizer_state(path: Path, network: NetworkFile) -> NamedArrays:
    """Return the optimiser state in a file; raise UserError unless it belongs to `network`."""
    state, metadata = load_arrays(path, OPTIMIZER_KIND)
    if (metadata.get("game"), metadata.get("iteration")) != (network.game_name, network.iteration):
        raise damaged_file_error(
            path, f"it does not belong to network {network.iteration} of {network.game_name}"
        )
    return state


_AGENT_SCHEMA = 1
_AGENT_FILE_KIND = "agent"
"""Kind of agent files."""
AGENT_SUFFIX = ".zerolab"
MAX_AGENT_BYTES = 64 << 20
"""Maximum size of an agent file in bytes, enough for 16 million weights."""

MAX_PRINTABLE_LENGTH = 250
"""Maximum length of a `PrintableText`, in characters."""

_MAX_AGENT_HEADER = 1 << 20  # bytes; three times as much as 256 residual blocks need
_DTYPES = {"BOOL", "F16", "F32", "F64", "I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64"}
_ENTRY_KEYS = {"dtype", "shape", "data_offsets"}
_EXPECTED = "expected a file written by zerolab export"


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError(f"{quoted(text)}: expected printable text")
    return text


PrintableText = Annotated[str, Field(max_length=MAX_PRINTABLE_LENGTH), AfterValidator(_printable)]
"""Text from a file, checked to be safe for display."""


class SourceNetwork(Settings):
    """Network of another run, from which a run started."""

    run: PrintableText
    """Name of the other run's folder, without parent folders."""
    iteration: int = Field(ge=0)
    """Iteration that trained the network; 0 for the initial network."""
    game: PrintableText
    """Game of the other run."""
    digest: PrintableText
    """Digest of the network."""
    transfer: PrintableText
    """Weights copied from the network (docs/transfer.md)."""


class AgentOrigin(Settings):
    """Origin of a network according to its run, without dates so that repeated exports are equal.

    The origin is not verified: the digest detects damage but does not identify the author.
    """

    run: PrintableText
    """Name of the run folder, without parent folders."""
    run_digest: PrintableText
    """Digest of the run settings, including the seed."""
    preset: PrintableText
    """Preset of the run settings."""
    seed: int
    """Seed of the run."""
    iteration: int = Field(ge=0)
    """Iteration that trained the network; 0 for the initial network."""
    games: int = Field(ge=0)
    """Number of self-play games up to that iteration."""
    positions: int = Field(ge=0)
    """Number of self-play positions up to that iteration."""
    started_from: SourceNetwork | None = None
    """Network of another run, from which the run started, if any."""
    environments: tuple[RunEnvironment, ...] = ()
    """Hardware and library versions of the run up to that iteration."""
    written_by: PrintableText
    """Version of zerolab that wrote the file."""


class AgentHeader(Settings):
    """Header of an agent file."""

    game: PrintableText
    """Name of the game."""
    network: dict[str, Any]
    """Network settings, including `name`."""
    search: dict[str, Any]
    """Search settings for play."""
    origin: AgentOrigin
    """Origin of the network."""


class AgentFile(NamedTuple):
    """Undamaged content of an agent file, whose settings and weights may still be invalid."""

    header: AgentHeader
    weights: NamedArrays
    """Weights as stored, float32 or float16 (`to_half_precision`)."""
    digest: str
    """Digest of the entire content, which identifies the agent."""


def encode_agent(header: AgentHeader, weights: NamedArrays) -> bytes:
    """Return the content of an agent file; equal agents result in identical bytes.

    Raises UserError if the weights are too large for an agent file.
    """
    content = encode_arrays(_header_table(header), weights)
    if len(content) > MAX_AGENT_BYTES:
        raise UserError(
            f"the agent is {len(content):,} bytes: expected at most {MAX_AGENT_BYTES:,}"
        )
    return content


def agent_digest(header: AgentHeader, weights: NamedArrays) -> str:
    """Return the digest of an agent file."""
    return _arrays_digest(_header_table(header), weights)


def _header_table(header: AgentHeader) -> dict[str, Any]:
    return {"schema": _AGENT_SCHEMA, "kind": _AGENT_FILE_KIND, **header.model_dump(mode="json")}


def decode_agent(content: bytes, source: str) -> AgentFile:
    """Return the agent in the content of a file after checking its digest.

    `source` is the name of the file in error messages. Raises UserError for content that is too
    large, damaged, of a different kind, or from a different version.
    """
    if len(content) > MAX_AGENT_BYTES:
        raise UserError(
            f"{source} is {len(content):,} bytes: expected an agent of at most"
            f" {MAX_AGENT_BYTES:,} bytes"
        )
    table = _agent_header(content, source)
    check_schema_version(Path(source), table.get("schema"), _AGENT_SCHEMA)
    if table.get("kind") != _AGENT_FILE_KIND:
        raise UserError(
            f"{source} contains {quoted(table.get('kind'))} instead of an agent: {_EXPECTED}"
        )
    with _guarded_decode(source):
        weights = load(content)
        digest = table.pop("digest", None)
        is_intact = digest == _arrays_digest(table, weights)
    if not is_intact:
        raise _damaged_agent_error(source, "its digest does not match")
    fields = {name: x for name, x in table.items() if name not in ("schema", "kind")}
    return AgentFile(validate(AgentHeader, fields, source=source), weights, str(digest))


def _agent_header(content: bytes, source: str) -> dict[str, Any]:
    """Return the zerolab header of a safetensors file.

    Raises UserError if the file has unexpected metadata or non-numeric arrays.
    """
    with _guarded_decode(source):
        length = int.from_bytes(content[:_LENGTH_BYTES], "little")
        if not 0 < length <= min(_MAX_AGENT_HEADER, len(content) - _LENGTH_BYTES):
            raise UserError(f"{source} is not an agent, or is incomplete: {_EXPECTED}")
        arrays = json.loads(content[_LENGTH_BYTES : _LENGTH_BYTES + length].decode())
        metadata = arrays.pop("__metadata__", None)
        if not isinstance(metadata, Mapping) or set(metadata) != {_HEADER_KEY}:
            raise UserError(f"{source} is not an agent: {_EXPECTED}")
        for entry in arrays.values():
            if entry["dtype"] not in _DTYPES:
                dtype, known = quoted(entry["dtype"]), ", ".join(sorted(_DTYPES))
                raise UserError(f"{source} has arrays of {dtype}: expected {known}")
            if set(entry) != _ENTRY_KEYS:
                raise _damaged_agent_error(
                    source, f"{one_line(sorted(set(entry) ^ _ENTRY_KEYS)[0])} is unexpected"
                )
        table = json.loads(metadata[_HEADER_KEY])
        if not isinstance(table, dict):
            raise _damaged_agent_error(source, "its header is not a table")
        return table


_LARGEST_HALF = float(np.finfo(np.float16).max)


def to_half_precision(weights: NamedArrays) -> NamedArrays:
    """Return weights with filters and matrices as float16, for files of half the size.

    Vectors stay float32: biases and batch norm statistics are few, and variances can lie outside
    the range of float16. Raises UserError for a weight too large for float16.
    """
    large = {
        name: array
        for name, array in weights.items()
        if array.dtype == np.float32 and array.ndim > 1
    }
    for name, array in large.items():
        largest = float(np.abs(array).max(initial=0.0))
        if largest > _LARGEST_HALF:
            raise UserError(
                f"{name} has a weight of {largest:,.0f}, but half precision holds at most"
                f" {_LARGEST_HALF:,.0f}: export without half precision"
            )
    return weights | {name: array.astype(np.float16) for name, array in large.items()}


def to_single_precision(weights: NamedArrays) -> NamedArrays:
    """Return weights with float16 arrays converted to float32, without rounding."""
    return {
        name: array.astype(np.float32) if array.dtype == np.float16 else array
        for name, array in weights.items()
    }


def require_finite_weights(weights: NamedArrays) -> None:
    """Raise UserError for the first array with an infinite or NaN weight."""
    for name in sorted(weights):
        if not np.isfinite(weights[name]).all():
            raise UserError(f"{name} is not finite: expected finite weights")


def _damaged_agent_error(source: str, reason: object) -> UserError:
    return UserError(
        f"{source} is damaged ({one_line(reason)}): get another copy from the original source"
    )


@contextmanager
def _guarded_decode(source: str) -> Iterator[None]:
    """Raise UserError for any error in decoding a file."""
    try:
        yield
    except DECODING_ERRORS as error:
        raise _damaged_agent_error(source, error) from error
