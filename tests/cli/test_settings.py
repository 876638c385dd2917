"""`zerolab settings`, descriptions of settings, and preset files."""

from __future__ import annotations

import json

import pytest
from pydantic import Field

from zerolab.cli.main import main
from zerolab.cli.reference import (
    all_settings,
    format_preset_values,
    preset_values,
    values_by_preset,
)
from zerolab.core.config import Settings
from zerolab.core.setting_docs import describe_settings, flatten_settings
from zerolab.training.configure import resolve_settings
from zerolab.training.shorthands import preset_names
from zerolab.training.train_settings import TrainSettings


class Inner(Settings):
    rate: float = Field(default=0.5, gt=0, lt=1)
    """How fast. Slowly. [Wang2019], [Wang2020a]: 0.1 ([Wang2020a] sweeps it). [Silver2018]: 0.2."""


class Outer(Settings):
    count: int = Field(default=3, ge=1, le=1000)
    """How many, over
    two lines."""

    inner: Inner = Inner()

    names: tuple[str, ...] = ("a",)
    """Some names."""

    workers: int = Field(default_factory=lambda: 7, json_schema_extra={"default": "one per core"})
    """How many workers."""


def test_descriptions_combine_field_and_docstring():
    count, rate, names, workers = describe_settings(Outer)
    assert count == (
        "count",
        "",
        "whole number",
        "from 1 to 1,000",
        3,
        "How many, over two lines.",
        "",
    )
    assert rate.key == "inner.rate"
    assert rate.bounds == "more than 0, less than 1"
    assert rate.description == "How fast. Slowly."
    assert rate.papers.startswith("[Wang2019], [Wang2020a]: 0.1")
    assert rate.papers.endswith("[Silver2018]: 0.2.")
    assert names.type == "list of texts"
    assert workers.default == "one per core"


def test_fields_of_variants_are_described():
    described = {
        (each.key, each.variant): each.description for each in describe_settings(TrainSettings)
    }
    assert described["search.fpu.value", "fixed"].startswith("Q of unvisited children")
    assert described["gate.threshold", "win_rate"].startswith("u: ")


def test_listed_defaults_do_not_depend_on_the_machine():
    threads = next(each for each in all_settings() if each.key == "selfplay.threads")
    assert threads.default == "one per core"
    assert format_preset_values(preset_values(), threads) == "default in all"


def test_list_of_names_prints_choices(capsys):
    assert main(["settings", "published_bugs"]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    names = "mirrored_policy | absolute_winner | fresh_optimizer | losses_as_draws"
    assert first == f"published_bugs: list of {names}; default empty"


def test_every_key_of_every_preset_is_listed(capsys):
    assert main(["settings", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    keys = {each["key"] for each in listed}
    for preset in preset_names():
        saved = dict(flatten_settings(resolve_settings(None, preset).model_dump()))
        assert saved.keys() <= keys
        for each in listed:
            if preset in each["presets"]:
                value = json.loads(json.dumps(saved[each["key"]]))
                assert each["presets"][preset] in (value, each["default"])


def test_every_setting_has_description():
    undocumented = {each.key for each in describe_settings(TrainSettings) if not each.description}
    assert not {key for key in undocumented if not key.startswith("search.")} - {"network"}


def test_choice_lists_settings_of_its_members(capsys):
    assert main(["settings", "search.selection"]) == 0
    text = capsys.readouterr().out
    assert "search.selection: puct | uct | rave; default puct" in text
    assert "search.selection.c (with puct): number, at least 0; default 1.0" in text
    assert "search.selection.equivalence (with rave)" in text


def test_settings_of_listed_choice_use_its_name():
    weight = next(each for each in all_settings() if each.key == "network.heads.outcome.weight")
    settings = resolve_settings(None, "connect4-baseline", [f"{weight.key}=0.5"]).model_dump()
    assert dict(flatten_settings(settings))[weight.key] == 0.5
    assert values_by_preset(preset_values(), weight)["connect4-baseline"] == 0.01


@pytest.mark.parametrize("pattern", ["learn.epochs", "EPOCHS", "learn.e*s", "*.epochs"])
def test_pattern_finds_setting(pattern, capsys):
    assert main(["settings", pattern]) == 0
    assert "learn.epochs: whole number" in capsys.readouterr().out


def test_unmatched_pattern_suggests_nearest_spelling(capsys):
    assert main(["settings", "epohcs"]) == 2
    assert 'did you mean "epochs"?' in capsys.readouterr().err


def test_preset_can_be_file(tmp_path):
    file = tmp_path / "own.toml"
    file.write_text('game = "gobang:3x3:3"\niterations = 7\n[learn]\nepochs = 3\n')
    settings = resolve_settings(None, str(file), ["learn.epochs=4"])
    assert (settings.iterations, settings.learn.epochs) == (7, 4)
    assert settings.preset == "own"


@pytest.mark.parametrize(
    ("content", "expected"),
    [("iterations = ", "is not a TOML file"), ("itertions = 3", 'did you mean "iterations"?')],
)
def test_mistakes_in_preset_file_are_reported(content, expected, tmp_path, capsys):
    file = tmp_path / "own.toml"
    file.write_text(content)
    assert main(["train", "--preset", str(file), "--run", str(tmp_path / "run")]) == 2
    assert expected in capsys.readouterr().err
