"""The GTP engine: commands, whole games, analyses and errors."""

from __future__ import annotations

import io
import re
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gtp.games import SMALL_GAMES
from search.naive import HashEvaluator
from zerolab.agents.agent import FORFEIT_ACTION
from zerolab.agents.baselines import PerfectPlayer, RandomPlayer
from zerolab.agents.network_players import SearchPlayer
from zerolab.agents.specs import parse_agent
from zerolab.core.errors import UserError
from zerolab.gtp.engine import GtpEngine
from zerolab.gtp.protocol import MAX_LINE_BYTES
from zerolab.oracles.oracle import ILLEGAL_VALUE
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position
from zerolab.search.search_settings import SearchSettings


def make_engine(game="gobang:5x5", make_player=RandomPlayer):
    return GtpEngine(parse_game(game), make_player)


def send(engine, *commands):
    """Send commands, and return the last response with its status character."""
    for command in commands:
        response = engine.respond(command.encode() + b"\n")
    assert response.endswith(b"\n\n")
    return response.decode()[:-2]


class _FailingEvaluator(HashEvaluator):
    """Evaluator that fails in its third call."""

    def evaluate(self, states):
        if len(self.calls) == 2:
            self.calls.append(0)
            raise MemoryError
        return super().evaluate(states)


def test_moves_after_an_internal_error_are_those_of_an_undisturbed_engine():
    players = []

    def new_player(evaluator, game):
        players.append(SearchPlayer(game, "name", SearchSettings(simulations=30), evaluator))
        return players[-1]

    moves, visits = [], []
    for evaluator in (HashEvaluator(5), _FailingEvaluator(5)):
        engine = make_engine("connect_four:5x5", partial(new_player, evaluator))
        if isinstance(evaluator, _FailingEvaluator):
            assert send(engine, "genmove black") == "? internal error: MemoryError"
        moves.append(send(engine, "genmove black"))
        visits.append(players[-1].search.root_visits(np.arange(1)).tolist())
    assert moves[0] == moves[1]
    assert visits[0] == visits[1]


def test_session_has_expected_transcript():
    output = io.BytesIO()
    script = (
        b"1 boardsize 3\n2 clear_board\n3 komi 6.5\n4 play black A1\n5 play white B2\n"
        b"6 play black B2\n7 showboard\n8 undo\n9 play w a2\n10 final_score\n11 quit\n12 name\n"
    )
    make_engine("gobang:3x3:3").serve(io.BytesIO(script), output)
    board = "   A B C\n 1 X . . 1\n 2 . O . 2\n 3 . . . 3\n   A B C"
    assert output.getvalue().decode() == (
        "=1\n\n=2\n\n=3\n\n=4\n\n=5\n\n?6 illegal move\n\n"
        f"=7\n{board}\n\n=8\n\n=9\n\n?10 cannot score\n\n=11\n\n"
    )


