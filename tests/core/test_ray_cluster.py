"""Ray clusters: addresses, equal nodes, GPU shares and unsupported versions of Ray."""

from __future__ import annotations

import importlib
import re
import socket
import sys

import pytest

pytest.importorskip("ray")

from zerolab.core import ray_cluster
from zerolab.core.errors import UserError
from zerolab.core.ray_cluster import (
    RayCluster,
    gpu_models,
    gpu_share,
    node_properties,
    require_equal_properties,
)
from zerolab.networks.inference import cpu_precision_name


def test_first_different_node_is_named():
    local = node_properties(cpu_precision_name)
    assert set(local.software) == {"zerolab", "python", "torch", "numpy", "numba", "code"}
    assert local.hardware["precision"] in ("float32", "bfloat16")
    other = local._replace(software={**local.software, "torch": "0.1", "numba": "0.1"})
    difference = (
        f"node b differs from this machine (torch 0.1 instead of {local.software['torch']})"
    )
    with pytest.raises(UserError, match=re.escape(difference)):
        require_equal_properties([("a", local), ("b", other), ("c", other)], local)


def test_nodes_need_equal_hardware():
    local = node_properties(cpu_precision_name)
    one, other = (local._replace(hardware={"GPU": kind}) for kind in ("A100", "H100"))
    require_equal_properties([("a", one), ("b", one)], local)
    with pytest.raises(
        UserError, match=r"node c differs from the first node \(GPU H100 instead of A100\)"
    ):
        require_equal_properties([("a", one), ("b", one), ("c", other)], local)


def test_gpu_models_come_from_ray_resources():
    assert (
        gpu_models({"Resources": {"CPU": 1.0, "GPU": 1.0, "accelerator_type:A100": 1.0}}) == "A100"
    )
    assert gpu_models({"Resources": {"CPU": 1.0, "GPU": 1.0}}) == "unknown"
    assert gpu_models({"Resources": {"CPU": 1.0}}) == ""


def test_gpu_shares_fit_all_workers():
    assert gpu_share(0, 8) == 0.0
    assert gpu_share(2, 1) == gpu_share(2, 2) == 1.0
    assert gpu_share(2, 6) == 0.3333
    assert gpu_share(3, 10) == 0.25  # four workers per GPU; shares of 3 / 10 would fit only nine


@pytest.mark.parametrize("address", ["loca", "ray://head:10001", "head", "head:", "a b:1"])
def test_malformed_address_is_refused(address):
    with pytest.raises(UserError, match="HOST:PORT"):
        RayCluster.join(address, 0)


def test_closed_port_is_reported():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    with pytest.raises(UserError, match=address):
        RayCluster.join(address, 0)


def test_port_of_other_server_is_reported(monkeypatch):
    monkeypatch.setattr(ray_cluster, "_JOIN_SECONDS", 2.0)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(UserError, match=f"{address} within 2 seconds"):
            RayCluster.join(address, 0)


def test_missing_ray_is_reported(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "zerolab.core.ray_cluster")
    with pytest.raises(UserError, match='the "cluster" extra'):
        importlib.import_module("zerolab.core.ray_cluster")


def test_unsupported_ray_version_is_reported(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray._private.worker", None)
    monkeypatch.delattr("ray._private.worker")
    monkeypatch.delitem(sys.modules, "zerolab.core.ray_cluster")
    with pytest.raises(UserError, match=r"Ray \d+\.\d+"):
        importlib.import_module("zerolab.core.ray_cluster")
