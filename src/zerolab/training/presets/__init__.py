"""Presets: the settings that a run starts from, shipped with the package or in a user's file.

A table ``[boards."5x5"]`` in a preset holds settings for boards of that size alone. Reading presets
loads nothing else of training, so that help can list them at once.
"""

from __future__ import annotations

import copy
import tomllib
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from zerolab.core.errors import UserError, nearest, quoted

_FOLDER = files("zerolab.training.presets")
_ENDING = ".toml"


def preset_names() -> list[str]:
    """Return the names of the presets that come with the package."""
    names = [each.name for each in _FOLDER.iterdir()]
    return sorted(name.removesuffix(_ENDING) for name in names if name.endswith(_ENDING))


def preset_name(preset: str) -> str:
    """Return the name of a preset that is given by name or as a file: ``my/own.toml`` is "own"."""
    return Path(preset).stem if preset.endswith(_ENDING) else preset


def preset_title(name: str) -> str:
    """Return what a preset of the package is, in one line: the first comment of its file."""
    return (_FOLDER / f"{name}{_ENDING}").read_text("utf-8").partition("\n")[0].strip("# ")


def read_preset(preset: str) -> dict[str, Any]:
    """Return the settings of a preset, given by name or as a TOML file; they are not validated.

    Raises UserError if there is no such preset or the file is not TOML.
    """
    if preset.endswith(_ENDING):
        from zerolab.core.config import read_toml

        return {**read_toml(Path(preset)), "preset": preset_name(preset)}
    if preset not in (names := preset_names()):
        known = ", ".join(names)
        raise UserError(
            f"unknown preset {quoted(preset)}: expected one of {known}, or a file such as"
            f" my.toml{nearest(preset, names)}"
        )
    return {**copy.deepcopy(_packaged(preset)), "preset": preset}


@cache
def _packaged(name: str) -> dict[str, Any]:
    """Return a preset of the package; a study resolves the settings of hundreds of runs."""
    return tomllib.loads((_FOLDER / f"{name}{_ENDING}").read_text("utf-8"))


Transfer = Literal["trunk", "heads", "all", "channels"]
"""What settings of a run name."""

TransferOption = Literal[Transfer, "frozen"]
"""What commands and pages offer: those, and a trunk that keeps its weights."""
