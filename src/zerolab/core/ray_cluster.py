"""Functions that start or join a Ray cluster and check its nodes.

Importing this module raises MissingExtraError unless the ``cluster`` extra is installed.
"""

from __future__ import annotations

import getpass
import logging
import math
import os
import platform
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from zerolab.core.code_digests import package_digest, software_versions
from zerolab.core.errors import MissingExtraError, UserError, one_line, quoted
from zerolab.core.files import make_folder
from zerolab.core.processes import available_cores, claim_cores

try:
    import ray
except ImportError:
    raise MissingExtraError.for_package("work on a cluster", "ray", "cluster") from None
try:
    from ray._private import ray_constants, worker
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
except ImportError as error:
    raise UserError(
        f"zerolab does not work with Ray {ray.__version__} ({one_line(error)}): expected the"
        ' version that the "cluster" extra installs'
    ) from None

__all__ = [
    "RayCluster",
    "gpu_share",
    "last_error_line",
    "pin_to_free_cores",
    "ray",
    "worker_nodes",
]

LOCAL_ADDRESS = "local"
_ADDRESS = re.compile(r"([\w.-]+|\[[0-9a-fA-F:]+\]):(\d{1,5})")
_GPU_KIND = "accelerator_type:"
_CONNECT_SECONDS = 5.0
_JOIN_SECONDS = 60.0
_CALL_SECONDS = 120.0
_DIGITS = 8  # digits of the package digest that are compared and shown in messages
_LOCAL_STORE = 256 << 20
"""Size in bytes of the object store of a local cluster; Ray writes the rest to disk."""
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
class RayCluster:
    """A cluster that this process has joined."""

    address: str
    """``HOST:PORT``, or ``local``."""
    worker_count: int
    """Number of workers, each with its own CPU."""
    gpu_share: float
    """Fraction of a GPU for each worker; 0 if the cluster has no GPUs."""

    @property
    def is_local(self) -> bool:
        """True if this process started the cluster, which then shuts down with the process."""
        return self.address == LOCAL_ADDRESS

    @classmethod
    def join(cls, address: str, worker_count: int) -> RayCluster:
        """Join the cluster at ``HOST:PORT``, or start one on this machine for ``local``.

        Each worker has its own CPU; a `worker_count` of 0 means one worker per CPU. Raises
        UserError if joining fails or the cluster has fewer CPUs than workers.
        """
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        if address == LOCAL_ADDRESS:
            with _loopback():
                _init(
                    "cannot start Ray on this machine",
                    address=LOCAL_ADDRESS,
                    num_cpus=worker_count or available_cores(),
                    include_dashboard=False,
                    object_store_memory=_LOCAL_STORE,
                    _system_config={"worker_niceness": 0},  # as for workers without Ray
                )
        else:
            _send_token()
            _require_ray_at(address)
            _init(f"cannot join the Ray cluster at {address}", address=address)
        nodes = worker_nodes()
        cpus, gpus = (
            int(sum(node["Resources"].get(kind, 0) for node in nodes)) for kind in ("CPU", "GPU")
        )
        if cpus < max(1, worker_count):
            ray.shutdown()
            raise UserError(
                f"workers = {max(1, worker_count)}: the Ray cluster at {address} has only {cpus}"
                " CPUs"
            )
        return cls(address, worker_count or cpus, gpu_share(gpus, worker_count or cpus))

    def leave(self) -> None:
        """Cancel the tasks of this process and leave the cluster; shut down a local cluster."""
        ray.shutdown()

    def hard_node_affinity(self, node: str) -> Any:
        """Return the scheduling strategy for work that must run on a given node."""
        return NodeAffinitySchedulingStrategy(node, soft=False)

    def soft_node_affinity(self, node: str) -> Any:
        """Return the scheduling strategy for work that may move if the given node is lost."""
        return NodeAffinitySchedulingStrategy(node, soft=True)

    def call_on_nodes(
        self, function: Callable[..., Any], *arguments: Any
    ) -> list[tuple[dict[str, Any], Any]]:
        """Call a function on every node of `worker_nodes`; return the nodes with their results.

        Nodes lost during the call are omitted. Raises UserError if a node cannot run zerolab.
        """
        remote = ray.remote(function)
        calls = [
            (node, remote.options(
                num_cpus=0, max_retries=0,
                scheduling_strategy=self.hard_node_affinity(node["NodeID"]),
            ).remote(*arguments))
            for node in worker_nodes()
        ]  # fmt: skip
        results = []
        for node, call in calls:
            try:
                results.append((node, ray.get(call, timeout=_CALL_SECONDS)))
            except ray.exceptions.RayError as error:
                if node["NodeID"] in {each["NodeID"] for each in worker_nodes()}:
                    raise UserError(
                        f"node {node['NodeManagerAddress']} cannot run zerolab"
                        f" {software_versions()['zerolab']}: expected the same installation as on"
                        f" this machine ({one_line(last_error_line(error))})"
                    ) from None
        return results

    def require_equal_machines(self, precision: Callable[[], str]) -> None:
        """Raise UserError, naming the first machine that differs, unless all machines are equal.

        Machines are equal if they agree in all properties that can affect results; see
        `node_properties`. For nodes with GPUs, the models of the GPUs replace the processor and the
        precision.
        """
        nodes = []
        for node, properties in self.call_on_nodes(node_properties, precision):
            gpus = gpu_models(node)
            relevant = properties._replace(hardware={"GPU": gpus}) if gpus else properties
            nodes.append((node["NodeManagerAddress"], relevant))
        require_equal_properties(nodes, node_properties(precision))


