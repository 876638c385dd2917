"""Table 5.1: published numbers and reports on games."""

from __future__ import annotations

import json

import pytest

from studies.in_process import Here
from zerolab.agents.specs import parse_agents
from zerolab.cli.main import main
from zerolab.papers.warm_start.study import (
    BOARDS,
    CHANGED_RHEA_SPECS,
    MCTS,
    PLAYER_SPECS,
    PUBLISHED_SCORES,
    RANDOM,
    RAVE,
    RHEA,
    SINGLE_RHEA,
    TREE_ONLY,
    Table51Study,
)
from zerolab.papers.warm_start.table_5_1 import (
    ORDERED_PAIRS,
    TABLE_CLAIMS,
    compared_pairs,
    score_rate_matrix,
)
from zerolab.play.tournament import Tournament
from zerolab.report.claims import ClaimTable
from zerolab.report.document import Paragraph
from zerolab.rules.catalogue import parse_game
from zerolab.store.games import GameRecord
from zerolab.studies.execution import StudyExecution
from zerolab.studies.finished_work import PlayedTournament
from zerolab.studies.ledger import pair_scores
from zerolab.studies.results import Results
from zerolab.studies.statistics import BinomialEstimate
from zerolab.studies.study import SCALES

# Rows and columns: random, mcts, rave, rhea; "column beats row" in percent.
PRINTED = {
    "gobang": """
        -  97.0  100  90
        -  -    89.4  34
        -  -     -    17
    """,
    "connect_four": """
        -  99.6  100  80
        -  -    73.0   3
        -  -     -     4
    """,
    "othello": """
        -  98.5  98.0 48
        -  -    46.0  1.0
        -  -     -    5.0
    """,
}
NAMES = [RANDOM, MCTS, RAVE, RHEA]


@pytest.mark.parametrize("part", BOARDS)
def test_published_numbers(part):
    rows = [line.split() for line in PRINTED[part].strip().splitlines()]
    found = {
        (NAMES[column], NAMES[row]): float(rows[row][column])
        for row in range(3)
        for column in range(row + 1, 4)
    }
    assert {pair: 100 * share for pair, share in PUBLISHED_SCORES[part].items()} == pytest.approx(
        found
    )


def test_both_halves_of_a_matrix_are_complements():
    for cells in PUBLISHED_SCORES.values():
        table = score_rate_matrix(cells)
        assert sum(map(len, table.values())) == 12
        for row in NAMES:
            assert row not in table[row]
            for column in table[row]:
                assert table[row][column] + table[column][row] == pytest.approx(1)
        for (column, row), share in cells.items():
            assert table[row][column] == share


def test_claims_agree_with_published_scores():
    for (part, player, opponent), claim in TABLE_CLAIMS.items():
        assert claim.threshold == 0.5
        published = PUBLISHED_SCORES[part].get((player, opponent))
        if published is not None:
            low, high = claim.claimed_range
            assert low < published < high


@pytest.mark.parametrize("scale", SCALES)
def test_agent_names_equal_stored_player_names(scale):
    for each in Table51Study().planned_design(scale).tournaments:
        agents = parse_agents(each.agent_specs, parse_game(each.game))
        assert [agent.name for agent in agents] == list(each.agent_specs)
        assert len(set(each.agent_specs)) == len(PLAYER_SPECS)


def test_all_scales_except_smoke_have_the_published_design():
    designs = {scale: Table51Study().planned_design(scale) for scale in SCALES}
    assert designs["mini"].digest == designs["small"].digest == designs["paper"].digest
    for each in designs["paper"].tournaments:
        assert (each.games_per_pair, each.opening_plies) == (500, 0)
        assert [*each.agent_specs] == [
            "random", "mcts:100?selection.name=puct", "rave:100", "rhea:100",
            "rave:100?selection.playout_moves=false", "rave:100?selection.reading=literal",
            "rave:100?root.name=rave_values", "rhea:50", "rhea:100?playouts_each=1",
            "rhea:100?mutation=0.1", "rhea:100?mutation=0.4", "rhea:100?population=5",
            "rhea:100?population=20", "rhea:100?horizon=5", "rhea:100?horizon=20",
        ]  # fmt: skip


def played(part, scores, repeats=0):
    """Return an invented tournament, in which decided games are repeated.

    `scores` maps pairs of names to wins, draws and losses. All other pairs draw four games.
    """
    planned = next(
        each for each in Table51Study().planned_design("paper").tournaments if each.part == part
    )
    specs = dict(zip(PLAYER_SPECS, planned.agent_specs, strict=True))
    games = []
    for i, one in enumerate(PLAYER_SPECS):
        for other in list(PLAYER_SPECS)[:i]:
            mirrored = scores.get((other, one), (0, 4, 0))[::-1]
            wins, draws, losses = scores.get((one, other), mirrored)
            for number, points in enumerate([1] * wins + [0] * draws + [-1] * losses):
                turned = number % 2
                sides = (specs[other], specs[one]) if turned else (specs[one], specs[other])
                games.append(GameRecord(number, *sides, (number,), -points if turned else points))
    games += [game for game in games if game.result] * repeats
    by_player = pair_scores(planned.key, games)
    return PlayedTournament(
        [planned], {planned.key: [each for pairs in by_player.values() for each in pairs]}
    )


