"""Whether the nodes of a Ray cluster can work together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zerolab.core.errors import UserError, one_line
from zerolab.core.ray_cluster import Cluster, gpus_of, last_line, ray
from zerolab.networks.node_facts import NodeFacts, node_facts, require_equal

_SECONDS_TO_ANSWER = 120.0


def check_nodes(cluster: Cluster) -> None:
    """Raise UserError, naming the first node that differs and in what, unless all are equal.

    See `NodeFacts`.
    """
    asked = [
        (ray.remote(node_facts).options(
            num_cpus=0, max_retries=0, scheduling_strategy=cluster.on_node(node["NodeID"])
        ).remote(), node)
        for node in cluster.nodes()
    ]  # fmt: skip
    here, found = node_facts(), []
    for answer, node in asked:
        facts = _facts(cluster, answer, node, here)
        if facts is not None:
            gpus = gpus_of(node)
            facts = facts._replace(hardware={"GPU": gpus}) if gpus else facts
            found.append((node["NodeManagerAddress"], facts))
    require_equal(found, here)


def _facts(
    cluster: Cluster, answer: Any, node: Mapping[str, Any], here: NodeFacts
) -> NodeFacts | None:
    """Return the facts of a node, None of one that is gone by now.

    Raises UserError where zerolab does not work there.
    """
    try:
        facts: NodeFacts = ray.get(answer, timeout=_SECONDS_TO_ANSWER)
    except ray.exceptions.RayError as error:
        if node["NodeID"] not in {each["NodeID"] for each in cluster.nodes()}:
            return None
        raise UserError(
            f"node {node['NodeManagerAddress']} cannot run zerolab"
            f" {here.installed['zerolab']}: expected it to be installed there as it is here"
            f" ({one_line(last_line(error))})"
        ) from None
    return facts
