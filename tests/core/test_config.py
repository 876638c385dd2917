"""Validation and assignment of settings, with one line per mistake."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import pytest
from pydantic import Field, model_validator

from zerolab.core.config import (
    Settings,
    VariantSettings,
    validate,
    variant_annotation,
    variant_settings_class,
)
from zerolab.core.errors import UserError
from zerolab.core.nested_tables import (
    assign,
    parse_assignments,
    read_toml,
    string_assignment,
)


class Puct(NamedTuple):
    """AlphaZero's selection rule."""

    c: Annotated[float, Field(gt=0)] = 1.0


class Rave(NamedTuple):
    """A rule with a field that has no default."""

    equivalence: Annotated[int, Field(ge=1)]
    c: Annotated[float, Field(gt=0)] = 1.0


class Learn(Settings):
    epochs: int = Field(10, ge=1)
    rate: float = Field(0.005, gt=0, le=1)
    order: Literal["all", "random"] = "all"
    shuffled: bool = True
    sizes: tuple[int, ...] = ()
    limit: Annotated[float, Field(gt=0)] | None = None
    kernel: Literal[1, 3] = 1


RULES: dict[str, type[VariantSettings]] = {
    "puct": variant_settings_class(Puct, "puct"),
    "rave": variant_settings_class(Rave, "rave"),
}


class Demo(Settings):
    title: str = "demo"
    learn: Learn = Learn()
    rule: variant_annotation(RULES) = RULES["puct"]()  # type: ignore[valid-type]

    @model_validator(mode="after")
    def _plausible(self) -> Demo:
        if self.title == "impossible":
            raise ValueError("title and learn contradict each other")
        return self


def error_lines(data: dict[str, Any]) -> list[str]:
    with pytest.raises(UserError) as caught:
        validate(Demo, data)
    return str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("data", "message"),
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
        ({"learn": {"epochs": True}}, 'learn.epochs = "true": expected a whole number'),
        ({"learn": {"rate": False}}, 'learn.rate = "false": expected a number'),
        ({"learn": {"sizes": [1, True]}}, 'learn.sizes.1 = "true": expected a whole number'),
        ({"learn": {"limit": True}}, 'learn.limit = "true": expected a number'),
        ({"learn": {"kernel": True}}, 'learn.kernel = "true": expected 1 or 3'),
        ({"learn": {"order": True}}, "learn.order = True: expected 'all' or 'random'"),
        ({"title": True}, "title = True: expected a string"),
        ({"learn": {"shuffled": "maybe"}}, 'learn.shuffled = "maybe": expected true or false'),
        ({"learn": {"order": "any"}}, "learn.order = \"any\": expected 'all' or 'random'"),
        ({"learn": 5}, "learn = 5: expected a table of settings"),
        ({"title": 5}, "title = 5: expected a string"),
        (
            {"rule": {"name": "puckt"}},
            'rule.name = "puckt": expected one of puct, rave; did you mean "puct"?',
        ),
        ({"rule": {"c": 2}}, "rule.name is missing: expected one of puct, rave"),
        ({"rule": {"name": "puct", "c": -1}}, "rule.c = -1: expected more than 0.0"),
        ({"rule": {"name": "rave"}}, "rule.equivalence is missing"),
        (
            {"rule": {"name": "puct", "equivalence": 9}},
            'rule.equivalence belongs to rule = "rave", but rule = "puct" here: expected rule=rave',
        ),
        ({"rule": 7}, "rule = 7: expected one of puct, rave"),
        ({"title": "impossible"}, "title and learn contradict each other"),
    ],
)
def test_mistakes_are_reported_with_dotted_key(data: dict[str, Any], message: str) -> None:
    assert error_lines(data) == [message]


def test_misspelt_table_means_the_one_next_to_it() -> None:
    class Start(Settings):
        learn: dict[str, Any] = Field(default_factory=dict)

    class WithTwoTables(Settings):
        learn: Learn = Learn()
        start: Start = Start()

    with pytest.raises(UserError, match=r'unknown setting "lern"; did you mean "learn"\?'):
        validate(WithTwoTables, {"lern": {}})


def test_list_with_invalid_items_is_not_called_too_short() -> None:
    class Ranges(Settings):
        c: Annotated[list[int], Field(min_length=2)]

    with pytest.raises(UserError) as caught:
        validate(Ranges, {"c": ["x", 2]})
    assert str(caught.value) == 'c.0 = "x": expected a whole number'
    with pytest.raises(UserError, match="a list of at least 2"):
        validate(Ranges, {"c": [2]})


def test_first_mistakes_of_many_are_reported() -> None:
    lines = error_lines({f"unknown {number}": 0 for number in range(20_000)})
    assert len(lines) == 21
    assert lines[-1] == "and 19,980 more errors"