def results(*tournaments):
    finished = {each.planned_tournaments[0].group_name: each for each in tournaments}
    return Results("paper", Table51Study().planned_design("paper"), [], finished)


def table(document, name):
    (found,) = (each for each in document.tables if each.name == name)
    return found.records()


def paragraphs(document):
    return [each for each in document.blocks if isinstance(each, Paragraph)]


def verdicts(document):
    (claims,) = (each for each in document.blocks if isinstance(each, ClaimTable))
    return {each.claim.key: each for each in claims.verdicts}


def test_pair_scores_are_for_the_first_player():
    games = played("gobang", {(RAVE, MCTS): (7, 2, 1)})
    one, other = compared_pairs(games, {(RAVE, MCTS): 0.5, (MCTS, RAVE): None})
    assert tuple(one.result.score) == (7, 2, 1)
    assert tuple(other.result.score) == (1, 2, 7)
    assert one.comparison.published_rate == 0.5
    assert other.comparison is None


def test_measured_numbers_are_listed_with_published_ones():
    scores = {(RAVE, MCTS): (300, 100, 100), (TREE_ONLY, MCTS): (230, 0, 270)}
    found = Table51Study().report(results(played("othello", scores)))
    (row,) = (each for each in table(found, "score-rates") if each["pair"] == "RAVE against MCTS")
    assert [row[name] for name in ("won", "drawn", "lost")] == [300, 100, 100]
    assert (row["score rate"], row["published"], row["verdict"]) == (0.7, 0.46, "differ")
    assert row["score rate_low"] < 0.7 < row["score rate_high"]
    cells = {each["player"]: each for each in table(found, "matrix-othello")}
    assert (cells["MCTS"]["RAVE"], cells["RAVE"]["MCTS"]) == ("70.0 (46.0)", "30.0 (54.0)")
    assert cells["RAVE"]["RAVE"] is None
    other = {each["pair"]: each for each in table(found, "tree-only-rates")}
    assert other["RAVE, tree only against MCTS"]["verdict"] == "agree"
    assert other["RAVE against RAVE, tree only"]["published"] is None


def all_played(changes, repeats=0):
    """Return invented tournaments in which the stronger player of each ordered pair wins.

    `changes` maps a game and a pair of names to other scores.
    """
    scores = {part: {} for part in BOARDS}
    for (part, *pair), score in (dict.fromkeys(ORDERED_PAIRS, (45, 0, 5)) | changes).items():
        scores[part][tuple(pair)] = score
    return [played(part, by_pair, repeats) for part, by_pair in scores.items()]


def test_order_is_decided_by_its_weakest_pair():
    weak = {("othello", MCTS, RHEA): (20, 0, 30)}
    for changes, word in (({}, "holds"), (weak, "undecided")):
        found = verdicts(Table51Study().report(results(*all_played(changes))))
        assert found["table-order"].word == word
    reversed_pair = {("othello", MCTS, RHEA): (5, 0, 45)}
    found = verdicts(Table51Study().report(results(*all_played(reversed_pair))))
    assert (found["table-order"].word, found["table-order"].estimate.value) == (
        "does not hold",
        0.1,
    )


def test_every_claim_is_decided_by_some_outcome():
    scores = {(part, RHEA, name): (260, 0, 240) for part in BOARDS for name in CHANGED_RHEA_SPECS}
    wins_by_direction = {"above": 450, "not below": 260, "below": 50, "not above": 50}
    for pair, each in TABLE_CLAIMS.items():
        wins = wins_by_direction[each.direction]
        scores[pair] = (wins, 0, 500 - wins)
    found = verdicts(Table51Study().report(results(*all_played(scores))))
    assert {each.word for each in found.values()} == {"holds"}


@pytest.mark.parametrize("name", ["RHEA, horizon 5", SINGLE_RHEA])
@pytest.mark.parametrize("wins", [30, 470])
def test_one_sensitive_parameter_of_rhea_is_enough(wins, name):
    changed = (*CHANGED_RHEA_SPECS, SINGLE_RHEA)
    even = {(part, RHEA, name): (250, 0, 250) for part in BOARDS for name in changed}
    sensitive = {("othello", RHEA, name): (wins, 0, 500 - wins)}
    found = verdicts(Table51Study().report(results(*all_played(even | sensitive))))
    assert found["rhea-is-not-sensitive"].word == "does not hold"
    assert found["rhea-is-not-sensitive"].estimate.value == pytest.approx(0.06)


