"""Export of networks as ONNX models, for use without zerolab.

A model has one input, ``planes``, and one output per head, named after the head. The first
dimension of each is the batch. A model's outputs are compared with the network's before it is
written.
"""

from __future__ import annotations

import importlib
import json
import logging
import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from zerolab.core.errors import MissingExtraError, UserError, one_line
from zerolab.networks.network import Network, folded_copy

TOLERANCE = 1e-4
"""Largest accepted difference from the network's output x, relative to max(1, |x|)."""
INPUT = "planes"

_BATCH = "batch"
_PACKAGES = ("onnx", "onnxscript", "onnxruntime")
_TRACED = 3  # batch size for tracing, which would treat 0 and 1 as constants


class ModelAgreement(NamedTuple):
    """Comparison of a model with its network."""

    position_count: int
    """Number of compared positions."""
    differences: Mapping[str, float]
    """Largest |model - network| / max(1, |network|) of each output."""
    output_shapes: Mapping[str, tuple[int, ...]]
    """Shape of each output for one position."""


def require_onnx_packages() -> None:
    """Raise MissingExtraError if a package required for export is not installed."""
    for name in _PACKAGES:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise MissingExtraError.of("exporting a network", name, "onnx") from error


def encode_onnx_model(
    network: Network, planes: NDArray[np.float32], metadata: Mapping[str, Any]
) -> bytes:
    """Return a network as the content of an ONNX file, in float32 with folded batch norms.

    `planes`, float32[N, planes, rows, columns] with N at least 3, encode arbitrary positions.
    `metadata` is stored in the model, with each value encoded as JSON. Raises UserError if a
    layer cannot be exported and MissingExtraError if the extra is not installed.
    """
    require_onnx_packages()
    model = _AllHeads(folded_copy(network))
    try:
        with _quiet():
            program = torch.onnx.export(
                model,
                (torch.from_numpy(planes[:_TRACED]),),
                dynamo=True,
                input_names=[INPUT],
                output_names=list(network.head_settings),
                dynamic_shapes=({0: torch.export.Dim(_BATCH)},),
                external_data=False,
                verbose=False,
            )
    except torch.onnx.errors.OnnxExporterError as error:
        raise UserError(f"the network cannot be exported: {one_line(error)}") from error
    assert program is not None
    proto = program.model_proto
    _strip(proto)
    for key, value in sorted(metadata.items()):
        entry = proto.metadata_props.add()
        entry.key, entry.value = key, json.dumps(value, sort_keys=True)
    content: bytes = proto.SerializeToString(deterministic=True)
    return content


def compare_onnx_model(
    content: bytes, network: Network, planes: NDArray[np.float32]
) -> ModelAgreement:
    """Compare a model in onnxruntime with the network in torch, both in float32.

    `planes`, float32[N, planes, rows, columns], are evaluated as one batch, and the first position
    again by itself. Raises UserError if an output differs by more than the tolerance.
    """
    require_onnx_packages()
    session = importlib.import_module("onnxruntime").InferenceSession(
        content, providers=["CPUExecutionProvider"]
    )
    plain = network.cpu().float().eval()
    differences: dict[str, float] = {}
    output_shapes: dict[str, tuple[int, ...]] = {}
    for batch in (planes, planes[:1]):
        with torch.inference_mode():
            expected = plain(torch.from_numpy(batch))
        outputs = dict(zip(expected, session.run(list(expected), {INPUT: batch}), strict=True))
        for name, output in outputs.items():
            difference = _relative_difference(output, expected[name].numpy())
            differences[name] = max(differences.get(name, 0.0), difference)
            output_shapes[name] = tuple(output.shape[1:])
    for name, difference in differences.items():
        if not difference <= TOLERANCE:
            raise UserError(
                f"the exported model's {name} differs from the network's by {difference:.2g}:"
                f" expected at most {TOLERANCE:g}; nothing was written"
            )
    return ModelAgreement(len(planes), differences, output_shapes)


class _AllHeads(nn.Module):
    """A network that returns its predictions as a tuple, in the order of its heads."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, planes: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.network(planes).values())


def _relative_difference(output: NDArray[np.float32], expected: NDArray[np.float32]) -> float:
    if output.shape != expected.shape:
        return math.inf
    largest = float((np.abs(output - expected) / np.maximum(1, np.abs(expected))).max())
    return largest if math.isfinite(largest) else math.inf  # max() would ignore a NaN


def _strip(proto: Any) -> None:
    """Remove the exporter's notes on the traced code, such as paths and line numbers."""
    proto.doc_string = proto.graph.doc_string = ""
    for part in (proto.graph, *proto.functions):
        del part.metadata_props[:]
        for each in (*part.node, *part.value_info):
            del each.metadata_props[:]
            each.doc_string = ""
    for each in (*proto.graph.input, *proto.graph.output, *proto.graph.initializer):
        del each.metadata_props[:]
        each.doc_string = ""


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the exporter's log messages and warnings."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
