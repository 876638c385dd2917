"""state.json: how far a run has come; and config.toml: what it was asked to do."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import tomli_w
from pydantic import Field

from zerolab.core.config import Settings, validate
from zerolab.core.errors import UserError
from zerolab.core.files import write_text
from zerolab.store.checks import check_schema, damaged, digest, reading

SCHEMA = 2
"""2 added `warm` to state.json; what is missing in files of version 1 has its default."""

_CONFIG_HEAD = re.compile(r"# settings of a zerolab (\w+), schema (\d+), digest ([0-9a-f]+)\n")


class RunProgress(Settings):
    """How far a run has come; the content of state.json."""

    schema_version: int = SCHEMA
    iteration: int = Field(default=1, ge=1)
    """The iteration whose `stage` is next, counted from 1."""
    stage: Literal["selfplay", "learn", "gate", "measure"] = "selfplay"
    best: int = Field(default=0, ge=0)
    """The iteration that trained the best network; 0 is the untrained one."""
    elo: float = 0.0
    """Training Elo of the best network, the untrained one having 0."""
    warm: bool = True
    """Whether the warm start may go on: no warm_start_match has ended it."""
    finished: bool = False
    metrics_bytes: int = Field(default=0, ge=0)
    """Length of metrics.jsonl; what lies beyond was never committed."""
    metrics_digest: str = ""
    """Of all committed metrics, wall-clock fields aside."""
    game_stages: int = Field(default=0, ge=0)
    """Stages in games.sqlite; what was recorded beyond was never committed."""


def write_state(path: Path, progress: RunProgress) -> None:
    """Replace state.json in one step; raise UserError where that is impossible."""
    fields = progress.model_dump()
    write_text(path, json.dumps({**fields, "digest": _state_digest(fields)}, indent=1) + "\n")


def read_state(path: Path) -> RunProgress:
    """Read state.json; raise UserError if it is missing, damaged, foreign or newer."""
    with reading(path):
        fields = json.loads(path.read_text("utf-8"))
    if not isinstance(fields, dict):
        raise damaged(path, "it holds no table")
    check_schema(path, fields.get("schema_version"), SCHEMA)
    if fields.pop("digest", None) != _state_digest(fields):
        raise damaged(path, "its digest does not fit")
    return validate(RunProgress, {**fields, "schema_version": SCHEMA}, source=str(path))


def _state_digest(fields: Mapping[str, Any]) -> str:
    """Return a digest that is the same in equal runs.

    The length of the metrics depends on the clock; their own digest guards it.
    """
    settled = {name: value for name, value in fields.items() if name != "metrics_bytes"}
    return digest(json.dumps(settled, sort_keys=True).encode())


def write_config(path: Path, config: Mapping[str, Any], owner: str = "run") -> dict[str, Any]:
    """Replace a config.toml in one step; return the settings as they will be read back."""
    body = tomli_w.dumps(config)
    head = f"# settings of a zerolab {owner}, schema {SCHEMA}, digest {digest(body.encode())}\n"
    write_text(path, head + body)
    return tomllib.loads(body)


def read_config(path: Path, owner: str = "run") -> dict[str, Any]:
    """Read a config.toml; raise UserError if it is missing, damaged, foreign or newer."""
    with reading(path):
        text = path.read_bytes().decode()
        head = _CONFIG_HEAD.match(text)
        if head is None or head[1] != owner:
            raise UserError(f"{path} is damaged, or was not written by zerolab for a {owner}")
        check_schema(path, int(head[2]), SCHEMA)
        body = text[head.end() :]
        if digest(body.encode()) != head[3]:
            raise damaged(path, f"its digest does not fit: a {owner} keeps its settings")
        return tomllib.loads(body)
