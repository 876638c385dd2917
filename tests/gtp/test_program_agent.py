"""External engines as players: matches, forfeits and unsuitable engines."""

from __future__ import annotations

import logging
import shlex
import shutil
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from forks import through
from gtp.games import SMALL_GAMES
from gtp.test_client import command
from play.scripted import agent_of
from zerolab.agents.agent import FORFEIT_ACTION
from zerolab.agents.baselines import RandomPlayer
from zerolab.agents.specs import parse_agent
from zerolab.api.positions import load_agent
from zerolab.core.errors import UserError
from zerolab.gtp.program_agent import MAX_CONSECUTIVE_FAILURES, GtpPlayer
from zerolab.gtp.protocol import GtpClient, GtpEngineError
from zerolab.play.match import play_match
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position

TIC_TAC_TOE = parse_game("gobang:3x3:3")
C3, B2 = 8, 4


def zerolab(player, game):
    """Return the command line of zerolab's engine without networks."""
    return shlex.join(through("from gtp.serve import serve; serve()", player, game))


def fake_player(fault, log, when="with C3", timeout=60.0):
    return GtpPlayer(TIC_TAC_TOE, command(fault, log, when), timeout)


def against_random(game, player, games, seed=1):
    return play_match(game, agent_of(player), agent_of(RandomPlayer(game)), games, seed, threads=1)


def chosen_actions(player, *openings):
    """Return the actions that a player chooses after these openings."""
    slots = np.arange(len(openings))
    player.start(len(openings))
    positions = [Position.start(TIC_TAC_TOE) for _ in openings]
    for slot, opening in enumerate(openings):
        for action in opening:
            positions[slot] = positions[slot].play(action)
            player.advance(np.array([slot]), np.array([action]))
    states = np.array([position.state for position in positions])
    actions = player.choose(slots, states, slots.astype(np.uint64))
    legal = [position.legal_mask for position in positions]
    assert all(a == FORFEIT_ACTION or legal[slot][a] for slot, a in enumerate(actions))
    return actions.tolist()


@pytest.mark.parametrize("game", [*SMALL_GAMES, "othello:4x4"])
def test_zerolab_engine_plays_correctly_under_its_client(game, caplog):
    """The engine would refuse illegal moves if its position differed from ours."""
    requested = parse_game(game)
    startup_game = game.partition(":")[0] + ":5x5"
    player = GtpPlayer(requested, zerolab("random", startup_game))
    match = against_random(requested, player, 6)
    assert not caplog.records
    for record in match.games:
        position = Position.start(game)
        for action in record.actions:
            position = position.play(action)
        assert position.first_player_outcome == record.result


def test_engine_with_search_beats_random():
    game = parse_game("gobang:4x4:3")
    player = GtpPlayer(game, zerolab("mcts:200", "gobang:4x4:3"))
    match = against_random(game, player, 10)
    assert match.score.wins >= 8


@pytest.mark.parametrize(
    ("fault", "reason", "starts"),
    [
        ("hang", "no response", 2),
        ("crash", 'it exited with the message "out of luck"', 2),
        ("flood", "is too long", 2),
        ("garbage", "instead of a response", 2),
        ("occupied", 'it played "C3", which is not legal', 1),
        ("outside", 'it played "J99", which is not legal', 1),
        ("nonsense", "which is not legal", 1),
        ("resign", "it resigned", 1),
        ("refuse", 'it responded "? not today" to "genmove white"', 1),
    ],
)
def test_failing_engine_forfeits_only_current_game(fault, reason, starts, tmp_path, caplog):
    player = fake_player(fault, tmp_path / "log", timeout=10.0 if fault == "hang" else 60.0)
    assert chosen_actions(player, [], [C3], [B2], [B2, 0]) == [0, FORFEIT_ACTION, 0, 1]
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert "forfeits a game of gobang:3x3:3 at ply 1" in record.message
    assert reason in record.message
    assert (tmp_path / "log").read_text().count("started") == starts


def test_forfeit_is_stored_as_loss_of_mover(tmp_path):
    player = fake_player("crash", tmp_path / "log")
    match = against_random(TIC_TAC_TOE, player, 20, seed=3)
    forfeits = [game for game in match.games if game.actions[-1] == FORFEIT_ACTION]
    assert 0 < len(forfeits) < 20
    for game in forfeits:
        assert C3 in game.actions
        assert game.result == (-1 if game.first == player.name else 1)
        assert (len(game.actions) % 2 == 1) == (game.first == player.name)
    assert len(match.games) == 20


def test_repeated_failures_end_restarts(tmp_path, caplog):
    player = fake_player("crash", tmp_path / "log", "always")
    assert set(chosen_actions(player, *[[]] * 10)) == {FORFEIT_ACTION}
    assert (tmp_path / "log").read_text().count("started") == MAX_CONSECUTIVE_FAILURES
    assert "it failed 3 times in a row" in caplog.records[-1].message


def test_closed_agent_restarts_a_program_that_failed_repeatedly(tmp_path):
    start = Position.start(TIC_TAC_TOE)
    agent = load_agent(f'gtp:"{command("crash", tmp_path / "log", "early")}"', "gobang:3x3:3")
    for _ in range(MAX_CONSECUTIVE_FAILURES + 1):
        with pytest.raises(UserError, match="forfeits"):
            agent.move(start)
    agent.close()
    assert agent.move(start) == "a1"
    agent.close()


def test_engine_that_cannot_list_its_games_plays(tmp_path):
    assert chosen_actions(fake_player("unlisted", tmp_path / "log", "never"), [B2]) == [0]


