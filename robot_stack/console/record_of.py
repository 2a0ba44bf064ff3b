"""Files that the other processes of a run write into its folder, as far as the page shows them."""

from __future__ import annotations

from pathlib import Path

from robot_stack.console.heard import Heard
from robot_stack.console.journal import label_of
from robot_stack.console.tail import Tail


class RunRecord:
    """Reader of the files of actors and of a learner on this machine.

    Args:
        folder: Of the run.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._labels = Tail(folder / "store" / "labels.jsonl")
        self._metrics = Tail(folder / "metrics.jsonl")
        self._actors: dict[Path, Tail] = {}

    def read_into(self, heard: Heard) -> None:
        """Read what was written since the last call into `heard`."""
        for path in sorted((self._folder / "actor").glob("*.jsonl")):
            heard.rows(self._actors.setdefault(path, Tail(path)).rows())
        heard.rows(self._metrics.rows())
        labels = []
        for row in self._labels.rows():
            try:
                labels.append(label_of(row))
            except (ValueError, KeyError, TypeError):
                continue  # the learner says what is wrong with its own file
        heard.labels(labels)
