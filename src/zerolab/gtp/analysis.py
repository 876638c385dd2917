"""What a player thinks of a position, one line per move."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.interface import Player
from zerolab.agents.kinds.perfect import PerfectPlayer
from zerolab.agents.search_player import SearchPlayer
from zerolab.gtp.protocol import RefusedError
from zerolab.gtp.vertices import vertex
from zerolab.rules.position import Position

_SLOT = np.zeros(1, np.int64)


def analyse(player: Player, position: Position, keys: NDArray[np.uint64]) -> list[str]:
    """Return a line for every legal action of an ongoing position, the best one first.

    A search gives visits, prior and value (in [-1, 1], for the mover), perfect play the exact value
    (see `oracles.interface.Oracle`). Raises RefusedError for other players. `keys` is the random
    stream of the search, uint64[1].
    """
    if isinstance(player, SearchPlayer):
        player.choose(_SLOT, position.state[None], keys)
        return _search_lines(player, position)
    if not isinstance(player, PerfectPlayer):
        raise RefusedError(f"{player.name} neither searches nor solves")
    values = player.oracle.action_values(position.state[None])[0]
    best_first = sorted(position.legal_actions, key=lambda action: -values[action])
    return [f"{vertex(position, action)} value {values[action]}" for action in best_first]


def _search_lines(player: SearchPlayer, position: Position) -> list[str]:
    visits, values = (column[0] for column in player.search.root_actions(_SLOT))
    priors = player.search.root_priors(_SLOT)[0]
    best_first = sorted(position.legal_actions, key=lambda action: -visits[action])
    return [
        f"{vertex(position, action)} visits {visits[action]} prior {priors[action]:.4f}"
        f" value {values[action]:+.4f}"
        for action in best_first
    ]
