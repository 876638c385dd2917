"""``mcts:N``: UCT with N random playouts a move, without a network."""

from __future__ import annotations

from zerolab.agents.interface import KINDS
from zerolab.agents.playouts import PlayoutSearch
from zerolab.search.settings import mcts_settings

KINDS.add("mcts", PlayoutSearch("mcts", mcts_settings))
