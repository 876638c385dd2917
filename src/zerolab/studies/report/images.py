"""The pictures of a document, drawn."""

from __future__ import annotations

from typing import NamedTuple

from zerolab.core.figures import figure_bytes
from zerolab.studies.report.document import Picture


class Image(NamedTuple):
    """A picture in both formats."""

    png: bytes
    svg: bytes


def draw(picture: Picture) -> Image:
    """Return the picture's image."""
    return Image(figure_bytes(picture.figure, "png"), figure_bytes(picture.figure, "svg"))
