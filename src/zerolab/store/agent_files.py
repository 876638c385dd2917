"""An agent as one file: a network's weights, how it searches, and where both come from.

The file is a safetensors file (docs/decisions/0072-sharing.md): numbers, and one header in JSON
with a digest of everything. Nothing in it can run. It may come from anybody, so that all of it is
checked before it is used: here, whatever can be said without knowing any network.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import AfterValidator, Field
from safetensors.numpy import load

from zerolab.core.config import Settings, validate
from zerolab.core.errors import UserError, one_line, quoted
from zerolab.store.arrays import OWNER, Arrays, content_digest, encoded
from zerolab.store.checks import UNREADABLE, check_schema
from zerolab.store.environments import Environment

SCHEMA = 1
AGENT = "agent"
"""The kind of these files."""
ENDING = ".zerolab"
MAX_BYTES = 64 << 20
"""Of a file. Networks of 16 million weights fit."""

MAX_TEXT = 250
"""Characters of a name in the header."""

_MAX_HEADER = 1 << 20  # bytes; 256 residual blocks need a third of it
_LENGTH_BYTES = 8
_DTYPES = {"BOOL", "F16", "F32", "F64", "I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64"}
_ENTRY = {"dtype", "shape", "data_offsets"}
_EXPECTED = "expected a file that zerolab export has written"


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError(f"{quoted(text)}: expected text that can be printed")
    return text


_Text = Annotated[str, Field(max_length=MAX_TEXT), AfterValidator(_printable)]
"""What is shown to people, who did not write it."""


class Source(Settings):
    """The network of another run that a run began with."""

    run: _Text
    """The name of its folder, without the folders above it."""
    iteration: int = Field(ge=0)
    game: _Text
    digest: _Text
    """Of the network."""
    transfer: _Text
    """What of it was taken (docs/transfer.md)."""


class Origin(Settings):
    """Where a network comes from, as far as its run knows; runs keep no dates.

    It is what the file's maker says. The digest shows damage, not who wrote the file.
    """

    run: _Text
    """The name of the run's folder, without the folders above it."""
    run_digest: _Text
    """Of the run's settings, the seed among them: equal runs have equal ones."""
    preset: _Text
    seed: int
    iteration: int = Field(ge=0)
    """The iteration that trained the network; 0 for an untrained one."""
    games: int = Field(ge=0)
    """Of self-play up to that iteration."""
    positions: int = Field(ge=0)
    """That self-play up to that iteration has given to learn from."""
    started_from: Source | None = None
    environments: tuple[Environment, ...] = ()
    """Machines and versions that worked on the run up to that iteration."""
    written_by: _Text
    """The version of zerolab that wrote the file."""


class AgentHeader(Settings):
    """What an agent's file says beside the weights."""

    game: _Text
    network: dict[str, Any]
    """The settings of the network, `name` among them, as its run has them."""
    search: dict[str, Any]
    """The settings of the search that the network was trained with."""
    origin: Origin


class StoredAgent(NamedTuple):
    """The content of a file, intact, but not yet known to be a network."""

    header: AgentHeader
    weights: Arrays
    digest: str
    """Of everything: it identifies the file's content."""


def encode_agent(header: AgentHeader, weights: Arrays) -> bytes:
    """Return the content of an agent's file; equal agents give equal bytes.

    Raises UserError for weights that are too large for such a file.
    """
    content = encoded(_table(header), weights)
    if len(content) > MAX_BYTES:
        raise UserError(
            f"the agent has {len(content):,} bytes: expected at most {MAX_BYTES:,} in one file"
        )
    return content


def agent_digest(header: AgentHeader, weights: Arrays) -> str:
    """Return the digest that an agent's file has."""
    return content_digest(_table(header), weights)


def _table(header: AgentHeader) -> dict[str, Any]:
    return {"schema": SCHEMA, "kind": AGENT, **header.model_dump(mode="json")}


def decode_agent(content: bytes, source: str) -> StoredAgent:
    """Return the agent in the content of a file, intact.

    `source` is what messages call the file. Raises UserError for content that is too large,
    damaged, of another kind, or of a newer version.
    """
    if len(content) > MAX_BYTES:
        raise UserError(
            f"{source} has {len(content):,} bytes: expected an agent of at most {MAX_BYTES:,}"
        )
    table = _header(content, source)
    check_schema(Path(source), table.get("schema"), SCHEMA)
    if table.get("kind") != AGENT:
        raise UserError(f"{source} holds {quoted(table.get('kind'))}, no agent: {_EXPECTED}")
    with _decoding(source):
        weights = load(content)
        digest = table.pop("digest", None)
        intact = digest == content_digest(table, weights)
    if not intact:
        raise _damaged(source, "its digest does not match")
    facts = {name: x for name, x in table.items() if name not in ("schema", "kind")}
    return StoredAgent(validate(AgentHeader, facts, source=source), weights, str(digest))


def _header(content: bytes, source: str) -> dict[str, Any]:
    """Return the header of zerolab's in a safetensors file.

    It has to be all that the file says beside its arrays, whose types have to be numbers.
    """
    with _decoding(source):
        length = int.from_bytes(content[:_LENGTH_BYTES], "little")
        if not 0 < length <= min(_MAX_HEADER, len(content) - _LENGTH_BYTES):
            raise UserError(f"{source} is no agent, or not all of one: {_EXPECTED}")
        arrays = json.loads(content[_LENGTH_BYTES : _LENGTH_BYTES + length].decode())
        metadata = arrays.pop("__metadata__", None)
        if not isinstance(metadata, Mapping) or set(metadata) != {OWNER}:
            raise UserError(f"{source} is no agent: {_EXPECTED}")
        for entry in arrays.values():
            if entry["dtype"] not in _DTYPES:
                kind = quoted(entry["dtype"])
                raise UserError(f"{source} has arrays of {kind}: expected whole numbers or floats")
            if set(entry) != _ENTRY:
                raise _damaged(source, f"{one_line(sorted(set(entry) ^ _ENTRY)[0])} is unexpected")
        table = json.loads(metadata[OWNER])
        if not isinstance(table, dict):
            raise _damaged(source, "its header is no table")
        return table


def require_finite(weights: Arrays) -> None:
    """Raise UserError, naming the first such array, where a weight is infinite or NaN."""
    for name in sorted(weights):
        if not np.isfinite(weights[name]).all():
            raise UserError(f"{name} is not finite: expected finite weights")


def _damaged(source: str, why: object) -> UserError:
    return UserError(f"{source} is damaged ({one_line(why)}): get it again from where it came from")


@contextmanager
def _decoding(source: str) -> Iterator[None]:
    """Raise UserError for whatever goes wrong while a file's content is decoded."""
    try:
        yield
    except UNREADABLE as error:
        raise _damaged(source, error) from error
