"""What runs have cost, on one axis whatever machine they were trained on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from zerolab.api.arguments import require_path
from zerolab.core.errors import UserError, quoted, require
from zerolab.store.run_folder import RunFolder
from zerolab.training import costs as accounting
from zerolab.training import move_times as references
from zerolab.training.costs import IterationCost
from zerolab.training.move_times import CostReference

__all__ = ["CostReference", "IterationCost", "cost_to_reach", "read_reference", "run_costs"]


def read_reference(path: Path | str) -> CostReference:
    """Return the reference machine in a file that `zerolab cost --measure` has made."""
    require_path("path", path)
    return references.read_reference(Path(path))


def run_costs(path: Path | str, reference: CostReference | None = None) -> list[IterationCost]:
    """Return what the run in a folder has cost after each of its iterations, in order.

    With a reference machine, in its hours, too. Raises UserError where there is no run or nothing
    is finished, and where a network of the run was not measured on that machine.
    """
    require_path("path", path)
    require("reference", reference, CostReference | None, "what read_reference returns")
    return accounting.run_costs(RunFolder.open(Path(path)), reference)


def cost_to_reach(
    costs: Sequence[IterationCost], levels: Iterable[float]
) -> dict[float, IterationCost | None]:
    """Return, by level in [0, 1], what it cost to reach that strong accuracy with search.

    Costs are those of `run_costs`; the first iteration counts in which at least so much was
    measured, and a level that was not reached has None.
    """
    wanted = list(levels)
    for level in wanted:
        if not (isinstance(level, int | float) and 0 <= level <= 1):
            raise UserError(f"level = {quoted(level)}: expected a share from 0 to 1, such as 0.9")
    return accounting.cost_to_reach(costs, wanted)
