"""What machines must have in common to work together, because results depend on it."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch

from zerolab.core.code_digests import code_digest, current_versions
from zerolab.core.errors import UserError
from zerolab.networks.inference import best_precision

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
