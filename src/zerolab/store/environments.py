"""environment.json: the machines and versions that have worked on a run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from zerolab.core.config import Settings, validate
from zerolab.core.files import write_text
from zerolab.store.checks import check_schema, damaged, read_bytes, reading

SCHEMA = 1
_NAME = "environment.json"
_LARGEST = 1 << 20


class Environment(Settings):
    """What results may depend on beside settings."""

    iteration: int = Field(ge=1)
    """The first iteration that was trained, at least in part, in this environment."""
    device: str
    """The processor's architecture, or the name of the GPU."""
    processor: str = ""
    """The processor's model; empty in the files of earlier versions."""
    precision: str
    """In which layers compute: float32 or bfloat16."""
    threads: int
    """Cores that learning may use."""
    python: str
    zerolab: str
    torch: str
    numba: str
    numpy: str


def read_environments(run: Path) -> list[Environment]:
    """Return the environments that worked on the run in a folder, in order.

    Raises UserError if their file is damaged or of another version.
    """
    path = run / _NAME
    if not path.exists():
        return []
    content = read_bytes(path, _LARGEST)
    with reading(path):
        table: Any = json.loads(content.decode())
        schema, found = table["schema_version"], list(table["environments"])
    check_schema(path, schema, SCHEMA)
    if not all(isinstance(each, dict) for each in found):
        raise damaged(path, "an environment is a table")
    return [validate(Environment, each, source=str(path)) for each in found]


def write_environments(run: Path, environments: Sequence[Environment]) -> None:
    """Replace the environments of the run in a folder."""
    content = {
        "schema_version": SCHEMA,
        "environments": [each.model_dump() for each in environments],
    }
    write_text(run / _NAME, json.dumps(content, indent=1) + "\n")
