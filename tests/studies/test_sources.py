"""Study runs that learn from the networks of other runs."""

from __future__ import annotations

from studies.tiny_studies import GAME, Tiny, execution_in, finished_run
from zerolab.store.arrays import read_network_file
from zerolab.studies.design import Design, plan_run
from zerolab.studies.tasks import LocalWorkers
from zerolab.training.configure import saved_settings
from zerolab.training.inputs import FEATURE_NETWORK_FILE_NAME, features_head

SMALL = {
    "network": {"name": "resnet", "blocks": 1, "filters": 4, "head_filters": 1, "hidden": 0},
    "learn.symmetries": "none",
}
LEARNER = {**SMALL, "network.heads": ["policy", "value", {"name": "features", "plies": [0, 2]}]}


class Sourced(Tiny):
    """A run that learns the features of another run, which is planned after it."""

    name = "sourced"

    def design(self, scale, seeds):
        source = plan_run("a", GAME, "smoke", {"way": "source"}, SMALL)
        learner = plan_run("a", GAME, "smoke", {"way": "learner"}, LEARNER, feature_run=source)
        return Design([learner, source])


def test_run_waits_for_its_source(tmp_path):
    execution = execution_in(tmp_path, Sourced())
    assert execution.perform_all(LocalWorkers(2), lambda view: None) == {}
    learner, source = (finished_run(execution, run) for run in execution.results().runs)
    stored = read_network_file(source.weights_path(source.progress.best))
    head = features_head(saved_settings(learner))
    assert head.source == Sourced().planned_design("smoke").runs[1].key
    assert (head.digest, head.width) == (stored.digest, 2 * 9)
    assert (
        learner.path_of_copy_from_source_run(FEATURE_NETWORK_FILE_NAME).read_bytes()
        == stored.content
    )


def test_damaged_source_fails_only_runs_that_need_it(tmp_path):
    class WithOthers(Sourced):
        def design(self, scale, seeds):
            other = plan_run("b", GAME, "smoke", {"way": "other"}, SMALL, seed=1)
            return Design([*super().design(scale, seeds).runs, other])

    class OnlySource(Sourced):
        name = "only-source"

        def design(self, scale, seeds):
            return Design([super().design(scale, seeds).runs[1]])

    assert (
        execution_in(tmp_path, OnlySource()).perform_all(LocalWorkers(1), lambda view: None) == {}
    )
    sources = execution_in(tmp_path, OnlySource())
    run = finished_run(sources, sources.results().runs[0])
    run.weights_path(run.progress.best).write_bytes(b"damaged")
    execution = execution_in(tmp_path, WithOthers())
    failures = execution.perform_all(LocalWorkers(1), lambda view: None)
    assert list(failures) == ["a: learner/seed=0"]
    assert "is damaged" in failures["a: learner/seed=0"][0]
    assert {run.factors["way"] for run in execution.results().runs} >= {"other"}


def test_key_depends_on_the_source():
    learner, source = Sourced().planned_design("smoke").runs
    other = plan_run("a", GAME, "smoke", {"way": "source"}, SMALL, seed=1)
    assert other.key != source.key
    repeated = plan_run("a", GAME, "smoke", {"way": "learner"}, LEARNER, feature_run=source)
    assert repeated.key == learner.key
    changed = plan_run("a", GAME, "smoke", {"way": "learner"}, LEARNER, feature_run=other)
    assert changed.key != learner.key


def test_run_without_its_source_is_not_started(tmp_path):
    class WithoutSource(Sourced):
        def design(self, scale, seeds):
            learner, _ = super().design(scale, seeds).runs
            return Design([learner])

    execution = execution_in(tmp_path, WithoutSource())
    assert execution.perform_all(LocalWorkers(1), lambda view: None) == {}
    assert execution.progress().finished_runs == 0
