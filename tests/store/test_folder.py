"""Folder kinds of runs, tournaments and studies: locks, settings and leftovers."""

from __future__ import annotations

from contextlib import suppress

import pytest

from store.toy import everything
from zerolab.core.errors import UserError
from zerolab.core.files import atomic_replace
from zerolab.store.folder import FolderKind

TOURNAMENT = FolderKind("tournament", "tournament.toml", "--folder")
SETTINGS = {"games": 20, "search": {"c": 1.5, "noise": {"fraction": 0.25}}}


def test_folder_is_created_and_recognised(tmp_path):
    path = tmp_path / "deep" / "folder"
    with TOURNAMENT.locked(path):
        assert not TOURNAMENT.matches(path)
        assert TOURNAMENT.write_settings(path, SETTINGS) == SETTINGS
    with TOURNAMENT.locked(path):
        assert TOURNAMENT.matches(path)
        assert TOURNAMENT.read_settings(path) == SETTINGS


def test_folder_with_other_content_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    before = everything(tmp_path)
    expected = r"is not a tournament and not empty.* another --folder"
    with pytest.raises(UserError, match=expected), TOURNAMENT.locked(tmp_path):
        pass
    assert everything(tmp_path) == before


def test_folder_of_other_kind_is_left_alone(tmp_path):
    study = FolderKind("study", "study.toml", "--folder")
    with TOURNAMENT.locked(tmp_path):
        TOURNAMENT.write_settings(tmp_path, SETTINGS)
    with pytest.raises(UserError, match="is not a study"), study.locked(tmp_path):
        pass
    (tmp_path / "study.toml").write_bytes((tmp_path / "tournament.toml").read_bytes())
    with pytest.raises(UserError, match="not written by zerolab for a study"):
        study.read_settings(tmp_path)


def test_only_leftovers_of_killed_writers_are_removed(tmp_path):
    with TOURNAMENT.locked(tmp_path):
        TOURNAMENT.write_settings(tmp_path, SETTINGS)
    with suppress(KeyboardInterrupt), atomic_replace(tmp_path / "games.csv") as temporary:
        temporary.write_text("half")
        (tmp_path / "copy").write_bytes(temporary.read_bytes())
        leftover = temporary.name
        raise KeyboardInterrupt
    (tmp_path / "copy").rename(tmp_path / leftover)  # as after a kill
    foreign = tmp_path / ".film.mkv.part"
    foreign.write_text("half of it")
    with TOURNAMENT.locked(tmp_path):
        remaining = {each.name for each in tmp_path.iterdir()}
    assert remaining == {"tournament.toml", ".lock", foreign.name}


def test_locked_folder_is_refused(tmp_path):
    with (
        TOURNAMENT.locked(tmp_path),
        pytest.raises(UserError, match="is in use"),
        TOURNAMENT.locked(tmp_path),
    ):
        pass


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({**SETTINGS, "games": 10}, "games = 10 differs from 20 in"),
        ({**SETTINGS, "search": {"c": 1.5, "noise": {"fraction": 0}}}, "search.noise.fraction = 0"),
        ({"games": 20, "search": {"c": 1.5}}, "search.noise.fraction = nothing differs from 0.25"),
        ({**SETTINGS, "seed": 1}, "seed = 1 differs from nothing"),
    ],
)
def test_changed_settings_are_refused(tmp_path, changed, expected):
    TOURNAMENT.require_equal_settings(tmp_path, SETTINGS, {**SETTINGS})
    with pytest.raises(UserError, match=expected) as caught:
        TOURNAMENT.require_equal_settings(tmp_path, SETTINGS, changed)
    assert "a tournament keeps its settings; choose another --folder" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_excepted_settings_can_differ(tmp_path):
    TOURNAMENT.require_equal_settings(
        tmp_path, SETTINGS, {**SETTINGS, "games": 10}, except_for=["games"]
    )