def test_all_mistakes_are_reported_with_their_source() -> None:
    with pytest.raises(UserError) as caught:
        validate(Demo, {"learn": {"epochs": 0, "rate": 2}, "rulle": 1}, source="run.toml")
    assert str(caught.value).splitlines() == [
        "run.toml: learn.epochs = 0: expected at least 1",
        "run.toml: learn.rate = 2: expected at most 1.0",
        'run.toml: unknown setting "rulle"; did you mean "rule"?',
    ]


@pytest.mark.parametrize(
    "assignment",
    [
        "learn.epochs=" + 5000 * "x",
        "learn.epochs=" + 5000 * "7",
        "learn.epochs=-" + 5000 * "7",
        "learn.epochs=" + 5000 * "[" + 5000 * "]",
        "learn.epochs=" + 200 * "[" + 200 * "]",
        "learn.epochs=" + 200 * "{a=" + "1" + 200 * "}",
        "learn.epochs=[" + 5000 * "1," + "]",
        "learn.rate=" + 400 * "9",
        "learn.rate=1" + 5000 * "0",
        "learn.order=" + 5000 * "[" + 5000 * "]",
        "learn.order=" + 5000 * "al",
        "rule.name=" + 5000 * "x",
        "rule.name=" + 200 * "[" + 200 * "]",
        "rule=" + 5000 * "x",
        "learn=" + 5000 * "x",
        5000 * "x" + "=1",
        5000 * "x",
        5000 * "learn." + "x=1",
        20 * "learn." + "x=1",
        "learn." + 5000 * "x" + "=1",
        "learn.epochs=a\nb",
        "le\narn.epochs=1",
    ],
    ids=lambda assignment: assignment[:30],
)
def test_invalid_assignments_get_one_short_line(assignment: str) -> None:
    with pytest.raises(UserError) as caught:
        data: dict[str, Any] = {}
        for path, value in parse_assignments([assignment]):
            assign(data, path, value)
        validate(Demo, data)
    assert len(str(caught.value)) < 250
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("text", ["4000", "0x1000"])
def test_long_values_are_accepted(text: str) -> None:
    title, digits = "a" + 5000 * "!", text[:-1] + 3000 * text[-1]
    data: dict[str, Any] = {}
    for path, value in parse_assignments([f"title={title}", f"learn.epochs={digits}"]):
        assign(data, path, value)
    demo = validate(Demo, data)
    assert (demo.title, demo.learn.epochs) == (title, int(digits, 0))


def test_value_with_further_assignments_is_refused() -> None:
    with pytest.raises(UserError, match="expected a single value"):
        parse_assignments(["learn.epochs=5\nlearn.rate=0.1"])


@pytest.mark.parametrize("text", ["7", "true", 'a "b"', "x\x7f", "\x00\x1f", "é\u2028", "\\"])
def test_string_assignments_keep_their_text(text: str) -> None:
    assert parse_assignments([string_assignment("title", text)]) == [(["title"], text)]


def test_toml_file_is_read_as_utf8(tmp_path: Path) -> None:
    path = tmp_path / "preset.toml"
    path.write_text("title = 'ñ'\n[learn]\nepochs = 3\n", encoding="utf-8")
    assert read_toml(path) == {"title": "ñ", "learn": {"epochs": 3}}


@pytest.mark.parametrize(
    "content",
    [b"a = ", b"\xff = 1", b"a = " + 5000 * b"1", b"a = " + 5000 * b"[", b"a" * 2**21],
    ids=["malformed", "not UTF-8", "many digits", "nested deeply", "too large"],
)
def test_invalid_toml_files_get_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "preset.toml"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"preset\.toml") as caught:
        read_toml(path)
    assert len(str(caught.value)) < 400 + len(str(path))
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    "deep",
    [
        "a" + 30_000 * ".a" + " = 1",
        "[a" + 30_000 * " . a" + "]",
        'x = {"a"' + 30_000 * '."a"' + " = 1}",
        "# '\na" + 30_000 * ".a" + " = 1 # '",
        '# """\na' + 30_000 * ".a" + ' = 1 # """',
        'x = [{a = """b"""", a' + 30_000 * ".a" + ' = "1"}]',
    ],
    ids=["key", "table", "inline", "after a comment", "between comments", "after quotes"],
)
def test_keys_with_too_many_parts_are_refused_before_parsing(tmp_path: Path, deep: str) -> None:
    path = tmp_path / "preset.toml"
    path.write_text(f"title = 'ñ'\n{deep}\n")
    with pytest.raises(UserError, match="a key has more than 20 parts"):
        read_toml(path)


@pytest.mark.parametrize("quotes", ['"', "'", '"""', "'''"])
def test_dots_in_strings_and_comments_are_allowed(tmp_path: Path, quotes: str) -> None:
    path, text = tmp_path / "preset.toml", "a.b." * 20
    path.write_text(f"# {text}\ntitle = {quotes}{text}{quotes} # {text}\n")
    assert read_toml(path) == {"title": text}


