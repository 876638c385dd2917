"""What a player thinks of a position, one line per move."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.analysis import MoveAnalysis, describe
from zerolab.agents.interface import Player
from zerolab.agents.kinds.perfect import PerfectPlayer
from zerolab.agents.search_player import SearchPlayer
from zerolab.gtp.protocol import RefusedError
from zerolab.gtp.vertices import vertex
from zerolab.rules.position import Position


def analyse(player: Player, position: Position, keys: NDArray[np.uint64]) -> list[str]:
    """Return a line for every legal action of an ongoing position, the best one first.

    A search gives visits, prior and value (in [-1, 1], for the mover), perfect play the exact value
    (see `oracles.interface.Oracle`). Raises RefusedError for other players. `keys` is the random
    stream of the search, uint64[1].
    """
    if not isinstance(player, SearchPlayer | PerfectPlayer):
        raise RefusedError(f"{player.name} neither searches nor solves")
    found = describe(player, position, keys)
    return [f"{vertex(position, move.action)} {_numbers(move)}" for move in found.moves]


def _numbers(move: MoveAnalysis) -> str:
    if move.visits is None:
        return f"value {move.value}"
    return f"visits {move.visits} prior {move.prior:.4f} value {move.value:+.4f}"
