"""Ledgers: reports without runs, sums of several machines, and wrong or damaged files.

The file has more than 400 lines because its tests share the folders of one small study, which take
longer to fill than the tests.
"""

from __future__ import annotations

import itertools
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from in_process import Reusing
from tiny_studies import GAME, Tiny, planned

from zerolab.core.errors import UserError
from zerolab.papers.elo import fit_elo_model, mean_contrast
from zerolab.ratings.results import MatchScore
from zerolab.report.claims import Claim, ClaimTable
from zerolab.report.document import Document
from zerolab.report.html import save_document
from zerolab.report.text import markdown_page
from zerolab.store import parquet
from zerolab.studies import ledger
from zerolab.studies.design import Design, PlannedComputation, PlannedTournament
from zerolab.studies.execution import StudyExecution
from zerolab.studies.ledger import Ledger, merge_ledgers, read_ledger, write_ledger
from zerolab.studies.looks import TakenLook, alpha_spent, level_at_last_look, nominal_levels
from zerolab.studies.results import provenance, read_results, with_last_look
from zerolab.studies.scheduler import Scheduler

CLAIM = Claim("value-best", "The value loss is best.", "nowhere", "Elo", 0.0, "above", 30.0)


def one():
    return {"value": 1.0}


class Blocks(Tiny):
    """A tournament per seed, one of all seeds, a computation and a claim."""

    name = "blocks"
    measurement_version = 1

    def seed_count(self, scale):
        return 3

    def design(self, scale, seeds):
        runs = [planned(loss, seed) for seed in seeds for loss in ("sum", "value")]
        blocks = [
            PlannedTournament(
                "a", GAME, {run.label: run for run in runs if run.factors["seed"] == seed},
                games_per_pair=2, opening_plies=1, seed=seed,
            )
            for seed in seeds
        ]  # fmt: skip
        function = f"{one.__module__}:{one.__name__}"
        return Design(runs, blocks, [PlannedComputation("a", "one", function, {}, 1.0)])

    def measure_run(self, run):
        return {"weights": run.weights_digest}

    def statistics(self, results):
        model = fit_elo_model(results, ["a"], "loss", ["sum", "value"])
        return {CLAIM: mean_contrast(model, {"value": 1.0, "sum": -1.0})}

    def verdicts(self, results):
        return results.judge(self.statistics)

    def report(self, results):
        measured = [run.measurements["weights"] for run in results]
        blocks = [ClaimTable(self.verdicts(results))]
        return Document("Blocks", f"Measured: {measured}", blocks, provenance(results))


STUDY = Blocks()


def performed(root, seeds=()):
    execution = StudyExecution.plan(STUDY, "smoke", root, (), seeds)
    assert execution.perform_all(Reusing(), lambda view: None) == {}
    return execution


