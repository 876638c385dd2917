"""Settings: every mistake is told in one line with its dotted key."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

import pytest
from pydantic import Field, model_validator

from zerolab.core.config import (
    Choice,
    Settings,
    assign,
    choice_among,
    choice_from,
    parse_assignments,
    validate,
)
from zerolab.core.errors import UserError


class Puct(NamedTuple):
    """The rule of AlphaZero."""

    c: Annotated[float, Field(gt=0)] = 1.0


class Rave(NamedTuple):
    """Two fields, one of them without a default."""

    equivalence: Annotated[int, Field(ge=1)]
    c: Annotated[float, Field(gt=0)] = 1.0


class Learn(Settings):
    epochs: int = Field(10, ge=1)
    rate: float = Field(0.005, gt=0, le=1)
    order: Literal["all", "random"] = "all"
    shuffled: bool = True


RULES: dict[str, type[Choice]] = {
    "puct": choice_from(Puct, "puct"),
    "rave": choice_from(Rave, "rave"),
}


class Demo(Settings):
    title: str = "demo"
    learn: Learn = Learn()
    rule: choice_among(RULES) = RULES["puct"]()  # type: ignore[valid-type]

    @model_validator(mode="after")
    def _plausible(self) -> Demo:
        if self.title == "impossible":
            raise ValueError("title and learn contradict each other")
        return self


def complaints(data: dict[str, Any]) -> list[str]:
    with pytest.raises(UserError) as caught:
        validate(Demo, data)
    return str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ({"lern": {}}, 'unknown setting "lern"; did you mean "learn"?'),
        ({"zzzzzz": 1}, 'unknown setting "zzzzzz"'),
        ({"learn": {"epoch": 5}}, 'unknown setting "learn.epoch"; did you mean "learn.epochs"?'),
        ({"rule": {"name": "puct", "cc": 1}}, 'unknown setting "rule.cc"; did you mean "rule.c"?'),
        ({"learn": {"epochs": 0}}, "learn.epochs = 0: expected at least 1"),
        ({"learn": {"rate": 0}}, "learn.rate = 0: expected more than 0.0"),
        ({"learn": {"rate": 2}}, "learn.rate = 2: expected at most 1.0"),
        ({"learn": {"rate": float("inf")}}, "learn.rate = inf: expected a finite number"),
        ({"learn": {"rate": float("nan")}}, "learn.rate = nan: expected a finite number"),
        ({"learn": {"epochs": "ten"}}, 'learn.epochs = "ten": expected a whole number'),
        ({"learn": {"epochs": 2.5}}, "learn.epochs = 2.5: expected a whole number"),
        ({"learn": {"shuffled": "maybe"}}, 'learn.shuffled = "maybe": expected true or false'),
        ({"learn": {"order": "any"}}, "learn.order = \"any\": expected 'all' or 'random'"),
        ({"learn": 5}, "learn = 5: expected a table of settings"),
        ({"title": 5}, "title = 5: expected a text"),
        (
            {"rule": {"name": "puckt"}},
            'rule.name = "puckt": expected one of puct, rave; did you mean "puct"?',
        ),
        ({"rule": {"c": 2}}, "rule.name is missing: expected one of puct, rave"),
        ({"rule": {"name": "puct", "c": -1}}, "rule.c = -1: expected more than 0.0"),
        ({"rule": {"name": "rave"}}, "rule.equivalence is missing"),
        ({"title": "impossible"}, "title and learn contradict each other"),
    ],
)
def test_mistakes(data: dict[str, Any], complaint: str) -> None:
    assert complaints(data) == [complaint]


def test_all_mistakes_are_told_with_their_source() -> None:
    with pytest.raises(UserError) as caught:
        validate(Demo, {"learn": {"epochs": 0, "rate": 2}, "rulle": 1}, source="run.toml")
    assert str(caught.value).splitlines() == [
        "run.toml: learn.epochs = 0: expected at least 1",
        "run.toml: learn.rate = 2: expected at most 1.0",
        'run.toml: unknown setting "rulle"; did you mean "rule"?',
    ]


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Demo().learn.epochs = 3  # type: ignore[misc]


def test_settings_survive_being_written_and_read() -> None:
    made = validate(Demo, {"rule": {"name": "rave", "equivalence": 30}, "learn": {"epochs": 2}})
    assert validate(Demo, made.model_dump()) == made


def test_a_choice_builds_its_value() -> None:
    made = validate(Demo, {"rule": {"name": "rave", "equivalence": 30}})
    built = made.rule.build()  # type: ignore[attr-defined]
    assert built == Rave(equivalence=30, c=1.0)
    assert type(built) is Rave


def test_a_registry_of_one_needs_no_name() -> None:
    class Lone(Settings):
        rule: choice_among({"puct": RULES["puct"]}) = RULES["puct"]()  # type: ignore[valid-type]

    assert validate(Lone, {"rule": {"c": 2}}).rule.build() == Puct(2.0)
    with pytest.raises(UserError, match=r'unknown setting "rule\.d"'):
        validate(Lone, {"rule": {"d": 2}})


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("learn.epochs=5", ["learn", "epochs"], 5),
        (" learn.rate = 1e-3 ", ["learn", "rate"], 1e-3),
        ("learn.shuffled=false", ["learn", "shuffled"], False),
        ("rule.name=rave", ["rule", "name"], "rave"),
        ('title="a = b"', ["title"], "a = b"),
        ("sizes=[1, 2]", ["sizes"], [1, 2]),
        ("title=", ["title"], ""),
    ],
)
def test_assignments(text: str, path: list[str], value: Any) -> None:
    assert parse_assignments([text]) == [(path, value)]


@pytest.mark.parametrize("text", ["learn.epochs", "=5", " = 5", ""])
def test_malformed_assignments(text: str) -> None:
    with pytest.raises(UserError, match="is not a setting: expected KEY=VALUE"):
        parse_assignments([text])


def test_assign_makes_tables_as_needed() -> None:
    data: dict[str, Any] = {"learn": {"epochs": 5}}
    assign(data, ["learn", "rate"], 0.1)
    assign(data, ["rule", "name"], "puct")
    assert data == {"learn": {"epochs": 5, "rate": 0.1}, "rule": {"name": "puct"}}


def test_assign_refuses_keys_of_a_value() -> None:
    with pytest.raises(UserError, match=r'"learn\.epochs" is a value, it has no keys'):
        assign({"learn": {"epochs": 5}}, ["learn", "epochs", "first"], 1)


def test_naming_another_choice_drops_the_former_ones_keys() -> None:
    data: dict[str, Any] = {"rule": {"name": "rave", "equivalence": 30, "c": 2.0}}
    assign(data, ["rule", "name"], "rave")
    assert data["rule"] == {"name": "rave", "equivalence": 30, "c": 2.0}
    assign(data, ["rule", "name"], "puct")
    assert data["rule"] == {"name": "puct"}
    validate(Demo, data)
