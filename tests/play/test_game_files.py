"""Results read from PGN files of other programs, from zerolab's stores and from arbitrary text."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zerolab.core.errors import UserError
from zerolab.play.game_files import ImportedResults, read_game_results, read_pgn_results
from zerolab.ratings.results import GameResult
from zerolab.store.games import GameRecord, GameStore, network_name

GAME = '[White "A"]\n[Black "B"]\n[Result "1-0"]\n\n1. e4 e5 1-0\n\n'


def read(text: str, encoding: str = "utf-8") -> ImportedResults:
    return read_pgn_results(text.encode(encoding), "games.pgn")


def test_results_are_read_and_unfinished_games_counted():
    text = "".join(
        f'[Event "x"]\n[White "A"]\n[Black "B"]\n[Result "{result}"]\n\n1. e4 {result}\n\n'
        for result in ("1-0", "0-1", "1/2-1/2", "*")
    )
    assert read(text) == ImportedResults([GameResult("A", "B", o) for o in (1, -1, 0)], 1)


VARIANTS = {
    "Windows line ends": GAME.replace("\n", "\r\n"),
    "old line ends": GAME.replace("\n", "\r"),
    "a byte order mark": "\ufeff" + GAME,
    "no moves, no space": '[White "A"][Black "B"][Result "1-0"]',
    "odd spaces": '  [ White\t"A" ]\n\n\n[Black   "B"]\n \n[ Result "1-0"]   ',
    "spaces in values": GAME.replace('"A"', '" A "'),
    "tags in comments": GAME.replace("e5", '{[White "Z"] ; [%clk 0:01]} e5 ; [Black "Z"]\n'),
    "tags in an escaped line": '% [White "Z"]\n' + GAME,
    "a variation with a result": GAME.replace("e5", "(1. d4 {!} (1. c4 0-1) 0-1) e5 $1"),
    "a comment before the moves": GAME.replace("1. e4", "{it was [a] fine game} 1. e4"),
    "brackets in a value": GAME.replace("[White", '[Event "a [b] {c} ; d"]\n[White'),
    "a broken tag elsewhere": '[Event "the "great" cup"]\n' + GAME,
    "tags of many kinds": GAME.replace("[Result", '[WhiteElo "9"]\n[Site "?"]\n[Result'),
    "a result in the moves that differs": GAME.replace("e5 1-0", "e5 0-1"),
}


@pytest.mark.parametrize("kind", VARIANTS)
def test_unusual_pgn_is_read(kind):
    once, twice = (
        read(VARIANTS[kind]),
        read(VARIANTS[kind] + "\n\n" + VARIANTS[kind].lstrip("\ufeff")),
    )
    assert once == ImportedResults([GameResult("A", "B", 1)])
    assert twice == ImportedResults([GameResult("A", "B", 1)] * 2)


def test_names_keep_their_characters():
    quoted = GAME.replace('"A"', r'"the \"A\" of C:\\x"')
    assert read(quoted).results[0].first == r'the "A" of C:\x'
    loose = GAME.replace('"A"', '"the "A" of C"')
    assert read(loose).results[0].first == 'the "A" of C'
    for encoding in ("utf-8", "latin-1"):
        assert read(GAME.replace('"B"', '"Müller"'), encoding).results[0].second == "Müller"


def test_games_without_moves_are_separated_by_tags():
    text = "".join(f'[White "{w}"]\n[Black "{b}"]\n[Result "0-1"]\n' for w, b in ("AB", "BC", "CA"))
    assert read(text).results == [GameResult(*names, -1) for names in ("AB", "BC", "CA")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GAME + GAME.replace("1-0", "2-0"), 'games.pgn, game 2: Result "2-0": expected 1-0'),
        (GAME.replace("1-0", "x" * 500), 'Result "' + "x" * 40 + '..."'),
        (GAME + GAME.replace('[Black "B"]\n', ""), "games.pgn, game 2: the Black tag is missing"),
        (GAME.replace('"B"', '""'), "game 1: the Black tag is missing"),
        (GAME + '[White "A"]', "games.pgn, game 2: the Black tag is missing"),
        (GAME + "{ never ends" + GAME, "game 1: unclosed comment"),
        (GAME + '[White "A"] { never ends', "game 2: unclosed comment"),
        ("", "contains no games"),
        ("\x89PNG\0\0{", "games.pgn is not a text file"),
        ("1. e4 e5 1-0", "contains no games"),
    ],
)
def test_invalid_files_get_one_line(text, message):
    with pytest.raises(UserError) as error:
        read(text)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


pieces = st.sampled_from(
    ['[White "A"]', '[Black "B"]', '[Result "1-0"]', '[Result "', '"]', "[", "]", "{", "}", "(",
     ")", ";", "%", "\n", "\r", "\\", '"', " ", "*", "1-0", "e4", "\x00", "é", "\ud7ff"]
)  # fmt: skip


@given(st.one_of(st.binary(max_size=300), st.lists(pieces, max_size=40).map("".join)))
def test_arbitrary_text_is_read_or_gets_one_line(content):
    raw = content if isinstance(content, bytes) else content.encode()
    try:
        records = read_pgn_results(raw, "games.pgn")
    except UserError as error:
        assert len(str(error).splitlines()) == 1
    else:
        assert all(result.result in (1, 0, -1) for result in records.results)


_NAMES = st.text(max_size=12)


@given(st.lists(st.tuples(_NAMES, _NAMES, st.sampled_from((1, 0, -1))), min_size=1, max_size=4))
@settings(max_examples=50)
def test_escaped_names_are_restored(games):
    """Names with any printable characters are restored from the standard's escapes."""
    expected = [
        (*(" ".join("".join(c for c in n if c.isprintable()).split()) or "x" for n in names), o)
        for *names, o in games
    ]
    names = {1: "1-0", 0: "1/2-1/2", -1: "0-1"}
    text = ""
    for first, second, outcome in expected:
        white, black = (n.replace("\\", r"\\").replace('"', r"\"") for n in (first, second))
        text += f'[White "{white}"]\n[Black "{black}"]\n[Result "{names[outcome]}"]\n\n'
    records = read(text)
    assert records.results == [GameResult(*each) for each in expected if each[0] != each[1]]
    assert records.self_play_count == len(expected) - len(records.results)


