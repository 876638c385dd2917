"""Build and check the distributions, and use the wheel in an empty environment.

python tools/check_package.py [--constraint constraints.txt]

Needs only the standard library and network access. Builds the source distribution and the wheel
into dist/, checks them as an index would, installs the wheel with the "web" extra into a new
virtual environment, and plays, trains and serves from an empty folder. Prints the wall and
processor time of each step and the disk space of each large package. Stops with an error at the
first step that fails.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DISTRIBUTIONS = ROOT / "dist"
AGENTS = ROOT / "src" / "zerolab" / "agents" / "shipped"

_GAME = "connect_four:6x7"
_RUN = "runs/demo"
_SECONDS = 1800  # time limit of a step
_LARGE = 1.0  # MB; smaller packages are not listed

_SIZES = """
import importlib.metadata as metadata, json, os
print(json.dumps({
    each.metadata["Name"]: sum(os.path.getsize(path) for path in map(each.locate_file, each.files)
                               if os.path.exists(path))
    for each in metadata.distributions()
}))
"""
"""Program that prints the bytes of the files of each installed package."""


class Environment:
    """New virtual environment, isolated from this checkout and the user's caches."""

    def __init__(self, folder: Path) -> None:
        """Create the environment in `folder`, with empty cache and working folders."""
        venv.create(folder / "venv", with_pip=True)
        self.programs = folder / "venv" / "bin"
        self.work = folder / "work"
        self.work.mkdir()
        hidden = ("PYTHON", "ZEROLAB_", "NUMBA_", "VIRTUAL_ENV")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
        self.variables = {**kept, "XDG_CACHE_HOME": str(folder / "caches")}

    def run(self, program: str, *arguments: str | Path, text: str = "") -> str:
        """Run a program of the environment with `text` as its input; return its output.

        Raises SystemExit with the end of the output if the program fails.
        """
        done = subprocess.run(
            [self.programs / program, *arguments], input=text, text=True, timeout=_SECONDS,
            cwd=self.work, env=self.variables, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        if done.returncode != 0:
            called = " ".join(map(str, [program, *arguments]))
            raise SystemExit(f"{called} failed:\n{done.stdout[-4000:]}")
        return done.stdout

    def sizes(self) -> dict[str, int]:
        """Return the bytes of each package except pip and setuptools."""
        sizes: dict[str, int] = json.loads(self.run("python", "-c", _SIZES))
        return {name: size for name, size in sizes.items() if name not in ("pip", "setuptools")}

    @contextmanager
    def served(self, *arguments: str) -> Iterator[str]:
        """Run `zerolab serve` until the context is left; yield the address of the server."""
        with subprocess.Popen(
            [self.programs / "zerolab", "serve", *arguments, "--port", "0"],
            cwd=self.work, env=self.variables, stdout=subprocess.PIPE, text=True,
        ) as server:  # fmt: skip
            assert server.stdout is not None
            try:
                started = server.stdout.readline().split()
                if not started:
                    raise SystemExit("the server has not started")
                yield started[-1].rstrip("/")
            finally:
                server.terminate()


def build(environment: Environment) -> Path:
    """Build and check both distributions; return the wheel."""
    for old in DISTRIBUTIONS.glob("zerolab-*"):
        old.unlink()
    environment.run("python", "-m", "pip", "install", "--quiet", "build", "twine")
    environment.run("python", "-m", "build", "--outdir", DISTRIBUTIONS, ROOT)
    built = sorted(DISTRIBUTIONS.glob("zerolab-*"))
    environment.run("twine", "check", "--strict", *built)
    return next(path for path in built if path.suffix == ".whl")


def install(environment: Environment, wheel: Path, options: Sequence[str | Path]) -> None:
    """Install the wheel with the "web" extra."""
    pip = ("python", "-m", "pip", "install", "--quiet", *options)
    environment.run(*map(str, pip), f"{wheel}[web]")


def play(environment: Environment) -> None:
    """Make one move in a game and expect a reply from a shipped agent or MCTS."""
    output = environment.run("zerolab", "play", _GAME, text="4\nquit\n")
    _expect(f"{_GAME} against ", output)
    _expect(" plays ", output)


def check_agents(environment: Environment) -> None:
    """Expect the agents of this checkout, each with a readable card."""
    listed = json.loads(environment.run("zerolab", "agents", "--json"))
    installed = [each["name"] for each in listed]
    expected = sorted(path.stem for path in AGENTS.glob("*.zerolab"))
    if installed != expected:
        raise SystemExit(f"expected the agents {expected}, not {installed}")
    for name in installed:
        _expect("train such an agent with", environment.run("zerolab", "agents", name))


def train(environment: Environment) -> None:
    """Train the smallest preset to the end."""
    output = environment.run("zerolab", "train", _GAME, "--preset", "smoke", "--run", _RUN)
    _expect("play against it", output)


def serve(environment: Environment) -> None:
    """Request a page and a move of the trained agent."""
    with environment.served("runs") as address:
        _expect("<title>", _answer(f"{address}/"))
        question = {"position": {"game": _GAME}, "agent": _RUN, "simulations": 50}
        _expect('"move"', _answer(f"{address}/api/v1/move", json.dumps(question).encode()))


def _answer(address: str, body: bytes | None = None) -> str:
    """Return the response to a GET request, or to a POST request if `body` is given."""
    headers = {"Content-Type": "application/json"} if body else {}
    request = urllib.request.Request(address, body, headers)
    with urllib.request.urlopen(request, timeout=60) as response:
        text: str = response.read().decode()
    return text


def _expect(part: str, text: str) -> None:
    if part not in text:
        raise SystemExit(f'expected "{part}" in:\n{text[-4000:]}')


def _timed(title: str, work: Callable[..., Any], *arguments: Any) -> Any:
    """Call `work`; print its wall time and the processor time of the programs that it ran."""
    began, used_before = time.perf_counter(), _processor_seconds()
    result = work(*arguments)
    wall, used = time.perf_counter() - began, _processor_seconds() - used_before
    print(f"{title:<50} {wall:7.1f} s {used:7.1f} s of processor time", flush=True)
    return result


def _processor_seconds() -> float:
    """Return the processor time of all ended child processes."""
    times = os.times()
    return times.children_user + times.children_system


def main(arguments: Sequence[str]) -> None:
    """Carry out all steps, and print their times and the installed sizes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--constraint", type=Path, help="file with constraints for pip")
    constraint = parser.parse_args(arguments).constraint
    options = ["--constraint", constraint.resolve()] if constraint else []
    with tempfile.TemporaryDirectory() as builder, tempfile.TemporaryDirectory() as user:
        wheel = _timed("build and check", build, Environment(Path(builder)))
        empty = Environment(Path(user))
        _timed(f"pip install {wheel.name}[web]", install, empty, wheel, options)
        _timed("zerolab agents", check_agents, empty)
        _timed("zerolab play, to the first reply", play, empty)
        _timed("zerolab play again", play, empty)
        _timed("zerolab train --preset smoke", train, empty)
        _timed("zerolab serve, a page and the API", serve, empty)
        sizes = sorted(empty.sizes().items(), key=lambda item: -item[1])
    for name, size in sizes:
        if size >= _LARGE * 1e6:
            print(f"{name:<50} {size / 1e6:7.1f} MB")
    print(f"{'all':<50} {sum(dict(sizes).values()) / 1e6:7.1f} MB")


if __name__ == "__main__":
    main(sys.argv[1:])
