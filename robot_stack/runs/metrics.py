"""The metrics of a run: one JSON object a line, always; wandb beside it, offline unless told otherwise."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

AXES = {"update": "updates", "reward_fit": "online_episodes"}
"""Kind of row -> the value that its panels have from left to right; the others go by row."""


class MetricsLog:
    """A log that appends rows {"t": seconds since the epoch, "kind": ..., ...} to `path`, safe from several threads.

    A disk that refuses a row ends nobody: the row is lost, and the next one that is taken says how many were.
    """

    def __init__(self, path: Path, *, wandb_mode: str = "disabled", run_name: str = "", config: Any = None) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab", buffering=0)
        self._torn = path.stat().st_size > 0 and not path.read_bytes().endswith(b"\n")
        self.lost = 0
        """Rows that the disk refused since the newest one it took."""
        self._lock = threading.Lock()
        self._wandb: Any = None
        if wandb_mode != "disabled":
            import wandb

            self._wandb = wandb.init(
                project="robot-stack",
                name=run_name,
                id=run_name,
                resume="allow",
                dir=str(path.parent),
                mode=wandb_mode,  # type: ignore[arg-type]
                config=config,
                settings=wandb.Settings(silent=True, console="off", x_disable_stats=True),
            )
            for kind, axis in AXES.items():
                self._wandb.define_metric(f"{kind}/*", step_metric=f"{kind}/{axis}")

    def log(self, kind: str, **values: Any) -> None:
        """Write one row; numpy scalars become numbers, NaN becomes null."""
        row = {"t": round(time.time(), 3), "kind": kind, **{name: plain(value) for name, value in values.items()}}
        with self._lock:
            self._write({**row, "lost_rows": self.lost} if self.lost else row)
            if self._wandb is not None:
                numbers = {f"{kind}/{name}": v for name, v in row.items() if isinstance(v, (int, float))}
                self._wandb.log(numbers)

    def _write(self, row: dict[str, Any]) -> None:
        """Write a row whole, on a line of its own.

        Half a row, of a killed process or a full disk, must not swallow the next.
        """
        line = ("\n" if self._torn else "") + json.dumps(row) + "\n"
        try:
            written = self._file.write(line.encode())
        except OSError:
            self.lost += 1
            return
        self._torn = written < len(line.encode())
        self.lost = self.lost + 1 if self._torn else 0

    def close(self) -> None:
        """Close the file and end the wandb run."""
        with self._lock:
            self._file.close()
            if self._wandb is not None:
                self._wandb.finish()


def plain(value: Any) -> Any:
    """Convert a value to JSON: numpy and torch scalars to numbers, NaN and infinities to None."""
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        value = value.item()
    if isinstance(value, np.ndarray):
        return [plain(v) for v in value]
    if isinstance(value, float):
        return round(value, 6) if np.isfinite(value) else None
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return value


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Read all whole rows of a metrics file; a torn line, as a killed process leaves it, is left out."""
    if not path.exists():
        return []
    rows = []
    for line in path.read_text().splitlines():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return rows
