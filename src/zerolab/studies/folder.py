"""The folder of a study: ``study.toml`` says what is studied; the rest is the study's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from zerolab.core.config import validate
from zerolab.core.errors import UserError, quoted
from zerolab.store.folder import FolderKind
from zerolab.studies.interface import Study

STUDY = FolderKind("study", "study.toml", "--folder")


@contextmanager
def locked(folder: Path, study: Study) -> Iterator[None]:
    """Start a study in a new or empty folder, or resume the same one; keep other processes out.

    Raises UserError if the folder holds something else, or the study with other settings, or if
    another process is at work on it.
    """
    with STUDY.locked(folder):
        if STUDY.is_in(folder):
            _require_equal(folder, study)
        else:
            settings = {"study": study.name, **study.model_dump(mode="json")}
            STUDY.write_settings(folder, settings)
        yield


def _require_equal(folder: Path, study: Study) -> None:
    saved = STUDY.read_settings(folder)
    name = saved.pop("study", None)
    if name != study.name:
        raise UserError(
            f"{quoted(folder)} holds the study {quoted(name)}, not {quoted(study.name)}: choose"
            " another --folder"
        )
    # Settings that a newer version has added have their defaults.
    former = validate(type(study), saved, source=str(folder / STUDY.settings_file))
    STUDY.require_equal(folder, former.model_dump(), study.model_dump())
