"""Files are replaced whole or not at all."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from zerolab.core.errors import UserError
from zerolab.core.files import check_target, make_folder, replacing, write_text


def test_text_is_replaced_and_nothing_is_left_behind(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    write_text(path, "old")
    write_text(path, "ñew")
    assert path.read_text(encoding="utf-8") == "ñew"
    assert [each.name for each in tmp_path.iterdir()] == ["state.json"]


def test_an_error_while_writing_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    write_text(path, "old")
    with pytest.raises(ZeroDivisionError), replacing(path) as temporary:
        temporary.write_text("half")
        raise ZeroDivisionError
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["state.json"]


def test_a_full_disk_keeps_the_old_file_and_is_told(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    write_text(path, "old")
    complaint = r"cannot write .*state\.json: No space left on device"
    with pytest.raises(UserError, match=complaint), replacing(path) as temporary:
        temporary.write_text("half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["state.json"]


def test_a_full_disk_found_while_flushing_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "state.json"
    write_text(path, "old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match="No space left"):
        write_text(path, "new")
    assert path.read_text() == "old"


def test_a_killed_process_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    write_text(path, "old")
    program = (
        "import os, signal, sys; from pathlib import Path\n"
        "from zerolab.core.files import replacing\n"
        "with replacing(Path(sys.argv[1])) as temporary:\n"
        "    temporary.write_text('half')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.read_text() == "old"
    write_text(path, "new")
    assert path.read_text() == "new"


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot write .*: No such file or directory"):
        write_text(tmp_path / "missing" / "state.json", "text")


def test_folders_are_made_with_their_parents(tmp_path: Path) -> None:
    make_folder(tmp_path / "a" / "b")
    make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


def test_a_folder_in_place_of_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cannot make the folder .*file/run: Not a directory"):
        make_folder(tmp_path / "file" / "run")
    with pytest.raises(UserError, match=r"cannot make the folder .*file: File exists"):
        make_folder(tmp_path / "file")


def test_a_file_in_place_of_the_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    with pytest.raises(UserError, match=r"cannot write .*: Not a directory"):
        write_text(tmp_path / "file" / "state.json", "new")


def test_targets_are_checked_before_the_work(tmp_path: Path) -> None:
    check_target(tmp_path / "new.png")
    for wrong in (tmp_path, tmp_path / "no" / "new.png"):
        with pytest.raises(UserError, match="cannot write"):
            check_target(wrong)
    assert list(tmp_path.iterdir()) == []
