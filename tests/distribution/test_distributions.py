"""Files and metadata of the wheel and the source distribution.

`make package` installs the wheel and uses it.
"""

from __future__ import annotations

import configparser
import subprocess
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

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
def wheel(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Text of every file in the wheel; other files as Latin-1."""
    folder = tmp_path_factory.mktemp("wheel")
    (built,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    with zipfile.ZipFile(built) as archive:
        return {name: archive.read(name).decode("latin-1") for name in archive.namelist()}


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


def test_source_distribution_contains_every_tracked_file(tracked: set[str]) -> None:
    files = SdistBuilder(str(ROOT)).recurse_included_files()
    assert {Path(each.relative_path).as_posix() for each in files} == tracked


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