class NodeProperties(NamedTuple):
    """Properties of a machine that can affect results."""

    software: Mapping[str, str]
    """Versions of libraries and the digest of zerolab's code, by name."""
    hardware: Mapping[str, str]
    """Processor type and the numerical precision of networks, or the models of the GPUs."""


def node_properties(precision: Callable[[], str]) -> NodeProperties:
    """Return the properties of this machine; `precision` returns the processor's precision."""
    return NodeProperties(
        {**software_versions(), "code": package_digest()[:_DIGITS]},
        {"processor": platform.machine(), "precision": precision()},
    )


def require_equal_properties(
    nodes: Sequence[tuple[str, NodeProperties]], here: NodeProperties
) -> None:
    """Raise UserError, naming the first node and property that differ, unless all are equal.

    All nodes must have the same installed software as this machine, which need not itself be a
    node, and the same hardware as the first node.
    """
    for node, properties in nodes:
        if difference := _difference(properties.software, here.software):
            raise UserError(
                f"node {node} differs from this machine ({difference}): expected the same"
                " installation on all nodes"
            )
        if difference := _difference(properties.hardware, nodes[0][1].hardware):
            raise UserError(
                f"node {node} differs from the first node ({difference}): expected identical"
                " nodes, since results would otherwise depend on which node trains a run"
            )


def _difference(one: Mapping[str, str], other: Mapping[str, str]) -> str:
    """Return the first difference, such as ``torch 2.12.0 instead of 2.13.0``; "" if none."""
    for name, value in one.items():
        if other.get(name) != value:
            return f"{name} {value} instead of {other.get(name)}"
    return ""


def worker_nodes() -> list[dict[str, Any]]:
    """Return all nodes with GPUs, or all nodes with CPUs if there are no GPUs.

    Mixing the two would make results depend on the node.
    """
    alive = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
    return [node for node in alive if node["Resources"].get("GPU")] or alive


def gpu_models(node: dict[str, Any]) -> str:
    """Return the models of a node's GPUs, as named by Ray; empty if the node has none."""
    resources = node["Resources"]
    kinds = [name.removeprefix(_GPU_KIND) for name in resources if name.startswith(_GPU_KIND)]
    return ", ".join(sorted(kinds)) or ("unknown" if resources.get("GPU") else "")


def gpu_share(gpus: int, workers: int) -> float:
    """Return the fraction of a GPU per worker, at most 1, rounded down so that all workers fit.

    Assumes that all nodes have the same ratio of GPUs to CPUs. Ray counts in steps of 0.0001.
    """
    if gpus == 0:
        return 0.0
    return math.floor(10_000 / math.ceil(workers / gpus)) / 10_000


