"""Files that the other processes of a run write into its folder, as far as the page shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from robot_stack.console.heard import Heard
from robot_stack.console.tail import Tail
from robot_stack.disk.jsonl import mapping
from robot_stack.replay.annotations import label_from


class RunRecord:
    """Reader of the files of actors and of a learner on this machine.

    Args:
        folder: Of the run.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # what is wrong with its own file, the learner says
        self._labels = Tail(folder / "store" / "labels.jsonl", label_from)
        self._metrics = Tail(folder / "metrics.jsonl", mapping)
        self._actors: dict[Path, Tail[dict[str, Any]]] = {}

    def read_into(self, heard: Heard) -> None:
        """Read what was written since the last call into `heard`."""
        for path in sorted((self._folder / "actor").glob("*.jsonl")):
            heard.rows(self._actors.setdefault(path, Tail(path, mapping)).rows())
        heard.rows(self._metrics.rows())
        heard.labels(self._labels.rows())
