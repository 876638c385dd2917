"""Execute the notebooks in examples/notebooks and store their outputs.

    python tools/run_notebooks.py

It needs nbclient and ipykernel, which are in the `dev` extra.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parents[1] / "examples" / "notebooks"
_TIMEOUT = 600  # seconds per cell


def run(path: Path) -> None:
    """Execute a notebook in an empty folder and store its outputs, without times and warnings."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory(prefix="zerolab-") as folder:
        resources = {"metadata": {"path": folder}}
        NotebookClient(notebook, timeout=_TIMEOUT, resources=resources).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [each for each in cell.outputs if each.get("name") != "stderr"]
    nbformat.write(notebook, path)


def main() -> None:
    """Execute all notebooks."""
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        run(path)
        print(path.relative_to(NOTEBOOKS.parents[1]))


if __name__ == "__main__":
    main()
