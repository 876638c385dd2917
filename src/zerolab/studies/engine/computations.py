"""The computations of a design: which are finished, and which can be begun."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from zerolab.core.errors import UserError
from zerolab.studies.design import Design, PlannedComputation
from zerolab.studies.engine.layout import Failures, StudyFolder
from zerolab.studies.engine.tasks import ComputeTask


class Computations:
    """What is left of the computations; one whose result cannot be read is among the failures."""

    def __init__(self, folder: StudyFolder, design: Design) -> None:
        self.failures: Failures = {}
        """By title, computations whose results are damaged."""
        self._folder = folder
        self._planned = design.computations
        self._left = {each.key: each for each in design.computations if self._is_left(each)}
        self._queue = [each for each in self._left.values() if each.title not in self.failures]

    def _is_left(self, planned: PlannedComputation) -> bool:
        try:
            return self._folder.computed(planned) is None
        except UserError as error:
            self.failures[planned.title] = str(error).splitlines()
            return True

    def next(self, part: str) -> ComputeTask | None:
        """Return the next one of a part that can be begun now."""
        for planned in self._queue:
            if planned.part == part:
                self._queue.remove(planned)
                return ComputeTask(planned.title, planned.key, planned.function, planned.arguments)
        return None

    def finished(self, key: str, result: Mapping[str, float]) -> None:
        """Keep the result of a computation."""
        self._folder.save_computed(self._left[key], result)
        del self._left[key]

    def count(self, part: str | None = None) -> tuple[int, int]:
        """Return how many there are in a part, or in all, and how many of them are left."""
        return len(_of(self._planned, part)), len(_of(self._left.values(), part))

    def seconds(self, part: str | None = None) -> tuple[float, float]:
        """Return about how many seconds they take on one core, and how many are left."""
        every, left = _of(self._planned, part), _of(self._left.values(), part)
        return sum(each.seconds for each in every), sum(each.seconds for each in left)


def _of(computations: Iterable[PlannedComputation], part: str | None) -> list[PlannedComputation]:
    return [each for each in computations if part in (None, each.part)]
