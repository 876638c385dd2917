"""Commands in the documentation and in help texts.

`train`, `fit` and `league` are followed up to the start of the work, with stubs for the files that
users must have; resumed runs count as new ones. Of the other commands, only the options are parsed.
"""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NoReturn

import pytest

from zerolab.cli import main as cli
from zerolab.cli import train
from zerolab.cli.main import COMMANDS, find_command, main
from zerolab.core.errors import UserError
from zerolab.league import league
from zerolab.league.league import League, LeagueNetwork
from zerolab.rules.catalogue import parse_game
from zerolab.store.run_folder import RunFolder
from zerolab.training import inputs, logger, shorthands, trainer, window_facts
from zerolab.training.configure import resolve_settings
from zerolab.training.inputs import RunInputs
from zerolab.training.shorthands import require_new_run_described

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(DOCS.glob("*.md")),
    DOCS / "results" / "README.md",
]
MODULES = sorted((ROOT / "src" / "zerolab" / "cli").glob("*.py"))

_FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`([^`]+)`")
_STARTED = "train", "fit", "league"
_NAME = rf"zerolab (?:{'|'.join(COMMANDS)})\b"
_COMMAND = re.compile(
    rf"(?<='){_NAME}[^'\n]*"  # an argument of another command
    rf"|{_NAME}(?:'[^']*'|\"[^\"]*\"|[^\n'\"#])*"
)
_EXAMPLE = re.compile(rf'^ +({_NAME}.*?)(?:""",)?$', re.MULTILINE)
_SHELL = re.compile(r"\$\([^)]*\)")
_PLACEHOLDER = re.compile(r"\b(?:GAME|NAME|KEY=VALUE|FILE\.toml)\b|\.\.\.")


def _texts() -> Iterator[tuple[Path, str]]:
    """Yield each file with a text that may be a command."""
    for page in PAGES:
        text = page.read_text("utf-8")
        blocks = [block.replace("\\\n", " ") for block in _FENCED.findall(text)]
        spans = [span.replace("\n", " ") for span in _INLINE.findall(_FENCED.sub("", text))]
        for code in blocks + spans:
            for command in _COMMAND.findall(code):
                yield page, command
    for module in MODULES:
        for command in _EXAMPLE.findall(module.read_text("utf-8")):
            yield module, command


def _commands() -> Iterator[tuple[Path, list[str]]]:
    """Yield each file with the words of a complete command, after `zerolab`.

    Mentions such as `zerolab fit`, and commands with placeholders, are left out.
    """
    for page, text in _texts():
        words = shlex.split(_SHELL.sub("TEXT", text))
        is_mention = len(words) == 2 or words[-1].startswith("--")
        if not is_mention and not _PLACEHOLDER.search(text):
            yield page, words[1:]


class _StartedError(Exception):
    """Sign that a command has checked its options and settings."""


def _start(*_: Any) -> NoReturn:
    raise _StartedError


def _start_if_resumed(folder: Path, *description: Any) -> None:
    """Start commands that describe no new run; documents resume runs that do not exist here."""
    try:
        require_new_run_described(folder, *description)
    except UserError:
        _start()


@pytest.fixture
def stubs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace users' files, clusters and storage by stubs, and stop commands before they start."""
    network = resolve_settings("gobang:6x6", "small", ["network=fully_convolutional"]).network
    solved = {
        "game": "connect_four:6x7", "supervised.positions": "FILE", "supervised.digest": "0" * 64
    }  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("docs").symlink_to(ROOT / "docs")
    for name in ("league", "tuning"):
        Path(name).mkdir()
        Path(name, "best.toml").touch()
    for owner, name, stub in (
        (inputs, "source_network_settings", lambda *_: network),
        (trainer, "read_inputs", lambda settings: RunInputs(parse_game(settings.game))),
        (window_facts, "solved_file_settings", lambda _: solved),
        (league, "league_network", lambda spec, _: LeagueNetwork(_start, spec or "")),
        (logger, "require_loggers", lambda _: None),
        (train, "_cluster_options", lambda *_: None),
        (train, "_storage", lambda *_: None),
        (train, "_executor", lambda *_: nullcontext()),
        (shorthands, "require_new_run_described", _start_if_resumed),
        (RunFolder, "create", _start),
        (League, "open_locked", _start),
    ):
        monkeypatch.setattr(owner, name, stub)


@pytest.mark.usefixtures("stubs")
def test_commands_in_documentation_and_help_start(capsys: pytest.CaptureFixture[str]) -> None:
    commands = [(page, words) for page, words in _commands() if words[0] in _STARTED]
    _require_start(commands, capsys)
    assert {words[0] for _, words in commands} == set(_STARTED)
    assert len(commands) > 60


def test_options_in_documentation_and_help_exist(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parse the options of the other commands, without running them."""

    def find_stub(arguments: Sequence[str]) -> tuple[Callable[..., None], str, list[str]]:
        command, name, rest = find_command(arguments)
        return functools.wraps(command)(lambda *_, **__: _start()), name, rest

    monkeypatch.setattr(cli, "find_command", find_stub)
    own_study = ["study", "temperature"]  # an example of a study that users write
    commands = [
        (page, words)
        for page, words in _commands()
        if words[0] not in _STARTED and words != own_study
    ]
    _require_start(commands, capsys)
    assert set(COMMANDS) - set(_STARTED) - {words[0] for _, words in commands} == {"games"}


def _require_start(
    commands: Sequence[tuple[Path, Sequence[str]]], capsys: pytest.CaptureFixture[str]
) -> None:
    failures = []
    for page, words in commands:
        try:
            code = main(words)
        except _StartedError:
            continue
        failures.append(
            f"{page.relative_to(ROOT)}: {shlex.join(words)}: code {code}, {capsys.readouterr().err}"
        )
    assert not failures, "\n".join(failures)
