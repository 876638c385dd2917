"""Style, legends and files of figures.

matplotlib is imported only when a figure is created, because most commands do not draw any.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from zerolab.core.errors import UserError, escape_unprintable, quoted
from zerolab.core.files import atomic_replace, check_output_path
from zerolab.report.table import Z95, Interval

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999933")
"""Colours that people with any type of colour vision can distinguish: the palette of [Okabe2008],
with yellow replaced by the last colour."""

_DOTS_PER_INCH = 120
_UNDATED: Mapping[str, dict[str, Any]] = {
    "svg": {"metadata": {"Date": None}},
    "pdf": {"metadata": {"CreationDate": None}},
}
"""Options of savefig by format that omit dates, so equal figures have equal files."""
_MAX_COLUMNS = 4  # maximum number of legend columns
_LETTER = 0.085  # average width of a character in inches
_SYMBOL = 0.67  # width in inches of the symbol next to a label
_COLOURS = 256  # in a PNG, which makes files two thirds smaller without a visible difference


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure with a constrained layout; `width` and `height` are in inches."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    return Figure(figsize=(width, height), layout="constrained")


def series_colour(number: int) -> str:
    """Return the colour of series `number`, counted from 0; colours repeat after eight."""
    return COLOURS[number % len(COLOURS)]


def add_legend_below(figure: Figure, handles: Sequence[Artist]) -> None:
    """Add a legend with the labels of `handles` below all axes."""
    columns = _legend_columns([str(each.get_label()) for each in handles], figure.get_figwidth())
    legend = figure.legend(handles=list(handles), loc="outside lower center", ncols=columns)
    for text in legend.get_texts():
        text.set_parse_math(False)  # a dollar sign in a name would begin a formula


def _legend_columns(labels: Sequence[str], width: float) -> int:
    """Return the largest number of legend columns that fits into `width` inches."""
    for columns in range(min(len(labels), _MAX_COLUMNS), 1, -1):
        rows, longer = divmod(len(labels), columns)  # the first columns can have one more row
        ends = [i * rows + min(i, longer) for i in range(columns + 1)]
        longest = (max(map(len, labels[i:j])) for i, j in pairwise(ends))
        if sum(_LETTER * letters + _SYMBOL for letters in longest) <= width:
            return columns
    return 1


def shorten_name(name: str, max_length: int = 40) -> str:
    """Return a printable name, shortened to `max_length` characters with … at the end if longer."""
    name = escape_unprintable(name)
    return name if len(name) <= max_length else name[: max_length - 1] + "…"


def check_figure_path(path: Path) -> None:
    """Raise UserError if no figure can be written at `path`, or if it has no known extension.

    Call this before starting work whose results will be drawn.
    """
    if path.suffix[1:].lower() not in new_figure(1, 1).canvas.get_supported_filetypes():
        raise UserError(f"{quoted(str(path))}: expected an extension such as .png, .svg or .pdf")
    check_output_path(path)


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure to a file atomically, in the format given by the extension of the path.

    Equal figures result in identical bytes. Raises UserError if the extension is unknown or the
    file cannot be written.
    """
    check_figure_path(path)
    with atomic_replace(path) as temporary:
        temporary.write_bytes(figure_bytes(figure, path.suffix[1:].lower()))


def figure_bytes(figure: Figure, file_format: str) -> bytes:
    """Return the bytes of a figure in a format such as ``png`` or ``svg``."""
    from matplotlib import rc_context  # noqa: PLC0415

    content = io.BytesIO()
    with warnings.catch_warnings(), rc_context({"svg.hashsalt": "zerolab"}):
        warnings.simplefilter("ignore", UserWarning)  # about characters missing from the font
        figure.savefig(
            content, dpi=_DOTS_PER_INCH, format=file_format, **_UNDATED.get(file_format, {})
        )
    return _with_palette(content) if file_format == "png" else content.getvalue()


def _with_palette(png: io.BytesIO) -> bytes:
    from PIL import Image  # noqa: PLC0415  (a dependency of matplotlib)

    content = io.BytesIO()
    opaque = Image.open(png).convert("RGB")
    quantized = opaque.quantize(_COLOURS, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    quantized.save(content, "PNG", optimize=True, dpi=(_DOTS_PER_INCH, _DOTS_PER_INCH))
    return content.getvalue()


RUN_STYLE: dict[str, Any] = {"marker": "o", "markersize": 4.5, "mec": "white", "mew": 0.5}
"""Style of the dot for a run."""
ERROR_STYLE: dict[str, Any] = {"elinewidth": 0.8, "capsize": 0}
"""Style of the bar for a measurement error."""
PUBLISHED_STYLE: dict[str, Any] = {"marker": "D", "markersize": 6, "mfc": "none", "mec": "black"}
"""Style of the symbol for a published number."""
BAND_OPACITY = 0.22
"""Opacity of the band around a mean."""


class RunSample(NamedTuple):
    """Measured values of runs that differ only in their seed."""

    values: Sequence[float]
    """One value per run."""
    standard_errors: Sequence[float] = ()
    """Standard error of measuring each value; empty if the values are exact."""
    published_value: float | None = None
    """Published value, or None if there is none."""
    mean: Interval | None = None
    """Mean of the values with its 95 % interval over runs; None without values."""


def margins_of_error(standard_errors: Iterable[float]) -> list[float]:
    """Return half the width of the 95 % interval for each standard error."""
    return [Z95 * error for error in standard_errors]


def run_legend_handle(colour: str = "0.35") -> Artist:
    """Return the legend handle for runs."""
    from matplotlib.lines import Line2D  # noqa: PLC0415

    return Line2D([], [], linestyle="", color=colour, label="one run", **RUN_STYLE)


def error_legend_handle(label: str = "error of measuring a run, 95 %") -> Artist:
    """Return the legend handle for measurement errors."""
    from matplotlib.lines import Line2D  # noqa: PLC0415

    return Line2D(
        [], [], linestyle="", marker="|", markersize=11, color="0.35", mew=0.8, label=label
    )


def published_legend_handle() -> Artist:
    """Return the legend handle for published numbers."""
    from matplotlib.lines import Line2D  # noqa: PLC0415

    return Line2D([], [], linestyle="", label="published", **PUBLISHED_STYLE)


def series_legend_handle(colour: str, label: str) -> Artist:
    """Return the legend handle for a series: a patch in its colour."""
    from matplotlib.patches import Patch  # noqa: PLC0415

    return Patch(color=colour, label=label)


def style_axes(axes: Axes, title: str = "") -> None:
    """Apply the common style to axes, and set their title unless it is empty."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3, linewidth=0.6)
    axes.set_axisbelow(True)
    if title:
        axes.set_title(title, fontsize=11, parse_math=False)


def with_minus_sign(text: str) -> str:
    """Return the text of a number with a minus sign in place of a hyphen, as in axis labels."""
    return text.replace("-", "\N{MINUS SIGN}")