@pytest.mark.parametrize(
    ("line", "response"),
    [
        (b"protocol_version\n", b"= 2\n\n"),
        (b"  17\tprotocol_version\r\n", b"=17 2\n\n"),
        (b"proto\x00col_\x07version # 5 name\n", b"= 2\n\n"),
        (b"5 known_command genmove\n", b"=5 true\n\n"),
        (b"known_command castle\n", b"= false\n\n"),
        (b"2147483647 komi 0\n", b"=2147483647\n\n"),
        (b"3 castle\n", b"?3 unknown command\n\n"),
        (b"3\n", b"?3 unknown command\n\n"),
        (b"-1 name\n", b"? unknown command\n\n"),
        (b"\n", b""),
        (b" \t\r\n", b""),
        (b"   # only a comment\n", b""),
        (b"play\n", b"? syntax error\n\n"),
        (b"play black\n", b"? syntax error\n\n"),
        (b"play red A1\n", b"? syntax error\n\n"),
        (b"play black A99\n", b"? illegal move\n\n"),
        (b"play white A1\n", b"? illegal move\n\n"),
        (b"play first A1\n", b"=\n\n"),
        (b"genmove\n", b"? syntax error\n\n"),
        (b"genmove white\n", b"? illegal move\n\n"),
        (b"komi\n", b"? syntax error\n\n"),
        (b"komi much\n", b"? syntax error\n\n"),
        (b"komi -7.5\n", b"=\n\n"),
        (b"undo\n", b"? cannot undo\n\n"),
        (b"boardsize\n", b"? syntax error\n\n"),
        (b"boardsize five\n", b"? syntax error\n\n"),
        (b"boardsize 4 5 6\n", b"? syntax error\n\n"),
        (b"boardsize 19\n", b"? unacceptable size\n\n"),
        (b"boardsize 0\n", b"? unacceptable size\n\n"),
        (b"boardsize 4 6\n", b"=\n\n"),
        (b"time_settings 600 30 1\n", b"=\n\n"),
        (b"time_settings 600\n", b"? syntax error\n\n"),
        (b"time_left w 30 0\n", b"=\n\n"),
        (b"time_left 30 0\n", b"? syntax error\n\n"),
        (b"zerolab-game\n", b"= gobang:5x5\n\n"),
        (b"list_games\n", b"= gobang\n\n"),
        (b"set_game Gobang\n", b"=\n\n"),
        (b"set_game Go\n", b"? unsupported game\n\n"),
        (b"zerolab-analyze\n", b"? random provides no analysis\n\n"),
        (b"\xef\xbb\xbfname\n", b"= zerolab random\n\n"),
    ],
)
def test_commands_get_expected_responses(line, response):
    assert make_engine().respond(line) == response


def test_every_listed_command_is_known():
    engine = make_engine()
    commands = send(engine, "list_commands")[2:].split("\n")
    required = (
        "protocol_version name version known_command list_commands quit boardsize clear_board komi"
        " play genmove undo showboard time_settings time_left final_score"
    )
    assert set(required.split()) <= set(commands)
    assert {send(engine, f"known_command {name}") for name in commands} == {"= true"}


def test_input_can_end_within_line():
    output = io.BytesIO()
    make_engine().serve(io.BytesIO(b"komi 1\nprotocol_ver"), output)
    assert output.getvalue() == b"=\n\n? unknown command\n\n"


def test_overlong_line_is_one_command():
    output = io.BytesIO()
    script = b"play black " + b"A1 " * MAX_LINE_BYTES + b"\n2 undo\n" + b"#" * 3 * MAX_LINE_BYTES
    make_engine().serve(io.BytesIO(script), output)
    assert output.getvalue() == b"=\n\n=2\n\n"


@pytest.mark.parametrize("game", SMALL_GAMES)
def test_whole_games_follow_the_rules(game):
    engine = make_engine(game)
    position = Position.start(game)
    while position.outcome is None:
        text = send(engine, f"genmove {'bw'[position.ply % 2]}")
        assert text.startswith("= ")
        position = _follow(position, text[2:])
    assert send(engine, "genmove b") == "= pass"
    assert send(engine, "play w pass") == "="
    _check_score(position, send(engine, "final_score")[2:])
    finished = send(engine, "showboard")
    for _ in range(2):  # the two passes
        assert send(engine, "undo") == "="
        assert send(engine, "showboard") == finished
    for _ in position.history:
        assert send(engine, "undo") == "="
    assert send(engine, "undo") == "? cannot undo"
    assert send(engine, "showboard") == send(make_engine(game), "showboard")


def _follow(position, name):
    """Play a named move, using an independent parser of the name."""
    rows, columns = position.game[:2]
    if name == "pass":
        return position.play("pass")
    row, column = int(name[1:]) - 1, ord(name[0]) - ord("A")
    if len(position.legal_mask) == columns:
        landing = rows - 1 - int(np.count_nonzero(position.board()[:, column]))
        assert row == rows - 1 - landing
        return position.play(column)
    return position.play(row * columns + column)


def _check_score(position, score):
    winner = {1: "B+", 0: "0", -1: "W+"}[position.first_player_outcome]
    assert score.startswith(winner)
    if "Othello" in type(position.game).__name__:
        assert int(score.lstrip("BW+")) == abs(position.board().sum())


