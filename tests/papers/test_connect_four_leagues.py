"""Reports on leagues and on distinct positions, from invented games."""

from __future__ import annotations

import numpy as np
import pytest
from made_up_runs import design_of

from training.test_views import self_play
from zerolab.evaluation.position_statistics import diversity_of_run
from zerolab.league.playing import player_name
from zerolab.league.population import draw_pairs
from zerolab.papers.connect_four import diversity
from zerolab.papers.connect_four.diversity import (
    league_section,
    measured_diversities,
)
from zerolab.papers.connect_four.study import Connect4EfficiencyStudy
from zerolab.papers.connect_four.variants import GAME_TREE_VARIANTS, LEAGUE_VARIANTS, VARIANTS
from zerolab.report.document import Picture
from zerolab.report.table import Table
from zerolab.store.games import GameRecord
from zerolab.store.run_folder import RunFolder
from zerolab.studies.claims import MissingEstimate
from zerolab.studies.design import Design, PlannedRun
from zerolab.studies.finished_work import TrainedRun
from zerolab.studies.looks import FIRST_SEED
from zerolab.studies.results import Results
from zerolab.studies.study_folder import FinishedRun
from zerolab.training.configure import resolve_settings
from zerolab.training.context import reconstruct_league
from zerolab.training.records import SelfPlayRecord

# The first game has 5 distinct positions, and the second adds 2.
PLAYED = [(0, 1, 3, 2, 6), (3, 1, 0, 2, 6)]
GENERATION = 40
SETTINGS = [
    'league.parameters=["check","c"]', "league.active=6", "league.parents=2",
    f"league.generation={GENERATION}", f"selfplay.episodes={GENERATION}", "iterations=3",
]  # fmt: skip


def made_up(path, variant, seed, played):
    """Return a run with one generation of games per iteration, cycling through `played`."""
    settings = resolve_settings("gobang:3x3:3", "smoke", [*SETTINGS, f"seed={seed}"])
    run = RunFolder.create(path, settings.model_dump())
    league = reconstruct_league(run.games, settings)
    for iteration in range(1, settings.iterations + 1):
        state = league.state_before(iteration)
        numbers = state.next_game_numbers(league.settings, state.game_count + GENERATION)
        pairs = draw_pairs(state.population, league.settings, numbers)
        games = [
            GameRecord(at, player_name(one), player_name(other), played[at % len(played)], 1)
            for at, (one, other) in enumerate(pairs.tolist())
        ]
        run.games.write_stage(iteration, "selfplay", games)
        run.commit(run.progress, [self_play(iteration, GENERATION).as_dict()])
    planned = PlannedRun("training", {"variant": variant, "seed": seed}, settings)
    measured = {
        "diversity": diversity_of_run(path).as_dict(),
        "league": diversity.measure_league(FinishedRun(planned, run, None, None)),
        "path": path,
    }
    return TrainedRun(planned, [], measurements=measured)


def results_of(runs):
    return Results("mini", Design([run.planned for run in runs]), runs, {})


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs")
    return results_of(
        [
            made_up(path / f"{variant}-{seed}", variant, seed, PLAYED[: 1 + (variant != "league")])
            for variant in ("league", "league-novelty")
            for seed in (1, 2)
        ]
    )


def players_of(run):
    settings = run.planned.settings
    return (
        reconstruct_league(RunFolder.open(run.measurements["path"]).games, settings)
        .state_before(4)
        .population
    )


def test_parameters_are_means_of_active_players(results):
    picture = next(block for block in league_section(results) if isinstance(block, Picture))
    panels = {axes.get_title(): axes for axes in picture.figure.axes if axes.get_title()}
    assert list(panels) == ["exploration constant c", "check parameter"]
    _, line = panels["exploration constant c"].get_lines()
    every = [players_of(run) for run in results.runs_where(variant="league-novelty")]
    expected = [
        np.mean([c for each in every for c in each.values[each.active[generation], 1]])
        for generation in range(4)
    ]
    assert line.get_xdata().tolist() == [0, 1, 2, 3]
    assert line.get_ydata() == pytest.approx(expected)


