"""League folders: bitwise equal resumption, validation and reports."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from league.test_playing import EVALUATOR, GAME, PLAIN, settings
from zerolab.core.errors import UserError
from zerolab.league import league as module
from zerolab.league.league import LEAGUE_FOLDER_KIND, League, league_network, resolve_settings
from zerolab.league.league_report import LeagueReport
from zerolab.rules.catalogue import parse_game
from zerolab.store.arrays import save_arrays
from zerolab.store.games import GameStore

CHOSEN = settings(
    PLAIN, active=4, parents=1, children=2, generation=8, batch=4, fitness="novelty_of_winner"
)
GAMES = 20


def play(path, chosen=CHOSEN, games=GAMES):
    with League.open_locked(path, chosen) as league:
        league.play(GAME, EVALUATOR, games)
        return outcome(league)


def outcome(league):
    """Return state arrays, played games and game records, without the number of batches."""
    stages = league.store.stages()
    games = [game for stage in stages for game in league.store.stage_games(*stage)]
    content = [
        array.tobytes() for array in module.load_arrays(state_path(league), "league")[0].values()
    ]
    return content, league.state.game_count, games


def state_path(league):
    return league.path / "population.safetensors"


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    path = tmp_path_factory.mktemp("league")
    return play(path), state_path(League(path, CHOSEN)).read_bytes(), path


def test_league_has_generations(uninterrupted):
    (_, played, games), _, path = uninterrupted
    league = League.load(path)
    assert played == len(games) == GAMES
    assert [game.number for game in games] == list(range(GAMES))
    assert league.state.population.generation == GAMES // 8
    assert len(league.state.population.ratings) == 4 + 2 * (GAMES // 8)
    assert league.state.population.games.sum() == 2 * GAMES
    assert league.state.population.points.sum() == GAMES


@pytest.mark.parametrize(
    ("stop", "batch"),
    [
        ("before the games", 3),
        ("between games and state", 0),
        ("between games and state", 3),
        ("after the state", 0),
    ],
)
def test_interrupted_league_resumes_to_the_same_bytes(
    uninterrupted, stop, batch, tmp_path, monkeypatch
):
    """An exception interrupts the league at each of its write operations."""
    writers = {"before the games": "games.record", "between games and state": "_save"}
    with League.open_locked(tmp_path, CHOSEN) as league, pytest.raises(KeyboardInterrupt):
        calls = []

        def interrupting_writer(*arguments):
            calls.append(arguments)
            if len(calls) > batch:
                raise KeyboardInterrupt
            return writer(*arguments)

        if stop == "after the state":
            league.play(GAME, EVALUATOR, GAMES, on_batch=lambda _: interrupt_after(calls, batch))
        elif writers[stop] == "_save":
            writer = module._save
            monkeypatch.setattr(module, "_save", interrupting_writer)
            league.play(GAME, EVALUATOR, GAMES)
        else:
            writer = league.store.write_stage
            monkeypatch.setattr(league.store, "write_stage", interrupting_writer)
            league.play(GAME, EVALUATOR, GAMES)
    monkeypatch.undo()
    assert play(tmp_path) == uninterrupted[0]
    assert state_path(League(tmp_path, CHOSEN)).read_bytes() == uninterrupted[1]


def interrupt_after(calls, batch):
    calls.append(None)
    if len(calls) > batch:
        raise KeyboardInterrupt


def test_result_does_not_depend_on_speed_settings(uninterrupted, tmp_path):
    """The resumed league uses other batch sizes and thread counts."""
    play(tmp_path, games=6)
    fast = CHOSEN.model_copy(update={"batch": 6, "threads": 1, "parallel_games": 3})
    assert play(tmp_path, fast) == uninterrupted[0]


def test_changed_settings_and_foreign_folders_are_refused(uninterrupted, tmp_path):
    _, _, path = uninterrupted
    other = CHOSEN.model_copy(update={"gain": 16.0})
    with pytest.raises(UserError, match=r"gain = 16.0 differs from 32.0 .* a league keeps"):
        play(path, other)
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(UserError, match=r"is not a league and not empty.* choose another --out"):
        play(tmp_path)
    with pytest.raises(UserError, match="games = 21 is odd"):
        play(path, games=21)


def test_damaged_state_is_reported(uninterrupted, tmp_path):
    arrays, metadata = module.load_arrays(state_path(League(uninterrupted[2], CHOSEN)), "league")
    LEAGUE_FOLDER_KIND.write_settings(tmp_path, CHOSEN.model_dump())
    metadata = {name: metadata[name] for name in ("played", "stages")}
    damages = (
        {"ratings": None},
        {"played": None},
        {"ratings": arrays["ratings"][:-1]},
        {"values": np.full_like(arrays["values"], np.nan)},
        {"active": np.zeros_like(arrays["active"])},
        {"active": arrays["active"] + 10**6},
        {"active": arrays["active"].astype(np.float64)},
        {"parents": arrays["parents"] - 1},
        {"generations": arrays["generations"] + 5},
    )
    for damage in damages:
        changed = {name: value for name, value in damage.items() if value is not None}
        remaining_arrays = {
            name: array for name, array in arrays.items() if name not in damage
        } | changed
        remaining_metadata = {name: value for name, value in metadata.items() if name not in damage}
        save_arrays(
            tmp_path / "population.safetensors", "league", remaining_arrays, **remaining_metadata
        )
        with pytest.raises(UserError, match=r"population.safetensors is damaged"):
            League.load(tmp_path)


def test_missing_state_loses_no_games(uninterrupted, tmp_path):
    folder = tmp_path / "league"
    shutil.copytree(uninterrupted[2], folder)
    games = len(League.load(folder).store.stages())
    (folder / "population.safetensors").unlink()
    with pytest.raises(UserError, match=r"population.safetensors is missing"):
        League.load(folder)
    assert len(GameStore(folder / "games.sqlite").stages()) == games > 1


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("clock.every=9", "expected threshold among them"),
        ("clock.threshold=-6", "expected ranges.threshold, with threshold among the parameters"),
        ("ranges.threshold=[-3.0, 0.0]", "expected threshold among them"),
        ("ranges={threshold = [-3.0, 0.0]}", "ranges.threshold has no effect"),
        ("optimum=0.5", "expected check among them"),
        ("search.selection.c=2", "expected ranges.c"),
        ("search.noise={fraction = 0.0, concentration = 3.0}", "search.noise.fraction = 0"),
    ],
)
def test_settings_without_effect_are_refused(assignment, message):
    game = parse_game("connect_four:4x4")
    chosen = 'parameters=["c", "fpu"]'
    with pytest.raises(UserError, match=message):
        resolve_settings(game, league_network(None, game), 0, [chosen, assignment])


def test_preset_of_a_league_without_network_evaluates_leaves_with_the_network(uninterrupted):
    league = League.load(uninterrupted[2])
    assert "leaf_evaluator" not in LeagueReport(league).best_settings()["search"]
    with_network = LeagueReport(league, {"name": "resnet"})
    assert "leaf_evaluator" in with_network.best_settings()["search"]


def test_best_player_becomes_a_preset(uninterrupted):
    report = LeagueReport(League.load(uninterrupted[2]), {"name": "resnet"})
    players, best = report.population, report.best_player
    preset = report.best_settings()
    search = preset["search"]
    exported = search["selection"]["c"], search["fpu"]["value"], search["draw_value"]
    assert exported == tuple(players.values[best])
    assert preset["network"] == {"name": "resnet"}
    assert best in players.active[-1]
    spread = report.generation_statistics()
    assert [entry["generation"] for entry in spread] == [0, 1, 2]
    first = players.values[players.active[0], 0]
    assert spread[0]["mean"]["c"] == pytest.approx(sum(first) / 4)
