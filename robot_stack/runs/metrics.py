"""The metrics of a run: one JSON object a line, always; wandb beside it, offline unless told otherwise."""

from __future__ import annotations

import json
import logging
import os
import secrets
import shlex
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError

from robot_stack.disk.durable import create_durable, disk_errors
from robot_stack.disk.jsonl import JsonLines, mapping, read_jsonl
from robot_stack.runs.learning import Learning
from robot_stack.runs.rows import FitReport, MetricsRow, UpdateRow
from robot_stack.types.errors import ConfigError

log = logging.getLogger(__name__)

ANSWER_S = 20.0
"""Time within which the server of wandb must answer a start, or take the end of a run."""
_ROW: TypeAdapter[MetricsRow] = TypeAdapter(Annotated[MetricsRow, Field(discriminator="kind")])
_UPDATE_FIELDS = {each.name for each in fields(UpdateRow)}
CURVES = "learning"
AXES = {CURVES: "robot_min", "update": "updates", "reward_fit": "online_episodes"}
"""Section of panels -> the value that they have from left to right; the others go by row."""


WANDB_MODES = ("offline", "online", "disabled")


def usual_wandb_mode() -> str:
    """Return the mode of wandb: that of WANDB_MODE, else offline where it is installed, else disabled."""
    asked = os.environ.get("WANDB_MODE", "")
    return asked if asked in WANDB_MODES else "offline" if find_spec("wandb") else "disabled"


class MetricsLog:
    """A log that appends rows {"t": seconds since the epoch, "kind": ..., ...} to `path`, safe from several threads.

    A disk that refuses a row ends nobody: the row is lost, and the next one that is taken says how many were.

    Raises:
        ConfigError: If wandb is asked for and not installed.
        StoreError: If the file cannot be opened.
    """

    def __init__(
        self,
        path: Path,
        *,
        wandb_mode: str = "disabled",
        run_name: str = "",
        config: Any = None,
        rate_hz: float = 10.0,
    ) -> None:
        if wandb_mode != "disabled" and find_spec("wandb") is None:
            raise ConfigError(f"wandb is missing, must be there to be {wandb_mode}; pip install 'robot-stack[wandb]'")
        with disk_errors(f"opening {path.name}"):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("ab", buffering=0)
            self._torn = path.stat().st_size > 0 and not path.read_bytes().endswith(b"\n")
        self.lost = 0
        """Rows that the disk refused since the newest one it took."""
        self._lock = threading.Lock()
        self._wandb: _WandbRun | None = None
        self._learning: Learning | None = None
        if wandb_mode != "disabled":
            self._wandb = _WandbRun(path.parent, wandb_mode, name=run_name, config=config)
            self._learning = Learning(rate_hz)
            for row in read_rows(path).rows:  # a run that goes on has its robot time behind it
                self._learning.row(row)

    def log(self, row: MetricsRow) -> None:
        """Write one row; numpy scalars become numbers, NaN becomes null."""
        values = {"t": round(time.time(), 3), **plain_row(row)}
        with self._lock:
            self._write({**values, "lost_rows": self.lost} if self.lost else values)
            if self._wandb is not None:
                numbers = {f"{row.kind}/{name}": v for name, v in values.items() if isinstance(v, (int, float))}
                curves = self._learning.row(row) if self._learning is not None else {}
                self._wandb.log(numbers | {f"{CURVES}/{name}": value for name, value in curves.items()})

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


