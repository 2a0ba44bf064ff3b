"""Style of the plots: one palette that colour-blind readers can tell apart, one size, no global state.

A plot also tells what its curves are at each place: the values beside it in a JSON file, which a page reads out
where its reader points (`robot_stack.report.plots.run.shown`).
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from robot_stack.disk.durable import write_durable

BLUE, ORANGE, GREEN, RED, PURPLE, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#6E6E6E"
"""Okabe and Ito, 2008. Blue is the policy and orange the operator, as in the banner of the console."""

GRID = "#E4E4E4"

DPI = 110
_PAINTS: dict[str, Callable[[Figure, BinaryIO], None]] = {
    ".png": lambda figure, to: FigureCanvasAgg(figure).print_png(to),
    ".svg": lambda figure, to: FigureCanvasSVG(figure).print_svg(to),
    ".pdf": lambda figure, to: FigureCanvasPdf(figure).print_pdf(to),
}
SUFFIXES = tuple(_PAINTS)
TOLD = ".json"
"""Suffix of the file beside a plot with what is told of its curves."""
_RC: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titley": 1.0,  # else each form of a figure is measured anew for it
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": GRID,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.8,
    "svg.fonttype": "none",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """What is told of a curve with N places.

    Attributes:
        panel: Where it is drawn.
        name: What is drawn.
        colour: Of its mark.
        y: In the units of the panel, shape (N,); NaN where there is nothing to tell.
        values: N of them, in words, with their intervals where they have some.
    """

    panel: Axes
    name: str
    colour: str
    y: np.ndarray
    values: Sequence[str]


def plain_curve(panel: Axes, name: str, colour: str, y: np.ndarray, unit: str = "", digits: int = 3) -> Curve:
    """Return a curve of which nothing but its values is told, with so many digits that count."""
    return Curve(panel=panel, name=name, colour=colour, y=y, values=[f"{value:.{digits}g}{unit}" for value in y])


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
        self._told: list[tuple[np.ndarray, Sequence[str], Sequence[Curve]]] = []

    def __enter__(self) -> list[Axes]:
        self._rc.__enter__()
        self._figure = Figure(figsize=self._size, dpi=DPI, layout="constrained")
        panels = self._figure.subplots(self._rows, self._columns, squeeze=False, sharex=self._share_x)
        return list(panels.ravel())

    def tell(self, x: np.ndarray, where: Sequence[str], curves: Sequence[Curve]) -> None:
        """Tell of curves over one axis, in panels above each other, what they are at each place.

        Args:
            x: The places, ascending, in the units of the panels, shape (N,).
            where: N names of the places.
            curves: Those that are told of together.
        """
        if len(x):
            self._told.append((x, where, curves))

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            if kind is None:
                engine = self._figure.get_layout_engine()
                assert engine is not None
                engine.execute(self._figure)
                self._figure.set_layout_engine("none")  # all forms stay as this laid them out
                for suffix, paint in _PAINTS.items():
                    picture = io.BytesIO()
                    paint(self._figure, picture)  # `savefig` would lay out each form anew, which takes as long again
                    write_durable(self._path.with_suffix(suffix), picture.getbuffer())
                self._save_told()
        finally:
            self._rc.__exit__(None, None, None)

    def _save_told(self) -> None:
        path = self._path.with_suffix(TOLD)
        if self._told:
            groups = [self._group(*told) for told in self._told]
            write_durable(path, json.dumps(groups, ensure_ascii=False, allow_nan=False))
        else:
            path.unlink(missing_ok=True)  # of an earlier report

    def _group(self, x: np.ndarray, where: Sequence[str], curves: Sequence[Curve]) -> dict[str, Any]:
        """Return curves with places as shares of the picture, from its left and from its top."""
        boxes = [curve.panel.get_position() for curve in curves]
        left, right = min(box.x0 for box in boxes), max(box.x1 for box in boxes)
        bottom, top = min(box.y0 for box in boxes), max(box.y1 for box in boxes)
        bottom_line = np.full(len(x), curves[0].panel.get_ylim()[0])
        across, heights = self._shares(curves[0].panel, x, bottom_line)[:, 0], []
        for curve in curves:
            y = self._shares(curve.panel, x, curve.y)[:, 1]
            heights.append([round(1 - float(at), 4) if np.isfinite(at) else None for at in y])
        return {
            "box": [round(float(edge), 4) for edge in (left, 1 - top, right, 1 - bottom)],
            "x": [round(float(at), 4) for at in across],
            "where": list(where),
            "curves": [
                {"name": curve.name, "colour": curve.colour, "y": y, "values": list(curve.values)}
                for curve, y in zip(curves, heights)
            ],
        }

    def _shares(self, panel: Axes, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return points in a panel as shares of the figure, from its left and its bottom, shape (N, 2)."""
        width, height = self._figure.bbox.size
        return panel.transData.transform(np.column_stack([x, y])) / (width, height)
