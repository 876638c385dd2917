"""Fault injection and fault detection of the campaign tools."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from promised import contents, differences

PACKAGE = Path(__file__).parents[2] / "tools" / "campaigns"

# Not imported through sys.path, because other files in tools are named like test folders.
_spec = importlib.util.spec_from_file_location("campaigns", PACKAGE / "__init__.py")
sys.modules["campaigns"] = importlib.util.module_from_spec(_spec)

from campaigns import damage, grammar, watch  # noqa: E402  importable only now
from campaigns.inject import Plan, counted  # noqa: E402
from campaigns.journal import Journal  # noqa: E402
from campaigns.schema import Drawn  # noqa: E402

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")


def run_watched(tmp_path, code, seconds=20.0, **options):
    """Run a watched program in its own folder, and return the result."""
    (tmp_path / "work").mkdir(exist_ok=True)
    command = watch.Command((), tmp_path / "work", **options)
    return watch.watched(watch.Shell(sys.executable, "-c", code), command, tmp_path / "n", seconds)


def fault_kinds(result):
    return [fault.partition(":")[0] for fault in result.faults()]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("print('fine')", []),
        ("raise ValueError('x')", ["traceback", "code"]),
        ("print(chr(27) + '[2J')", ["control"]),
        ("import sys; sys.exit(2)", ["silent"]),
        ("import sys; sys.exit('zerolab: no')", ["code"]),
        ("import os; os.abort()", ["code"]),
    ],
)
def test_faults_of_commands_are_found(tmp_path, code, expected):
    assert fault_kinds(run_watched(tmp_path, code)) == expected


def test_hanging_command_is_ended_with_its_children(tmp_path):
    code = "import subprocess; subprocess.run(['sleep', '98'])"
    result = run_watched(tmp_path, code, seconds=0.5)
    assert fault_kinds(result) == ["hang"]
    assert result.left == []


def test_long_work_is_stopped_without_fault(tmp_path):
    code = "import time, signal, sys; signal.signal(15, lambda *_: sys.exit(143)); time.sleep(60)"
    result = run_watched(tmp_path, code, stop_after=0.5)
    assert result.stopped
    assert fault_kinds(result) == []


def test_leftover_process_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(watch, "_SECONDS_TO_LEAVE", 0.1)
    code = "import subprocess as s; s.Popen(['sleep', '97'], start_new_session=True, cwd='/')"
    result = run_watched(tmp_path, code)
    assert fault_kinds(result) == ["left"]
    assert "sleep 97" in result.left[0]


def test_memory_peak_is_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(watch, "BYTES", 100 << 20)
    code = "import time; held = bytearray(200 << 20); time.sleep(0.3)"
    result = run_watched(tmp_path, code)
    assert fault_kinds(result) == ["memory"]
    assert 200 << 20 < result.peak < 300 << 20


WRITING = """
import os
from pathlib import Path
for name in "abc":
    path = Path(name)
    with open(f"{name}.part", "wb") as file:
        file.write(b"0123456789")
        file.flush()
        os.fsync(file.fileno())
    Path(f"{name}.part").replace(path)
