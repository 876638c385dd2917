"""Action layouts and plane names declared by games."""

from __future__ import annotations

import pytest

from zerolab.core.errors import UserError
from zerolab.rules.catalogue import parse_game
from zerolab.rules.encoding import ENCODING_INTERFACE, ActionLayout, action_layout, plane_names


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("othello:6x8", ActionLayout("cells", 48, 1)),
        ("gobang:6x6", ActionLayout("cells", 36, 0)),
        ("hex:3x4", ActionLayout("cells", 12, 0)),
        ("connect_four:6x7", ActionLayout("columns", 7, 0)),
    ],
)
def test_action_layouts_are_declared_by_games(name, expected):
    assert action_layout(parse_game(name)) == expected


def test_plane_names_are_declared_by_games():
    assert plane_names(parse_game("othello:6x6")) == ("pieces",)
    assert plane_names(parse_game("hex:5x5")) == ("pieces", "edges to join")


@pytest.mark.parametrize(
    ("places", "message"),
    [
        (None, "action_places = None"),
        ("cell", 'action_places = "cell"'),
        ("cells", 'action_places = "cells" needs 42 actions'),
    ],
)
def test_invalid_action_layouts_are_refused(monkeypatch, places, message):
    game = parse_game("connect_four:6x7")
    monkeypatch.setattr(ENCODING_INTERFACE.implementation(type(game)), "action_places", places)
    with pytest.raises(UserError, match=message):
        action_layout(game)
