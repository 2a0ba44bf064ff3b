"""Learner checkpoints: all state in one file, written beside, fsynced, renamed; the last three are kept.

Tensors and plain values only: read back with `weights_only=True`, so a file can never run code.
"""

from __future__ import annotations

import io
import os
import re
from pathlib import Path
from typing import Any

import torch

from robot_stack.types.errors import ResumeError, StoreError

KEEP = 3
_NAME = re.compile(r"step_(\d{9})\.pt")


class CheckpointFolder:
    """`folder/step_000001234.pt`, numbered by learner updates."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def steps(self) -> list[int]:
        """Numbers of all checkpoints, oldest first."""
        if not self._folder.exists():
            return []
        matches = (_NAME.fullmatch(path.name) for path in self._folder.iterdir())
        return sorted(int(match[1]) for match in matches if match)

    def save(self, step: int, state: dict[str, Any]) -> Path:
        """Write a checkpoint; when this returns it is on disk, and older ones beyond the last three are gone.

        Raises:
            StoreError: If the disk refuses; earlier checkpoints are untouched.
        """
        buffer = io.BytesIO()
        torch.save(state, buffer)
        path = self._folder / f"step_{step:09d}.pt"
        draft = path.with_suffix(".tmp")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with draft.open("wb") as file:
                file.write(buffer.getbuffer())
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
            descriptor = os.open(self._folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise StoreError(f"checkpoint {path.name} is not written: {error}; free some space") from error
        for old in self.steps()[:-KEEP]:
            (self._folder / f"step_{old:09d}.pt").unlink(missing_ok=True)
        return path

    def load_latest(self) -> dict[str, Any] | None:
        """State of the newest checkpoint, or None if there is none.

        Raises:
            ResumeError: If it cannot be read; it is never skipped in silence.
        """
        steps = self.steps()
        if not steps:
            return None
        path = self._folder / f"step_{steps[-1]:09d}.pt"
        try:
            state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # torch raises many kinds for a damaged file
            raise ResumeError(
                f"checkpoint {path} is unreadable ({error}), must be whole; delete it to resume from the one before"
            ) from error
        return state
