"""Runs with league self-play: persistent players and resumption."""

from __future__ import annotations

import numpy as np
import pytest

from promised import contents
from training.tiny_training import killed_before_commit
from zerolab.cli.main import main
from zerolab.core.errors import UserError
from zerolab.search.evaluator import hash_states
from zerolab.store.run_folder import RunFolder
from zerolab.training.configure import require_effects, resolve_settings, saved_settings
from zerolab.training.context import reconstruct_league
from zerolab.training.records import SelfPlayRecord
from zerolab.training.reporting import read_records

LEAGUE = [
    'league.parameters=["check"]', "league.active=6", "league.parents=2", "league.generation=8",
    "league.fitness=novelty_of_winner", "iterations=3", "selfplay.episodes=6",
    "final_evaluation.games=0",
]  # fmt: skip


def arguments(folder):
    return ["train", "--run", str(folder), "--preset", "smoke", *(f"--set={a}" for a in LEAGUE)]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "undisturbed"
    assert main(arguments(folder)) == 0
    return folder


def test_players_persist_between_iterations(undisturbed):
    run = RunFolder.open(undisturbed)
    settings = saved_settings(run)
    state = reconstruct_league(run.games, settings).state_before(4)
    assert state.game_count == 18
    assert state.population.generation == 2
    assert state.population.games.sum() == 36
    played = [record for record in read_records(run) if isinstance(record, SelfPlayRecord)]
    assert [record.generation for record in played] == [0, 1, 2]
    examples = run.load_examples(3)
    assert 0 < examples.full.mean() < 1  # random moves are excluded from learning
    assert sorted(set(examples.games.tolist())) == list(range(6))
    with pytest.raises(UserError, match="games of iteration 1"):
        other = settings.model_copy(update={"seed": 8})
        reconstruct_league(run.games, other).state_before(4)


def test_all_positions_of_the_games_are_seen(undisturbed):
    """Examples include a position for every move, even random ones."""
    run = RunFolder.open(undisturbed)
    league = reconstruct_league(run.games, saved_settings(run))
    states = np.concatenate([run.load_examples(iteration).states for iteration in (1, 2, 3)])
    hashes = np.empty(len(states), np.uint64)
    hash_states(states, hashes)
    assert league.state_before(4).seen_hashes.tolist() == sorted(set(hashes.tolist()))


def test_cached_league_equals_a_recomputed_one(undisturbed):
    run = RunFolder.open(undisturbed)
    settings = saved_settings(run)
    cached = reconstruct_league(run.games, settings)
    for iteration in (1, 2, 2, 4, 3):
        state, recomputed = (
            cached.state_before(iteration),
            reconstruct_league(run.games, settings).state_before(iteration),
        )
        assert state.game_count == recomputed.game_count == 6 * (iteration - 1)
        assert state.seen_hashes.tobytes() == recomputed.seen_hashes.tobytes()
        for name, values in vars(state.population).items():
            assert np.array_equal(values, getattr(recomputed.population, name)), name
        state.population.ratings[:] = 0.0  # callers may modify the returned state


def test_killed_run_resumes_to_the_same_players(tmp_path, undisturbed):
    folder = tmp_path / "run"
    for iteration in (2, 3):
        with killed_before_commit(iteration, "selfplay"):
            main(arguments(folder))
    assert main(arguments(folder)) == 0
    assert contents(folder) == contents(undisturbed)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("selfplay.episodes=7", "episodes = 7 is odd: expected an even number"),
        ("selfplay.mode=continuous", "selfplay.mode = continuous .* expected episodic"),
        ("warm_start.variant=rave", "warm_start.variant = rave .* expected baseline"),
        ('league.parameters=["draw_value"]', "league.parameters = draw_value"),
        ("league.active=5", "active = 5 is too small for parents = 2"),
        ('league.parameters=["fpu"]', 'search.fpu = "zero" does not use parameters = fpu'),
    ],
)
def test_incompatible_settings_are_refused(change, message):
    with pytest.raises(UserError, match=message):
        resolve_settings("gobang:3x3:3", "smoke", [*LEAGUE, change])


@pytest.mark.parametrize("parameters", ['["check"]', '["check", "threshold"]'])
def test_threshold_of_the_clock_is_never_used(parameters):
    changes = [f"league.parameters={parameters}", "league.clock.threshold=-6"]
    settings = resolve_settings("gobang:3x3:3", "smoke", [*LEAGUE, *changes])
    with pytest.raises(UserError, match=r"expected league\.ranges\.threshold, with threshold"):
        require_effects(settings, changes)
