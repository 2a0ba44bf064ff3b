"""Rows of a table on the host that are kept on a device, each copied when it is first asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from policies.device import upload

FIRST_ROWS = 1024


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
        """Copy those of `rows`, int64 (n,), that are not on the device yet, without waiting for it."""
        rows = rows[rows < self.limit]
        self._grow(int(rows.max(initial=-1)) + 1)
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
