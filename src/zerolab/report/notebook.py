"""Results as tables and figures in notebooks, and tables as data frames of pandas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zerolab.core.errors import MissingExtraError
from zerolab.report.document import Block, Document, Heading, Paragraph, Picture, render_picture
from zerolab.report.html import html_blocks

if TYPE_CHECKING:
    from pandas import DataFrame


class NotebookView:
    """Base class of results that a notebook shows as tables and figures."""

    def _blocks(self) -> Iterable[Block]:
        """Return the tables and figures."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        """Return the tables and figures as HTML, which notebooks show."""
        return blocks_html(self._blocks())


class NotebookDocument(NotebookView):
    """A report that a notebook shows without the parts for a whole page."""

    def __init__(self, document: Document) -> None:
        self.document = document

    def _blocks(self) -> Iterable[Block]:
        document = self.document
        yield Heading(document.title)
        yield Paragraph(f"Limits. {document.limits}")
        yield from document.blocks
        yield Paragraph(document.provenance.summary())


def blocks_html(blocks: Iterable[Block]) -> str:
    """Return tables, figures and text as a part of an HTML page."""
    every = list(blocks)
    images = {each.name: render_picture(each) for each in every if isinstance(each, Picture)}
    return "\n".join(html_blocks(every, images))


def data_frame(rows: Sequence[Mapping[str, Any]]) -> DataFrame:
    """Return rows as a data frame; raise MissingExtraError if pandas is not installed."""
    try:
        from pandas import DataFrame  # noqa: PLC0415  slow, and only for notebooks
    except ModuleNotFoundError as error:
        raise MissingExtraError.of("a data frame", "pandas", "notebook") from error
    return DataFrame(list(rows))
