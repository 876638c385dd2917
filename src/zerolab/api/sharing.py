"""Networks as files for others."""

from __future__ import annotations

from pathlib import Path

from zerolab.agents import exporting
from zerolab.api.arguments import require_path
from zerolab.core.errors import require


def export_network(run: str, file: Path | str, *, overwrite: bool = False) -> Path:
    """Write the network of ``runs/demo`` or ``runs/demo@12`` into one file; return its path.

    ``FILE.zerolab`` is an agent that can be named wherever agents are; ``FILE.onnx`` is a model for
    other programs, whose outputs have been compared with the network's (docs/sharing.md). A file
    that is there with other content stays, unless `overwrite` is set. Raises UserError, having
    written nothing, for every mistake.
    """
    require("run", run, str, 'a run, such as "runs/demo@12"')
    require_path("file", file)
    return exporting.export(run, Path(file), overwrite=overwrite).path