def test_long_lists_of_mistakes_are_truncated() -> None:
    with pytest.raises(UserError) as caught:
        validate(Demo, {f"k{number}": 1 for number in range(5000)}, source="run.toml")
    lines = str(caught.value).splitlines()
    assert len(lines) == 21
    assert lines[-1] == "run.toml: and 4,980 more errors"


def test_settings_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Demo().learn.epochs = 3  # type: ignore[misc]


def test_settings_round_trip_through_dict() -> None:
    settings = validate(Demo, {"rule": {"name": "rave", "equivalence": 30}, "learn": {"epochs": 2}})
    assert validate(Demo, settings.model_dump()) == settings


def test_variant_builds_its_value() -> None:
    settings = validate(Demo, {"rule": {"name": "rave", "equivalence": 30}})
    built = settings.rule.build()  # type: ignore[attr-defined]
    assert built == Rave(equivalence=30, c=1.0)
    assert type(built) is Rave


def test_only_variant_needs_no_name() -> None:
    class Lone(Settings):
        rule: variant_annotation({"puct": RULES["puct"]}) = RULES["puct"]()  # type: ignore[valid-type]

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
def test_assignments_are_parsed(text: str, path: list[str], value: Any) -> None:
    assert parse_assignments([text]) == [(path, value)]


@pytest.mark.parametrize("name", ["rule", "rule.name"])
def test_selecting_a_variant_afterwards_drops_no_assigned_key(name: str) -> None:
    data: dict[str, Any] = {"rule": {"name": "rave", "equivalence": 30}}
    for path, value in parse_assignments(["rule.c=2.0", "seed=1", f"{name}=puct", "seed=2"]):
        assign(data, path, value)
    assert data == {"rule": {"name": "puct", "c": 2.0}, "seed": 2}


@pytest.mark.parametrize(
    ("assignments", "expected"),
    [
        (["rule.c=2.0", "rule={name='puct', c=3.0}"], {"name": "puct", "c": 3.0}),
        (["rule.c=2.0", "rule=5"], 5),
        (["rule.name=rave", "rule.c=2.0", "rule=puct"], {"name": "puct", "c": 2.0}),
        (["rule.hours=2", "rule=1h"], "1h"),
    ],
)
def test_later_values_of_a_setting_win(assignments: list[str], expected: Any) -> None:
    data: dict[str, Any] = {}
    for path, value in parse_assignments(assignments):
        assign(data, path, value)
    assert data["rule"] == expected


@pytest.mark.parametrize("text", ["learn.epochs", "=5", " = 5", ""])
def test_malformed_assignments_are_refused(text: str) -> None:
    with pytest.raises(UserError, match="is not a setting: expected KEY=VALUE"):
        parse_assignments([text])


def test_assign_creates_tables() -> None:
    data: dict[str, Any] = {"learn": {"epochs": 5}}
    assign(data, ["learn", "rate"], 0.1)
    assign(data, ["rule", "name"], "puct")
    assert data == {"learn": {"epochs": 5, "rate": 0.1}, "rule": {"name": "puct"}}


def test_assign_refuses_keys_below_value() -> None:
    with pytest.raises(UserError, match=r'"learn\.epochs" is a value'):
        assign({"learn": {"epochs": 5}}, ["learn", "epochs", "first"], 1)


def test_assign_finds_list_items_by_name() -> None:
    heads = ("policy", {"name": "reply", "weight": 0.35})
    data: dict[str, Any] = {"heads": heads, "after": [4, 8]}
    assign(data, ["heads", "reply", "weight"], 0.2)
    assign(data, ["heads", "policy", "weight"], 2)
    assert data["heads"] == [{"name": "policy", "weight": 2}, {"name": "reply", "weight": 0.2}]
    assert heads == ("policy", {"name": "reply", "weight": 0.35})
    with pytest.raises(UserError) as caught:
        assign(data, ["heads", "replie", "weight"], 1)
    message = '"heads" has no "replie": expected one of policy, reply; did you mean "reply"?'
    assert str(caught.value) == message
    for path in (["heads", "reply"], ["after", "first"], ["after", "0", "x"]):
        with pytest.raises(UserError, match=rf'"{path[0]}" is a list: expected {path[0]}=\['):
            assign(data, path, 1)


def test_changing_variant_drops_its_keys() -> None:
    data: dict[str, Any] = {"rule": {"name": "rave", "equivalence": 30, "c": 2.0}}
    assign(data, ["rule", "name"], "rave")
    assert data["rule"] == {"name": "rave", "equivalence": 30, "c": 2.0}
    assign(data, ["rule", "name"], "puct")
    assert data["rule"] == {"name": "puct"}
    validate(Demo, data)
