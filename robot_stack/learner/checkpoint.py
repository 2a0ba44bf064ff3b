"""Learner checkpoints: all state in one file, written beside, fsynced, renamed. The last three are kept, and the best.

Tensors and plain values only: read back with `weights_only=True`, so a file can never run code.
"""

from __future__ import annotations

import io
import re
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from robot_stack.disk.durable import PARTIAL, sync_directory, write_durable
from robot_stack.types.errors import ResumeError, StoreError
from robot_stack.types.params import Params

KEEP = 3
BEST = "best.pt"
_NAME = re.compile(r"step_(\d{9})\.pt")


class CheckpointFolder:
    """A folder of checkpoints: `step_000001234.pt`, numbered by learner updates, and `best.pt`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._best: float | None = None

    def steps(self) -> list[int]:
        """Return the numbers of all checkpoints but the best, oldest first.

        Raises:
            ResumeError: If there is something else in the folder's place.
        """
        if not self._folder.exists():
            return []
        if not self._folder.is_dir():
            raise ResumeError(f"{self._folder} is a file, must be the folder of the checkpoints; move it away")
        matches = (_NAME.fullmatch(path.name) for path in self._folder.iterdir())
        return sorted(int(match[1]) for match in matches if match)

    def write(self, step: int, packed: memoryview, *, success: float) -> bool:
        """Write a checkpoint; when this returns it is on disk, and older ones beyond the last three are gone.

        Args:
            step: Updates done.
            packed: From `pack`.
            success: What it is compared by; NaN is never the best, and of two equals the newer is.

        Returns:
            True if it is the best so far, and then it is in `best.pt` too.

        Raises:
            StoreError: If the disk refuses; earlier checkpoints are untouched, or too many.
        """
        path = self.path(step)
        best = success >= self._best_success()
        try:
            for target in (path, self._folder / BEST) if best else (path,):
                write_durable(target, packed)
        except OSError as error:
            raise StoreError(
                f"checkpoint {path.name} is not written: {error}; free some space or fix permissions, it is tried again"
            ) from error
        if best:
            self._best = success
        try:
            for gone in (*map(self.path, self.steps()[:-KEEP]), *self._folder.glob("*" + PARTIAL)):
                gone.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(
                f"what is older than checkpoint {path.name} is not removed: {error}; remove it or fix permissions"
            ) from error
        return best

    def load_latest(self) -> dict[str, Any] | None:
        """Return the state of the newest checkpoint, or None if there is none.

        Raises:
            ResumeError: If it cannot be read; it is never skipped in silence.
        """
        steps = self.steps()
        if not steps:
            return None
        path = self.path(steps[-1])
        try:
            return load_whole(path)
        except Exception as error:  # torch raises many kinds for a damaged file
            on = f"from {self.path(steps[-2]).name}" if len(steps) > 1 else "without one, from the recorded episodes"
            why = first_line(error)
            raise ResumeError(
                f"checkpoint {path} is unreadable ({why}), must be whole; to go on {on}: rm '{path.absolute()}'"
            ) from error

    def clear(self) -> None:
        """Remove all checkpoints but the best, the oldest first; a kill on the way leaves the newest."""
        steps = self.steps()
        for step in steps:
            self.path(step).unlink(missing_ok=True)
        if steps:
            sync_directory(self._folder)

    def path(self, step: int) -> Path:
        """Return where the checkpoint of that number is."""
        return self._folder / f"step_{step:09d}.pt"

    def _best_success(self) -> float:
        """Return the success of `best.pt`, -inf without one.

        A damaged one is no competition: the next takes its place.
        """
        if self._best is None:
            try:
                self._best = float(load_whole(self._folder / BEST)["success"])
            except Exception:  # torch raises many kinds for a damaged file
                self._best = float("-inf")
        return self._best


class CheckpointWriter:
    """A writer of checkpoints on a thread of its own, so that updates never wait for the disk.

    Args:
        folder: Where to.
        on_failure: Told why the disk refused; training goes on, the checkpoint before stays, the next one tries again.
        on_best: Given the actor's parameters once a checkpoint was the best so far.
    """

    def __init__(
        self,
        folder: CheckpointFolder,
        *,
        on_failure: Callable[[str], None],
        on_best: Callable[[Params], None],
    ) -> None:
        self.failure = ""
        """Why the newest checkpoint is not on disk, or ""."""
        self.folder = folder
        self._on_failure = on_failure
        self._on_best = on_best
        self._writing: threading.Thread | None = None

    def save(self, step: int, state: dict[str, Any], *, success: float, params: Params | None) -> None:
        """Copy the state and write it in the background; nothing is done while one is being written.

        Args:
            step: Updates done.
            state: Tensors and plain values.
            success: See `CheckpointFolder.write`.
            params: For `on_best`; None if there is nothing to compare by.
        """
        if self._writing is not None and self._writing.is_alive():
            return
        packed = pack(state, success=success)
        self._writing = threading.Thread(
            target=self._write, args=(step, packed, success, params), name="checkpoint", daemon=True
        )
        self._writing.start()

    def wait(self) -> None:
        """Wait until the checkpoint being written is on disk or has failed."""
        if self._writing is not None:
            self._writing.join()

    def _write(self, step: int, packed: memoryview, success: float, params: Params | None) -> None:
        try:
            if self.folder.write(step, packed, success=success) and params is not None:
                self._on_best(params)
            self.failure = ""
        except Exception as error:  # the top of this thread
            known = isinstance(error, StoreError)
            self.failure = str(error) if known else f"checkpoint of update {step} is not whole: {error!r}; report this"
            self._on_failure(self.failure)


def pack(state: dict[str, Any], *, success: float) -> memoryview:
    """Pack a checkpoint into bytes; later changes of the tensors do not show in them."""
    buffer = io.BytesIO()
    torch.save({**_on_host(state), "success": success}, buffer)
    return buffer.getbuffer()


def not_finite(state: Any, name: str = "") -> Iterator[str]:
    """Yield the dotted name of each tensor of nested state in which a value is NaN or infinite."""
    if isinstance(state, dict):
        for key, inner in state.items():
            yield from not_finite(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(state, torch.Tensor) and not torch.isfinite(state).all():
        yield name


def first_line(error: Exception) -> str:
    """Return what is wrong with a file in the words of who read it, up to their first line's end; never nothing."""
    return str(error).partition("\n")[0] or type(error).__name__


def _on_host(value: Any) -> Any:
    """Move every tensor of nested state to the CPU, where any machine can read it."""
    if isinstance(value, dict):
        return {key: _on_host(inner) for key, inner in value.items()}
    return value.cpu() if isinstance(value, torch.Tensor) else value


def load_whole(path: Path) -> dict[str, Any]:
    """Load a file that `torch.save` wrote, on the CPU, once its checksums are found to fit: torch looks at none.

    Raises:
        ResumeError: If a byte of it is not what was written.
        Exception: Of many kinds, where the file is damaged so that it cannot be read at all.
    """
    with zipfile.ZipFile(path) as archive:
        damaged = archive.testzip()
    if damaged is not None:
        raise ResumeError(f"checksum of {damaged} in {path.name} does not fit, must be that of what was written")
    state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    return state


def live_version(checkpoint: Mapping[str, Any]) -> str:
    """Return the version of the embedded model in use at a checkpoint: a refit may have been about to replace it.

    What shapes the reward may be nothing, or a large model: their versions carry its name and a dash.
    """
    active: str | None = checkpoint["reward_version"]
    live: str = checkpoint["live_reward_version"]
    return live if active is None or "-" in active else active