def recorded_store(folder: Path) -> GameStore:
    """Return a store with games, recorded relative to the run folder."""
    folder.mkdir(exist_ok=True)
    store = GameStore(folder / "games.sqlite", folder)
    best, candidate = network_name(folder, 0), network_name(folder, 1)
    store.write_stage(1, "selfplay", [GameRecord(0, best, best, (1, 2), 1)])
    gate = [
        GameRecord(0, candidate, best, (1,), 1),
        GameRecord(1, best, candidate, (2,), 0),
    ]
    store.write_stage(1, "gate", gate)
    store.write_stage(2, "against random", [GameRecord(0, "random", candidate, (3, -1), -1)])
    return store


def test_stages_except_self_play_are_read(tmp_path):
    store = recorded_store(tmp_path / "run")
    best, candidate = (f"{tmp_path / 'run'}@{n}" for n in (0, 1))
    expected = ImportedResults(
        [GameResult(candidate, best, 1, (1,)), GameResult(best, candidate, 0, (2,)),
         GameResult("random", candidate, -1, (3, -1))],
        self_play_count=1,
    )  # fmt: skip
    assert read_game_results([store.path]) == expected
    assert read_game_results([tmp_path / "run"]) == expected
    assert read_game_results([store.path, store.path, tmp_path / "run"]) == expected


def test_networks_of_several_runs_are_distinguished(tmp_path):
    for name in ("one", "two"):
        recorded_store(tmp_path / name)
    results = read_game_results([tmp_path / "one", tmp_path / "two"]).results
    names = {name for result in results for name in result[:2]}
    assert names == {"random"} | {f"{tmp_path / run}@{k}" for run in ("one", "two") for k in (0, 1)}


def test_stores_moved_out_of_runs_are_distinguished(tmp_path):
    for name in ("one", "two"):
        recorded_store(tmp_path / name).path.rename(tmp_path / f"{name}.sqlite")
    results = read_game_results([tmp_path / "one.sqlite", tmp_path / "two.sqlite"]).results
    assert len({name for result in results for name in result[:2]}) == 5


def test_networks_are_stored_relative_to_their_run(tmp_path, monkeypatch):
    """Equal runs have equal bytes, and a moved run keeps its history."""
    monkeypatch.chdir(tmp_path)
    one, two = recorded_store(Path("one")), recorded_store(Path("two"))
    assert one.path.read_bytes() == two.path.read_bytes()
    assert one.stage_games(1, "gate")[0][1:3] == ("one@1", "one@0")
    Path("one").rename("moved")
    moved = GameStore(Path("moved/games.sqlite"), Path("moved"))
    assert moved.stage_games(1, "gate")[0][1:3] == ("moved@1", "moved@0")
    assert GameStore(moved.path).stage_games(1, "gate")[0][1:3] == ("@1", "@0")


@pytest.mark.parametrize("spelling", ["runs/a", "./runs/a/", "runs/../runs/a", "{here}/runs/a"])
def test_network_names_have_canonical_folder(tmp_path, monkeypatch, spelling):
    monkeypatch.chdir(tmp_path)
    assert network_name(Path(spelling.format(here=tmp_path)), 3) == "runs/a@3"
    assert network_name(Path("/elsewhere/a"), 3) == "/elsewhere/a@3"


def test_missing_and_foreign_files_are_refused(tmp_path):
    with pytest.raises(UserError, match="does not exist"):
        read_game_results([tmp_path / "none.pgn"])
    with pytest.raises(UserError, match=r"games\.sqlite does not exist"):
        read_game_results([tmp_path])
    (tmp_path / "bad.sqlite").write_bytes(b"SQLite format 3\0" + b"nonsense" * 99)
    with pytest.raises(UserError):
        read_game_results([tmp_path / "bad.sqlite"])
