"""A league's folder: stopped anywhere, it resumes to the same bytes."""

from __future__ import annotations

import pytest

from league.test_playing import EVALUATOR, GAME, PLAIN, settings
from zerolab.core.errors import UserError
from zerolab.league import league as module
from zerolab.league.league import LEAGUE, League
from zerolab.league.league_report import LeagueReport
from zerolab.store.arrays import save_arrays

CHOSEN = settings(
    PLAIN, active=4, parents=1, children=2, generation=8, batch=4, fitness="novelty_of_winner"
)
GAMES = 20


def play(path, chosen=CHOSEN, games=GAMES):
    with League.locked(path, chosen) as league:
        league.play(GAME, EVALUATOR, games)
        return outcome(league)


def outcome(league):
    """Return the state's bytes, but for how many batches there were, and all games."""
    stages = league.games.stages()
    games = [game for stage in stages for game in league.games.games(*stage)]
    content = [
        array.tobytes() for array in module.load_arrays(state_of(league), "league")[0].values()
    ]
    return content, league.state.played, games


def state_of(league):
    return league.path / "population.safetensors"


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    path = tmp_path_factory.mktemp("league")
    return play(path), state_of(League(path, CHOSEN)).read_bytes(), path


def test_a_league_has_generations(uninterrupted):
    (_, played, games), _, path = uninterrupted
    league = League.saved(path)
    assert played == len(games) == GAMES
    assert [game.number for game in games] == list(range(GAMES))
    assert league.state.population.generation == GAMES // 8
    assert len(league.state.population.ratings) == 4 + 2 * (GAMES // 8)
    assert league.state.population.games.sum() == 2 * GAMES
    assert league.state.population.points.sum() == GAMES


@pytest.mark.parametrize("stop", ["before the games", "between games and state", "after the state"])
@pytest.mark.parametrize("batch", [0, 3])
def test_killed_and_resumed_it_ends_with_the_same_bytes(
    uninterrupted, stop, batch, tmp_path, monkeypatch
):
    """Killed by an exception at every point where something is written."""
    writers = {"before the games": "games.record", "between games and state": "_save"}
    with League.locked(tmp_path, CHOSEN) as league, pytest.raises(KeyboardInterrupt):
        calls = []

        def killed(*arguments):
            calls.append(arguments)
            if len(calls) > batch:
                raise KeyboardInterrupt
            return genuine(*arguments)

        if stop == "after the state":
            league.play(GAME, EVALUATOR, GAMES, watch=lambda _: killed_after(calls, batch))
        elif writers[stop] == "_save":
            genuine = module._save
            monkeypatch.setattr(module, "_save", killed)
            league.play(GAME, EVALUATOR, GAMES)
        else:
            genuine = league.games.record
            monkeypatch.setattr(league.games, "record", killed)
            league.play(GAME, EVALUATOR, GAMES)
    monkeypatch.undo()
    assert play(tmp_path) == uninterrupted[0]
    assert state_of(League(tmp_path, CHOSEN)).read_bytes() == uninterrupted[1]


def killed_after(calls, batch):
    calls.append(None)
    if len(calls) > batch:
        raise KeyboardInterrupt


def test_what_changes_the_speed_alone_changes_nothing_else(uninterrupted, tmp_path):
    """More games later, in other batches, by another number of threads."""
    play(tmp_path, games=6)
    fast = CHOSEN.model_copy(update={"batch": 6, "threads": 1, "parallel_games": 3})
    assert play(tmp_path, fast) == uninterrupted[0]


def test_other_settings_and_other_folders_are_refused(uninterrupted, tmp_path):
    _, _, path = uninterrupted
    other = CHOSEN.model_copy(update={"gain": 16.0})
    with pytest.raises(UserError, match=r"gain = 16.0 differs from 32.0 .* a league keeps"):
        play(path, other)
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(UserError, match=r"is not a league and not empty.* choose another --out"):
        play(tmp_path)
    with pytest.raises(UserError, match="games = 21 is odd"):
        play(path, games=21)


def test_a_damaged_state_is_one_line(uninterrupted, tmp_path):
    arrays, about = module.load_arrays(state_of(League(uninterrupted[2], CHOSEN)), "league")
    LEAGUE.write_settings(tmp_path, CHOSEN.model_dump())
    about = {name: about[name] for name in ("played", "stages")}
    for damage in ({"ratings": None}, {"played": None}):
        kept = {name: array for name, array in arrays.items() if name not in damage}
        facts = {name: fact for name, fact in about.items() if name not in damage}
        save_arrays(tmp_path / "population.safetensors", "league", kept, **facts)
        with pytest.raises(UserError, match=r"population.safetensors is damaged"):
            League.saved(tmp_path)


def test_the_best_player_becomes_a_preset(uninterrupted):
    report = LeagueReport(League.saved(uninterrupted[2]), {"name": "resnet"})
    players, best = report.population, report.best
    preset = report.best_settings()
    found = preset["search"]["selection"]["c"], preset["search"]["fpu"]["value"]
    assert (*found, preset["search"]["draw_value"]) == tuple(players.values[best])
    assert preset["network"] == {"name": "resnet"}
    assert best in players.active[-1]
    spread = report.spread()
    assert [each["generation"] for each in spread] == [0, 1, 2]
    first = players.values[players.active[0], 0]
    assert spread[0]["mean"]["c"] == pytest.approx(sum(first) / 4)