@pytest.mark.parametrize("command", ["reg_genmove b", "zerolab-analyze"])
def test_moves_do_not_depend_on_analyses(command):
    game = parse_game("connect_four:5x5")
    agent = parse_agent("mcts:60?reuse_tree=true", game)
    alone, analysing = (GtpEngine(game, lambda _: agent.new_player()) for _ in range(2))
    for _ in range(4):
        analyses = {send(analysing, command) for _ in range(3)}
        assert len(analyses) == 1
        for colour in "bw":
            assert send(analysing, f"genmove {colour}") == send(alone, f"genmove {colour}")


def test_reg_genmove_does_not_play():
    engine = make_engine()
    before = send(engine, "showboard")
    assert re.fullmatch("= [A-E][1-5]", send(engine, "reg_genmove black"))
    assert send(engine, "showboard") == before


def _position_with_forced_pass():
    """Return a position of Othello 4x4 in which passing is the only legal action."""
    random = np.random.default_rng(5)
    while True:
        position = Position.start("othello:4x4")
        while position.outcome is None:
            if position.legal_moves == ["pass"]:
                return position
            position = position.play(int(random.choice(position.legal_actions)))


def test_controllers_can_omit_passes():
    position = _position_with_forced_pass()
    mover, opponent = ("bw", "wb")[position.ply % 2]
    engines = [make_engine("othello:4x4") for _ in range(2)]
    path = Position.start("othello:4x4")
    for action in position.history:
        for engine in engines:
            send(engine, f"play {'bw'[path.ply % 2]} {path.action_name(action)}")
        path = path.play(action)
    assert send(engines[0], f"genmove {mover}") == "= pass"
    reply = position.play("pass").legal_moves[0]
    for engine in engines:
        assert send(engine, f"play {opponent} {reply}") == "="
    with_passes, without_passes = (send(engine, "showboard") for engine in engines)
    assert with_passes == without_passes
    before = [send(engine, "undo", "showboard") for engine in engines]
    assert before[0] == before[1]
    assert send(engines[1], "undo", "undo") == "="


def test_undone_moves_do_not_affect_player():
    """After undoing moves, an engine analyses like one that never played them."""
    engines = [
        make_engine("gobang:4x4", lambda game: parse_agent("mcts:30", game).new_player())
        for _ in range(2)
    ]
    send(engines[0], "play b a1", "genmove w", "genmove b", "undo", "undo", "undo")
    for engine in engines:
        send(engine, "play b b2")
    analyses = [send(engine, "zerolab-analyze") for engine in engines]
    assert analyses[0] == analyses[1]


def test_search_analysis_lists_visits_priors_and_values():
    engine = make_engine("gobang:3x3:3", lambda game: parse_agent("mcts:300", game).new_player())
    send(engine, "play b a1", "play w c3", "play b b1", "play w c2")
    best, *rest = send(engine, "zerolab-analyze black")[2:].split("\n")
    name, *facts = best.split()
    assert (name, facts[0::2]) == ("C1", ["visits", "prior", "value"])
    assert float(facts[5]) == 1.0
    assert len(rest) == 4
    assert int(facts[1]) + sum(int(line.split()[2]) for line in rest) >= 300


def test_perfect_analysis_lists_values():
    class Oracle:
        def action_values(self, states):
            return np.where(
                states[:, :1] == 0, [[-3, 0, 5, ILLEGAL_VALUE, -1, -1, -1, -1, -2]], ILLEGAL_VALUE
            )

    engine = make_engine("gobang:3x3:3", lambda game: PerfectPlayer(Oracle()))
    lines = send(engine, "play b a2", "zerolab-analyze")[2:].split("\n")
    assert lines[:2] == ["C1 value 5", "B1 value 0"]
    assert lines[-2:] == ["C3 value -2", "A1 value -3"]
    assert len(lines) == 8


def test_games_have_different_openings():
    engine = make_engine("gobang:5x5")
    openings = {send(engine, "clear_board", "genmove b") for _ in range(20)}
    assert len(openings) > 5