@contextmanager
def _loopback() -> Iterator[None]:
    """Make Ray listen only on the loopback interface, as it does by default outside Linux."""
    before = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


def _init(failure: str, **options: Any) -> None:
    """Call ray.init, preserving the SIGTERM handler; raise UserError if it fails."""
    worker._worker_logs_enabled = False  # Ray prints reports on lost nodes to standard output
    is_main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(**options, **_QUIET)
    except (Exception, SystemExit) as error:
        ray.shutdown()
        raise UserError(f"{failure}: {one_line(error.__cause__ or error)}") from None
    finally:
        if is_main:
            signal.signal(signal.SIGTERM, handler)


def _send_token() -> None:
    """Authenticate with the user's token, if there is one and RAY_AUTH_MODE is not set.

    `ray start` requires the token as soon as it exists, which it does after the first local
    cluster, but Ray does not send it to a cluster whose address is given. Clusters without
    authentication ignore it.
    """
    try:
        from ray._private.authentication import authentication_token_setup  # noqa: PLC0415
    except ImportError:  # older versions have no tokens
        return
    enable = getattr(authentication_token_setup, "maybe_enable_token_auth_if_token_available", None)
    if enable is None:
        return
    logger = logging.getLogger(authentication_token_setup.__name__)
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        enable()
    finally:
        logger.setLevel(level)


def _require_ray_at(address: str) -> None:
    """Raise UserError within about a minute unless this machine can join the cluster at `address`.

    A subprocess tries to join first, because Ray waits for minutes, prints long messages and may
    end the calling process if there is no Ray cluster at the address.
    """
    parts = _ADDRESS.fullmatch(address)
    if parts is None:
        raise UserError(
            f"Ray cluster at {quoted(address)}: expected {LOCAL_ADDRESS}, or the HOST:PORT printed"
            " by ray start for a cluster that includes this machine"
        )
    no_answer = f"no Ray cluster responded at {address}"
    try:
        socket.create_connection((parts[1].strip("[]"), int(parts[2])), _CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise UserError(
            f"{no_answer} ({one_line(error)}): expected the address printed by ray start"
        ) from None
    try:
        trial = subprocess.run(
            [sys.executable, "-c", _TRIAL, address],
            capture_output=True, text=True, timeout=_JOIN_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise UserError(
            f"{no_answer} within {_JOIN_SECONDS:.0f} seconds: expected the address of the head"
            " node of a cluster that includes this machine (ray start --address)"
        ) from None
    if trial.returncode:
        shown = _last_line(trial.stdout) if "Traceback (" in trial.stdout else trial.stdout
        raise UserError(f"cannot join the Ray cluster at {address}: {one_line(shown)}")


def pin_to_free_cores(count: int = 1) -> list[int]:
    """Pin this thread of a Ray worker to `count` cores not claimed by the user's other workers.

    Returns the cores, or an empty list if the system cannot pin threads. Repeated calls in a
    process keep the first claim.
    """
    if not hasattr(os, "sched_getaffinity"):
        return []
    claim_cores(_core_locks(), _core_groups(count))
    return sorted(os.sched_getaffinity(0))


@cache
def _core_groups(count: int) -> list[list[int]]:
    """Return groups of `count` cores, from those that this process could use before pinning."""
    cores = sorted(os.sched_getaffinity(0))
    return [cores[begin : begin + count] for begin in range(0, len(cores), count)]


def _core_locks() -> Path:
    """Return the folder of core locks, which all Ray nodes of a user on this machine share."""
    # Users in containers may have no name, and Windows has no user ids.
    user = os.getuid() if hasattr(os, "getuid") else getpass.getuser()
    folder = Path(tempfile.gettempdir()) / f"zerolab-cores-{user}"
    make_folder(folder)
    return folder


def last_error_line(error: Exception) -> str:
    """Return the last line of a remote error, which contains its message."""
    return _last_line(str(error)) or type(error).__name__


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
