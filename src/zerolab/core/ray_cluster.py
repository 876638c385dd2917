"""Joining a Ray cluster, or starting one on this machine; what goes wrong becomes one line."""

from __future__ import annotations

import logging
import math
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

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

__all__ = ["Cluster", "last_line", "ray"]

LOCAL = "local"
_ADDRESS = re.compile(r"([\w.-]+|\[[0-9a-fA-F:]+\]):(\d{1,5})")
_GPU_KIND = "accelerator_type:"
_CONNECT_SECONDS = 5.0
_JOIN_SECONDS = 60.0
_LOCAL_STORE = 256 << 20
"""Bytes of Ray's object store on this machine, where nothing large goes through it."""
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
    """The cluster that this process has joined."""

    address: str
    workers: int
    gpu_share: float
    """What each worker gets of a GPU; 0 where the cluster has none."""

    @property
    def is_local(self) -> bool:
        """Whether it was started for this process, with which it ends."""
        return self.address == LOCAL

    @classmethod
    def joined(cls, address: str, count: int) -> Cluster:
        """Start a cluster here, with `count` CPUs, or join one that has as many.

        A `count` of 0 means all CPUs. Raises UserError where that is impossible.
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
        cpus, gpus = (int(sum(node["Resources"].get(kind, 0) for node in nodes))
                      for kind in ("CPU", "GPU"))  # fmt: skip
        if cpus < max(1, count):
            ray.shutdown()
            raise UserError(
                f"workers = {max(1, count)}: the Ray cluster at {address} has {cpus} CPUs for them"
            )
        return cls(address, count or cpus, gpu_share(gpus, count or cpus))

    def leave(self) -> None:
        """End what goes on for this process; a cluster that was started for it ends, too."""
        ray.shutdown()

    def nodes(self) -> list[dict[str, Any]]:
        """Return the nodes that work."""
        return working_nodes()

    def on_node(self, node: str) -> Any:
        """Return what makes Ray do something on a node and nowhere else."""
        return NodeAffinitySchedulingStrategy(node, soft=False)

    def near_node(self, node: str) -> Any:
        """Return what makes Ray do something on a node, or elsewhere where that is lost."""
        return NodeAffinitySchedulingStrategy(node, soft=True)

    def on_this_node(self) -> Any:
        """See `on_node`."""
        return self.on_node(ray.get_runtime_context().get_node_id())


def working_nodes() -> list[dict[str, Any]]:
    """Return the nodes with CPUs; only those with GPUs if there are any, so that all are equal."""
    alive = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
    return [node for node in alive if node["Resources"].get("GPU")] or alive


def gpus_of(node: dict[str, Any]) -> str:
    """Return the kinds of GPUs of a node, as Ray names them; nothing where it has none."""
    resources = node["Resources"]
    kinds = [name.removeprefix(_GPU_KIND) for name in resources if name.startswith(_GPU_KIND)]
    return ", ".join(sorted(kinds)) or ("unknown" if resources.get("GPU") else "")


def gpu_share(gpus: int, workers: int) -> float:
    """Return the part of a GPU for each worker, so that as many as needed fit on each; at most 1.

    GPUs are taken to be spread over the nodes as CPUs are. Ray counts in steps of 0.0001.
    """
    if gpus == 0:
        return 0.0
    return math.floor(10_000 / math.ceil(workers / gpus)) / 10_000


@contextmanager
def _loopback() -> Iterator[None]:
    """Let Ray listen on the loopback interface alone, as it does by itself outside Linux."""
    former = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = former


def _init(failing: str, **options: Any) -> None:
    """Call ray.init; signals stay with who has handled them."""
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

    Where something else answers, or nothing does, Ray waits long, prints much, and may end its
    process: so another process tries.
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
    """Return the last line of a remote error, which says what was wrong."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
