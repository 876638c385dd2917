"""Short studies for tests."""

from __future__ import annotations

from zerolab.store.run_folder import RunFolder
from zerolab.studies.design import Design, PlannedTournament, plan_run
from zerolab.studies.execution import StudyExecution
from zerolab.studies.study import Study

GAME = "gobang:3x3:3"


def planned(loss, seed, part="a", **changes):
    return plan_run(part, GAME, "smoke", {"loss": loss}, {"learn.loss": loss, **changes}, seed)


class Tiny(Study):
    """Two losses with two seeds each, and a tournament."""

    name = "tiny"

    def seed_count(self, scale):
        return 2

    def design(self, scale, seeds):
        runs = [planned(loss, seed) for loss in ("sum", "value") for seed in seeds]
        run_by_player = {run.label: run for run in runs}
        return Design(
            runs, [PlannedTournament("a", GAME, run_by_player, games_per_pair=4, opening_plies=2)]
        )

    def verdicts(self, results):
        return []

    def report(self, results):
        raise NotImplementedError


class Small(Tiny):
    """Two runs and their tournament."""

    def seed_count(self, scale):
        return 1

    def design(self, scale, seeds):
        runs = [planned(loss, seed) for loss in ("sum", "value") for seed in seeds]
        run_by_player = {run.label: run for run in runs}
        return Design(runs, [PlannedTournament("a", GAME, run_by_player, games_per_pair=2)])


def finished_run(execution, run):
    """Return the folder of a run in the results of a study."""
    return RunFolder.open(execution.folder.run_path(run.planned))


def execution_in(root, study=None):
    return StudyExecution.plan(study or Tiny(), "smoke", root)
