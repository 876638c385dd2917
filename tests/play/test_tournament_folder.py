"""Tournaments: schedules, openings, resumption and refused folders."""

from __future__ import annotations

import math
import os
import signal
import time
from collections import Counter

import pytest

from forks import Fork
from play.play_some import GAME, agents, settings
from play.scripted import lowest, quitter, scripted
from promised import contents
from zerolab.agents.agent import FORFEIT_ACTION, Agent
from zerolab.agents.baselines import RandomPlayer
from zerolab.core.config import validate
from zerolab.core.errors import UserError
from zerolab.oracles.oracle import NotSolvedError
from zerolab.play import engine
from zerolab.play import tournament as tournament_module
from zerolab.play.pair_results import count_games
from zerolab.play.pairings import round_robin_blocks, thread_batches
from zerolab.play.tournament import Tournament, TournamentSettings
from zerolab.rules.catalogue import parse_game
from zerolab.store.games import GameStore

PLAY = "import sys; from play.play_some import play; play(sys.argv[1])"


def play(folder, chosen_agents, **changes):
    players = {agent.name: "" for agent in chosen_agents}
    with Tournament.open_locked(folder, settings(players=players, **changes)) as tournament:
        tournament.play(GAME, chosen_agents)
        return tournament.games()


@pytest.mark.parametrize(("players", "games"), [(2, 2), (3, 50), (9, 20), (40, 10)])
@pytest.mark.parametrize("slots", [16, 1024])
def test_all_pairs_meet_with_both_colours(players, games, slots):
    names = [f"p{n}" for n in range(players)]
    batches = thread_batches(round_robin_blocks(names, games), games, slots, threads=2)
    schedule = [game for batch in batches for game in batch]
    colours = Counter((game.first, game.second) for game in schedule)
    assert set(colours.values()) == {games // 2}
    assert len(colours) == players * (players - 1)
    assert len({game.stream_number for game in schedule}) == len(schedule)


def test_batches_have_few_players():
    names = [f"p{n:02}" for n in range(82)]
    batches = thread_batches(round_robin_blocks(names, 10), 10, slots=512, threads=2)
    busy = [{name for game in batch for name in (game.first, game.second)} for batch in batches]
    assert max(map(len, busy)) <= 24
    assert max(map(len, batches)) <= 2 * 2 * 512


def test_games_of_pair_share_opening_and_thread():
    batches = thread_batches(round_robin_blocks("abc", 50), 50, slots=16, threads=3)
    for batch in batches:
        assert [game.number + 1 for game in batch[::2]] == [game.number for game in batch[1::2]]
        assert [game.stream_number + 1 for game in batch[::2]] == [
            game.stream_number for game in batch[1::2]
        ]
        assert all(game.number % 2 == 0 for game in batch[::2])


def test_games_do_not_depend_on_slots_threads_or_player_order(tmp_path, monkeypatch):
    games = play(tmp_path / "one", agents(), games=6)
    monkeypatch.setattr(engine, "_MAX_SLOTS", 4)
    monkeypatch.setattr(engine, "_MIN_SLOTS", 4)
    monkeypatch.setattr("zerolab.play.tournament.available_cores", lambda: 5)
    assert play(tmp_path / "other", agents()[::-1], games=6) == games
    assert len(games) == 6 * 6


def test_both_colours_share_openings_that_differ_between_pairs(tmp_path):
    games = play(tmp_path / "t", agents(), games=8, openings=4)
    by_pair = {}
    for game in games:
        pair = tuple(sorted(game[1:3]))
        by_pair.setdefault((*pair, game.number // 2), []).append(game)
    assert all(len(two) == 2 for two in by_pair.values())
    for one, other in by_pair.values():
        assert one.actions[:4] == other.actions[:4]
        assert one.first == other.second
    assert len({two[0].actions[:4] for two in by_pair.values()}) > 15


def test_games_depend_on_seed(tmp_path):
    one, other = (play(tmp_path / str(n), agents(), games=4, seed=n) for n in (1, 2))
    assert one != other


def test_added_players_only_play_missing_games(tmp_path):
    all_agents = agents()
    whole = play(tmp_path / "whole", all_agents, games=4)
    before = play(tmp_path / "grown", all_agents[:2], games=4)
    stages = GameStore(tmp_path / "grown" / "games.sqlite").stages()
    grown = play(tmp_path / "grown", all_agents, games=4)
    assert grown == whole
    assert set(before) < set(grown)
    assert GameStore(tmp_path / "grown" / "games.sqlite").stages()[: len(stages)] == stages


def test_equal_players_under_two_names_play_different_games(tmp_path):
    chosen_agents = [Agent(name, lambda: RandomPlayer(GAME)) for name in ("random", "random #2")]
    games = play(tmp_path / "t", chosen_agents, games=300, openings=0)
    counts = count_games(games)
    assert counts.distinct_count > 285
    results = [game.result if game.first == "random" else -game.result for game in games]
    assert abs(sum(results)) < 4 * len(games) ** 0.5


def test_forfeits_are_stored_and_counted(tmp_path):
    chosen_agents = [scripted(GAME, "quitter", quitter(2)), scripted(GAME, "low", lowest)]
    games = play(tmp_path / "t", chosen_agents, games=4, openings=0)
    assert all(game.actions[-1] == FORFEIT_ACTION for game in games)
    assert [game.result for game in games] == [
        -1 if game.first == "quitter" else 1 for game in games
    ]
    assert count_games(games).forfeit_counts == {"quitter": 4}


def wait_for_stages(folder, process, minimum):
    while process.poll() is None:
        try:
            if len(GameStore(folder / "games.sqlite").stages()) >= minimum:
                return True
        except UserError:  # the file is being written
            pass
        time.sleep(0.005)
    return False


def test_killed_tournament_resumes_to_same_games(tmp_path, monkeypatch):
    """Only the killed tournament runs in a separate process."""
    monkeypatch.setattr("zerolab.play.tournament._STORE_SECONDS", 0.0)
    monkeypatch.setattr(engine, "_MAX_SLOTS", engine._MIN_SLOTS)
    undisturbed, folder = tmp_path / "undisturbed", tmp_path / "killed"
    blocks = len(round_robin_blocks(settings().players, settings().games))
    process = Fork(str(folder), code=PLAY)
    assert wait_for_stages(folder, process, blocks // 3)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert len(GameStore(folder / "games.sqlite").stages()) < blocks
    for each in (undisturbed, folder):
        with Tournament.open_locked(each, settings()) as tournament:
            tournament.play(GAME, agents())
    one, other = Tournament.load(undisturbed), Tournament.load(folder)
    assert contents(undisturbed) == contents(folder)
    assert one.games() == other.games()
    assert len(one.games()) == 120 * 6
    assert other.remaining_blocks() == []


def test_interrupt_keeps_finished_games(tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "_MAX_SLOTS", engine._MIN_SLOTS)
    monkeypatch.setattr(engine, "_POLL_SECONDS", 0.001)
    monkeypatch.setattr(tournament_module, "_STORE_SECONDS", math.inf)
    recorders = []

    class Recorder(tournament_module._BlockRecorder):
        def __enter__(self):
            recorders.append(self)
            return super().__enter__()

    def progress(done, note):
        if recorders[0]._ready:  # a block is finished but not yet stored
            raise KeyboardInterrupt

    monkeypatch.setattr(tournament_module, "_BlockRecorder", Recorder)

    folder = tmp_path / "t"
    with Tournament.open_locked(folder, settings()) as tournament:
        with pytest.raises(KeyboardInterrupt):
            tournament.play(GAME, agents(), progress)
        finished = tournament.games()
        assert 0 < len(finished) < 720
        tournament.play(GAME, agents())
        assert set(finished) < set(tournament.games())
        assert len(tournament.games()) == 720


def fail_with(error, folder, *names):
    """Open a tournament of these players, and raise an error before any game is recorded."""
    with (
        pytest.raises(type(error)),
        Tournament.open_locked(folder, settings(players=dict.fromkeys(names, ""))) as tournament,
    ):
        tournament.record_games([])
        raise error


def test_players_are_removed_if_perfect_play_is_too_hard(tmp_path):
    chosen = agents()[:2]
    names = [agent.name for agent in chosen]
    fail_with(NotSolvedError("too hard"), tmp_path, *names, "perfect")
    assert Tournament.load(tmp_path) is None
    played = play(tmp_path, chosen)
    fail_with(NotSolvedError("too hard"), tmp_path, *names, "perfect")
    assert list(Tournament.load(tmp_path).settings.players) == names
    assert play(tmp_path, chosen) == played
    fail_with(UserError("the disk is full"), tmp_path, *names, "later")
    assert "later" in Tournament.load(tmp_path).settings.players


def test_second_process_is_refused(tmp_path):
    with (
        Tournament.open_locked(tmp_path / "t", settings()),
        pytest.raises(UserError, match="is in use"),
        Tournament.open_locked(tmp_path / "t", settings()),
    ):
        pass


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"games": 20}, "games = 20 differs from 120"),
        ({"seed": 5}, "seed = 5 differs from 4"),
        ({"openings": 3}, "openings = 3 differs from 2"),
        ({"game": "connect_four:5x5"}, 'game = "connect_four:5x5" differs from "connect_four:4x4"'),
        ({"players": {"random": "another"}}, "random differs"),
    ],
)
def test_changed_settings_are_refused(tmp_path, changes, expected):
    with Tournament.open_locked(tmp_path / "t", settings()):
        pass
    with (
        pytest.raises(UserError, match=expected),
        Tournament.open_locked(tmp_path / "t", settings(**changes)),
    ):
        pass


