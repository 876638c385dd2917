"""Files and metadata of the wheel and source distribution, which run where they are unpacked.

`make package` installs and uses the wheel with its requirements.
"""

from __future__ import annotations

import configparser
import contextlib
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

from zerolab.agents.file_agents import SHIPPED_FOLDER

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def tracked() -> set[str]:
    """Paths of all files that git tracks, relative to the root."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    command = ["git", "-C", str(ROOT), "ls-files", "-z"]
    output = subprocess.run(command, capture_output=True, check=True).stdout.decode()
    return {name for name in output.split("\0") if name and (ROOT / name).exists()}


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the files of the wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    with contextlib.chdir(ROOT):  # the description is read from there
        (built,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    with zipfile.ZipFile(built) as archive:
        archive.extractall(folder / "unpacked")
    return folder / "unpacked"


@pytest.fixture(scope="module")
def wheel(unpacked: Path) -> dict[str, str]:
    """Text of every file in the wheel; other files as Latin-1."""
    paths = (path for path in unpacked.rglob("*") if path.is_file())
    return {path.relative_to(unpacked).as_posix(): path.read_text("latin-1") for path in paths}


@pytest.fixture(scope="module")
def metadata(wheel: dict[str, str]) -> Message:
    (name,) = (name for name in wheel if name.endswith(".dist-info/METADATA"))
    return Parser().parsestr(wheel[name])


def test_wheel_contains_the_package_and_nothing_else(
    wheel: dict[str, str], tracked: set[str]
) -> None:
    package = {name.removeprefix("src/") for name in tracked if name.startswith("src/zerolab/")}
    assert {name for name in wheel if ".dist-info/" not in name} == package
    described = {name.partition(".dist-info/")[2] for name in wheel.keys() - package}
    assert described == {
        "METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE",
    }  # fmt: skip


@pytest.mark.parametrize("suffix", ["zerolab", "toml"])
def test_wheel_would_contain_agents_and_their_cards(suffix: str) -> None:
    folder = SHIPPED_FOLDER.relative_to(ROOT)
    assert WheelBuilder(str(ROOT)).config.include_path(f"{folder.as_posix()}/name.{suffix}")


def test_source_distribution_contains_every_tracked_file(tracked: set[str]) -> None:
    files = SdistBuilder(str(ROOT)).recurse_included_files()
    assert {Path(each.relative_path).as_posix() for each in files} == tracked


def _run(folder: Path, path: Path, arguments: Sequence[str]) -> str:
    """Run Python in `folder` with the package in `path`; return the output."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment = {**kept, "PYTHONPATH": str(path)}
    command = [sys.executable, *arguments]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


_USE = """
import zerolab
from zerolab.cli.main import main
from zerolab.web.requests import STATIC_FOLDER, render_page
game = "gobang:3x3:3"
assert main(["perft", game, "2", "--json"]) == 0
short = ["--preset", "smoke", "--set", "iterations=1", "--set", "final_evaluation.games=0"]
assert main(["train", game, *short, "--quiet", "--run", "run"]) == 0
assert "/static/play.js" in render_page("play") and (STATIC_FOLDER / "play.js").exists()
print(zerolab.__file__)
"""


def test_unpacked_wheel_counts_trains_and_has_its_pages(unpacked: Path, tmp_path: Path) -> None:
    counts, package = _run(tmp_path, unpacked, ["-c", _USE]).splitlines()
    assert Path(package).is_relative_to(unpacked)
    assert '"leaves": 72' in counts  # 9 times 8 moves
    assert (tmp_path / "run" / "checkpoints").is_dir()


def test_unpacked_source_distribution_runs_its_tests(tmp_path: Path) -> None:
    with contextlib.chdir(ROOT):
        (built,) = SdistBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with tarfile.open(built) as archive:
        archive.extractall(tmp_path, filter="data")
    (root,) = tmp_path.glob("zerolab-*/")
    tests = ["tests/core/test_registry.py", "tests/core/test_nested_tables.py"]
    output = _run(root, root / "src", ["-m", "pytest", "-p", "no:cacheprovider", *tests])
    assert "[100%]" in output


def test_links_of_the_description_lead_to_files_from_an_index(metadata: Message) -> None:
    text = str(metadata.get_payload())
    pictures = re.findall(r"!\[[^\]]*\]\((\S+?)\)", text)
    links = re.findall(r"\]\((\S+?)\)", text)
    assert len(pictures) >= 2
    assert len(links) > 20 + len(pictures)
    for address in links:
        host = "raw.githubusercontent.com" if address in pictures else "github.com"
        match = re.fullmatch(rf"https://{host}/OWNER/zerolab(/blob)?/main/([^#]+)(#.*)?", address)
        assert match is not None, address
        assert (ROOT / match[2]).exists(), address


def test_entry_points_of_the_wheel_name_modules_in_it(wheel: dict[str, str]) -> None:
    parser = configparser.ConfigParser(delimiters=("=",))
    (name,) = (name for name in wheel if name.endswith(".dist-info/entry_points.txt"))
    parser.read_string(wheel[name])
    targets = [target for section in parser.sections() for _, target in parser[section].items()]
    assert len(targets) > 5
    for target in targets:
        path = target.partition(":")[0].replace(".", "/")
        assert {f"{path}.py", f"{path}/__init__.py"} & wheel.keys(), target


def test_supported_pythons_agree(metadata: Message) -> None:
    """The classifiers start with the oldest Python that pip accepts."""
    prefix = "Programming Language :: Python :: 3."
    classifiers = metadata.get_all("Classifier") or []
    minors = [int(each.removeprefix(prefix)) for each in classifiers if each.startswith(prefix)]
    assert minors == list(range(min(minors), max(minors) + 1))
    assert metadata["Requires-Python"] == f">=3.{min(minors)}"


def test_every_requirement_has_a_lower_bound(metadata: Message) -> None:
    """Without one, pip may choose a version too old to work."""
    requirements = metadata.get_all("Requires-Dist") or []
    assert len(requirements) > 20
    assert [each for each in requirements if ">=" not in each.partition(";")[0]] == []


def test_documentation_lists_every_extra(metadata: Message) -> None:
    table = (ROOT / "docs/install.md").read_text("utf-8")
    extras = metadata.get_all("Provides-Extra") or []
    assert len(extras) > 5
    assert [name for name in extras if f"`{name}`" not in table] == []