def test_exceptions_in_othello_are_claims_of_their_own():
    published = {("othello", RHEA, RANDOM): (240, 0, 260), ("othello", RAVE, MCTS): (230, 0, 270)}
    uneven = {("othello", RHEA, RANDOM): (450, 0, 50), ("othello", RAVE, MCTS): (320, 0, 180)}
    for changes, word in ((published, "holds"), (uneven, "does not hold")):
        found = verdicts(Table51Study().report(results(*all_played(changes))))
        assert found["rhea-does-not-convincingly-beat-random-othello"].word == word
        assert found["rave-does-not-convincingly-beat-mcts-othello"].word == word


def test_claims_use_effective_numbers_of_decisive_games():
    scores = {
        ("gobang", RAVE, MCTS): (40, 400, 10),
        ("gobang", MCTS, RHEA): (40, 0, 10),
    }
    once, twice = (all_played(scores, repeats) for repeats in (0, 5))
    for each in (once, twice):
        found = verdicts(Table51Study().report(results(*each)))
        rave, rhea = found["rave-beats-mcts-gobang"], found["rhea-loses-to-mcts-gobang"]
        assert (rave.word, rhea.word) == ("holds", "holds")
        assert rave.estimate == BinomialEstimate(40, 50).interval
        assert (rhea.estimate.value, rhea.claim.direction) == (0.2, "below")
        nothing_won = found["mcts-beats-random-gobang"]
        assert (nothing_won.word, nothing_won.p_value) == ("undecided", 1.0)
    text = "".join(each.text for each in paragraphs(Table51Study().report(results(*twice))))
    # 794 games, of which 50 in one pair are repeated five times and 400 are not: 700^2 / 2200
    independent = round(794 - 450 + 700**2 / (50 * 6**2 + 400))
    assert f"those of {independent} independent games, not of {794 + 1750}." in text


def test_missing_work_is_reported():
    nothing = Table51Study().report(results())
    assert "tournaments not finished: gobang, connect_four, othello" in nothing.blocks[0].text
    assert {each.word for each in verdicts(nothing).values()} == {"no data"}
    assert "No runs; " in nothing.provenance.summary()
    one = Table51Study().report(results(played("othello", {})))
    found = verdicts(one)
    assert found["mcts-beats-random-othello"].word == "undecided"
    assert found["table-order"].word == "no data"
    assert found["mcts-beats-random-gobang"].note == "tournaments not finished: gobang"
    assert {each["game"] for each in table(one, "score-rates")} == {"Othello"}


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """Study with real players."""
    root = tmp_path_factory.mktemp("studies")
    arguments = ["--scale", "smoke", "--folder", str(root)]
    execution = StudyExecution.plan(Table51Study(), "smoke", root)
    assert execution.perform_all(Here(), lambda view: None) == {}
    assert main(["study", "table-5.1", *arguments]) == 0
    return root, arguments


def test_smoke_study_counts_its_stored_games(smoke, capsys):
    root, arguments = smoke
    saved = Tournament.load(root / "table-5.1-smoke" / "tournaments" / "othello")
    assert len(saved.games()) == 105 * 2
    capsys.readouterr()
    assert main(["report", "table-5.1", *arguments, "--json"]) == 0
    tables = json.loads(capsys.readouterr().out)["tables"]
    specs = dict(
        zip(
            PLAYER_SPECS,
            Table51Study().planned_design("smoke").tournaments[0].agent_specs,
            strict=True,
        )
    )
    names = "score-rates", "tree-only-rates", "literal-rates", "normalised-rates"
    rows = [row for name in names for row in tables[name]]
    assert len(rows) == 6 + 3 * 4
    for row in rows:
        one, other = (specs[name] for name in row["pair"].split(" against "))
        games = [each for each in saved.games() if {each.first, each.second} == {one, other}]
        points = [each.result * (1 if each.first == one else -1) for each in games]
        assert sum(each.first == one for each in games) == 1
        counted = points.count(1), points.count(0), points.count(-1)
        assert (row["won"], row["drawn"], row["lost"]) == counted


def test_finished_smoke_study_has_a_stable_report(smoke, capsys):
    root, arguments = smoke
    report = root / "table-5.1-smoke" / "report"
    readings = {"tree-only", "literal", "normalised"}
    names = readings | {"table-5.1"}
    pictures = {f"{name}.{ending}" for name in names for ending in ("png", "svg")}
    tables = {"claims.csv", "score-rates.csv", "rhea-rates.csv", "matrix-othello.csv"}
    tables |= {f"{name}-rates.csv" for name in readings}
    pages = {"index.html", "README.md", "report.json"}
    assert {path.name for path in report.iterdir()} == pictures | tables | pages
    before = {path: path.read_bytes() for path in report.iterdir()}
    assert main(["study", "table-5.1", *arguments]) == 0
    assert {path: path.read_bytes() for path in report.iterdir()} == before
    capsys.readouterr()
    assert main(["study", "table-5.1", *arguments, "--status", "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert [part["finished_games"] for part in status["parts"]] == [210]
