"""What can be taken of another network; imports little, since the help of commands needs it."""

from typing import Literal

Transfer = Literal["trunk", "heads", "all", "channels"]
"""What settings of a run name."""

AskedTransfer = Literal[Transfer, "frozen"]
"""What commands and pages offer: those, and a trunk that keeps its weights."""