def test_foreign_folder_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with (
        pytest.raises(UserError, match="is not a tournament and not empty"),
        Tournament.open_locked(tmp_path, settings()),
    ):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_edited_settings_file_is_reported_as_damaged(tmp_path):
    with Tournament.open_locked(tmp_path, settings()):
        pass
    file = tmp_path / "tournament.toml"
    file.write_text(file.read_text().replace("seed = 4", "seed = 5"))
    with pytest.raises(UserError, match=r"tournament\.toml is damaged"):
        Tournament.load(tmp_path)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"games": 21}, "21 is odd: expected an even number.*such as 22"),
        ({"games": 0}, "at least 2"),
        ({"openings": -1}, "at least 0"),
    ],
)
def test_invalid_settings_are_refused(changes, expected):
    with pytest.raises(UserError, match=expected):
        validate(TournamentSettings, {"game": "gobang:3x3:3", **changes})


def test_as_many_players_as_in_the_largest_published_tournament_meet(tmp_path):
    """Random players play fewer games per pair than in the papers, but in thousands of stages."""
    game = parse_game("connect_four:6x7")
    chosen_agents = [Agent(f"random {n:02}", lambda: RandomPlayer(game)) for n in range(82)]
    players = {agent.name: "" for agent in chosen_agents}
    tournament_settings = TournamentSettings(game="connect_four:6x7", games=2, players=players)
    with Tournament.open_locked(tmp_path, tournament_settings) as tournament:
        tournament.play(game, chosen_agents)
        games = tournament.games()
    counts = count_games(games)
    assert counts.game_count == 6_642
    assert counts.distinct_count > 6_620
    _, low, high = counts.first_player_score.interval(counts.effective_count, z=4)
    assert low < 0.5567 < high  # the mean of three million random playouts
