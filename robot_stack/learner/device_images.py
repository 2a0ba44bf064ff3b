"""Camera images on the learner's device, and those of the host that do not fit there; gathered with random shifts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from policies.device import upload
from robot_stack.learner.device_rows import DeviceRows
from robot_stack.replay.image_rows import ImageRows

MEMORY_SHARE = 0.5
"""Part of a GPU's memory, as free when the learner starts, that images may fill; while they grow it is more."""

Shifts = Mapping[str, np.ndarray]


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
        where = upload(torch.from_numpy(np.minimum(rows, self._rows.limit - 1)), self._device)
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
