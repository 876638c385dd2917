"""Configuration of the documentation site, which `make site` builds from the Markdown files.

The source folder is the whole repository, so that links between its pages hold on the site, too.
"""

import re
import tomllib
from pathlib import Path

from sphinx.application import Sphinx

_ROOT = Path(__file__).resolve().parents[2]
_PROJECT = tomllib.loads((_ROOT / "pyproject.toml").read_text("utf-8"))["project"]
release = _PROJECT["version"]
_REPOSITORY = f"{_PROJECT['urls']['Homepage']}/tree/main"
_LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)([^)\s#]+)(#[^)\s]*)?(?=\))")
_ANCHOR = re.compile(r'<a id="([\w-]+)"></a>')
_TABLES = "docs/results/strength"
"""Folder of tables without a title, which are no pages."""
_FENCE = re.compile(r"^(?:```|~~~)")

project = "zerolab"
author = project_copyright = "The zerolab developers"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.mathjax"]
root_doc = "docs/site/index"
include_patterns = [
    "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/**", "examples/notebooks/*.ipynb",
]  # fmt: skip
exclude_patterns = ["**/__pycache__", _TABLES]
default_role = "literal"  # single backticks in docstrings

html_theme = "furo"
html_title = "zerolab"
html_static_path: list[str] = []
html_extra_path = ["extra"]
html_copy_source = False

linkcheck_ignore = [
    rf"{re.escape(_PROJECT['urls']['Homepage'])}.*"
]  # a placeholder until published

myst_heading_anchors = 4
myst_enable_extensions = ["attrs_inline"]  # anchors
nb_execution_mode = "off"  # notebooks are committed with their outputs

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True


def _page_or_figure(path: Path) -> bool:
    """Return whether the site has a file as a page or shows it as a figure."""
    inside = path.relative_to(_ROOT).as_posix()
    if path.suffix in {".png", ".svg"}:
        return True
    if path.suffix not in {".md", ".ipynb"} or inside.startswith(_TABLES):
        return False
    return inside in include_patterns or inside.startswith(("docs/", "examples/notebooks/"))


def _linked(target: str, anchor: str, folder: Path) -> str:
    """Return the target of a link on the site: a page, or a file in the repository."""
    path = (folder / target).resolve()
    if not path.is_relative_to(_ROOT) or _page_or_figure(path):
        return target + anchor
    if (path / "README.md").is_file():
        return f"{target.rstrip('/')}/README.md{anchor}"
    return f"{_REPOSITORY}/{path.relative_to(_ROOT).as_posix()}{anchor}"


def _with_site_links(app: Sphinx, name: str, content: list[str]) -> None:
    """Let links to source files and folders lead to the repository, and name anchors."""
    file = Path(app.env.doc2path(name))
    if file.suffix != ".md":
        return
    lines, is_code = [], False
    for line in content[0].splitlines(keepends=True):
        is_code ^= _FENCE.match(line) is not None
        lines.append(line if is_code else _converted(line, file.parent))
    content[0] = "".join(lines)


def _converted(line: str, folder: Path) -> str:
    """Return a line of a page in a folder with the site's links and anchors."""
    line = _LINK.sub(lambda found: _linked(found[1], found[2] or "", folder), line)
    return _ANCHOR.sub(r"[]{#\1}", line)


def setup(app: Sphinx) -> None:
    """Register the conversion of links."""
    app.connect("source-read", _with_site_links)
