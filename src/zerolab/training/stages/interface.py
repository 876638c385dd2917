"""What a stage is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from zerolab.training.context import TrainingContext
from zerolab.training.records import Record


class Stage(ABC):
    """A step of training that is repeated as a whole if the run is killed during it.

    What it computes may depend on the settings, on `context.progress` and on what earlier stages
    have saved, and on nothing else: then a resumed run ends with the same bytes as one that was
    never stopped.
    """

    name: ClassVar[str]
    """How state.json and its records name it."""

    def is_due(self, context: TrainingContext) -> bool:
        """Return whether this iteration needs the stage."""
        return True

    @abstractmethod
    def run(self, context: TrainingContext) -> Sequence[Record]:
        """Do the work, save files, change `context.progress`; return what metrics.jsonl keeps."""
