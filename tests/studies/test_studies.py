"""What every study must be, and what their folders refuse."""

from __future__ import annotations

import inspect
from typing import ClassVar

import pytest

from zerolab.core.errors import UserError
from zerolab.store.folder import exclusive
from zerolab.studies import folder as study_folder
from zerolab.studies.interface import Study, registered_studies
from zerolab.studies.tables import Table


class Small(Study):
    """Do a little."""

    name: ClassVar[str] = "small"
    games: int = 4

    def run(self, folder, progress_bar):
        raise NotImplementedError


class Other(Small):
    """Do something else."""

    name: ClassVar[str] = "other"


@pytest.mark.parametrize("name", registered_studies())
def test_every_study_explains_itself(name):
    study = registered_studies()[name]
    assert study.name == name
    help_ = inspect.getdoc(study)
    assert help_.partition("\n")[0].endswith(".")
    assert f"Examples:\n  zerolab study {name}" in help_
    assert study()  # all settings have defaults


def test_a_folder_is_begun_and_gone_on_with(tmp_path):
    for _ in range(2):
        with study_folder.locked(tmp_path / "new", Small()):
            assert (tmp_path / "new" / "study.toml").is_file()


def test_a_folder_of_another_study_is_refused(tmp_path):
    with study_folder.locked(tmp_path, Small()):
        pass
    with (
        pytest.raises(UserError, match='holds the study "small", not "other"'),
        study_folder.locked(tmp_path, Other()),
    ):
        pass


def test_a_damaged_folder_is_told(tmp_path):
    with study_folder.locked(tmp_path, Small()):
        pass
    path = tmp_path / "study.toml"
    path.write_text(path.read_text().replace("games = 4", "games = 5"))
    with pytest.raises(UserError, match="is damaged"), study_folder.locked(tmp_path, Small()):
        pass


def test_one_process_at_a_time(tmp_path):
    with (
        exclusive(tmp_path),
        pytest.raises(UserError, match="another process is at work"),
        study_folder.locked(tmp_path, Small()),
    ):
        pass


def test_settings_that_are_new_have_their_defaults_in_old_folders(tmp_path):
    with study_folder.locked(tmp_path, Small()):
        pass

    class Grown(Small):
        seed: int = 0

    with study_folder.locked(tmp_path, Grown()):
        pass
    with (
        pytest.raises(UserError, match="seed = 1 differs from 0"),
        study_folder.locked(tmp_path, Grown(seed=1)),
    ):
        pass


def test_a_table_in_markdown():
    lines = Table("T", ["pair", "%"], [["a", "1"], ["b", "2"]]).markdown().splitlines()
    assert lines == ["**T**", "", "| pair | % |", "| :--- | ---: |", "| a | 1 |", "| b | 2 |"]
