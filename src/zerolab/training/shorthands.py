"""Shorthands for settings of runs: presets, options of commands, and hours.

A preset is a TOML file in the ``presets`` folder of this package or of a paper's package, or a
user's file. Papers are listed in the ``zerolab.papers`` entry-point group; their packages are not
imported here. In a preset, a table ``[boards."5x5"]`` contains settings only for boards of that
size.

Options for starting from a network set `learn_settings.StartSettings`.

This module imports little, so that command help appears quickly.
"""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from zerolab.core.errors import UserError, did_you_mean, quoted
from zerolab.core.registry import installed_plugins

_SUFFIX = ".toml"


DEFAULT_PRESET = "mini"


def preset_names() -> list[str]:
    """Return the names of all presets in this package and in installed papers."""
    return sorted(_files())


def preset_name(preset: str) -> str:
    """Return the name of a preset, given by name or as a file, such as ``my/own.toml``."""
    return Path(preset).stem if preset.endswith(_SUFFIX) else preset


def preset_title(name: str) -> str:
    """Return the title of an installed preset: the first comment in its file."""
    return _files()[name].read_text("utf-8").partition("\n")[0].strip("# ")


def read_preset(preset: str) -> dict[str, Any]:
    """Return the unvalidated settings of a preset, given by name or as a TOML file.

    Raises UserError if the preset does not exist or the file is not valid TOML.
    """
    if preset.endswith(_SUFFIX):
        from zerolab.core.nested_tables import read_toml

        return {**read_toml(Path(preset)), "preset": preset_name(preset)}
    if preset not in (names := preset_names()):
        known = ", ".join(names)
        raise UserError(
            f"unknown preset {quoted(preset)}: expected one of {known}, or a file such as"
            f" my.toml{did_you_mean(preset, names)}"
        )
    return {**copy.deepcopy(_installed(preset)), "preset": preset}


@cache  # a study resolves the settings of hundreds of runs
def _installed(name: str) -> dict[str, Any]:
    return tomllib.loads(_files()[name].read_text("utf-8"))


@cache
def _files() -> dict[str, Path]:
    """Return the files of all installed presets by name; if names are equal, the first is used."""
    files: dict[str, Path] = {}
    for folder in (Path(__file__).parent / "presets", *_paper_folders()):
        for path in sorted(folder.glob(f"*{_SUFFIX}")):
            files.setdefault(path.stem, path)
    return files


def _paper_folders() -> list[Path]:
    """Return the preset folders of papers, without importing the papers."""
    packages = {point.module.rpartition(".")[0] for point in installed_plugins("papers")}
    locations: list[str] = []
    for package in sorted(packages - {""}):
        try:
            spec = find_spec(package)
        except ImportError:
            continue  # reported where the paper is used
        locations += (spec and spec.submodule_search_locations) or []
    return [Path(location) / "presets" for location in locations]


def expand_hours(value: Any) -> Any:
    """Return the stop rule for a time such as ``1.5h``; return any other value unchanged.

    Raises ValueError for other text that begins with a digit, such as ``90min``.
    """
    if not isinstance(value, str):
        return value
    if value[-1:] in ("h", "H"):
        with suppress(ValueError):
            return {"name": "hours", "hours": float(value[:-1])}
    if value[:1].isdecimal():
        raise ValueError(f"{quoted(value)}: expected hours, such as 1.5h")
    return value


def option_assignments(game: str | None, preset: str | None) -> list[tuple[str, str]]:
    """Return the assignments for the options of a resumed run, omitting those that are None."""
    options = {"game": game, "preset": None if preset is None else preset_name(preset)}
    return [(key, value) for key, value in options.items() if value is not None]


def require_new_run_described(
    folder: Path, game: str | None, preset: str | None, keys: Iterable[str]
) -> None:
    """Raise UserError if nothing describes a new run, so that its folder is probably misspelt.

    `keys` are those of the assigned settings.
    """
    if game or preset or any(key == "game" or key.startswith("start") for key in keys):
        return
    from zerolab.store.run_folder import is_run

    names = [each.name for each in folder.parent.glob("*") if is_run(each)]
    raise UserError(
        f"{quoted(folder)} is not a run: expected a run to resume, or the game or preset of a new"
        f" run{did_you_mean(folder.name, names)}"
    )


START_SOURCE_KEY = "start.source"
"""Key of the setting that names the source network."""

TransferMethod = Literal["trunk", "heads", "all", "channels"]
"""Methods for transferring weights from another network, named by the transferred part."""

TransferOption = Literal[TransferMethod, "frozen"]
"""Values of the ``--transfer`` option; "frozen" transfers the trunk and freezes it."""


def start_assignments(source: str, transfer: TransferOption) -> list[str]:
    """Return the assignments for the ``--from`` and ``--transfer`` options."""
    from zerolab.core.nested_tables import string_assignment

    if transfer == "frozen":
        return [
            string_assignment(START_SOURCE_KEY, source),
            "start.transfer=trunk",
            "learn.frozen=trunk",
        ]
    return [string_assignment(START_SOURCE_KEY, source), f"start.transfer={transfer}"]


def require_frozen_trunk(transfer: TransferOption | None, frozen: str) -> None:
    """Raise UserError if `learn.frozen` contradicts the ``--transfer frozen`` option."""
    if transfer == "frozen" and frozen != "trunk":
        raise UserError(
            f'learn.frozen = {quoted(frozen)} contradicts the "frozen" transfer: expected'
            ' learn.frozen = "trunk", or the "trunk" transfer'
        )