def test_process_is_reused(tmp_path):
    player = fake_player("none", tmp_path / "log")
    for _ in range(3):
        assert chosen_actions(player, [], [B2], [0, 1, 2]) == [0, 0, 3]
    assert (tmp_path / "log").read_text().count("started") == 1


@pytest.mark.parametrize("words", ["sleep 100", "cat /dev/zero"])
def test_interrupt_ends_waiting_for_engine(words):
    """The player waits in one thread, as in a match; Ctrl-C arrives in another."""
    player = GtpPlayer(TIC_TAC_TOE, words)
    with ThreadPoolExecutor(1) as pool:
        start = pool.submit(player.start, 1)
        while player._program._client is None and not start.done():
            time.sleep(0.01)
        player.interrupt()
        with pytest.raises(UserError):
            start.result(timeout=30)
    with pytest.raises(GtpEngineError, match="was interrupted"):
        choose_one(player)


def choose_one(player):
    state = Position.start(TIC_TAC_TOE).state
    return player.choose(np.array([0]), state[None], np.zeros(1, np.uint64))


@pytest.mark.parametrize(
    ("words", "game", "reason"),
    [
        ("no-such-engine", "gobang:3x3:3", "cannot be started: No such file"),
        ("false", "gobang:3x3:3", "it has exited"),
        ("cat", "gobang:3x3:3", 'it printed "list_commands" instead of a response'),
        ("sleep 60", "gobang:3x3:3", "no response to"),
    ],
)
def test_programs_without_gtp_are_refused(words, game, reason):
    timeout = 0.5 if words.startswith("sleep") else 60.0
    with pytest.raises(UserError, match=reason) as error:
        GtpPlayer(parse_game(game), words, timeout=timeout).start(1)
    assert f'gtp:"{words}" cannot play {game}: ' in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("engine_game", "game", "reason"),
    [
        ("gobang:4x4:3", "connect_four:4x4", "it plays gobang"),
        ("gobang:4x4:3", "gobang:4x4", "it plays gobang:4x4:3"),
    ],
)
def test_engines_of_other_games_are_refused(engine_game, game, reason):
    with pytest.raises(UserError, match=f"cannot play {game}: {reason}$"):
        GtpPlayer(parse_game(game), zerolab("random", engine_game)).start(1)


def test_engines_of_other_sizes_are_refused(tmp_path):
    with pytest.raises(UserError, match='"\\? unacceptable size" to "boardsize 4"'):
        GtpPlayer(parse_game("gobang:4x4:3"), command("none", tmp_path / "log")).start(1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('"python3" "my prog.py"', ["python3", "my prog.py"]),
        ('""python3" "my prog.py""', ["python3", "my prog.py"]),
        ("'python3' 'my prog.py'", ["python3", "my prog.py"]),
        ('"my prog" -l --book="a b"', ["my prog", "-l", "--book=a b"]),
        (r'"my \" prog" "a"', ['my " prog', "a"]),
        ('"sh -c "x y""', ["sh", "-c", "x y"]),
        ('"sh -c "x y" "z w""', ["sh", "-c", "x y", "z w"]),
        ("""'sh -c "x y"'""", ["sh", "-c", "x y"]),
        ("""\"prog 'a" b'\"""", ["prog", 'a" b']),
        ('prog a" b"', ["prog", "a b"]),
        (r'"prog a\" b\" c"', ["prog", 'a"', 'b"', "c"]),
    ],
)
def test_quotes_can_surround_words_or_the_whole_command(text, words):
    name = parse_agent(f"gtp:{text}", TIC_TAC_TOE).name
    command_line = name.removeprefix('gtp:"').removesuffix('"')
    assert shlex.split(command_line) == words
    for spec in (f"gtp:{text}?timeout=5", f"{name}?timeout=5"):
        assert parse_agent(spec, TIC_TAC_TOE).name == f"{name}?timeout=5.0"


RHINO = shutil.which("gtp-rhino", path="/usr/games:/usr/bin:/usr/local/bin")


@pytest.mark.skipif(RHINO is None, reason="gtp-rhino is not installed; `make grhino` installs it")
class TestRhino:
    """Games against gtp-rhino, an independent Othello program."""

    GAME = parse_game("othello:8x8")

    def test_rhino_games_have_no_forfeits(self, caplog):
        rhino = GtpPlayer(self.GAME, "gtp-rhino -l 1")
        match = against_random(self.GAME, rhino, 20)
        assert not caplog.records
        assert match.score.wins >= 18
        passes = sum(played.actions.count(64) for played in match.games)
        assert passes > 0, "the seed should give games with passes"

    def test_rhino_reports_same_score(self):
        """Rhino plays white; black plays randomly and omits its passes."""
        client = GtpClient("gtp-rhino -l 1", timeout=60)
        for seed in range(3):
            client.request("clear_board")
            rng = np.random.default_rng(seed)
            position = Position.start(self.GAME)
            while position.outcome is None:
                if position.first_to_move:
                    name = str(rng.choice(position.legal_moves))
                    if name != "pass":
                        client.request(f"play black {name}")
                else:
                    name = client.request("genmove white").lower()
                position = position.play(name)
            difference = int(position.board().sum())
            score = f"{'B' if difference > 0 else 'W'}+{abs(difference)}" if difference else "0"
            assert client.request("final_score") == score

    def test_rhino_refuses_other_games_and_sizes(self):
        with pytest.raises(UserError, match="it plays Othello"):
            GtpPlayer(parse_game("gobang:8x8"), "gtp-rhino").start(1)
        with pytest.raises(UserError, match="unacceptable size"):
            GtpPlayer(parse_game("othello:6x6"), "gtp-rhino").start(1)