def page(ledger):
    design = STUDY.design("smoke", ledger.seeds)
    return markdown_page(STUDY.report(read_results(design, ledger)))


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Folders of all three seeds, of the first two and of the last one, with their reports."""
    root = tmp_path_factory.mktemp("blocks")
    found = {}
    for name, seeds in (("all", ()), ("two", [100, 101]), ("one", [102])):
        execution = performed(root / name, seeds)
        document = execution.report()
        save_document(document, root / f"{name}-report")
        found[name] = execution.folder.ledger_path
    return found


def test_merged_ledgers_give_the_report_of_one_folder(folders, tmp_path):
    """The runs are copies of the same files, so even their times are equal."""
    merged = merge_ledgers({path: read_ledger(path) for path in (folders["one"], folders["two"])})
    whole = read_ledger(folders["all"])
    assert (merged.seeds, merged.looks) == ([100, 101, 102], [])
    merged = with_last_look(merged, STUDY.design("smoke", merged.seeds))
    assert merged.looks == [TakenLook([100, 101, 102], 3, [])]
    assert page(merged) == page(whole)
    write_ledger(tmp_path / "merged.parquet", merged)
    assert (tmp_path / "merged.parquet").read_bytes() == folders["all"].read_bytes()
    document = STUDY.report(read_results(STUDY.design("smoke", merged.seeds), merged))
    save_document(document, tmp_path / "report")
    from_folder = folders["all"].parents[2] / "all-report"
    files = {path.name: path.read_bytes() for path in from_folder.iterdir()}
    assert {path.name: path.read_bytes() for path in (tmp_path / "report").iterdir()} == files


def test_part_of_the_planned_seeds_is_not_tested(folders):
    two = read_ledger(folders["two"])
    assert (two.looks, two.planned_seed_count) == ([], 3)
    (verdict,) = STUDY.verdicts(read_results(STUDY.design("smoke", two.seeds), two))
    assert (verdict.word, verdict.note) == ("undecided", "not tested: 2 of 3 planned seeds")
    assert verdict.estimate is not None
    assert verdict.needed_seeds is None


def test_remaining_planned_seeds_complete_a_begun_series_of_looks(folders):
    """The last look uses the level left by the first look at two of three seeds."""
    first = replace(read_ledger(folders["two"]), looks=[TakenLook([100, 101], 3, [])])
    merged = merge_ledgers({Path("first"): first, Path("rest"): read_ledger(folders["one"])})
    design = STUDY.design("smoke", merged.seeds)
    hidden = read_results(design, merged)
    assert hidden.exclusion_messages == ["seeds 102, until the next look"]
    complete = with_last_look(merged, design)
    assert complete.looks == [*first.looks, TakenLook([100, 101, 102], 3, [])]
    assert level_at_last_look(0.05, complete.looks) == nominal_levels(0.05, (2 / 3, 1.0))[-1] < 0.05
    assert not read_results(design, complete).exclusion_messages
    assert with_last_look(complete, design) is complete


def test_remaining_planned_seeds_complete_looks_at_merged_ledgers(folders):
    looks = [TakenLook([100, 101], 3, [1 / 3, 1 / 3])]
    first = replace(read_ledger(folders["two"]), looks=looks)
    merged = merge_ledgers({Path("first"): first, Path("rest"): read_ledger(folders["one"])})
    complete = with_last_look(merged, STUDY.design("smoke", merged.seeds))
    assert complete.looks == [*looks, TakenLook([100, 101, 102], 3, [])]


def test_spent_levels_stay_spent_in_any_order_of_merging(folders):
    """One ledger has spent the whole level, and two others a part of it."""
    header = read_ledger(folders["all"]).header
    ledgers = {
        Path(name): Ledger(header, seeds, [], planned, [TakenLook(seeds, planned, [])])
        for name, seeds, planned in (
            ("a", [0, 1, 2, 3], 4), ("b", [4, 5, 6, 7], 12), ("c", [8, 9, 10, 11], 12)
        )
    }  # fmt: skip
    levels = set()
    for one, two, three in itertools.permutations(ledgers):
        pair = merge_ledgers({one: ledgers[one], two: ledgers[two]})
        nested = merge_ledgers({Path("pair"): pair, three: ledgers[three]})
        at_once = merge_ledgers({path: ledgers[path] for path in (one, two, three)})
        levels |= {level_at_last_look(0.05, each.looks) for each in (nested, at_once)}
    assert levels == {0.0}


def test_ledgers_merged_in_two_steps_spend_at_most_the_level(folders):
    """The look at the first two is a test as well, and its decisions are kept."""
    header = read_ledger(folders["all"]).header
    one, two, three = (
        Ledger(header, seeds, [], 12, [TakenLook(seeds, 12, [])])
        for seeds in ([0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11])
    )
    pair = merge_ledgers({Path("one"): one, Path("two"): two})
    merged = merge_ledgers({Path("pair"): pair, Path("three"): three})
    levels = [level_at_last_look(0.05, each.looks) for each in (pair, merged)]
    assert min(levels) > 0.01
    assert 3 * alpha_spent(0.05, 1 / 3) + sum(levels) <= 0.05


def test_merging_in_any_order_keeps_the_same_looks(folders):
    header = read_ledger(folders["all"]).header
    one, two = (
        (Path(f"from {seeds[0]}"), Ledger(header, seeds, [], 6, [TakenLook(seeds, 6, [])]))
        for seeds in ([0, 1, 2], [3, 4, 5])
    )
    assert merge_ledgers(dict([one, two])).looks == merge_ledgers(dict([two, one])).looks


def test_seeds_beyond_the_plan_have_no_look(folders):
    first = replace(read_ledger(folders["two"]), looks=[TakenLook([100, 101], 2, [])])
    merged = merge_ledgers({Path("first"): first, Path("rest"): read_ledger(folders["one"])})
    assert with_last_look(merged, STUDY.design("smoke", merged.seeds)) is merged


def test_unfinished_ledger_changes_no_look(folders):
    """Its seeds are named and left out until the next look."""
    whole = read_ledger(folders["all"])
    begun = Ledger(whole.header, [110, 111], [], 2)
    merged = merge_ledgers({Path("whole"): whole, Path("begun"): begun})
    assert merged.looks == whole.looks
    results = read_results(STUDY.design("smoke", merged.seeds), merged)
    assert results.exclusion_messages == ["seeds 110-111, until the next look"]
    assert STUDY.verdicts(results) == STUDY.verdicts(
        read_results(STUDY.design("smoke", whole.seeds), whole)
    )


def test_look_with_missing_runs_is_not_tested(folders):
    whole = read_ledger(folders["all"])
    kept = [row for row in whole.rows if row.label != "sum/seed=100"]
    (verdict,) = STUDY.verdicts(
        read_results(STUDY.design("smoke", whole.seeds), replace(whole, rows=kept))
    )
    assert "1 of 6 runs" in verdict.note


def test_report_needs_no_runs(folders, tmp_path):
    copy = tmp_path / "ledger.parquet"
    shutil.copy(folders["two"], copy)
    assert "seeds 100 to 101" in page(read_ledger(copy))


def test_duplicate_runs_are_refused(folders):
    ledgers = {path: read_ledger(path) for path in (folders["all"], folders["two"])}
    with pytest.raises(UserError, match=r"a: sum/seed=100 is in both .*of different seeds"):
        merge_ledgers(ledgers)


def test_ledgers_of_other_designs_are_refused(folders):
    first, second = (read_ledger(folders[name]) for name in ("one", "two"))
    other = replace(second, header=second.header._replace(design="of another version"))
    with pytest.raises(UserError, match="expected ledgers of one study, scale and design"):
        merge_ledgers({Path("first"): first, Path("other"): other})


def test_first_of_two_computations_counts(folders):
    first, second = (read_ledger(folders[name]) for name in ("one", "two"))
    rows = [
        replace(row, measurements={"value": 2.0}) if row.kind == "computation" else row
        for row in second.rows
    ]
    merged = merge_ledgers({Path("first"): first, Path("other"): replace(second, rows=rows)})
    assert [row.measurements for row in merged.rows if row.kind == "computation"] == [
        {"value": 1.0}
    ]


def test_different_games_of_the_same_players_are_refused(folders):
    ledger = read_ledger(folders["one"])
    players = [row for row in ledger.rows if row.kind == "player"]
    won = [
        replace(
            row, scores=[each._replace(moving_first=MatchScore(9, 9, 9)) for each in row.scores]
        )
        for row in players
    ]
    same, other = (replace(ledger, rows=rows) for rows in (players, won))
    assert list(merge_ledgers({Path("a"): same, Path("b"): same}).rows) == players
    with pytest.raises(UserError, match=r"random is in both .* with different results"):
        merge_ledgers({Path("a"): same, Path("b"): other})


def test_run_with_other_settings_is_refused(folders):
    ledger = read_ledger(folders["one"])
    rows = [replace(row, key="other") if row.kind == "run" else row for row in ledger.rows]
    with pytest.raises(UserError, match="settings from a different version of the study"):
        page(replace(ledger, rows=rows))


def test_tournament_of_all_seeds_needs_all_pairs(folders):
    """The games of two folders form no round robin of all runs."""
    ledger = read_ledger(folders["all"])
    design = STUDY.design("smoke", ledger.seeds)
    together = PlannedTournament("a", GAME, {run.label: run for run in design.runs}, name="all")
    rows = [
        replace(row, scores=[each._replace(tournament="a-all") for each in row.scores])
        for row in ledger.rows
    ]
    joined = read_results(Design(design.runs, [together]), replace(ledger, rows=rows))
    assert joined.unfinished_message() == "tournaments not finished: a-all"


def taken(seeds, planned_count=2, spent_shares=()):
    """Return a look as stored."""
    return TakenLook(seeds, planned_count, list(spent_shares)).as_dict()


def changed_header(path, target, **changes):
    """Write a copy of a ledger with another header."""
    table = pq.read_table(path)
    header = json.loads(table.schema.metadata[b"zerolab"]) | changes
    parquet.write_table(target, table, header)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "letters"}, 'contains "letters": expected "study ledger"'),
        ({"schema": 99}, "newer than the supported version"),
        ({"seeds": [5]}, "from 100 to 999"),
        ({"seeds": [101, 100]}, "repeated"),
        ({"seeds": "all"}, "list of seeds"),
        ({"looks": [taken([100]), taken([101])]}, "does not add seeds to the previous one"),
        ({"looks": [taken([100]), taken([100])]}, "does not add seeds to the previous one"),
        ({"looks": [taken([999])]}, "not planned"),
        ({"looks": [taken([100, 101], 1)]}, "outside 0 to 1"),
        ({"looks": [taken([100], 2, [1e9])]}, "outside 0 to 1"),
        ({"looks": [[100]]}, "is damaged"),
        ({"looks": 3}, "is damaged"),
    ],
)
def test_damaged_headers_are_reported(folders, tmp_path, changes, message):
    changed_header(folders["two"], tmp_path / "changed.parquet", **changes)
    with pytest.raises(UserError, match=message):
        read_ledger(tmp_path / "changed.parquet")


def details_changed(path, target, change):
    """Write a copy of a ledger with changed details of its runs."""
    table = pq.read_table(path)
    details = [
        change(text) if kind == "run" else text
        for kind, text in zip(
            table["kind"].to_pylist(), table["details"].to_pylist(), strict=True
        )
    ]  # fmt: skip
    column = table.schema.get_field_index("details")
    changed = table.set_column(column, table.schema.field(column), pa.array(details))
    parquet.write_table(target, changed, json.loads(table.schema.metadata[b"zerolab"]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[:-5], "is damaged"),
        (lambda text: "[" * 100_000, "is damaged"),
        (lambda text: text.replace('"stage":"gate"', '"stage":"gates"'), "unknown stage"),
        (lambda text: text.replace('"accepted":', '"accept":'), "accept"),
        (lambda text: text.replace('"seed":10', '"seed":"x'), "is damaged"),
        (lambda text: text.replace('"numbers":{', '"numbers":{"x":NaN,'), "NaN is not a number"),
        (lambda text: text.replace('"numbers":{', '"numbers":{"x":1e999,'), "too large a number"),
        (lambda text: text.replace('"scores":[', '"scores":[["a"],'), "is damaged"),
        (lambda text: text.replace("random", "random\",[9,9,9],[1,1,1],[-1,0,0],[0,0,0]],[\""),
         "is damaged"),
    ],
)  # fmt: skip
def test_damaged_rows_are_reported_in_one_line(folders, tmp_path, change, message):
    details_changed(folders["two"], tmp_path / "changed.parquet", change)
    with pytest.raises(UserError, match=message) as error:
        read_ledger(tmp_path / "changed.parquet")
    assert str(error.value).startswith(str(tmp_path / "changed.parquet"))
    assert len(str(error.value).splitlines()) == 1


def test_foreign_and_damaged_files_are_reported(folders, tmp_path):
    foreign = tmp_path / "foreign.parquet"
    pq.write_table(pa.table({"x": [1]}), foreign)
    with pytest.raises(UserError, match="was not written by zerolab study"):
        read_ledger(foreign)
    with pytest.raises(UserError, match="does not exist: expected a study ledger file"):
        read_ledger(tmp_path / "none.parquet")
    content = folders["two"].read_bytes()
    for position in range(0, len(content), len(content) // 40):
        damaged = bytearray(content)
        damaged[position] ^= 255
        foreign.write_bytes(damaged)
        try:
            assert read_ledger(foreign) == read_ledger(folders["two"])
        except UserError as error:
            assert str(foreign) in str(error)


def test_repeated_long_strings_are_refused(tmp_path, monkeypatch):
    """They need almost no space in the file, but much in memory."""
    monkeypatch.setattr(ledger, "MAX_LEDGER_BYTES", 1 << 20)
    names = ["kind", "part", "label", "key", "details"]
    columns = pa.schema([pa.field(name, pa.string(), nullable=False) for name in names])
    table = pa.table({name: ["x" * 10_000] * 1000 for name in names}, schema=columns)
    parquet.write_table(tmp_path / "bomb.parquet", table, {"kind": "study ledger", "schema": 1})
    assert (tmp_path / "bomb.parquet").stat().st_size < 20_000
    with pytest.raises(UserError, match="more than 1 MiB of memory"):
        read_ledger(tmp_path / "bomb.parquet")


def test_long_strings_are_refused_before_they_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger, "MAX_LEDGER_BYTES", 1 << 20)
    monkeypatch.setattr(parquet, "_read_columns", None)
    names = ["kind", "part", "label", "key", "details"]
    columns = pa.schema([pa.field(name, pa.string(), nullable=False) for name in names])
    table = pa.table({name: ["x" * 1_000_000] for name in names}, schema=columns)
    parquet.write_table(tmp_path / "bomb.parquet", table, {"kind": "study ledger", "schema": 1})
    with pytest.raises(UserError, match="more than 1 MiB of memory"):
        read_ledger(tmp_path / "bomb.parquet")


def test_verdicts_wait_for_the_end_of_a_study(tmp_path):
    execution = StudyExecution.plan(STUDY, "smoke", tmp_path)
    execution.create_folder()
    (verdict,) = STUDY.verdicts(execution.results())
    assert (verdict.word, verdict.note[:15]) == ("no data", "6 of 6 runs are")


def looked_at(execution):
    return [look.seeds for look in execution.folder.read_looks(execution.seeds)]


def test_rounds_record_looks_and_stop_when_decided(tmp_path, monkeypatch):
    """The value loss is certainly better in the second look."""
    execution = StudyExecution.plan(STUDY, "smoke", tmp_path)
    seen = []

    def verdicts(self, results):
        seen.append(results.design.seeds)
        (verdict,) = results.judge(self.statistics)
        return [replace(verdict, word="undecided" if len(seen) < 2 else "holds")]

    monkeypatch.setattr(Blocks, "verdicts", verdicts)
    failures, reason = execution.perform_rounds(Reusing(), lambda view: None, 10.0)
    assert (failures, reason) == ({}, "all primary claims are decided after 2 of 3 seeds")
    assert seen == [[100], [100, 101]]
    assert looked_at(execution) == [[100], [100, 101]]
    monkeypatch.undo()
    # The third seed is not seen before its look.
    ledger = read_ledger(execution.folder.ledger_path)
    results = read_results(execution.design, ledger)
    assert {run.seed for run in results} == {100, 101}
    assert not results.unfinished_message()
    assert execution.perform_all(Reusing(), lambda view: None) == {}
    assert looked_at(execution) == [[100], [100, 101], [100, 101, 102]]
    assert len(execution.results().runs) == 6


def test_unfinished_round_is_no_look(tmp_path, monkeypatch):
    execution = StudyExecution.plan(STUDY, "smoke", tmp_path)
    monkeypatch.setattr(Scheduler, "perform_all", lambda *arguments: {})
    failures, reason = execution.perform_rounds(Reusing(), lambda view: None, 10.0)
    assert failures == {}
    assert reason == "work remains up to seed 100: repeat the command"
    assert looked_at(execution) == []


@pytest.mark.parametrize(
    ("parts", "seeds", "hours", "message"),
    [
        (
            (),
            (),
            1e-9,
            r"--hours 1e-09 is too short for a round: expected more than .* up to seed 100",
        ),
        (("a",), (), 5.0, "leave out --only"),
        ((), (100,), 5.0, "has one seed at the smoke scale"),
    ],
)
def test_hours_that_cannot_work_are_refused(tmp_path, parts, seeds, hours, message):
    execution = StudyExecution.plan(STUDY, "smoke", tmp_path, parts, seeds)
    with pytest.raises(UserError, match=message):
        execution.perform_rounds(Reusing(), lambda view: None, hours)
    assert not execution.folder.path.exists()


def test_folder_with_other_seeds_is_refused(folders):
    root = folders["two"].parents[1]
    assert StudyExecution.plan(STUDY, "smoke", root).seeds == [100, 101]
    other = StudyExecution.plan(STUDY, "smoke", root, (), [105])
    with pytest.raises(UserError, match="has the seeds 100-101: expected 105"):
        other.results()


def test_damaged_looks_are_reported(tmp_path):
    execution = StudyExecution.plan(STUDY, "smoke", tmp_path)
    execution.create_folder()
    (execution.folder.path / "looks.json").write_text('{"schema_version": 1, "looks": [5]}')
    with pytest.raises(UserError, match=r"looks\.json is damaged"):
        execution.results()
