"""Files that the other processes of a run write into its folder, as far as the page shows them."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic

from robot_stack.console.heard import Heard
from robot_stack.disk.jsonl import Row, parse_jsonl
from robot_stack.replay.annotations import kept_label
from robot_stack.runs.metrics import row_from
from robot_stack.runs.paths import RunPaths
from robot_stack.runs.rows import MetricsRow
from robot_stack.runs.stage import Stage
from robot_stack.types.event import Label

SCENE = re.compile(r"(http://127\.0\.0\.1:[0-9]{1,5}/)\s*")
"""Address of a view; nothing else becomes a link."""
MOST_CHARS = 64
MOST_BYTES = 4 << 20
"""At one look; of a longer file the newest part."""


class Tail(Generic[Row]):
    """Reader of a growing file of JSON values, one a line; it gives each once.

    Args:
        path: May not be there yet, and may be begun anew.
        parse: Makes a row of one line's value, as for `read_jsonl`.
    """

    def __init__(self, path: Path, parse: Callable[[Any], Row]) -> None:
        self._path = path
        self._parse = parse
        self._read = 0

    def rows(self) -> list[Row]:
        """Return the rows written since the last call.

        A line without its end waits; one that cannot be parsed is left out.
        """
        try:
            size = self._path.stat().st_size
            if size < self._read:
                self._read = 0
            if size == self._read:
                return []
            with self._path.open("rb") as file:
                skipped = size - self._read > MOST_BYTES
                file.seek(size - MOST_BYTES if skipped else self._read)
                start, raw = file.tell(), file.read(MOST_BYTES)
        except OSError:
            return []
        first = raw.find(b"\n") + 1 if skipped else 0
        end = raw.rfind(b"\n") + 1
        self._read = start + end
        return parse_jsonl(io.BytesIO(raw[first:end]), self._path.name, self._parse).rows


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNews:
    """What was written into a run's folder since the last look.

    Attributes:
        rows: About episodes and updates.
        labels: That are in a store by now.
        stage: Of the run once its cell has stopped, else None.
        scene: Address of the view in three dimensions, or "" while there is none.
        folder: Of the run, as its commands name it.
    """

    rows: list[MetricsRow]
    labels: list[Label]
    stage: Stage | None
    scene: str
    folder: str

    def tell(self, heard: Heard) -> None:
        """Have it shown."""
        heard.rows(self.rows)
        heard.labels(self.labels)
        heard.stage, heard.scene, heard.folder = self.stage, self.scene, self.folder


class RunRecord:
    """Reader of the files of actors and of a learner on this machine."""

    def __init__(self, folder: Path) -> None:
        paths = RunPaths(folder)
        self._folder = folder
        self._actor = paths.actor
        self._scene = paths.scene
        whole = folder.resolve()
        self._name = whole.name if whole.parent == Path("runs").resolve() else str(whole)
        # what is wrong with its own file, the learner says
        stores = (paths.store, RunPaths(paths.deployed).store)
        self._labels = [Tail(store.labels, kept_label) for store in stores]
        self._metrics = Tail(paths.metrics, row_from)
        self._actors: dict[Path, Tail[MetricsRow]] = {}

    def read(self) -> RunNews:
        """Read what was written since the last call."""
        tails = [self._actors.setdefault(path, Tail(path, row_from)) for path in sorted(self._actor.glob("*.jsonl"))]
        return RunNews(
            rows=[row for tail in (*tails, self._metrics) for row in tail.rows()],
            labels=[label for tail in self._labels for label in tail.rows()],
            stage=Stage.read(self._folder),
            scene=self._scene_address(),
            folder=self._name,
        )

    def _scene_address(self) -> str:
        """Return the address of the view in three dimensions, or "" while there is none."""
        try:
            said = SCENE.fullmatch(self._scene.read_text(errors="replace")[:MOST_CHARS])
        except OSError:
            return ""
        return said[1] if said is not None else ""
