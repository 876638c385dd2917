"""Folders that travel: nothing but what has changed, in an order that is always consistent."""

from __future__ import annotations

import shutil

import pytest

from zerolab.core.errors import UserError
from zerolab.store.folder import is_locked
from zerolab.store.run_folder import RunFolder
from zerolab.store.state import RunProgress
from zerolab.studies.engine import travel
from zerolab.studies.engine.travel import PIECE_BYTES, FileSummary, FolderCopy, Keeper, Piece

TOKEN = "a token"


class Counted(Keeper):
    """Counts what arrives."""

    def __init__(self):
        super().__init__()
        self.sent = []

    def stage(self, token, pieces):
        self.sent += [(piece.name, piece.number) for piece in pieces]
        super().stage(token, pieces)

    def commit(self, token, files, removed, pieces):
        self.sent += [(piece.name, piece.number) for piece in pieces]
        super().commit(token, files, removed, pieces)


@pytest.fixture
def keeper():
    return Counted()


def begun(keeper, home, away):
    keeper.lend(TOKEN, str(home), is_for_training=True)
    copy = FolderCopy(keeper, TOKEN, away)
    copy.begin()
    copy.fetch()
    return copy


def content(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")
    }  # fmt: skip


def test_a_run_goes_home_and_away_again(tmp_path, keeper):
    home, away = tmp_path / "home", tmp_path / "away"
    copy = begun(keeper, home, away)
    run = RunFolder.create(away, {"game": "othello:6x6"})
    (away / "examples" / "0001.npz").write_bytes(b"examples")
    run.commit(RunProgress(iteration=2), [])
    copy.send()
    assert content(home) == content(away)
    assert RunFolder.open(home).progress.iteration == 2
    assert is_locked(home)
    keeper.revoke([TOKEN])
    assert not is_locked(home)

    shutil.rmtree(away)
    begun(keeper, home, away)
    # The examples belong to no committed iteration: whoever takes the run up removes them.
    assert "examples/0001.npz" not in content(home)
    assert content(home) == content(away)


def test_only_changed_pieces_travel_and_removed_files_are_removed(tmp_path, keeper):
    copy = begun(keeper, tmp_path / "home", tmp_path / "away")
    large = tmp_path / "away" / "large"
    large.write_bytes(bytes(2 * PIECE_BYTES + 5))
    copy.send()
    assert keeper.sent == [("large", 0), ("large", 1), ("large", 2)]
    with open(large, "r+b") as file:
        file.seek(PIECE_BYTES)
        file.write(b"changed")
        file.truncate(2 * PIECE_BYTES)
    (tmp_path / "away" / "small").write_bytes(b"")
    keeper.sent.clear()
    copy.send()
    assert keeper.sent == [("large", 1)]
    assert content(tmp_path / "home") == content(tmp_path / "away")
    large.unlink()
    copy.send()
    assert content(tmp_path / "home") == {"small": b""}


def test_large_messages_are_divided(tmp_path, keeper, monkeypatch):
    monkeypatch.setattr(travel, "_MESSAGE_BYTES", PIECE_BYTES)
    copy = begun(keeper, tmp_path / "home", tmp_path / "away")
    (tmp_path / "away" / "large").write_bytes(b"x" * (3 * PIECE_BYTES))
    copy.send()
    assert content(tmp_path / "home") == content(tmp_path / "away")
    keeper.revoke([TOKEN])
    (tmp_path / "home" / "config.toml").write_text("")  # no longer an empty folder


def test_the_state_is_replaced_after_everything_else(tmp_path, keeper, monkeypatch):
    stored = []
    store = travel._store
    monkeypatch.setattr(
        travel, "_store", lambda loan, name, each: (stored.append(name), store(loan, name, each))
    )
    copy = begun(keeper, tmp_path / "home", tmp_path / "away")
    run = RunFolder.create(tmp_path / "away", {"game": "othello:6x6"})
    (tmp_path / "away" / "zeta").write_bytes(b"")
    run.commit(RunProgress(iteration=2), [])
    copy.send()
    # A run without a state may hold nothing but its settings: so an empty state comes second.
    assert stored[0] == "config.toml"
    assert stored[-1] == "state.json"


def test_a_commit_that_fails_leaves_a_run_that_can_go_on(tmp_path, keeper, monkeypatch):
    copy = begun(keeper, tmp_path / "home", tmp_path / "away")
    run = RunFolder.create(tmp_path / "away", {"game": "othello:6x6"})
    (tmp_path / "away" / "checkpoints" / "0000.safetensors").write_bytes(b"weights")
    run.commit(RunProgress(iteration=2), [])
    store = travel._store

    def failing(loan, name, each):
        if name == "metrics.jsonl":
            raise UserError("the disk is full")
        store(loan, name, each)

    monkeypatch.setattr(travel, "_store", failing)
    with pytest.raises(UserError, match="disk is full"):
        copy.send()
    keeper.revoke([TOKEN])
    monkeypatch.setattr(travel, "_store", store)
    begun(keeper, tmp_path / "home", tmp_path / "again")
    assert RunFolder.open(tmp_path / "again").progress.iteration == 1


