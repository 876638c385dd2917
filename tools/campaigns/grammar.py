"""Random command lines from the declared options of every command."""

from __future__ import annotations

import functools
import inspect
import random
import types
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import tyro

_BIG = (-1, 0, 1, 2, 3, 7, 1 << 31, (1 << 63) - 1, 1 << 63, 10**30)
_MODEST = ("-1", "0", "1", "2", "nan", "1e9999", "x", "")  # counts of processes or threads
_GAMES = ("gobang:3x3:3", "gobang:3x3", "othello:4x4", "connect_four:4x4:3", "gobang:8x8")
_NO_GAMES = (
    "gobang:0x0", "gobang:3x3:99", "chess", "gobang:3x3:3:3", "othello:99999999x2", "Othello:6X6",
    "othello:5x5", "gobang:-3x3", "connect_four:1x1",
)  # fmt: skip
_AGENTS = (
    "random", "mcts:4", "mcts:4?tie_break=random", "rave:4", "rhea:9", "trained", "trained@0",
    "trained@1?simulations=4", "agent.zerolab", 'gtp:"sleep 600"',
)  # fmt: skip
_NO_AGENTS = (
    "mcts:0", "mcts:99999999999", "mcts:4?simulations=7", "trained@99", "trained?search=x",
    "perfect", "best", "mcts", "trained@", "@1", "mcts:4?", "mcts:4?c=nan",
    "trained?simulations=1e9", 'gtp:"true"', "gtp:", "random?seed=1",
)  # fmt: skip
_PATHS = (
    "trained", "p.parquet", "games.pgn", "trained/games.sqlite", "played", "new", "a.zerolab",
    "b.onnx", "c.png", "d.svg",
)  # fmt: skip
_NO_PATHS = (
    "nowhere", "nowhere/deep/down", "e.toml", ".", "trained/config.toml",
    "", "..", "x" * 300, "trained/", "folder.png", "null.png", "pipe", "trained/state.json/x",
    "sp ace", "\x1b[2J.png", "\udcff.png", "ünï.svg",
)  # fmt: skip
_TEXTS = (
    "smoke", "mini", "nowhere.toml", "trained/config.toml", "0:", "3:1", ":", "5", "88,90", "a1",
    "b2,c3", "learn*", "learn", "warm-start", "table-5.1", "*", "[", "tree", "playout", "wang2019",
)  # fmt: skip
_JUNK = (
    "", " ", "-", "--", "---", "-h", "--help", "\x1b[2J", "\n", "\t", "ünïcödé", "🎲", "\udcff",
    "x" * 5000, "%s%n", "{}", "{runs}", "{presets}", "$(true)", "'", '"', "None", "null", "True",
    "--json=1", "--no-json", "=", "a=b", "\u202e", "0x10", "1_000", "١٢", "+5", "1e3",
    "[red]x[/red]",
)  # fmt: skip
_DANGEROUS = {"ray", "host", "open"}
"""Options that would contact other machines or open a browser."""
_MODEST_WORDS = ("workers", "processes", "threads", "parallel", "actors", "lanes")


class Option(NamedTuple):
    """Option or positional argument."""

    flag: str
    """Flag such as --seed; empty for a positional argument."""
    name: str
    kind: Any
    repeats: bool


@functools.cache
def commands() -> dict[tuple[str, ...], tuple[Option, ...]]:
    """Return the options of all commands."""
    from zerolab.cli.main import COMMANDS  # noqa: PLC0415  slow import
    from zerolab.studies.study import registered_studies  # noqa: PLC0415

    calls: list[tuple[str, ...]] = [(name,) for name in COMMANDS]
    calls += [("study", name) for name in registered_studies()] + [("bench", "strength")]
    return {call: _options(call) for call in calls}


def _options(call: tuple[str, ...]) -> tuple[Option, ...]:
    """Return the options of a command's function."""
    from zerolab.cli.main import find_command  # noqa: PLC0415  slow import

    function, _, _ = find_command(call)
    hints = get_type_hints(function, include_extras=True)
    return tuple(
        _option(name, hints[name]) for name in inspect.signature(function).parameters
        if name not in _DANGEROUS
    )  # fmt: skip


def _option(name: str, hint: Any) -> Option:
    markers: tuple[Any, ...] = ()
    while get_origin(hint) is Annotated:
        markers += hint.__metadata__
        hint = hint.__origin__
    flag = next((each.name for each in markers if getattr(each, "name", None)), name)
    positional = any(each in get_args(tyro.conf.Positional[int]) for each in markers)
    kinds = [hint]
    if get_origin(hint) in (Union, types.UnionType):
        kinds = [each for each in get_args(hint) if each is not types.NoneType]
    repeats = get_origin(kinds[0]) is tuple
    kind = get_args(kinds[0])[0] if repeats else kinds[0]
    return Option("" if positional else f"--{flag.replace('_', '-')}", name, kind, repeats)


