"""Style of the plots: one palette that colour-blind readers can tell apart, one size, no global state."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from robot_stack.disk.durable import write_durable

BLUE, ORANGE, GREEN, RED, PURPLE, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#6E6E6E"
"""Okabe and Ito, 2008. Blue is the policy and orange the operator, as in the banner of the console."""

DPI = 110
SUFFIXES = (".png", ".svg", ".pdf")
_RC: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E4E4E4",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.8,
    "svg.fonttype": "none",
}


class Sheet:
    """A figure to draw on inside `with`, saved at its end; nothing is saved if drawing fails.

    Args:
        path: Where the PNG goes; the other forms of `SUFFIXES`, for slides and papers, go beside it.
        rows: Panels below each other.
        columns: Panels beside each other.
        size: Width and height in inches.
        share_x: Whether the panels of a column share their x axis.
    """

    def __init__(
        self, path: Path, rows: int = 1, columns: int = 1, *, size: tuple[float, float], share_x: bool = False
    ) -> None:
        self._path, self._rows, self._columns = path, rows, columns
        self._size, self._share_x = size, share_x
        self._rc = matplotlib.rc_context(_RC)

    def __enter__(self) -> list[Axes]:
        self._rc.__enter__()
        self._figure = Figure(figsize=self._size, layout="constrained")
        FigureCanvasAgg(self._figure)
        panels = self._figure.subplots(self._rows, self._columns, squeeze=False, sharex=self._share_x)
        return list(panels.ravel())

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            if kind is None:
                for suffix in SUFFIXES:
                    picture = io.BytesIO()
                    self._figure.savefig(picture, format=suffix[1:], dpi=DPI)
                    write_durable(self._path.with_suffix(suffix), picture.getbuffer())
                    self._figure.set_layout_engine("none")  # it stays as the first one was laid out
        finally:
            self._rc.__exit__(None, None, None)
