"""What machines must have in common to work together, because results depend on it."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import torch

from zerolab.core.errors import UserError
from zerolab.core.version import __version__
from zerolab.networks.inference import best_precision

_LIBRARIES = "torch", "numpy", "numba"
_DIGITS = 8  # of the code's digest that people are shown


class NodeFacts(NamedTuple):
    """What must be the same on all nodes, because results depend on it."""

    installed: Mapping[str, str]
    """Versions and the digest of zerolab's code, by name; this machine has the same."""
    hardware: Mapping[str, str]
    """The kind of processor and what it computes in; those of this machine do not count."""


def node_facts() -> NodeFacts:
    """Return the facts of this machine."""
    precision = str(best_precision(torch.device("cpu"))).removeprefix("torch.")
    return NodeFacts(
        {**current_versions(), "code": code_digest()[:_DIGITS]},
        {"processor": platform.machine(), "precision": precision},
    )


def require_equal(nodes: Sequence[tuple[str, NodeFacts]], here: NodeFacts) -> None:
    """Raise UserError, naming the first node that differs and in what, unless all are equal.

    What is installed must be as `here`, the hardware as that of the first node.
    """
    for node, facts in nodes:
        if told := _difference(facts.installed, here.installed):
            raise UserError(
                f"node {node} has {told} as on this machine: install the same on all nodes"
            )
        if told := _difference(facts.hardware, nodes[0][1].hardware):
            raise UserError(
                f"node {node} has {told} as the first node: results would depend on where runs"
                " are trained, so use nodes that are equal"
            )


def _difference(one: Mapping[str, str], other: Mapping[str, str]) -> str:
    """Return the first thing in which facts differ, as ``torch 2.12.0 instead of 2.13.0``."""
    for name, value in one.items():
        if other.get(name) != value:
            return f"{name} {value} instead of {other.get(name)}"
    return ""


@cache
def code_digest() -> str:
    """Return the digest of zerolab's source code."""
    total, root = hashlib.blake2b(digest_size=16), Path(__file__).parents[1]
    for path in sorted(root.rglob("*.py")):
        for part in (path.relative_to(root).as_posix().encode(), path.read_bytes()):
            total.update(hashlib.blake2b(part, digest_size=16).digest())
    return total.hexdigest()


def current_versions() -> dict[str, str]:
    """Return the versions of zerolab, Python and the libraries that results may depend on."""
    libraries = {name: version(name) for name in _LIBRARIES}
    return {"zerolab": __version__, "python": platform.python_version(), **libraries}
