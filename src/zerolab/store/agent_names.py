"""How the networks of a run are named, inside its folder and outside.

Everywhere but in its own folder a network is ``runs/demo@12``: the run's folder, and the
iteration. Inside it is ``@12``, like a relative path. So a run can be moved, and two runs with
equal settings are equal byte for byte wherever they lie; what reads a run's files turns the names
back (docs/decisions/0012-names-of-agents.md).
"""

from __future__ import annotations

import os
from pathlib import Path

_MARK = "@"


def canonical_folder(path: Path) -> str:
    """Return the one spelling of a folder: relative if it lies in the working directory."""
    here = Path.cwd()
    full = Path(os.path.normpath(here / path))
    return (full.relative_to(here) if full.is_relative_to(here) else full).as_posix()


def network_name(run: Path, iteration: int) -> str:
    """Return the name of a run's network, such as ``runs/demo@12``."""
    return f"{canonical_folder(run)}{_MARK}{iteration}"


def inside_run(name: str, run: Path) -> str:
    """Return an agent's name as the run's own files have it: ``@12`` for ``runs/demo@12``."""
    folder = canonical_folder(run)
    return name.removeprefix(folder) if name.startswith(folder + _MARK) else name


def outside_run(name: str, run: Path) -> str:
    """Return an agent's name in a run's files as everybody else has it; see `inside_run`."""
    return canonical_folder(run) + name if name.startswith(_MARK) else name


def source_folder(source: str, iteration: int) -> str:
    """Return the folder of a source that is given as RUN, or as RUN@N with N = `iteration`."""
    return source.removesuffix(f"{_MARK}{iteration}")
