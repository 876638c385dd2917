"""The folder of a study: ``study.toml`` says what is studied; the rest is the study's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from zerolab.core.config import validate
from zerolab.core.errors import UserError
from zerolab.core.files import make_folder
from zerolab.store import lock
from zerolab.store.checks import reading
from zerolab.store.state import read_config, write_config
from zerolab.studies.interface import Study

_SETTINGS = "study.toml"
_OWNER = "study"


@contextmanager
def locked(folder: Path, study: Study) -> Iterator[None]:
    """Begin a study in a new or empty folder, or go on with the same one; keep others out of it.

    Raises UserError if the folder holds something else, or the study with other settings, or if
    another process is at work on it.
    """
    make_folder(folder)
    _require_ours(folder)  # before the lock's file is put into a folder that is not ours
    with lock.exclusive(folder):
        path = folder / _SETTINGS
        if path.exists():
            _require_equal(folder, study)
        else:
            write_config(path, {"study": study.name, **study.model_dump(mode="json")}, _OWNER)
        yield


def _require_ours(folder: Path) -> None:
    with reading(folder):
        others = any(not entry.name.startswith(".") for entry in folder.iterdir())
        if others and not (folder / _SETTINGS).is_file():
            raise UserError(f"{folder} is no study and not empty: expected a new folder")


def _require_equal(folder: Path, study: Study) -> None:
    saved = read_config(folder / _SETTINGS, _OWNER)
    name = saved.pop("study", None)
    if name != study.name:
        raise UserError(f"{folder} holds the study {name}, not {study.name}: choose another folder")
    # Settings that a newer version has added have their defaults.
    former = validate(type(study), saved, source=str(folder / _SETTINGS)).model_dump()
    for key, value in study.model_dump().items():
        if value != former[key]:
            raise UserError(
                f"{key} = {value} differs from {former[key]} in {folder}: a study keeps its"
                " settings; choose another --folder"
            )
