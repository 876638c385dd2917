"""Networks as ONNX models, for programs that know nothing of zerolab.

A model has one input, ``planes``, and one output for each head, by its name, whose first dimension
is the batch. Before it is written, a model's outputs are compared with the network's.
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
from zerolab.networks.layers import folded_copy
from zerolab.networks.network import Network

TOLERANCE = 1e-4
"""Maximum difference of an output from the network's, relative to the larger of 1 and the
number."""
INPUT = "planes"

_BATCH = "batch"
_PACKAGES = ("onnx", "onnxscript", "onnxruntime")
_TRACED = 3  # positions to trace with; 0 and 1 would be taken for constants


class Agreement(NamedTuple):
    """Agreement of a model with its network."""

    positions: int
    differences: Mapping[str, float]
    """By output, the largest of |model - network| / max(1, |network|)."""
    shapes: Mapping[str, tuple[int, ...]]
    """By output, its shape for one position."""


def require_packages() -> None:
    """Raise MissingExtraError where a package that exporting needs is not installed."""
    for name in _PACKAGES:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise MissingExtraError(
                f"networks are exported by {name}, which is not installed: install the extra"
                " \"onnx\", as in pip install 'zerolab[onnx]'"
            ) from error


def onnx_model(network: Network, planes: NDArray[np.float32], about: Mapping[str, Any]) -> bytes:
    """Return a network as the content of an ONNX file: float32, batch norms folded.

    `planes`, float32[N, planes, rows, columns] with N of at least 3, are those of any positions.
    `about` becomes the model's metadata, each value as JSON. Raises UserError for a network with a
    layer that cannot be exported, MissingExtraError where the extra is not installed.
    """
    require_packages()
    model = _AllHeads(folded_copy(network))
    try:
        with _quiet():
            program = torch.onnx.export(
                model,
                (torch.from_numpy(planes[:_TRACED]),),
                dynamo=True,
                input_names=[INPUT],
                output_names=list(network.kinds),
                dynamic_shapes=({0: torch.export.Dim(_BATCH)},),
                external_data=False,
                verbose=False,
            )
    except torch.onnx.errors.OnnxExporterError as error:
        raise UserError(f"the network cannot be exported: {one_line(error)}") from error
    assert program is not None
    proto = program.model_proto
    _strip(proto)
    for key, value in sorted(about.items()):
        entry = proto.metadata_props.add()
        entry.key, entry.value = key, json.dumps(value, sort_keys=True)
    content: bytes = proto.SerializeToString(deterministic=True)
    return content


def compare(content: bytes, network: Network, planes: NDArray[np.float32]) -> Agreement:
    """Run a model with onnxruntime, and the network with torch in float32, on the same positions.

    `planes` is float32[N, planes, rows, columns]. The model sees them in a batch, and the first
    one by itself. Raises UserError where an output differs by more than the tolerance.
    """
    require_packages()
    session = importlib.import_module("onnxruntime").InferenceSession(
        content, providers=["CPUExecutionProvider"]
    )
    plain = network.cpu().float().eval()
    found: dict[str, float] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    for batch in (planes, planes[:1]):
        with torch.inference_mode():
            expected = plain(torch.from_numpy(batch))
        outputs = dict(zip(expected, session.run(list(expected), {INPUT: batch}), strict=True))
        for name, output in outputs.items():
            found[name] = max(found.get(name, 0.0), _difference(output, expected[name]))
            shapes[name] = tuple(output.shape[1:])
    for name, difference in found.items():
        if not difference <= TOLERANCE:
            raise UserError(
                f"the exported model's {name} differs from the network's by {difference:.2g}:"
                f" expected at most {TOLERANCE:g}; nothing was written"
            )
    return Agreement(len(planes), found, shapes)


class _AllHeads(nn.Module):
    """A network whose predictions are a tuple, in the order of its heads."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, planes: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.network(planes).values())


def _difference(output: NDArray[np.float32], expected: Tensor) -> float:
    wanted = expected.numpy()
    if output.shape != wanted.shape:
        return math.inf
    largest = float((np.abs(output - wanted) / np.maximum(1, np.abs(wanted))).max())
    return largest if math.isfinite(largest) else math.inf  # NaN would pass every comparison


def _strip(proto: Any) -> None:
    """Remove the exporter's notes about the traced code: paths and lines."""
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
    """Silence the exporter's messages about itself and about optional packages."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
