"""state.json, how far a run has come; and config.toml, its settings."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import Field

from zerolab.core.config import Settings, parse_toml, validate
from zerolab.core.errors import UserError
from zerolab.core.files import write_text
from zerolab.store.checks import check_schema, damaged, digest, read_bytes, reading
from zerolab.store.games import SELF_PLAY

SCHEMA = 3
"""Of state.json and of the head of settings files."""

_LARGEST = 1 << 20
_CONFIG_HEAD = re.compile(r"# settings of a zerolab (\w+), schema (\d+), digest ([0-9a-f]+)\n")


class RunProgress(Settings):
    """How far a run has come, by its finished stages."""

    iteration: int = Field(default=1, ge=1)
    """The iteration of the next stage, counted from 1; after the last one, `iterations` + 1."""
    stage: str = SELF_PLAY
    """The next stage, as the trainer names it."""
    best: int = Field(default=0, ge=0)
    """The iteration that trained the best network; 0 is the untrained one."""
    elo: float = 0.0
    """Training Elo of the best network, relative to the untrained one."""
    positions: int = Field(default=0, ge=0)
    """Positions played for learning, in all iterations."""
    warm_start_over: bool = False
    """Whether a warm-start match has ended the warm start."""
    finished: bool = False
    """Whether the final evaluation is done, too."""


class CommittedFiles(Settings):
    """What finished stages have written; anything beyond is removed when a run is resumed."""

    metrics_bytes: int = Field(default=0, ge=0)
    """Length of metrics.jsonl."""
    metrics_digest: str = ""
    """Of the metrics, without their wall-clock fields."""
    game_stages: int = Field(default=0, ge=0)
    """Stages in games.sqlite."""
    examples: int = Field(default=0, ge=0)
    """The latest iteration with examples; 0 for none."""
    networks: int = Field(default=0, ge=0)
    """The latest iteration with a network; the untrained one has the number 0."""


class RunState(Settings):
    """The content of state.json."""

    progress: RunProgress = RunProgress()
    files: CommittedFiles = CommittedFiles()


def write_state(path: Path, state: RunState) -> None:
    """Replace state.json in one step; raise UserError where that is impossible."""
    fields = {"schema_version": SCHEMA, **state.model_dump()}
    write_text(path, json.dumps({**fields, "digest": _state_digest(fields)}, indent=1) + "\n")


def read_state(path: Path) -> RunState:
    """Read state.json; raise UserError if it is missing, damaged, foreign or of another version."""
    content = read_bytes(path, _LARGEST)
    with reading(path):
        fields = json.loads(content.decode())
    if not isinstance(fields, dict):
        raise damaged(path, "it holds no table")
    check_schema(path, fields.get("schema_version"), SCHEMA)
    with reading(path):
        is_intact = fields.pop("digest", None) == _state_digest(fields)
    if not is_intact:
        raise damaged(path, "its digest does not match")
    del fields["schema_version"]
    return validate(RunState, fields, source=str(path))


def _state_digest(fields: Mapping[str, Any]) -> str:
    """Return a digest that is the same in equal runs.

    The length of the metrics depends on the clock; their own digest guards it.
    """
    files = {name: x for name, x in fields["files"].items() if name != "metrics_bytes"}
    return digest(json.dumps({**fields, "files": files}, sort_keys=True).encode())


def write_config(path: Path, config: Mapping[str, Any], owner: str = "run") -> dict[str, Any]:
    """Replace a settings file in one step; return the settings as they will be read back.

    `owner` is what they are the settings of, such as a tournament.
    """
    body = tomli_w.dumps(config)
    head = f"# settings of a zerolab {owner}, schema {SCHEMA}, digest {digest(body.encode())}\n"
    write_text(path, head + body)
    return tomllib.loads(body)


def read_config(path: Path, owner: str = "run") -> dict[str, Any]:
    """Read a settings file; raise UserError if it is missing, damaged, foreign or newer."""
    content = read_bytes(path, _LARGEST)
    with reading(path):
        text = content.decode()
        head = _CONFIG_HEAD.match(text)
        if head is None or head[1] != owner:
            raise UserError(f"{path} is damaged, or was not written by zerolab for a {owner}")
        check_schema(path, int(head[2]), SCHEMA)
        body = text[head.end() :]
        if digest(body.encode()) != head[3]:
            raise damaged(path, f"its digest does not match: a {owner} keeps its settings")
        return parse_toml(body)