"""


def write_files(tmp_path, **plan):
    """Write three files under a fault plan; return the remaining file names and the result."""
    fault_plan = Plan(str(tmp_path / "work"), **plan)
    environment = fault_plan.environment() | watch.with_paths(PACKAGE / "hook", PACKAGE.parent)
    result = run_watched(tmp_path, WRITING, environment=environment)
    return sorted(path.name for path in (tmp_path / "work").iterdir()), result


@pytest.mark.parametrize(
    ("call", "number", "expected"),
    [
        ("write", 2, ["a", "b.part"]),
        ("fsync", 2, ["a", "b.part"]),
        ("rename", 3, ["a", "b", "c.part"]),
        ("rename", 4, ["a", "b", "c"]),
    ],
)
def test_process_is_killed_at_operation(tmp_path, call, number, expected):
    files, result = write_files(tmp_path, call=call, number=number)
    assert files == expected
    assert result.code == (0 if expected == ["a", "b", "c"] else -9)
    if call == "write":
        assert (tmp_path / "work" / "b.part").read_bytes() == b"01234"


def test_planned_operation_fails(tmp_path):
    files, result = write_files(tmp_path, call="rename", number=2, error=28)
    assert files == ["a", "b.part"]
    assert b"OSError: [Errno 28] No space left on device" in result.errors


def test_operations_are_counted(tmp_path):
    write_files(tmp_path, counts=str(tmp_path / "counts"))
    counts = counted(tmp_path / "counts")
    assert (counts["write"], counts["fsync"], counts["rename"]) == (3, 3, 3)


def test_planned_sql_operation_fails(tmp_path):
    code = (
        "import sqlite3; c = sqlite3.connect('x.sqlite'); c.execute('CREATE TABLE t (a)');"
        "c.execute('INSERT INTO t VALUES (zeroblob(100000))'); c.commit()"
    )
    plan = Plan(str(tmp_path / "work"), call="sql", number=1, error=28)
    environment = plan.environment() | watch.with_paths(PACKAGE / "hook", PACKAGE.parent)
    assert (
        b"database or disk is full" in run_watched(tmp_path, code, environment=environment).errors
    )


@pytest.fixture
def folder(tmp_path):
    """A folder with a file of each kind."""
    folder = tmp_path / "victim"
    folder.mkdir()
    (folder / "a.toml").write_text('game = "othello"\n\n[search]\nsimulations = 8\n')
    (folder / "b.json").write_text('{"game": "othello", "digest": "aa11", "elo": 12}')
    (folder / "c.pgn").write_text('[White "one"]\n[Black "other"]\n[Result "1-0"]\n\n1-0\n')
    np.savez(folder / "d.npz", states=np.arange(50), zerolab=np.zeros(1))
    with closing(sqlite3.connect(folder / "e.sqlite")) as connection:
        connection.execute("CREATE TABLE games (number INTEGER, first TEXT)")
        connection.execute("INSERT INTO games VALUES (1, 'random')")
        connection.commit()
    return folder


@pytest.mark.parametrize("way", [way for way in damage.WAYS if way != "bomb"])
def test_every_damage_changes_some_file(folder, way):
    changed = []
    for path in sorted(folder.iterdir()):
        before = path.read_bytes()
        if damage.WAYS[way](path, random.Random(1)):
            changed.append(path)
            same = path.is_file() and path.stat().st_size < 1 << 20 and not path.is_symlink()
            assert not same or path.read_bytes() != before
        else:
            assert path.read_bytes() == before
    assert changed or (way == "forbidden" and os.geteuid() == 0)


def test_archive_becomes_decompression_bomb(folder, monkeypatch):
    monkeypatch.setattr(damage, "_BOMB", 1 << 26)
    assert damage.bomb(folder / "d.npz", random.Random(1))
    assert (folder / "d.npz").stat().st_size < 1 << 20
    with np.load(folder / "d.npz") as archive:
        assert max(archive[name].nbytes for name in archive) == 1 << 26


def test_damage_and_values_depend_only_on_seed(folder, tmp_path):
    files = sorted(folder.iterdir())
    outcomes = set()
    for copy in ("one", "two"):
        shutil.copytree(folder, tmp_path / copy)
        path = tmp_path / copy / "a.toml"
        outcomes.add((damage.damage(path, files, random.Random(7)), path.exists()))
    assert len(outcomes) == 1
    schema = {
        "type": "object",
        "properties": {"game": {"type": "string"}, "n": {"type": "integer"}},
    }
    drawn = [str(Drawn({}, random.Random(3)).value(schema)) for _ in range(2)]
    assert drawn[0] == drawn[1]


def test_argument_vectors_stay_within_their_folder(monkeypatch):
    options = [
        grammar.Option("", "game", str, False), grammar.Option("--set", "set", str, True),
        grammar.Option("--seed", "seed", int, False), grammar.Option("--folder", "f", Path, False),
        grammar.Option("--players", "players", str, True), grammar.Option("--j", "j", bool, False),
    ]  # fmt: skip
    setting = SimpleNamespace(key="search.simulations", default=8)
    monkeypatch.setattr(grammar, "commands", lambda: {("train",): tuple(options)})
    monkeypatch.setattr(grammar, "_settings", lambda: (setting,))
    vectors = [grammar.vector(random.Random(number)) for number in range(300)]
    assert vectors == [grammar.vector(random.Random(number)) for number in range(300)]
    words = [word for each in vectors for word in each]
    assert not any(word.startswith("/") or "=/" in word or "../.." in word for word in words)
    assert "--set" in words


def test_options_come_from_command_signatures():
    files, *others = grammar._options(("rate",))
    assert files == ("", "files", Path, True)
    assert [each.flag for each in others][:2] == ["--json", "--csv"]
    assert "host" not in [each.name for each in grammar._options(("serve",))]


def test_folders_are_compared_without_the_clock(folder, tmp_path):
    with closing(sqlite3.connect(folder / "games.sqlite")) as connection:
        connection.execute("CREATE TABLE games (a, b, c)")
        connection.execute("CREATE TABLE stages (sequence, iteration, stage, digest)")
        connection.execute("INSERT INTO games VALUES (1, 2, 3)")
        connection.commit()
    (folder / "run").mkdir()
    (folder / "run" / "config.toml").touch()
    (folder / "metrics.jsonl").write_text('{"wall_seconds": 3.5, "seconds_asked": 12}\n')
    expected = contents(folder)
    other = Path(shutil.copytree(folder, tmp_path / "other"))
    (other / "metrics.jsonl").write_text('{"wall_seconds": 9.9, "seconds_asked": 12}\n')
    with closing(sqlite3.connect(other / "games.sqlite")) as connection:
        connection.execute("CREATE INDEX i ON games (a)")
    assert (other / "games.sqlite").read_bytes() != (folder / "games.sqlite").read_bytes()
    assert differences(contents(other), expected) == []
    (other / "metrics.jsonl").write_text('{"wall_seconds": 3.5, "seconds_asked": 13}\n')
    (other / "a.toml").unlink()
    (other / ".b.json.part").touch()
    (other / "run" / ".b.json.part").touch()
    (other / "b.json").write_text((folder / "b.json").read_text().replace("aa11", "bb22"))
    (other / "c.pgn").write_text("")
    assert differences(contents(other), expected) == [
        "a.toml (missing)", "b.json (differs)", "c.pgn (differs)", "metrics.jsonl (differs)",
        "run/.b.json.part (extra)",
    ]  # fmt: skip


def test_journal_ignores_incomplete_last_line(tmp_path):
    entry = {"campaign": "kills", "seed": 1, "number": 1, "what": "", "faults": ["hang: long"]}
    Journal(tmp_path).add(entry)
    with open(tmp_path / "journal.jsonl", "a") as file:
        file.write(json.dumps({**entry, "number": 2})[:30])
    journal = Journal(tmp_path)
    assert journal.has("kills", 1, 1)
    assert not journal.has("kills", 1, 2)
    journal.add({**entry, "number": 2})
    assert [each["number"] for each in Journal(tmp_path).attempts("kills", 1)] == [1, 2]
