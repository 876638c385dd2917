"""Outside engines as players: whole matches, and what engines that fail cost."""

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
from zerolab.agents.agent import FORFEIT
from zerolab.agents.kinds.baselines import RandomPlayer
from zerolab.core.errors import UserError
from zerolab.gtp.client import Client, EngineError
from zerolab.gtp.program_agent import MAX_CONSECUTIVE_FAILURES, GtpPlayer
from zerolab.play.match import play_match
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position

TIC_TAC_TOE = parse_game("gobang:3x3:3")
C3, B2 = 8, 4


def zerolab(player, game):
    """Return the command line of our engine, without networks."""
    return shlex.join(through("from gtp.serve import serve; serve()", player, game))


def fake_player(fault, log, when="with C3", timeout=10.0):
    return GtpPlayer(TIC_TAC_TOE, command(fault, log, when), timeout)


def against_random(game, player, games, seed=1):
    return play_match(game, agent_of(player), agent_of(RandomPlayer(game)), games, seed, threads=1)


def choose(player, *openings):
    """Return what a player chooses in new games after these openings."""
    slots = np.arange(len(openings))
    player.start(len(openings))
    positions = [Position.start(TIC_TAC_TOE) for _ in openings]
    for slot, opening in enumerate(openings):
        for action in opening:
            positions[slot] = positions[slot].play(action)
            player.advance(np.array([slot]), np.array([action]))
    states = np.array([position.state for position in positions])
    chosen = player.choose(slots, states, slots.astype(np.uint64))
    legal = [position.legal_mask for position in positions]
    assert all(a == FORFEIT or legal[slot][a] for slot, a in enumerate(chosen))
    return chosen.tolist()


@pytest.mark.parametrize("game", [*SMALL_GAMES, "othello:4x4"])
def test_our_engine_under_our_client(game, caplog):
    """Positions agree all the way: an engine would refuse moves that are illegal on its board."""
    chosen = parse_game(game)
    other = game.partition(":")[0] + ":5x5"
    player = GtpPlayer(chosen, zerolab("random", other))
    match = against_random(chosen, player, 6)
    assert not caplog.records
    for played in match.games:
        position = Position.start(game)
        for action in played.actions:
            position = position.play(action)
        assert position.first_player_outcome == played.result


def test_a_search_is_an_engine_that_wins():
    game = parse_game("gobang:4x4:3")
    player = GtpPlayer(game, zerolab("mcts:200", "gobang:4x4:3"))
    match = against_random(game, player, 10)
    assert match.score.wins >= 8


@pytest.mark.parametrize(
    ("fault", "reason", "starts"),
    [
        ("hang", "no response", 2),
        ("crash", 'it has ended with the message "out of luck"', 2),
        ("flood", "is too long", 2),
        ("garbage", "instead of a response", 2),
        ("occupied", 'it played "C3", which is not legal', 1),
        ("outside", 'it played "J99", which is not legal', 1),
        ("nonsense", "which is not legal", 1),
        ("resign", "it resigned", 1),
        ("refuse", 'it responded "? not today" to "genmove white"', 1),
    ],
)
def test_an_engine_that_fails_forfeits_this_game_alone(fault, reason, starts, tmp_path, caplog):
    player = fake_player(fault, tmp_path / "log", timeout=2.0)
    assert choose(player, [], [C3], [B2], [B2, 0]) == [0, FORFEIT, 0, 1]
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert "forfeits a game of gobang:3x3:3 at ply 1" in record.message
    assert reason in record.message
    assert (tmp_path / "log").read_text().count("started") == starts


def test_a_forfeit_is_stored_and_lost_by_its_mover(tmp_path):
    player = fake_player("crash", tmp_path / "log")
    match = against_random(TIC_TAC_TOE, player, 20, seed=3)
    forfeits = [game for game in match.games if game.actions[-1] == FORFEIT]
    assert 0 < len(forfeits) < 20
    for game in forfeits:
        assert C3 in game.actions
        assert game.result == (-1 if game.first == player.name else 1)
        assert (len(game.actions) % 2 == 1) == (game.first == player.name)
    assert len(match.games) == 20


def test_an_engine_that_only_fails_is_given_up(tmp_path, caplog):
    player = fake_player("crash", tmp_path / "log", "always")
    assert set(choose(player, *[[]] * 10)) == {FORFEIT}
    assert (tmp_path / "log").read_text().count("started") == MAX_CONSECUTIVE_FAILURES
    assert "it failed 3 times in a row" in caplog.records[-1].message


