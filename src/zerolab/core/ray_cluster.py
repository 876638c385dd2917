"""Ray clusters: joining one or starting it on this machine, and checks of its nodes.

Importing this module raises UserError unless the extra ``cluster`` is installed.
"""

from __future__ import annotations

import logging
import math
import os
import platform
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from zerolab.core.code_digests import code_digest, current_versions
from zerolab.core.errors import UserError, one_line, quoted
from zerolab.core.processes import available_cores

try:
    import ray
except ImportError:
    raise UserError("Ray is needed and not installed: pip install 'zerolab[cluster]'") from None
try:
    from ray._private import ray_constants, worker
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
except ImportError as error:
    raise UserError(
        f"zerolab does not work with Ray {ray.__version__} ({one_line(error)}): expected a version"
        " that pip install 'zerolab[cluster]' chooses"
    ) from None

__all__ = ["Cluster", "gpu_share", "last_line", "ray", "working_nodes"]

LOCAL = "local"
_ADDRESS = re.compile(r"([\w.-]+|\[[0-9a-fA-F:]+\]):(\d{1,5})")
_GPU_KIND = "accelerator_type:"
_CONNECT_SECONDS = 5.0
_JOIN_SECONDS = 60.0
_ANSWER_SECONDS = 120.0
_DIGITS = 8  # of the code digest in messages
_LOCAL_STORE = 256 << 20
"""Size of Ray's object store on this machine, in bytes; no large objects go through it."""
_QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}

_TRIAL = """
import logging, sys, ray
try:
    ray.init(address=sys.argv[1], log_to_driver=False, logging_level=logging.CRITICAL)
except BaseException as error:
    print(error.__cause__ or error)
    sys.exit(1)
"""


@dataclass(frozen=True)
class Cluster:
    """A cluster that this process has joined."""

    address: str
    workers: int
    gpu_share: float
    """Share of a GPU for each worker; 0 if the cluster has no GPUs."""

    @property
    def is_local(self) -> bool:
        """True if this process has started the cluster, which ends with it."""
        return self.address == LOCAL

    @classmethod
    def joined(cls, address: str, count: int) -> Cluster:
        """Join the cluster at ``HOST:PORT``, or start one on this machine for ``local``.

        The cluster must have `count` CPUs; 0 means all of them. Raises UserError if this is
        impossible.
        """
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        if address == LOCAL:
            with _loopback():
                _init(
                    "cannot start Ray on this machine",
                    address=LOCAL,
                    num_cpus=count or available_cores(),
                    include_dashboard=False,
                    object_store_memory=_LOCAL_STORE,
                    _system_config={"worker_niceness": 0},  # as other workers on this machine
                )
        else:
            _require_ray_at(address)
            _init(f"cannot join the Ray cluster at {address}", address=address)
        nodes = working_nodes()
        cpus, gpus = (
            int(sum(node["Resources"].get(kind, 0) for node in nodes)) for kind in ("CPU", "GPU")
        )
        if cpus < max(1, count):
            ray.shutdown()
            raise UserError(
                f"workers = {max(1, count)}: the Ray cluster at {address} has {cpus} CPUs for them"
            )
        return cls(address, count or cpus, gpu_share(gpus, count or cpus))

    def leave(self) -> None:
        """Cancel the tasks of this process and leave; a local cluster is shut down."""
        ray.shutdown()

    def on_node(self, node: str) -> Any:
        """Return the scheduling strategy for work on one node and no other."""
        return NodeAffinitySchedulingStrategy(node, soft=False)

    def near_node(self, node: str) -> Any:
        """Return the scheduling strategy for work on one node, or elsewhere if it is lost."""
        return NodeAffinitySchedulingStrategy(node, soft=True)

    def ask_nodes(
        self, function: Callable[..., Any], *arguments: Any
    ) -> list[tuple[dict[str, Any], Any]]:
        """Call a function on every node; return each node with its answer.

        Nodes that are lost meanwhile are left out. Raises UserError if zerolab does not work on a
        node.
        """
        remote = ray.remote(function)
        asked = [
            (node, remote.options(
                num_cpus=0, max_retries=0, scheduling_strategy=self.on_node(node["NodeID"])
            ).remote(*arguments))
            for node in working_nodes()
        ]  # fmt: skip
        answers = []
        for node, answer in asked:
            try:
                answers.append((node, ray.get(answer, timeout=_ANSWER_SECONDS)))
            except ray.exceptions.RayError as error:
                if node["NodeID"] in {each["NodeID"] for each in working_nodes()}:
                    raise UserError(
                        f"node {node['NodeManagerAddress']} cannot run zerolab"
                        f" {current_versions()['zerolab']}: expected it to be installed there as it"
                        f" is here ({one_line(last_line(error))})"
                    ) from None
        return answers

    def require_equal_nodes(self, precision: Callable[[], str]) -> None:
        """Raise UserError, naming the first node that differs, unless all nodes are equal.

        Compares the facts on which results depend; see `node_facts`. Nodes with GPUs are compared
        by the kinds of their GPUs instead of processor and precision.
        """
        facts = []
        for node, found in self.ask_nodes(node_facts, precision):
            gpus = gpus_of(node)
            compared = found._replace(hardware={"GPU": gpus}) if gpus else found
            facts.append((node["NodeManagerAddress"], compared))
        require_equal(facts, node_facts(precision))