class _WandbRun:
    """A run in Weights & Biases beside the file of rows. It ends nobody: what fails there is said and left out.

    Whatever wandb raises is caught: it has no type of its own for all that a network or its service does.

    Args:
        folder: Of the run; wandb's own folder and id are in it.
        mode: `online` falls back to `offline` where no server answers.
        name: Of the run.
        config: That it was started with.

    Raises:
        ConfigError: If nobody is logged in who would have to be.
    """

    def __init__(self, folder: Path, mode: str, *, name: str, config: Any) -> None:
        self._folder = folder
        self._run: Any = None
        id_ = _wandb_id(folder / "wandb.id")
        try:
            self._run = self._begun(mode, id_, name, config)
        except ConfigError:
            raise
        except Exception as error:
            if mode == "online":
                log.warning("the server of wandb is away (%r); this run is kept offline, %s", error, self._upload)
                with self._guarded():
                    import wandb

                    wandb.teardown()  # its service still holds the id
                    self._run = self._begun("offline", id_, name, config)
            else:
                self._leave_out(error)

    def _begun(self, mode: str, id_: str, name: str, config: Any) -> Any:
        import wandb

        try:
            run = wandb.init(
                project="robot-stack",
                name=name,
                id=id_,
                resume="allow",
                dir=str(self._folder),
                mode=mode,  # type: ignore[arg-type]
                config=config,
                settings=wandb.Settings(silent=True, console="off", x_disable_stats=True, init_timeout=ANSWER_S),
            )
        except wandb.errors.UsageError as error:
            raise ConfigError(f"wandb is not ready to be {mode} ({error}); wandb login, or unset WANDB_MODE") from error
        for kind, axis in AXES.items():
            run.define_metric(f"{kind}/*", step_metric=f"{kind}/{axis}")
        return run

    def log(self, values: dict[str, Any]) -> None:
        """Log values, as long as wandb takes any."""
        if self._run is not None:
            with self._guarded():
                self._run.log(values)

    def finish(self) -> None:
        """End the run; what has not been uploaded within `ANSWER_S` stays on the disk."""
        if self._run is None:
            return
        ending = threading.Thread(target=self._finish, name="wandb", daemon=True)
        ending.start()
        ending.join(ANSWER_S)
        if ending.is_alive():
            log.warning("the server of wandb does not take the end of this run; %s", self._upload)

    def _finish(self) -> None:
        with self._guarded():
            self._run.finish()

    @property
    def _upload(self) -> str:
        return f"wandb sync {shlex.quote(str(self._folder))}/wandb/*run-* uploads it"

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._leave_out(error)

    def _leave_out(self, error: Exception) -> None:
        self._run = None
        log.warning("wandb is left out from here on (%r); metrics.jsonl has every row", error)


def _wandb_id(path: Path) -> str:
    """Return the id of a run in Weights & Biases, drawn once: names come again, on other machines or begun anew."""
    with disk_errors(f"writing {path.name}"):
        create_durable(path, secrets.token_hex(8).encode(), mode=0o644)
        return path.read_text().strip()


def read_rows(path: Path) -> JsonLines[MetricsRow]:
    """Read the rows of a metrics file; without a file there are none.

    Raises:
        OSError: If there is a file and it cannot be read.
    """
    return read_jsonl(path, row_from)


def row_from(raw: Any) -> MetricsRow:
    """Build a row from its JSON form.

    Raises:
        ValueError: If it is none: not an object, of an unknown kind, or without what a row of its kind must say.
    """
    values = mapping(raw)
    if values.get("kind") == "update":
        beside = {name: value for name, value in values.items() if name not in _UPDATE_FIELDS}
        values = {**values, "metrics": beside}
    try:
        return _ROW.validate_python(values)
    except ValidationError as error:
        wrong = [": ".join((*map(str, each["loc"][1:]), each["msg"])) for each in error.errors()]
        raise ValueError(f"row of kind {values.get('kind')!r}: {'; '.join(wrong)}") from error


def plain_row(row: MetricsRow) -> dict[str, Any]:
    """Return what a row says in its JSON form; the time and the lost rows are the log's to say."""
    values = {each.name: getattr(row, each.name) for each in fields(row) if each.name not in ("t", "lost_rows", "kind")}
    values |= values.pop("metrics", {})
    return {"kind": row.kind, **{name: plain(value) for name, value in values.items()}}


def plain(value: Any) -> Any:
    """Convert a value to JSON: numpy and torch scalars to numbers, NaN and infinities to None."""
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        value = value.item()
    if isinstance(value, FitReport):
        value = {each.name: getattr(value, each.name) for each in fields(value)}
    if isinstance(value, float):
        return round(value, 6) if np.isfinite(value) else None
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return value
