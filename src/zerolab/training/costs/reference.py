"""A reference machine: how long a move takes on it, for every network that was measured there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Protocol

from pydantic import Field

from zerolab.core.config import Settings, validate
from zerolab.core.errors import UserError, quoted
from zerolab.core.files import write_text
from zerolab.store.checks import check_schema, damaged, read_bytes, reading
from zerolab.training.costs.moves import MoveKind

SCHEMA = 1
_LARGEST = 1 << 24


class Machine(Settings):
    """What was measured on."""

    processor: str
    """The processor's model."""
    device: str
    """What networks compute on: the name of the GPU, or cpu."""
    precision: str
    """In what they compute: float32 or bfloat16."""
    cores: int = Field(ge=1)
    """Cores that self-play had."""


class MeasuredMove(Settings):
    """How long a move takes that is searched in full."""

    kind: MoveKind
    milliseconds: float = Field(gt=0)
    """Wall clock of the whole machine divided by moves: the median of all rounds."""
    low: float = Field(gt=0)
    """Lower end of the median's interval of at least 95 %."""
    high: float = Field(gt=0)
    """Upper end of that interval."""
    rounds: int = Field(ge=1)
    moves: int = Field(ge=1)
    """Moves per round."""
    simulations_per_move: float = Field(gt=0)
    """Mean simulations of these moves: fewer than asked for where results are proven."""
    parallel_games: int = Field(ge=1)
    """Games in progress at once."""

    @property
    def milliseconds_per_simulation(self) -> float:
        """Milliseconds of a move, divided by its simulations."""
        return self.milliseconds / self.simulations_per_move


class MoveTimes(Protocol):
    """Knows how long moves take on one machine."""

    def of(self, kind: MoveKind) -> MeasuredMove | None:
        """Return the measurement of a kind of moves, None if there is none."""
        ...


class CostReference(Settings):
    """The moves measured on one machine."""

    machine: Machine
    moves: tuple[MeasuredMove, ...] = ()

    def of(self, kind: MoveKind) -> MeasuredMove | None:
        """Return the measurement of a kind of moves, None if there is none."""
        return next((each for each in self.moves if each.kind == kind), None)

    def extended(self, measured: MeasuredMove) -> CostReference:
        """Return the reference with a measurement added, or put in the place of a former one."""
        others = tuple(each for each in self.moves if each.kind != measured.kind)
        return self.model_copy(update={"moves": (*others, measured)})


def read_reference(path: Path) -> CostReference:
    """Return the reference in a file; raise UserError if it is missing, damaged or newer."""
    if not path.exists():
        raise UserError(
            f"{quoted(path)} does not exist: expected a file that zerolab cost --measure has made"
        )
    content = read_bytes(path, _LARGEST)
    with reading(path):
        table: Any = json.loads(content.decode())
    if not isinstance(table, dict):
        raise damaged(path, "it is no table")
    check_schema(path, table.pop("schema_version", None), SCHEMA)
    return validate(CostReference, table, source=str(path))


def write_reference(path: Path, reference: CostReference) -> None:
    """Replace a reference's file in one step; raise UserError where it cannot be written."""
    table = {"schema_version": SCHEMA, **reference.model_dump(mode="json")}
    write_text(path, json.dumps(table, indent=1) + "\n")


def reference_to_extend(path: Path, machine: Machine) -> CostReference:
    """Return the reference of a machine that measurements are to be added to, a new one if none.

    Raises UserError for a file of another machine: a reference has one.
    """
    if not path.exists():
        return CostReference(machine=machine)
    found = read_reference(path)
    for name, value in machine.model_dump().items():
        if (known := getattr(found.machine, name)) != value:
            raise UserError(
                f"{quoted(path)} is of a machine with {name} = {quoted(known)}, this one has"
                f" {quoted(value)}: expected another --reference"
            )
    return found