class NodeFacts(NamedTuple):
    """Properties of a machine on which results depend."""

    installed: Mapping[str, str]
    """Versions of libraries and the digest of zerolab's code, by name."""
    hardware: Mapping[str, str]
    """Kind of the processor and the precision that networks compute in, or kind of the GPUs."""


def node_facts(precision: Callable[[], str]) -> NodeFacts:
    """Return the facts of this machine; `precision` returns what its processor computes in."""
    return NodeFacts(
        {**current_versions(), "code": code_digest()[:_DIGITS]},
        {"processor": platform.machine(), "precision": precision()},
    )


def require_equal(nodes: Sequence[tuple[str, NodeFacts]], here: NodeFacts) -> None:
    """Raise UserError, naming the first node and fact that differ, unless all are equal.

    Installed software must equal that of this machine, which need not be a node; hardware must
    equal that of the first node.
    """
    for node, facts in nodes:
        if difference := _difference(facts.installed, here.installed):
            raise UserError(
                f"node {node} has {difference} as on this machine: install the same on all nodes"
            )
        if difference := _difference(facts.hardware, nodes[0][1].hardware):
            raise UserError(
                f"node {node} has {difference} as the first node: results would depend on where"
                " runs are trained, so use equal nodes"
            )


def _difference(one: Mapping[str, str], other: Mapping[str, str]) -> str:
    """Return the first difference between facts, such as ``torch 2.12.0 instead of 2.13.0``."""
    for name, value in one.items():
        if other.get(name) != value:
            return f"{name} {value} instead of {other.get(name)}"
    return ""


def working_nodes() -> list[dict[str, Any]]:
    """Return the nodes with CPUs; if some have GPUs, only these, so that all are equal."""
    alive = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
    return [node for node in alive if node["Resources"].get("GPU")] or alive


def gpus_of(node: dict[str, Any]) -> str:
    """Return the kinds of GPUs of a node, as Ray names them; empty if it has none."""
    resources = node["Resources"]
    kinds = [name.removeprefix(_GPU_KIND) for name in resources if name.startswith(_GPU_KIND)]
    return ", ".join(sorted(kinds)) or ("unknown" if resources.get("GPU") else "")


def gpu_share(gpus: int, workers: int) -> float:
    """Return the share of a GPU per worker, at most 1, rounded down so that all workers fit.

    Assumes that GPUs are spread over the nodes as CPUs are. Ray counts in steps of 0.0001.
    """
    if gpus == 0:
        return 0.0
    return math.floor(10_000 / math.ceil(workers / gpus)) / 10_000


@contextmanager
def _loopback() -> Iterator[None]:
    """Make Ray listen on the loopback interface only, as it does by default outside Linux."""
    former = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = former


def _init(failing: str, **options: Any) -> None:
    """Call ray.init, keeping the handler of SIGTERM."""
    worker._worker_logs_enabled = False  # Ray's own reports on lost nodes go to standard output
    is_main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(**options, **_QUIET)
    except (Exception, SystemExit) as error:
        ray.shutdown()
        raise UserError(f"{failing}: {one_line(error.__cause__ or error)}") from None
    finally:
        if is_main:
            signal.signal(signal.SIGTERM, handler)


def _require_ray_at(address: str) -> None:
    """Raise UserError, within a minute, unless this machine can join a Ray cluster.

    A subprocess tries first: if something else answers, or nothing does, Ray waits long, prints
    much and may end its process.
    """
    parts = _ADDRESS.fullmatch(address)
    if parts is None:
        raise UserError(
            f"a Ray cluster at {quoted(address)}: expected {LOCAL}, or the HOST:PORT of a cluster"
            " that this machine is a node of, as ray start has printed it"
        )
    nothing = f"no Ray cluster answers at {address}"
    try:
        socket.create_connection((parts[1].strip("[]"), int(parts[2])), _CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise UserError(
            f"{nothing} ({one_line(error)}): expected the address that ray start has printed"
        ) from None
    try:
        trial = subprocess.run(
            [sys.executable, "-c", _TRIAL, address],
            capture_output=True, text=True, timeout=_JOIN_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise UserError(
            f"{nothing} within {_JOIN_SECONDS:.0f} seconds: expected the address of its head node,"
            " and a node of it on this machine (ray start --address)"
        ) from None
    if trial.returncode:
        raise UserError(f"cannot join the Ray cluster at {address}: {one_line(trial.stdout)}")


def last_line(error: Exception) -> str:
    """Return the last line of a remote error, which holds its message."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
