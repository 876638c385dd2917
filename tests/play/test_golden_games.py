"""Self-play games from before searches had proofs, budgets and root rules.

The digests were recorded at commit 3cdbe3a. These features are off by default, and must then not
change any move.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from search.naive import HashEvaluator
from zerolab.play.selfplay import play_episodes
from zerolab.play.selfplay_settings import SelfPlaySettings
from zerolab.rules import rules
from zerolab.rules.catalogue import parse_game
from zerolab.search.search_settings import SearchSettings

DIGESTS = {
    "connect_four:5x5": "06c7c07858cbeee84d629961bd48ad6211997fefa2a979ed784f77fb5ea83d37",
    "gobang:4x4:3": "d9a0b2b7348f756221882109879b8be321d9f6e06ef78c6cd1cc76758c9d09d6",
    "othello:4x4": "bb9eed3fb35742d85f2070ba0716fd0d757e543baa1a95a982e6671e3a0273db",
}


@pytest.mark.parametrize("name", DIGESTS)
def test_disabled_features_change_no_move(name):
    game = parse_game(name)
    settings = SelfPlaySettings(episodes=12, parallel_games=5, temperature_plies=4)
    noise = {"fraction": 0.25, "concentration": 10.0}
    search = SearchSettings.model_validate(
        {"simulations": 20, "noise": noise, "fpu": {"name": "parent", "reduction": 0.2}}
    )
    played = play_episodes(game, settings, search, HashEvaluator(rules.action_count(game)), 7, 2)
    moves = [np.asarray([*record.actions, -1], np.int64) for record in played.games]
    assert hashlib.sha256(np.concatenate(moves).tobytes()).hexdigest() == DIGESTS[name]
