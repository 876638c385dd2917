"""References that texts cite by key, such as [Wang2020b, Fig. 5.1].

``references.json`` has the entries of docs/references.md as plain text; tools/generate_tables.py
writes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from functools import cache
from importlib.resources import files
from typing import NamedTuple

_CITED = re.compile(r"(?<=\[)([A-Z]\w+)(?=[\],;])|(?<=[,;] )([A-Z]\w*\d{4}[a-z]?)(?=[\],;])")
"""Key at the start of a citation, or a further key with a year, as in [Silver2017; Wu2019]."""


class Reference(NamedTuple):
    """Work that texts cite."""

    key: str
    text: str
    """Authors, title and publication, without links."""
    url: str
    """Address of the work; empty if there is none."""


@cache
def all_references() -> dict[str, Reference]:
    """Return all references by key."""
    table = json.loads(files("zerolab.report").joinpath("references.json").read_text("utf-8"))
    return {key: Reference(key, *entry) for key, entry in table.items()}


def cited_references(texts: Iterable[str]) -> list[Reference]:
    """Return the references that texts cite, by key in alphabetical order."""
    known = all_references()
    keys = {match[0] for text in texts for match in _CITED.finditer(text)}
    return [known[key] for key in sorted(keys & known.keys(), key=str.casefold)]


def link_citations(text: str, link: Callable[[str], str]) -> str:
    """Replace each key of a known reference in a text by the result of `link`."""
    known = all_references()
    return _CITED.sub(lambda match: link(match[0]) if match[0] in known else match[0], text)