@pytest.mark.parametrize(
    "name", ["../out", "/tmp/out", "a/../../out", ".lock", "a/.b", "", "a//b", "a\n", "a/b/c/d"]
)
def test_files_outside_the_folder_are_refused(tmp_path, keeper, name):
    begun(keeper, tmp_path / "home", tmp_path / "away")
    with pytest.raises(UserError, match="no file of"):
        keeper.stage(TOKEN, [Piece(name, 0, b"x")])
    with pytest.raises(UserError, match="no file of"):
        keeper.commit(TOKEN, {name: FileSummary(0, ())}, [], [])
    with pytest.raises(UserError, match="no file of"):
        keeper.commit(TOKEN, {}, [name], [])
    with pytest.raises(UserError, match="no file of"):
        keeper.read(TOKEN, [(name, 0)])


def test_links_are_not_followed(tmp_path, keeper):
    begun(keeper, tmp_path / "home", tmp_path / "away")
    (tmp_path / "home" / "link").symlink_to(tmp_path)
    with pytest.raises(UserError, match="no file of"):
        keeper.commit(TOKEN, {"link/x": FileSummary(1, ("",))}, [], [Piece("link/x", 0, b"x")])


def test_what_does_not_fit_its_digest_replaces_nothing(tmp_path, keeper):
    copy = begun(keeper, tmp_path / "home", tmp_path / "away")
    (tmp_path / "away" / "file").write_bytes(b"before")
    copy.send()
    with pytest.raises(UserError, match="changed on its way"):
        keeper.commit(TOKEN, {"file": FileSummary(5, ("other",))}, [], [Piece("file", 0, b"after")])
    assert content(tmp_path / "home") == {"file": b"before"}


def test_players_can_be_read_alone(tmp_path, keeper):
    run = RunFolder.create(tmp_path / "home", {"game": "othello:6x6"})
    (tmp_path / "home" / "checkpoints" / "0000.safetensors").write_bytes(b"weights")
    run.commit(RunProgress(), [])
    keeper.lend(TOKEN, str(tmp_path / "home"), is_for_training=False)
    copy = FolderCopy(keeper, TOKEN, tmp_path / "away")
    copy.begin([0])
    copy.fetch()
    names = ["checkpoints/0000.safetensors", "config.toml", "metrics.jsonl", "state.json"]
    assert sorted(content(tmp_path / "away")) == names
    assert copy.is_at(tmp_path / "away")
    with pytest.raises(UserError, match="no file of"):
        keeper.read(TOKEN, [("games.sqlite", 0)])
    with pytest.raises(UserError, match="cannot be stored"):
        keeper.stage(TOKEN, [Piece("config.toml", 0, b"")])
    with pytest.raises(UserError, match="cannot be stored"):
        keeper.commit(TOKEN, {"config.toml": FileSummary(0, ())}, [], [])


def test_who_was_given_up_changes_nothing(tmp_path, keeper):
    copy = begun(keeper, tmp_path / "home", tmp_path / "away")
    keeper.revoke([TOKEN])
    (tmp_path / "away" / "file").write_bytes(b"late")
    with pytest.raises(travel.RevokedError):
        copy.send()
    assert content(tmp_path / "home") == {}


def test_sending_within_an_iteration_takes_no_more_than_its_share_of_the_time(
    tmp_path, keeper, monkeypatch
):
    now = 100.0
    monkeypatch.setattr(travel.time, "monotonic", lambda: now)
    copy = begun(keeper, tmp_path / "home", tmp_path / "away")
    send = copy.send

    def slow():
        nonlocal now
        now += 2.0
        send()

    monkeypatch.setattr(copy, "send", slow)
    for age in (0.0, 5.0, 14.9, 20.1):  # the first takes from 100 to 102, so 122 is when it is due
        now = max(now, 102.0 + age) if age else now
        (tmp_path / "away" / "file").write_text(str(age))
        copy.send_after_stage(False)
        (sent,) = content(tmp_path / "home").values()
        assert sent == (b"0.0" if age < 20 else b"20.1")
    (tmp_path / "away" / "file").write_text("the end of an iteration")
    copy.send_after_stage(True)
    assert content(tmp_path / "home") == content(tmp_path / "away")
