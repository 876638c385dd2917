"""Notice that kernels are being compiled."""

from __future__ import annotations

import io
import re
import sys

import pytest

from forks import wait_for
from zerolab.cli import output, process, progress
from zerolab.cli.output import Console
from zerolab.cli.process import COMPILATION_NOTICE, CompilationNotice, enable_compilation_notice
from zerolab.cli.progress import new_rich_progress
from zerolab.core import resources


@pytest.fixture
def notice(monkeypatch):
    """Notice that appears at once, replacing the process's own."""
    new = CompilationNotice()
    monkeypatch.setattr(process, "SECONDS_BEFORE_NOTICE", 0.0)
    for module in (process, output, progress):
        monkeypatch.setattr(module, "compilation_notice", new)
    return new


def terminal(monkeypatch):
    """Replace standard error with a terminal until the test ends."""
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", stream)
    return stream


def test_text_is_shown_only_during_long_compilations(notice, monkeypatch):
    assert notice.text() == ""
    notice.on_start()
    notice.on_start()
    notice.on_end()
    assert re.fullmatch(rf"{COMPILATION_NOTICE}: \d+ s", notice.text())
    notice.on_end()
    assert notice.text() == ""
    monkeypatch.setattr(process, "SECONDS_BEFORE_NOTICE", 1e9)
    notice.on_start()
    assert notice.text() == ""
    notice.on_end()


def test_files_get_one_line(notice, monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    for _ in range(3):
        notice.on_start()
        wait_for(stream.getvalue)
        notice.on_end()
    assert stream.getvalue() == f"zerolab: {COMPILATION_NOTICE}\n"


def test_terminals_get_a_line_that_disappears(notice, monkeypatch):
    stream = terminal(monkeypatch)
    notice.on_start()
    wait_for(stream.getvalue)
    notice.on_end()
    assert re.search(rf"[-|/\\] {COMPILATION_NOTICE}: \d+ s", stream.getvalue())
    assert stream.getvalue().endswith("\r\x1b[K")


def test_displays_show_the_notice_themselves(notice, monkeypatch):
    stream = terminal(monkeypatch)
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    notice.on_start()
    wait_for(stream.getvalue)
    with new_rich_progress(console) as bar:
        assert notice.displays == 1
        bar.add_task("self-play", total=2, unit="games", note="")
        bar.refresh()
    with console.status("thinking") as status:
        assert notice.displays == 1
        assert status.renderable
    notice.on_end()
    assert notice.displays == 0
    assert isinstance(console.file, io.StringIO)
    shown = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", console.file.getvalue())
    assert re.search(rf"0/2 games.*\n{COMPILATION_NOTICE}: \d+ s", shown)
    assert re.search(rf"thinking *\n +{COMPILATION_NOTICE}: \d+ s", shown)


def test_observer_is_registered_once(monkeypatch):
    monkeypatch.setattr(resources, "compilation_observers", [])
    enable_compilation_notice()
    enable_compilation_notice()
    assert resources.compilation_observers == [process.compilation_notice]
