"""Presets: the settings that a run starts from.

A preset is a TOML file: one of this folder, one in the folder ``presets`` of a paper, or the user's
own. Papers are packages whose module is named in the entry-point group ``zerolab.papers``; they are
not imported here. A table ``[boards."5x5"]`` holds settings for boards of that size alone.

This module imports little, so that the help of commands is fast.
"""

from __future__ import annotations

import copy
import tomllib
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from zerolab.core.errors import UserError, nearest, quoted

_SUFFIX = ".toml"

Transfer = Literal["trunk", "heads", "all", "channels"]
"""The weights that a run may take from another network."""

TransferOption = Literal[Transfer, "frozen"]
"""The same as an option of commands and pages, with "frozen" for a trunk that stays fixed."""


def preset_names() -> list[str]:
    """Return the names of the presets of this package and of all installed papers."""
    return sorted(_files())


def preset_name(preset: str) -> str:
    """Return the name of a preset that is given by name or as a file: ``my/own.toml`` is "own"."""
    return Path(preset).stem if preset.endswith(_SUFFIX) else preset


def preset_title(name: str) -> str:
    """Return the title of an installed preset, which is the first comment in its file."""
    return _files()[name].read_text("utf-8").partition("\n")[0].strip("# ")


def read_preset(preset: str) -> dict[str, Any]:
    """Return the settings of a preset, given by name or as a TOML file, without validation.

    Raises UserError if there is no such preset or the file is not TOML.
    """
    if preset.endswith(_SUFFIX):
        from zerolab.core.config import read_toml

        return {**read_toml(Path(preset)), "preset": preset_name(preset)}
    if preset not in (names := preset_names()):
        known = ", ".join(names)
        raise UserError(
            f"unknown preset {quoted(preset)}: expected one of {known}, or a file such as"
            f" my.toml{nearest(preset, names)}"
        )
    return {**copy.deepcopy(_installed(preset)), "preset": preset}


@cache  # a study resolves the settings of hundreds of runs
def _installed(name: str) -> dict[str, Any]:
    return tomllib.loads(_files()[name].read_text("utf-8"))


@cache
def _files() -> dict[str, Path]:
    """Return the files of all installed presets by name; the first of equal names counts."""
    found: dict[str, Path] = {}
    for folder in (Path(__file__).parent, *_folders_of_papers()):
        for path in sorted(folder.glob(f"*{_SUFFIX}")):
            found.setdefault(path.stem, path)
    return found


def _folders_of_papers() -> list[Path]:
    """Return the folders in which papers keep presets, found without importing the papers."""
    packages = {point.module.rpartition(".")[0] for point in entry_points(group="zerolab.papers")}
    places: list[str] = []
    for package in sorted(packages - {""}):
        try:
            spec = find_spec(package)
        except ImportError:
            continue  # reported where the paper itself is used
        places += (spec and spec.submodule_search_locations) or []
    return [Path(place) / "presets" for place in places]
