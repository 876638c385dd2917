"""Short studies for tests."""

from __future__ import annotations

from zerolab.studies.design import Design, PlannedTournament, planned_run
from zerolab.studies.study import Study
from zerolab.studies.work import StudyWork

GAME = "gobang:3x3:3"


def planned(loss, seed, part="a", **changes):
    return planned_run(part, GAME, "smoke", {"loss": loss}, {"learn.loss": loss, **changes}, seed)


class Tiny(Study):
    """Two losses with two seeds each, and a tournament."""

    name = "tiny"

    def design(self, scale):
        runs = [planned(loss, seed) for loss in ("sum", "value") for seed in range(2)]
        entrants = {run.label: run for run in runs}
        return Design(runs, [PlannedTournament("a", GAME, entrants, games=4, openings=2)])

    def document(self, results):
        raise NotImplementedError


class Small(Tiny):
    """Two runs and their tournament."""

    def design(self, scale):
        runs = [planned(loss, 0) for loss in ("sum", "value")]
        entrants = {run.label: run for run in runs}
        return Design(runs, [PlannedTournament("a", GAME, entrants, games=2)])


def study_work_in(root, study=None):
    return StudyWork.of(study or Tiny(), "smoke", root)
