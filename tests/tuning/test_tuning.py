"""Tuning: search spaces, and trials shared by processes."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
import tuning_trials
from tuning_trials import GAME, distance, plan, settings

from promised import contents
from zerolab.cli.main import main
from zerolab.core.errors import UserError
from zerolab.core.nested_tables import flatten
from zerolab.core.processes import fork_server_context
from zerolab.report.table import Interval
from zerolab.training.configure import no_effect_preset_messages, resolve_settings
from zerolab.tuning.search import work_on_trials
from zerolab.tuning.space import Alternatives, Range, SearchSpace
from zerolab.tuning.trials import TrialJournal, TrialStore
from zerolab.tuning.tuning_report import (
    TrialResult,
    TuningReport,
    best_result,
    pareto_front_results,
    trial_results,
)

# Search spaces


@pytest.mark.parametrize(
    ("text", "domain"),
    [
        ("search.selection.c=0.5..4", Range(0.5, 4.0, False, False)),
        ("search.selection.c=1..4", Range(1.0, 4.0, False, False)),
        ("search.selection.c=-.5..1.", Range(-0.5, 1.0, False, False)),
        ("learn.learning_rate=log:1e-3..1e-1", Range(0.001, 0.1, True, False)),
        ("learn.epochs=1..8", Range(1, 8, False, True)),
        ("learn.batch_size=log:16..256", Range(16, 256, True, True)),
        ("learn.loss=sum | product", Alternatives(("sum", "product"))),
        ("learn.batch_size=32|64|128", Alternatives(("32", "64", "128"))),
        ("accuracy.positions=../a.parquet", None),
        ("learn.epochs=3", None),
        ('network.hidden="1|2"', None),
    ],
)
def test_values_are_parsed_as_fixed_ranges_or_alternatives(text, domain):
    assert SearchSpace.parse([text]).all_settings[0].domain == domain


def test_integer_ranges_give_integers_and_include_their_ends(tmp_path):
    store, seen = TrialStore(tmp_path, plan("learn.epochs=1..3")), []

    def run(claimed):
        seen.append(claimed.values["learn.epochs"])
        claimed.complete([1.0], {})

    work_on_trials(store, 25, run)
    assert {type(each) for each in seen} == {int}
    assert set(seen) == {1, 2, 3}


def test_settings_of_an_alternative_apply_only_with_it(tmp_path):
    chosen = plan("network.blocks=1..3", "network=conv|resnet", "network.filters=8")
    networks = set()

    def run(claimed):
        network = chosen.trial_settings(claimed.values, claimed.number).network
        assert ("network.blocks" in claimed.values) == (network.name == "resnet")
        networks.add(network.name)
        claimed.complete([1.0], {})

    work_on_trials(TrialStore(tmp_path, chosen), 12, run)
    assert networks == {"conv", "resnet"}


def test_keys_with_name_select_alternatives_too():
    conditions = [
        {each.key: each.condition for each in plan(*assignments).space.all_settings}
        for assignments in (
            ("learn.optimizer=adam|sgd", "learn.optimizer.momentum=0.5..0.9"),
            ("learn.optimizer.name=adam|sgd", "learn.optimizer.momentum=0.5..0.9"),
        )
    ]
    assert conditions[0] == conditions[1]
    assert conditions[0]["learn.optimizer.momentum"].value_texts == ("sgd",)


@pytest.mark.parametrize("games", ["final_evaluation={games=4}", "final_evaluation.games=4"])
def test_games_against_baselines_are_played_if_set(games):
    chosen = plan("learn.epochs=1..2", games)
    assert chosen.trial_settings({"learn.epochs": 1}, 0).final_evaluation.games == 4
    without = plan("learn.epochs=1..2").trial_settings({"learn.epochs": 1}, 0)
    assert without.final_evaluation.games == 0


MISTAKES = {
    ("search.selektion.c=1..2",): 'did you mean "search.selection"',
    ("learn.epoch=1..2",): 'unknown setting "learn.epoch"; did you mean "learn.epochs"',
    ("search.simulations=8..4",): "the smaller number first",
    ("search.simulations=4..4",): "the smaller number first",
    ("search.simulations=4..",): "expected a range such as",
    ("search.simulations=..4",): "expected a range such as",
    ("search.simulations=log:4",): "expected a range such as",
    ("search.simulations=1.5..4",): "expected whole numbers",
    ("search.simulations=0..4",): "search.simulations = 0: expected at least 1",
    ("learn.learning_rate=log:0..0.1",): "expected positive numbers",
    ("learn.learning_rate=0.1..3",): "learn.learning_rate = 3.0: expected less than 1",
    ("learn.loss=1..3",): "this setting accepts",
    ("accuracy.positions=1..3",): "this setting accepts",
    ("learn.loss=sum|prodct",): 'did you mean "product"',
    ("learn.loss=sum|",): "expected different alternatives",
    ("learn.loss=sum|sum",): "expected different alternatives",
    ("seed=1..3",): '"seed" cannot be set here',
    ("game=gobang:3x3:3|gobang:4x4:3",): '"game" cannot be set here',
    ("learn.epochs=1..3", "learn.epochs=2"): "is set 2 times",
    ("network=conv|resnet", "network.name=conv"): '"network" is set 2 times',
    ("learn.epochs=2",): "nothing to search",
    (): "nothing to search",
    ("network=conv", "network.blocks=1..3"): "network.blocks belongs to network",
    ("learn.epochs=1..3", "network=mlp"): "network.name",
}


@pytest.mark.parametrize(("assignments", "message_part"), MISTAKES.items())
def test_invalid_search_spaces_get_one_line_errors(tmp_path, capsys, assignments, message_part):
    require_refusal(
        tmp_path, capsys, message_part, "--objective", "loss", *(f"--set={x}" for x in assignments)
    )


@pytest.mark.parametrize(
    ("arguments", "message_part"),
    [
        (["--set=learn.epochs=1..3"], "the accuracy objective needs solved positions"),
        (["--set=learn.epochs=1..3", "--positions=nowhere"], "does not exist"),
        (["--set=learn.epochs=1..3", "--positions=x", "--objective=loss"], 'positions = "x"'),
        (["--set=accuracy.every=0", "--set=learn.epochs=1..3", "--positions=x"], "at least 1"),
        (["--set=learn.epochs=1..3", "--objective=strength"], "strength"),
        (["--set=learn.epochs=1..3", "--objective=loss", "--and=size"], "size"),
        (["--set=learn.epochs=1..3", "--objective=loss", "--trials=0"], "trials = 0"),
        (["--set=learn.epochs=1..3", "--objective=loss", "--workers=0"], "workers = 0"),
        (["--set=learn.epochs=1..3", "--objective=elo", "--games=3"], "games: 3 is odd"),
        (["--set=learn.epochs=1..3", "--objective=elo", "--opponent=mtcs:9"], "mtcs:9"),
        (["--set=learn.epochs=1..3", "--objective=elo", "--opponent=gtp:no-such"], "no-such"),
        (["--set=learn.epochs=1..3", "--objective=elo", "--opponent="], '""'),
        (["--set=learn.epochs=1..3", "--objective=loss", "--games=4"], "games = 4"),
        (["--set=learn.epochs=1..3", "--objective=loss", "--opponent=random"], '"random"'),
    ],
)
def test_invalid_options_get_one_line_errors(tmp_path, capsys, arguments, message_part):
    require_refusal(tmp_path, capsys, message_part, *arguments)


def test_presets_of_trials_contain_no_setting_without_effect(tmp_path):
    """The smoke preset contains a warm-start ramp, but no warm start."""
    chosen = plan()
    preset = tmp_path / "best.toml"
    preset.write_text(chosen.trial_preset(chosen.space.corner_values(0), 3))
    assert "warm_start" not in preset.read_text()
    settings = resolve_settings(None, str(preset))
    assert no_effect_preset_messages(settings, str(preset)) == []
    trial = chosen.trial_settings(chosen.space.corner_values(0), 3)
    expected = dict(flatten(trial.model_dump()))
    for key, value in flatten(settings.model_dump()):
        if not key.startswith(("warm_start", "preset", "final_evaluation")):
            assert value == expected[key], key


def test_setting_without_effect_in_all_trials_is_refused():
    ineffective = ["search.noise.concentration=1..9", "learn.epochs=1..2"]
    with pytest.raises(UserError, match="concentration has no effect"):
        plan(*ineffective)
    plan(*ineffective, "search.noise.fraction=0|0.25")


def require_refusal(tmp_path, capsys, message_part, *arguments):
    folder = tmp_path / "t"
    assert main(["tune", GAME, "--preset", "smoke", "--folder", str(folder), *arguments]) == 2
    message = capsys.readouterr().err
    assert message_part in message
    assert message.count("\n") == 1
    assert not folder.exists()


# Shared trials


def test_known_optimum_is_found_reproducibly(tmp_path):
    reports = []
    for name in ("one", "two"):
        store = TrialStore(tmp_path / name, plan())
        work_on_trials(store, 50, distance)
        reports.append(TuningReport.from_store(store, plan()))
    first, second = reports
    assert [result.setting_values for result in first.results] == [
        result.setting_values for result in second.results
    ]
    assert abs(first.best_result.setting_values["search.selection.c"] - 2) < 0.25
    assert (
        first.best_result.setting_values["learn.loss"],
        first.best_result.setting_values["learn.epochs"],
    ) == ("sum", 3)
    assert sum(first.importance.values()) == pytest.approx(1)
    equal = TrialStore(tmp_path / "equal", plan())
    work_on_trials(equal, 12, lambda claimed: claimed.complete([0.5], {}))
    assert TuningReport.from_store(equal, plan()).importance == {}
    # A random trial is this close to c with probability 1/7 and has the other values with 1/10.
    late = first.results[30:]
    assert sum(result.setting_values["learn.loss"] == "sum" for result in late) > 0.75 * len(late)


def test_processes_share_trials_and_resume_those_of_killed_ones(tmp_path):
    context = fork_server_context("zerolab.tuning.search")
    work = [
        context.Process(target=tuning_trials.work_and_die, args=(tmp_path, 12, 6)) for _ in range(2)
    ]
    for each in work:
        each.start()
    for each in work:
        each.join(timeout=120)
    assert [each.exitcode for each in work] == [-9, -9]  # both died in trial 6
    ran = sorted(int(path.name[1:].partition("-")[0]) for path in tmp_path.glob("runs/.*.ran"))
    store = TrialStore(tmp_path, plan())
    work_on_trials(store, 12, distance)
    results = trial_results(store)
    assert [each.number for each in results] == list(range(12))
    assert all(each.state == "complete" for each in results)
    assert {number for number in ran if ran.count(number) > 1} == {6}
    assert set(range(6)) <= set(ran)


def test_stopped_trial_is_resumed_with_its_values(tmp_path):
    store, seen = TrialStore(tmp_path, plan()), []

    def stop(claimed):
        seen.append(claimed.values)
        if claimed.number == 2:
            raise KeyboardInterrupt
        distance(claimed)

    with pytest.raises(KeyboardInterrupt):
        work_on_trials(store, 4, stop)
    with open(
        tmp_path / "journal.jsonl", "ab"
    ) as file:  # partial line of a process killed while writing
        file.write(b'{"schema": 1, "op_co')
    reopened = TrialStore(tmp_path, plan())
    with reopened.claim_trial(4) as claimed, store.claim_trial(4) as other:
        assert (claimed.number, other.number) == (2, 3)
        assert claimed.values == seen[2]
        with TrialStore(tmp_path, plan()).claim_trial(4) as unclaimed:
            assert unclaimed is None
        distance(claimed)
        distance(other)
    assert [each.state for each in trial_results(reopened)] == ["complete"] * 4


def test_trial_that_another_process_completes_meanwhile_is_not_claimed(tmp_path, monkeypatch):
    store, other = TrialStore(tmp_path, plan()), TrialStore(tmp_path, plan())
    lock = TrialStore._lock
    with ExitStack() as claims:
        claimed = claims.enter_context(other.claim_trial(3))

        def lock_after_completion(self, number):
            if number == 0 and self is store:  # `store` has just seen that trial 0 is running
                distance(claimed)
                claims.close()
            return lock(self, number)

        monkeypatch.setattr(TrialStore, "_lock", lock_after_completion)
        with store.claim_trial(3) as mine:
            assert mine.number == 1
            distance(mine)
    assert [each.state for each in trial_results(store)] == ["complete"] * 2


def test_search_killed_before_any_journal_line_resumes_to_the_same_journal(tmp_path, monkeypatch):
    """This includes kills between two values of a trial, which use separate streams."""
    trials, original_append = 2, TrialJournal.append_logs
    work_on_trials(TrialStore(tmp_path / "whole", plan()), trials, distance)
    uninterrupted, moment = contents(tmp_path / "whole"), 0
    while True:
        folder, lines = tmp_path / str(moment), 0

        def append(self, logs, last=moment):
            nonlocal lines
            if lines == last:
                raise KeyboardInterrupt
            lines += 1
            original_append(self, logs)

        monkeypatch.setattr(TrialJournal, "append_logs", append)
        try:
            work_on_trials(TrialStore(folder, plan()), trials, distance)
            break
        except KeyboardInterrupt:
            moment += 1
        monkeypatch.undo()
        work_on_trials(TrialStore(folder, plan()), trials, distance)
        assert contents(folder) == uninterrupted, f"killed before line {moment}"
    assert moment == len(uninterrupted["journal.jsonl"]) > 10


@pytest.mark.parametrize("operation", [{"op_code": 99}, {"op_code": "x"}, {}])
def test_unknown_operations_in_a_journal_are_reported(tmp_path, operation):
    TrialStore(tmp_path, plan())
    TrialJournal(tmp_path / "journal.jsonl").append_logs([operation])
    with pytest.raises(UserError, match=r"journal.jsonl is damaged"):
        TrialStore(tmp_path, plan())


@pytest.mark.parametrize("content", ["precious, without a line end", None])
def test_journal_is_not_written_through_links(tmp_path, content):
    precious = tmp_path / "precious"
    if content is not None:
        precious.write_text(content)
    (tmp_path / "journal.jsonl").symlink_to(precious)
    with pytest.raises(UserError, match="it is a link"):
        TrialJournal(tmp_path / "journal.jsonl").append_logs([{"op_code": 0}])
    assert (precious.read_text() if precious.exists() else None) == content


def test_refused_trials_are_never_best(tmp_path):
    store = TrialStore(tmp_path, plan())

    def run(claimed):
        if claimed.values["learn.loss"] == "product":
            claimed.refuse("never that")
        else:
            distance(claimed)

    work_on_trials(store, 30, run)
    results = trial_results(store)
    refusals = [result for result in results if result.state == "refused"]
    assert refusals
    assert {result.setting_values["learn.loss"] for result in refusals} == {"product"}
    assert refusals[0].summary("loss") == "refused: never that"
    assert sum(result.number >= 15 for result in refusals) < 6  # the sampler avoids them later


def test_damaged_journals_and_other_searches_are_refused(tmp_path):
    work_on_trials(TrialStore(tmp_path, plan()), 3, distance)
    path = tmp_path / "journal.jsonl"
    whole = path.read_bytes()
    for index in range(0, len(whole), 97):
        path.write_bytes(whole[:index] + bytes([whole[index] ^ 4]) + whole[index + 1 :])
        with pytest.raises(UserError, match=r"damaged|schema"):
            TrialStore(tmp_path, plan())
    path.write_bytes(whole)
    assert len(TrialStore(tmp_path, plan()).trials()) == 3
    assert path.read_bytes() == whole
    path.unlink()
    (tmp_path / "runs" / "0000").mkdir()
    with pytest.raises(UserError, match="missing"):
        TrialStore(tmp_path, plan())
    with pytest.raises(UserError, match=r"learn\.epochs = \"1\.\.6\" differs from \"1\.\.5\""):
        TrialStore(tmp_path, plan(*tuning_trials.ASSIGNMENTS[:3], "learn.epochs=1..6"))
    with pytest.raises(UserError, match="objective"):
        TrialStore(tmp_path, plan(objective="elo"))
    with pytest.raises(UserError, match="game"):
        TrialStore(tmp_path, plan(game="gobang:4x4:3"))


def test_front_contains_undominated_trials():
    def trial(number, objective, hours, state="complete"):
        return TrialResult(number, state, {}, Interval.unbounded(objective), hours, "")

    trials = [
        trial(0, 0.5, 1.0), trial(1, 0.4, 2.0), trial(2, 0.9, 5.0), trial(3, 0.7, 2.0),
        trial(4, 0.7, 3.0), trial(5, 1.0, 0.1, "pruned"), trial(6, 0.5, 1.0),
    ]  # fmt: skip
    assert [each.number for each in pareto_front_results(trials, settings("elo"))] == [0, 3, 2]
    assert best_result(trials, settings("loss")).number == 1
    tied = [trial(0, 0.5, 2.0), trial(1, 0.5, 1.0)]
    assert best_result(tied, settings("elo")).number == 0
    assert best_result(tied, settings("elo", and_time=True)).number == 1
    assert [each.number for each in pareto_front_results(trials, settings("loss"))] == [0, 1]
