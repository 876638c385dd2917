"""What can be taken of another network; without imports, since the help of commands lists it."""

from typing import Literal

Transfer = Literal["trunk", "heads", "all", "channels"]
"""What settings of a run name."""

AskedTransfer = Literal["trunk", "frozen", "heads", "all", "channels"]
"""What commands and pages offer: those, and a trunk that keeps its weights."""