def test_best_settings_are_listed_with_published_ones(results):
    table = next(block for block in league_section(results) if isinstance(block, Table))
    named = [dict(zip(table.column_titles, row, strict=True)) for row in table.rows]
    assert [row["exploration constant c"] for row in named[:2]] == ["0.5 to 8", 3.09]
    shown = [row for row in named if row["league"] == "league by novelty"]
    for row, run in zip(shown, results.runs_where(variant="league-novelty"), strict=True):
        players = players_of(run)
        tried = [n for n in players.active[-1].tolist() if players.games[n] >= 20]
        best = max(tried, key=lambda n: (players.ratings[n], n))
        assert row["exploration constant c"] == players.values[best, 1]
        assert (row["games"], row["newest generation"]) == (3 * GENERATION, 3)


def test_diversity_is_compared_by_phase_of_training(tmp_path):
    """Only the first two games have new positions."""
    runs = [
        made_up(tmp_path / f"{variant}-{seed}", variant, seed, PLAYED[:games])
        for variant, games in (("extended", 1), ("big-tree", 2))
        for seed in (1, 2)
    ]
    results = results_of(runs)
    found = {
        claim.key: estimate
        for claim, estimate in diversity.diversity_statistics(
            results, measured_diversities(results)
        ).items()
    }
    early, late = found["big-tree-is-more-diverse-early"], found["big-tree-is-less-diverse-later"]
    assert early.value == pytest.approx((7 - 5) / (3 * GENERATION / 5))
    assert late.value == 0
    whole = diversity._difference("big-tree", diversity._WHOLE, measured_diversities(results))
    assert whole.value == pytest.approx((7 - 5) / (3 * GENERATION))
    unknown = MissingEstimate("league by novelty is not studied at this scale")
    assert found["novelty-is-more-diverse-later"] == found["novelty-is-more-diverse"] == unknown
    assert not list(league_section(results_of([])))


def test_share_of_requests_without_a_search():
    """A run answers 30 of 100 and 20 of 300 requests without a search: 50 of 400."""
    planned = PlannedRun("training", {"variant": "service", "seed": 1}, None)
    records = [
        SelfPlayRecord.model_construct(iteration=at, asked=asked, searched=searched)
        for at, (asked, searched) in enumerate([(100, 70), (300, 280)], start=1)
    ]
    results = Results("mini", Design([planned]), [TrainedRun(planned, records)], {})
    found = diversity.duplicate_filter_statistics(results)[diversity.DUPLICATE_FILTER_CLAIM]
    assert found.value == pytest.approx(50 / 400)


@pytest.mark.parametrize("scale", ["mini", "small", "paper"])
def test_leagues_and_trees_differ_only_in_their_named_setting(scale):
    runs = {
        run.factors["variant"]: run.settings
        for run in design_of(Connect4EfficiencyStudy, scale).runs
        if run.factors["seed"] == FIRST_SEED and run.part == "training"
    }
    assert list(runs) == list(VARIANTS)
    leagues = [runs[name].model_dump() for name in LEAGUE_VARIANTS]
    fitness = [each["league"].pop("fitness") for each in leagues]
    assert fitness == ["results", "novelty", "novelty_of_winner", "results"]
    parameters = [each["league"].pop("parameters") for each in leagues]
    plain = ("c", "fpu", "draw_value", "threshold")
    assert parameters == [plain, plain, plain, (*plain, "check")]
    assert all(league == leagues[0] for league in leagues)
    trees = [runs[name].model_dump() for name in GAME_TREE_VARIANTS if name.startswith("big-tree")]
    assert [each["selfplay"]["mode"].pop("c") for each in trees] == [10, 3, 30]
    assert trees[0] == trees[1] == trees[2]
