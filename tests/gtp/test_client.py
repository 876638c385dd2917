"""The GTP client with misbehaving engines."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from forks import wait_for
from zerolab.gtp.protocol import GtpClient, GtpEngineError, GtpResponseError

FAKE = Path(__file__).with_name("fake_engine.py")


def command(fault, log, when="always"):
    return shlex.join([sys.executable, "-IS", str(FAKE), fault, when, str(log)])


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log"


def test_responses_and_refusals_are_returned(log):
    client = GtpClient(command("refuse", log), timeout=60)
    assert client.request("boardsize 3") == ""
    with pytest.raises(
        GtpResponseError, match='responded "\\? unacceptable size" to "boardsize 9"'
    ):
        client.request("boardsize 9")
    assert client.request("name") == "name"
    client.close()
    with pytest.raises(GtpEngineError, match="has exited"):
        client.request("name")


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("hang", 'no response to "genmove b" within 0.5 seconds'),
        ("crash", 'it exited with the message "out of luck"'),
        ("flood", 'its response to "genmove b" is too long'),
        ("garbage", 'it printed "Segmentation fault, just joking" instead of a response'),
    ],
)
def test_failures_are_described(fault, reason, log):
    client = GtpClient(command(fault, log), timeout=60)
    client.request("name")
    if fault == "hang":
        client._timeout = 0.5
    with pytest.raises(GtpEngineError) as failure:
        client.request("genmove b")
    assert str(failure.value) == reason
    with pytest.raises(GtpEngineError, match="has exited"):
        client.request("name")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("no-such-engine --fast", "no-such-engine cannot be started: No such file"),
        ("/etc", "/etc cannot be started: Permission denied"),
        ("", "the command is empty"),
        ("'open quote", "invalid command: No closing quotation"),
        ("bad\0byte", "cannot be started: embedded null byte"),
    ],
)
def test_invalid_commands_are_reported(line, reason):
    with pytest.raises(GtpEngineError, match=reason):
        GtpClient(line, timeout=1)


def test_unrequested_responses_are_refused(log):
    client = GtpClient(command("twice", log), timeout=60)
    assert client.request("genmove b") == "B1"
    with pytest.raises(GtpEngineError, match='printed "= B1" without a command'):
        client.request("name")


def test_windows_newlines_are_accepted(log):
    client = GtpClient(command("windows", log), timeout=60)
    assert client.request("genmove b") == "B1"
    assert client.request("name") == "name"


def test_verbose_stderr_does_not_block(log):
    client = GtpClient(command("chatty", log), timeout=60)
    assert [client.request("name") for _ in range(5)] == ["name"] * 5


def test_child_processes_end_with_engine(log):
    client = GtpClient(command("family", log), timeout=60)
    client.request("name")
    child = int(log.read_text())
    assert _is_running(child)
    client.close()
    wait_for(lambda: not _is_running(child), 10)


def test_engine_ends_with_client(log):
    client = GtpClient(command("hang", log), timeout=60)
    client.request("name")
    process = client._process
    assert process.returncode is None
    del client
    assert process.returncode is not None


def _is_running(pid):
    stat = Path(f"/proc/{pid}/stat")
    if not Path("/proc/self").exists():
        pytest.skip("only Linux lists processes in /proc")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"
