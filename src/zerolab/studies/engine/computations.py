"""What a design computes besides runs and games: what is finished, and what can be begun."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from zerolab.core.errors import UserError
from zerolab.core.files import make_folder
from zerolab.studies.design import Design, PlannedComputation, PlannedPositions
from zerolab.studies.engine.layout import Failures, StudyFolder
from zerolab.studies.engine.tasks import ComputeTask, PositionsTask

_Planned = PlannedComputation | PlannedPositions


class Computations:
    """What is left of computations and of solved positions, on which runs wait.

    A computation whose result cannot be read is among the failures.
    """

    def __init__(self, folder: StudyFolder, design: Design) -> None:
        self.failures: Failures = {}
        """By title, computations whose results are damaged."""
        self._folder = folder
        self._planned: list[_Planned] = [*design.positions, *design.computations]
        self._left = {each.key: each for each in self._planned if self._is_left(each)}
        self._queue = [each for each in self._left.values() if each.title not in self.failures]

    def _is_left(self, planned: _Planned) -> bool:
        if isinstance(planned, PlannedPositions):
            return not self._folder.has_positions(planned)
        try:
            return self._folder.computed(planned) is None
        except UserError as error:
            self.failures[planned.title] = str(error).splitlines()
            return True

    def next(self, part: str) -> ComputeTask | PositionsTask | None:
        """Return the next one of a part that can be begun now."""
        for planned in self._queue:
            if planned.part == part:
                self._queue.remove(planned)
                return self._task(planned)
        return None

    def _task(self, planned: _Planned) -> ComputeTask | PositionsTask:
        if isinstance(planned, PlannedComputation):
            return ComputeTask(planned.title, planned.key, planned.function, planned.arguments)
        path = self._folder.positions_path(planned)
        make_folder(path.parent)
        settings = planned.settings.model_dump(mode="json")
        return PositionsTask(
            planned.title, planned.key, str(path), planned.game, planned.count, settings
        )

    def finished(self, task: ComputeTask | PositionsTask, result: Any) -> None:
        """Keep the result of a task."""
        planned = self._left.pop(task.key)
        if isinstance(planned, PlannedPositions):
            self._folder.save_positions(planned, result)
        else:
            self._folder.save_computed(planned, result)

    def count(self, part: str | None = None) -> tuple[int, int]:
        """Return how many there are in a part, or in all, and how many of them are left."""
        return len(_of(self._planned, part)), len(_of(self._left.values(), part))

    def seconds(self, part: str | None = None) -> tuple[float, float]:
        """Return about how many seconds they take on one core, and how many are left."""
        every, left = _of(self._planned, part), _of(self._left.values(), part)
        return sum(each.seconds for each in every), sum(each.seconds for each in left)


def _of(planned: Iterable[_Planned], part: str | None) -> list[_Planned]:
    return [each for each in planned if part in (None, each.part)]
