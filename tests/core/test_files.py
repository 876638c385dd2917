"""Atomic writes and guarded reads of files."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from zerolab.core.errors import UserError
from zerolab.core.files import (
    atomic_replace,
    check_output_path,
    check_regular_file,
    check_valid_path,
    make_folder,
    read_file,
    read_text,
    write_text,
)


def test_byte_order_mark_is_no_part_of_a_text(tmp_path):
    path = tmp_path / "names.txt"
    path.write_text("Ada\r\n", encoding="utf-8-sig", newline="")
    assert read_text(path, 100) == "Ada\r\n"


def test_write_text_replaces_file_without_leftovers(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    write_text(path, "old")
    write_text(path, "ñew")
    assert path.read_text(encoding="utf-8") == "ñew"
    assert [each.name for each in tmp_path.iterdir()] == ["state.json"]


def test_error_while_writing_keeps_old_file(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    write_text(path, "old")
    with pytest.raises(ZeroDivisionError), atomic_replace(path) as temporary:
        temporary.write_text("half")
        raise ZeroDivisionError
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["state.json"]


def test_concurrent_writes_leave_one_complete_file(tmp_path: Path) -> None:
    """All threads have half-written files at the same time, but the result is never mixed."""
    path, writers = tmp_path / "state.json", 4
    barrier = threading.Barrier(writers, timeout=20)

    def write(number: int) -> str:
        for _ in range(3):
            with atomic_replace(path) as temporary:
                temporary.write_text(f"{number} begun")
                barrier.wait()
                with open(temporary, "a") as file:
                    file.write(", ended")
                barrier.wait()
            contents = path.read_text()
        return contents

    with ThreadPoolExecutor(writers) as pool:
        contents = set(pool.map(write, range(writers)))
    assert contents <= {f"{number} begun, ended" for number in range(writers)}
    assert [each.name for each in tmp_path.iterdir()] == ["state.json"]


def test_full_disk_is_reported_and_keeps_old_file(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    write_text(path, "old")
    message = r"cannot write .*state\.json: No space left on device"
    with pytest.raises(UserError, match=message), atomic_replace(path) as temporary:
        temporary.write_text("half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["state.json"]


def test_full_disk_during_flush_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raise_no_space(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "state.json"
    write_text(path, "old")
    monkeypatch.setattr(os, "fsync", raise_no_space)
    with pytest.raises(UserError, match="No space left"):
        write_text(path, "new")
    assert path.read_text() == "old"


def test_killed_process_leaves_old_file(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    write_text(path, "old")
    program = (
        "import os, signal, sys; from pathlib import Path\n"
        "from zerolab.core.files import atomic_replace\n"
        "with atomic_replace(Path(sys.argv[1])) as temporary:\n"
        "    temporary.write_text('half')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    process = subprocess.run([sys.executable, "-c", program, str(path)], check=False)
    assert process.returncode == -signal.SIGKILL
    assert path.read_text() == "old"
    assert [each.read_text() for each in tmp_path.glob(".*.part")] == ["half"]
    write_text(path, "new")
    assert path.read_text() == "new"


def test_missing_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot write .*: No such file or directory"):
        write_text(tmp_path / "missing" / "state.json", "text")


def test_make_folder_creates_parents(tmp_path: Path) -> None:
    make_folder(tmp_path / "a" / "b")
    make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


def test_make_folder_reports_existing_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file" / "run", tmp_path / "file"):
        with pytest.raises(UserError, match=r"/file is a file: expected a folder$"):
            make_folder(folder)
    (tmp_path / "link").symlink_to(tmp_path / "not mounted")
    for folder in (tmp_path / "link" / "run", tmp_path / "link"):
        with pytest.raises(UserError, match=r"/link is a broken link: expected a folder$"):
            make_folder(folder)


def test_write_below_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    with pytest.raises(UserError, match=r"cannot write .*: Not a directory"):
        write_text(tmp_path / "file" / "state.json", "new")


def test_impossible_targets_are_refused(tmp_path: Path) -> None:
    check_output_path(tmp_path / "new.png")
    for target in (tmp_path, tmp_path / "no" / "new.png"):
        with pytest.raises(UserError, match="cannot write"):
            check_output_path(target)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("x" * 5000, "File name too long"),
        ("x/" * 5000, "File name too long"),
        ("null\0", "null"),
        (os.fsdecode(b"caf\xe9"), r"\\udce9: expected a name in UTF-8"),
    ],
    ids=["long", "deep", "null", "not UTF-8"],
)
@pytest.mark.parametrize("check", [check_valid_path, check_output_path, make_folder])
def test_impossible_names_are_refused_in_one_line(tmp_path, check, name, reason) -> None:
    with pytest.raises(UserError, match=reason) as caught:
        check(tmp_path / name)
    assert len(str(caught.value)) < 400
    assert len(str(caught.value).splitlines()) == 1
    assert str(caught.value).isprintable()


def test_possible_paths_are_accepted(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name in ("", "file", "missing", "missing/one", "file/one", "ñ\N{HEAVY CHECK MARK}"):
        check_valid_path(tmp_path / name)


def test_regular_file_within_limit_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"1234\r\n")
    check_regular_file(tmp_path / "file", 6)
    assert read_file(tmp_path / "file", 6) == b"1234\r\n"
    assert read_text(tmp_path / "file", 6) == "1234\r\n"


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as unix_socket:
        unix_socket.bind(str(path))


def _large(path: Path) -> None:
    with open(path, "wb") as file:
        file.truncate(1 << 40)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (_pipe, "it is a named pipe; expected a file"),
        (_socket, "it is a socket; expected a file"),
        (lambda path: path.symlink_to("/dev/zero"), "it is a device; expected a file"),
        (lambda path: path.mkdir(), "it is a folder; expected a file"),
        (_large, "it is 1,099,511,627,776 bytes; expected at most 100"),
        (lambda path: path.symlink_to("/proc/self/environ"), "more than 100 bytes"),
        (lambda path: None, "No such file or directory"),
        (lambda path: path.symlink_to(path), "Too many levels of symbolic links"),
    ],
    ids=["pipe", "socket", "device", "folder", "large", "unsized", "missing", "loop"],
)
@pytest.mark.parametrize("read", [read_file, read_text])
def test_unsuitable_files_are_refused(tmp_path: Path, make, reason, read) -> None:
    path = tmp_path / "config.toml"
    make(path)
    with pytest.raises(UserError, match=reason):
        read(path, 100)


def test_text_not_in_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"caf\xe9")
    with pytest.raises(UserError, match="byte 3 is not UTF-8 text"):
        read_text(tmp_path / "file", 100)
