"""Settings suggested for unknown keys."""

from __future__ import annotations

import pytest

from zerolab.core.config import find_setting_key
from zerolab.core.errors import UserError
from zerolab.training.configure import resolve_settings
from zerolab.training.train_settings import TrainSettings


@pytest.mark.parametrize(
    ("assignment", "suggestion"),
    [
        ("learning_rate=0.1", "learn.learning_rate"),
        ("lr=0.1", "learn.learning_rate"),
        ("learn.lr=0.1", "learn.learning_rate"),
        ("learning_rat=0.1", "learn.learning_rate"),
        ("learn.learning_rat=0.1", "learn.learning_rate"),
        ("simulations=9", "search.simulations"),
        ("search.simulation=9", "search.simulations"),
        ("blocks=9", "network.blocks"),
        ("Episodes=9", "selfplay.episodes"),
        ("lern.epochs=9", "learn"),
    ],
)
def test_setting_is_suggested(assignment, suggestion):
    with pytest.raises(UserError) as caught:
        resolve_settings(None, "smoke", [assignment])
    assert str(caught.value).endswith(f'; did you mean "{suggestion}"?')


@pytest.mark.parametrize("key", ["zzzzzz", "x" * 5000])
def test_nothing_is_suggested_for_other_words(key):
    with pytest.raises(UserError) as caught:
        resolve_settings(None, "smoke", {key: 1}.items())
    assert "did you mean" not in str(caught.value)


def test_initials_need_several_words():
    assert find_setting_key(TrainSettings, "bs") == "learn.batch_size"
    assert find_setting_key(TrainSettings, "e") == ""
    assert find_setting_key(TrainSettings, "no-such-option") == ""


def test_unnamed_variant_is_the_default():
    assert resolve_settings(None, "smoke", ["search.selection.c=2"]).search.selection.c == 2
    settings = resolve_settings(None, "smoke", ["search.selection=uct", "search.selection.c=2"])
    assert settings.search.selection.name == "uct"
    assert resolve_settings("othello:6x6", "mini", ["gate.games=6"]).gate.name == "always"
    with pytest.raises(UserError, match="belongs to search"):
        resolve_settings(None, "smoke", ["search.selection.equivalence=2"])