def test_the_process_is_reused(tmp_path):
    player = fake_player("none", tmp_path / "log")
    for _ in range(3):
        assert choose(player, [], [B2], [0, 1, 2]) == [0, 0, 3]
    assert (tmp_path / "log").read_text().count("started") == 1


@pytest.mark.parametrize("words", ["sleep 100", "cat /dev/zero"])
def test_an_interrupt_ends_an_engine_that_is_waited_for(words):
    """The player waits in one thread, as in a match; Ctrl-C arrives in another."""
    player = GtpPlayer(TIC_TAC_TOE, words)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(player.start, 1)
        while player._program._client is None and not waiting.done():
            time.sleep(0.01)
        player.interrupt()
        with pytest.raises(UserError):
            waiting.result(timeout=30)
    with pytest.raises(EngineError, match="was interrupted"):
        choose_one(player)


def choose_one(player):
    state = Position.start(TIC_TAC_TOE).state
    return player.choose(np.array([0]), state[None], np.zeros(1, np.uint64))


@pytest.mark.parametrize(
    ("words", "game", "reason"),
    [
        ("no-such-engine", "gobang:3x3:3", "cannot be started: No such file"),
        ("false", "gobang:3x3:3", "it has ended"),
        ("cat", "gobang:3x3:3", 'it printed "list_commands" instead of a response'),
        ("sleep 60", "gobang:3x3:3", "no response to"),
    ],
)
def test_programs_that_are_no_engines(words, game, reason):
    with pytest.raises(UserError, match=reason) as error:
        GtpPlayer(parse_game(game), words, timeout=0.5).start(1)
    assert f'gtp:"{words}" cannot play {game}: ' in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("own", "asked", "reason"),
    [
        ("gobang:4x4:3", "connect_four:4x4", "it plays gobang"),
        ("gobang:4x4:3", "gobang:4x4", "it plays gobang:4x4:3"),
    ],
)
def test_engines_of_other_games(own, asked, reason):
    with pytest.raises(UserError, match=f"cannot play {asked}: {reason}$"):
        GtpPlayer(parse_game(asked), zerolab("random", own)).start(1)


def test_engines_of_other_sizes(tmp_path):
    with pytest.raises(UserError, match='"\\? unacceptable size" to "boardsize 4"'):
        GtpPlayer(parse_game("gobang:4x4:3"), command("none", tmp_path / "log")).start(1)


RHINO = shutil.which("gtp-rhino", path="/usr/games:/usr/bin:/usr/local/bin")


@pytest.mark.skipif(RHINO is None, reason="gtp-rhino is not installed; `make grhino` installs it")
class TestRhino:
    """Real games against gtp-rhino, an Othello program that knows nothing of zerolab."""

    GAME = parse_game("othello:8x8")

    def test_games_end_by_the_rules(self, caplog):
        rhino = GtpPlayer(self.GAME, "gtp-rhino -l 1")
        match = against_random(self.GAME, rhino, 20)
        assert not caplog.records
        assert match.score.wins >= 18
        passes = sum(played.actions.count(64) for played in match.games)
        assert passes > 0, "the seed should give games in which players pass"

    def test_rhino_counts_the_discs_as_we_do(self):
        """It plays one side, chance the other, which passes silently; nobody's board goes wrong."""
        client = Client("gtp-rhino -l 1", timeout=60)
        for seed in range(3):
            client.request("clear_board")
            random = np.random.default_rng(seed)
            position = Position.start(self.GAME)
            while position.outcome is None:
                if position.first_to_move:
                    name = str(random.choice(position.legal_moves))
                    if name != "pass":
                        client.request(f"play black {name}")
                else:
                    name = client.request("genmove white").lower()
                position = position.play(name)
            difference = int(position.board().sum())
            score = f"{'B' if difference > 0 else 'W'}+{abs(difference)}" if difference else "0"
            assert client.request("final_score") == score

    def test_rhino_plays_nothing_else(self):
        with pytest.raises(UserError, match="it plays Othello"):
            GtpPlayer(parse_game("gobang:8x8"), "gtp-rhino").start(1)
        with pytest.raises(UserError, match="unacceptable size"):
            GtpPlayer(parse_game("othello:6x6"), "gtp-rhino").start(1)