@functools.cache
def _settings() -> tuple[Any, ...]:
    from zerolab.cli.reference import all_settings  # noqa: PLC0415  slow import

    return tuple(each for each in all_settings() if "actors" not in each.key)


def vector(draw: random.Random) -> list[str]:
    """Return the words of a random command line."""
    call = draw.choice(sorted(commands()))
    words = list(call)
    wild = draw.choice([0.0, 0.1, 0.5])
    if draw.random() < 0.03:
        words = [draw.choice([call[0][:-1], call[0].upper(), *_JUNK])]
    for option in commands()[call]:
        chance = 0.9 if not option.flag else 0.35
        while draw.random() < chance:
            words += _words(option, draw, wild)
            if not option.repeats and draw.random() < 0.97:
                break
            chance = 0.5
    if draw.random() < 0.15:
        words.insert(draw.randint(1, len(words)), draw.choice(_JUNK))
    if draw.random() < 0.1:
        words += _words(draw.choice(_every_option()), draw, wild)
    return [_safe(word) for word in words]


@functools.cache
def _every_option() -> tuple[Option, ...]:
    return tuple(option for call in sorted(commands()) for option in commands()[call])


def _words(option: Option, draw: random.Random, wild: float) -> list[str]:
    if not option.flag:
        return [_value(option, draw, wild)]
    near = draw.random() < 0.1 * wild
    flag = draw.choice([option.flag[:-1], option.flag[1:]]) if near else option.flag
    if option.kind is bool or draw.random() < 0.1 * wild:
        return [flag]
    value = _value(option, draw, wild)
    return [f"{flag}={value}"] if draw.random() < 0.2 else [flag, value]


def _value(option: Option, draw: random.Random, wild: float) -> str:
    """Return a random value for an option; with probability `wild`, it is probably invalid."""
    is_wild = draw.random() < wild
    if any(word in option.name for word in _MODEST_WORDS):
        return draw.choice(_MODEST) if is_wild else "2"
    if is_wild and draw.random() < 0.2:
        return draw.choice(_JUNK)
    if get_origin(option.kind) is Literal:
        choices = [str(each) for each in get_args(option.kind)]
        return draw.choice([choices[0][:-1], choices[0].upper()] if is_wild else choices)
    if option.name in ("set", "test_search"):
        return _assignment(draw, is_wild)
    valid, invalid = _samples(option)
    return str(draw.choice(invalid if is_wild else valid))


def _samples(option: Option) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return valid values and possibly invalid values of an option."""
    if option.name in _BY_NAME and option.kind in (str, Path):
        return _BY_NAME[option.name]
    return _BY_KIND.get(option.kind, (_TEXTS, _TEXTS))


def _assignment(draw: random.Random, is_wild: bool) -> str:
    setting = draw.choice(_settings())
    if any(word in setting.key for word in _MODEST_WORDS):
        return f"{setting.key}={draw.choice(_MODEST) if is_wild else 2}"
    if not is_wild:
        return f"{setting.key}={draw.choice([setting.default, 0, 1, 2, 0.5, 'true', '1..3'])}"
    key = setting.key if draw.random() < 0.9 else draw.choice([setting.key + "x", "", ".", "a..b"])
    return f"{key}={draw.choice(_NO_VALUES)}"


def _safe(word: str) -> str:
    """Return a word without paths outside the working folder, so that nothing is written there."""
    return word.replace("/../", "/").lstrip("/").replace("\0", "")


_NO_VALUES = (
    *_BIG, "nan", "1e308", "[]", "[1,2]", "{}", "{name='puct'}", "x", "'x'", "", "..", "log:1..3",
    "a|b", "[" * 5000, "1979-05-27", "random", "continuous", "resnet", "trained", "p.parquet",
)  # fmt: skip
_PRESETS = ("smoke", "smoke", "smoke", "mini"), ("smokee", "trained/config.toml", "", "strong")
_BY_KIND: dict[Any, tuple[tuple[Any, ...], tuple[Any, ...]]] = {
    int: ((1, 2, 4, 8), _BIG),
    Path: (_PATHS, _NO_PATHS),
    float: ((0, 0.5, 1, 20), ("-1", "nan", "inf", "1e308", "1e-320", "1e999", "x")),
}
_BY_NAME: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "game": (_GAMES, _NO_GAMES),
    "preset": _PRESETS,
    **dict.fromkeys(
        ("player", "players", "opponent", "a", "b", "agent", "from_"), (_AGENTS, _NO_AGENTS)
    ),
    "run": (("trained", "new", "trained@1"), (*_AGENTS, *_PATHS)),
    "runs": (("trained",), _PATHS),
    "files": (("games.pgn", "trained", "played"), _PATHS),
    "positions": (("p.parquet",), _PATHS),
    "only": (("othello",), ("a", "x", "")),
    "suites": (("tree", "playout", "solve"), ("x", "")),
    "name": (("warm-start", "table-5.1", "published-bugs"), ("warm", "")),
    "moves": (("b2", "a1,b2"), ("b2 c3", "z9", ",", "b2,b2")),
}
"""Valid and invalid values by option name."""