def test_unsupported_size_keeps_current_game():
    def make_player(game):
        if game[:2] != (5, 5):
            raise UserError("this network plays gobang:5x5")
        return RandomPlayer(game)

    engine = make_engine(make_player=make_player)
    send(engine, "play b a1")
    assert send(engine, "boardsize 6") == "? unacceptable size"
    assert " 1 X . . . . 1" in send(engine, "showboard")
    assert send(engine, "boardsize 5") == "="
    assert " 1 . . . . . 1" in send(engine, "showboard")


class _Program(RandomPlayer):
    """Player whose program refuses to start on boards of 5x5."""

    def __init__(self, game):
        super().__init__(game)
        self.game = game
        self.is_closed = False

    def start(self, games):
        if self.game[:2] == (5, 5):
            raise UserError("the program cannot play gobang:5x5")

    def interrupt(self):
        raise NotImplementedError

    def close(self):
        self.is_closed = True


def test_size_refused_by_program_keeps_current_game():
    players = []

    def make_player(game):
        players.append(_Program(game))
        return players[-1]

    engine, undisturbed = make_engine("gobang:4x4", make_player), make_engine("gobang:4x4")
    assert send(engine, "play b a1", "boardsize 5") == "? unacceptable size"
    send(undisturbed, "play b a1")
    for command in ("zerolab-game", "showboard", "genmove w", "reg_genmove b"):
        assert send(engine, command) == send(undisturbed, command)
    assert [player.is_closed for player in players] == [False, True, False]
    assert send(engine, "boardsize 6") == "="
    assert [player.is_closed for player in players] == [True, True, True, False]


class _FailingPlayer(RandomPlayer):
    def choose(self, slots, states, keys):
        if len(self.names) == 1:
            return np.array([FORFEIT_ACTION])
        raise self.names.pop()

    names: tuple = ()


@pytest.mark.parametrize(
    ("errors", "response"),
    [
        (["given up"], "= resign"),
        (["", UserError("not solved within a second")], "? not solved within a second"),
        (["", ZeroDivisionError("oh")], "? internal error: ZeroDivisionError"),
    ],
)
def test_player_errors_become_responses(errors, response):
    engine = make_engine(make_player=_FailingPlayer)
    _FailingPlayer.names = errors
    assert send(engine, "genmove b") == response
    assert send(engine, "play b a1") == "="


_COMMANDS = (
    "play genmove reg_genmove undo clear_board boardsize showboard final_score time_left"
    " known_command set_game zerolab-analyze"
)
_ARGUMENTS = "b w black white first a1 C3 d4 pass 3 4 5 6 99999999999999999999 # resign \xff ² -1"
_WORDS = st.sampled_from([*_COMMANDS.split(), *_ARGUMENTS.split(), "\t", ""])
_SENTENCES = st.lists(_WORDS, max_size=4).map(lambda words: " ".join(words).encode())
_LINES = st.lists(_SENTENCES | st.binary(max_size=30).filter(lambda line: b"quit" not in line))


@pytest.mark.parametrize("game", ["othello:4x4", "connect_four:4x5"])
@given(lines=_LINES)
def test_arbitrary_input_gets_responses(game, lines):
    engine = make_engine(game)
    output = io.BytesIO()
    engine.serve(io.BytesIO(b"\n".join([*lines, b"77 name"])), output)
    responses = output.getvalue().split(b"\n\n")
    assert responses[-2:] == [b"=77 zerolab random", b""]
    # Find the commands independently, by removing control characters and comments.
    texts = (
        re.sub(rb"[\x00-\x08\x0b-\x1f\x7f]", b"", line) for line in b"\n".join(lines).split(b"\n")
    )
    commands = [line for line in texts if line.split(b"#")[0].strip(b" \t")]
    assert len(responses) == len(commands) + 2
    assert all(re.fullmatch(rb"[=?]\d*( .*|\n.*)?", each, re.DOTALL) for each in responses[:-1])
    assert b"internal error" not in output.getvalue()
