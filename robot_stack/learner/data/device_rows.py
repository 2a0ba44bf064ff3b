"""Rows of the replay and its images on the learner's device, each copied when it is first asked for.

Images that do not fit there stay on the host; all are gathered with random shifts.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from policies.device import upload
from robot_stack.replay.image_rows import ImageRows

FIRST_ROWS = 1024
MEMORY_SHARE = 0.5
"""Part of a GPU's memory, as free when the learner starts, that images may fill; while they grow it is more."""

Shifts = Mapping[str, np.ndarray]


class DeviceRows:
    """A copy of a host table's rows on a device, which grows as rows are held.

    A row must stay as it is once it has been asked for.

    Args:
        fetch: Rows of the host, int64 (n,), as column name -> array (n, ...).
        device: Where they are kept.
        limit: Rows from this one on are left on the host.
    """

    def __init__(
        self, fetch: Callable[[np.ndarray], Mapping[str, np.ndarray]], device: str, *, limit: int = sys.maxsize
    ) -> None:
        self.limit = limit
        self._fetch = fetch
        self._device = device
        self._held = np.empty(0, np.bool_)
        nothing = fetch(np.empty(0, np.int64))
        self._columns = {name: torch.from_numpy(values).to(device) for name, values in nothing.items()}

    def __getitem__(self, name: str) -> Tensor:
        """Return a column, shape (rows, ...); rows that have not been held are of no meaning."""
        return self._columns[name]

    def hold(self, rows: np.ndarray) -> None:
        """Copy those of `rows`, int64 (n,), that are not on the device yet, without waiting for it; row 0 is there."""
        rows = rows[rows < self.limit]
        self._grow(int(rows.max(initial=0)) + 1)
        missing = np.unique(rows[~self._held[rows]])
        if len(missing):
            where = upload(torch.from_numpy(missing), self._device)
            for name, values in self._fetch(missing).items():
                self._columns[name][where] = upload(torch.from_numpy(values), self._device)
            self._held[missing] = True

    def _grow(self, rows: int) -> None:
        held = len(self._held)
        if rows > held:
            wanted = min(self.limit, max(FIRST_ROWS, rows, held * 3 // 2))
            self._held = np.concatenate([self._held, np.zeros(wanted - held, np.bool_)])
            for name, column in self._columns.items():
                grown = column.new_empty((wanted, *column.shape[1:]))
                grown[:held] = column
                self._columns[name] = grown


class DeviceImages:
    """A copy of the replay's `ImageRows` on a device, filled as rows are drawn.

    Rows that are beyond its memory stay on the host: those of a batch go there through pinned memory, on a stream of
    their own, while the device is busy with the update before.
    """

    def __init__(self, images: ImageRows, device: str) -> None:
        self._images = images
        self._device = device
        limit = max(1, int(MEMORY_SHARE * _free_bytes(device)) // images.row_bytes)
        self._rows = DeviceRows(images.gather, device, limit=limit)
        self._copying = torch.cuda.Stream() if device == "cuda" else None

    def gather(self, rows: np.ndarray, shifts: Shifts | None) -> dict[str, Tensor]:
        """Gather the images of rows, each moved by its shift; equal to `ImageRows.gather` to the bit."""
        beyond = np.flatnonzero(rows >= self._rows.limit)
        coming = self._from_host(rows[beyond], None if shifts is None else {n: s[beyond] for n, s in shifts.items()})
        self._rows.hold(rows)
        where = upload(torch.from_numpy(np.where(rows < self._rows.limit, rows, 0)), self._device)
        found = {}
        for name in self._images.names:
            shift = None if shifts is None else upload(torch.from_numpy(shifts[name]), self._device)
            found[name] = _moved(self._rows[name], where, shift)
        if len(beyond):
            places = upload(torch.from_numpy(beyond), self._device)
            self._await_copies(coming)
            for name, images in coming.items():
                found[name][places] = images
        return found

    def _from_host(self, rows: np.ndarray, shifts: Shifts | None) -> dict[str, Tensor]:
        if not len(rows):
            return {}
        with torch.cuda.stream(self._copying):
            return {
                name: upload(torch.from_numpy(images), self._device)
                for name, images in self._images.gather(rows, shifts).items()
            }

    def _await_copies(self, copies: Mapping[str, Tensor]) -> None:
        if self._copying is not None:
            updating = torch.cuda.current_stream()
            updating.wait_stream(self._copying)
            for copied in copies.values():
                copied.record_stream(updating)


def _moved(images: Tensor, rows: Tensor, shifts: Tensor | None) -> Tensor:
    """Move images (N, H, W, 3) of rows (B,) by (dy, dx) of shifts (B, 2), edges repeated; uint8 (B, H, W, 3)."""
    if shifts is None:
        return images[rows]
    y, x = (
        (torch.arange(side, device=rows.device) + shifts[:, axis, None]).clamp(0, side - 1)
        for axis, side in enumerate(images.shape[1:3])
    )
    return images[rows[:, None, None], y[:, :, None], x[:, None, :]]


def _free_bytes(device: str) -> int:
    return int(torch.cuda.mem_get_info(device)[0])
