"""Camera images of all frames in memory, gathered with or without random shifts.

Images of a camera lie one after the other in flat memory. A shifted image is then a slice of the same length at
another byte offset, but for its edges: those are read from neighbouring lines or images, and repaired.

Source of the shifts: Yarats et al., 2021, arXiv:2004.13649 (DrQ), pad and crop with edge pixels repeated.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping

import numpy as np

from robot_stack.types.errors import StoreError

MEMORY_SHARE = 0.75
"""Part of the machine's memory that images may fill."""

Shape = tuple[int, int, int]


class ImageRows:
    """The camera images of all frames, one per camera and row.

    Address space for as many rows as the machine can hold is reserved when built; memory is taken only as images come,
    and none is ever copied to grow.

    Args:
        shapes: Camera name -> (H, W, 3).

    Raises:
        StoreError: If the system refuses to reserve.
    """

    def __init__(self, shapes: Mapping[str, Shape]) -> None:
        self._shapes = dict(shapes)
        self._sizes = {name: math.prod(shape) for name, shape in shapes.items()}
        self.row_bytes = sum(self._sizes.values())
        self._capacity = int(MEMORY_SHARE * _physical_bytes()) // max(1, self.row_bytes)
        try:  # one image of slack on either side, for shifts
            self._flat = {n: np.empty((self._capacity + 2) * size, np.uint8) for n, size in self._sizes.items()}
        except MemoryError as error:
            raise StoreError(
                f"address space for images is refused, must be {MEMORY_SHARE} of the memory of the machine; "
                "set vm.overcommit_memory to 0 or 1, and lift `ulimit -v`"
            ) from error

    def __bool__(self) -> bool:
        """Return True if images are kept."""
        return bool(self._shapes)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the cameras whose images are kept."""
        return tuple(self._shapes)

    def put(self, row: int, images: Mapping[str, np.ndarray]) -> None:
        """Write the images of a row.

        Raises:
            StoreError: If the row lies beyond the memory of the machine.
        """
        if self and row >= self._capacity:
            raise StoreError(
                f"number of frames in memory is {row + 1}, must be at most {self._capacity} on this machine; "
                "start a new run, or a frozen trunk, which replaces images by features"
            )
        for name, size in self._sizes.items():
            self._flat[name][(row + 1) * size : (row + 2) * size] = images[name].reshape(-1)

    def check_shift(self, most: int) -> None:
        """Raise StoreError unless images can be moved by up to `most` pixels without getting out of sight."""
        side = min((min(shape[:2]) for shape in self._shapes.values()), default=1)
        if not 0 <= most < side:
            raise StoreError(
                f"shift of a draw is {most} pixels, must be in [0, {side}), which is 0 alone without images; "
                "change it in the run's algorithm settings"
            )

    def draw_shifts(self, rng: np.random.Generator, count: int, most: int) -> dict[str, np.ndarray]:
        """Draw shifts (dy, dx) for the images of `count` transitions, uniform in [-most, most].

        Returns:
            Camera name -> int64, shape (2, count, 2): of o and of o', independent of each other.
        """
        return {name: rng.integers(-most, most + 1, size=(2, count, 2)) for name in self._shapes}

    def gather(self, rows: np.ndarray, shifts: Mapping[str, np.ndarray] | None = None) -> dict[str, np.ndarray]:
        """Gather the images of rows, each moved by its shift; pixels from beyond an edge are those of the edge.

        Args:
            rows: int64, shape (B,).
            shifts: Camera name -> (dy, dx) in pixels, int64, shape (B, 2), below H and W: the pixel at (y, x) is that
                at (y + dy, x + dx). None for none.

        Returns:
            Camera name -> uint8, shape (B, H, W, 3), contiguous; empty without images.
        """
        found = {}
        for name, (height, width, depth) in self._shapes.items():
            size, flat = self._sizes[name], self._flat[name]
            starts = (rows + 1) * size
            if shifts is not None:
                starts += (shifts[name] @ np.array([width, 1])) * depth
            windows = np.lib.stride_tricks.as_strided(
                flat, shape=(len(flat) - size + 1, size), strides=(1, 1), writeable=False
            )
            images = windows[starts].reshape(len(rows), height, width, depth)
            if shifts is not None:
                _repeat_edges(images, shifts[name])
            found[name] = images
        return found


def _repeat_edges(images: np.ndarray, shifts: np.ndarray) -> None:
    """Overwrite what a shift brought in from beyond the edges: first columns, then whole lines, corners with them."""
    for axis in (1, 0):
        lines = images if axis == 0 else images.transpose(0, 2, 1, 3)
        side = lines.shape[1]
        for shift in np.unique(shifts[:, axis]):
            here = np.flatnonzero(shifts[:, axis] == shift)
            if shift > 0:
                lines[here, side - shift :] = lines[here, side - shift - 1][:, None]
            elif shift < 0:
                lines[here, :-shift] = lines[here, -shift][:, None]


def _physical_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
