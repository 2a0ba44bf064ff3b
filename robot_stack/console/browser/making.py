"""What the page writes beside the episodes: trimmed copies of the dataset, and exports of one episode."""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robot_stack.console.messages import PageError
from robot_stack.datasets.bag.write import SUFFIX as BAG
from robot_stack.datasets.bag.write import export_mcap
from robot_stack.datasets.edit import Changes, edit
from robot_stack.datasets.lerobot.export import export_lerobot
from robot_stack.datasets.rerun_files import SUFFIX as RECORDING
from robot_stack.datasets.rerun_files import export_rerun
from robot_stack.datasets.store_view import StoreView

CODEC = "h264"


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A new folder, and what can be done with it.

    Attributes:
        folder: The folder.
        said: What was written, one thing each.
        command: What opens it.
        recording: What Rerun's viewer opens of it, if it knows it.
        bag: What Foxglove opens of it, if it knows it.
    """

    folder: Path
    said: tuple[str, ...]
    command: str
    recording: Path | None = None
    bag: Path | None = None

    def to_json(self) -> dict[str, Any]:
        """Return what a page is told of it."""
        return {"folder": str(self.folder.resolve()), "said": list(self.said), "command": self.command}


class Maker:
    """Maker of new folders below one; what they are made from stays as it is. One thing is made at a time.

    Args:
        root: Where they go; made when the first one is.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock = threading.Lock()

    def trim(self, view: StoreView, trims: Mapping[str, tuple[int, int]]) -> Made:
        """Write a dataset in which some episodes are trimmed, and return its folder and what to do with it.

        Raises:
            StackError: If an episode cannot be trimmed so, the disk refuses, or something else is being made.
        """
        with self._alone():
            out = self._free("trimmed")
            store = edit(view, out, Changes(trims=trims), now_unix_s=time.time())
            left_out = [f"left out {name}: {why}" for name, why in store.left_out.items()]
            said = f"{len(store.taken)} episodes, {len(trims)} of them trimmed; what they were made from is unchanged"
            return Made(folder=out, said=(said, *left_out), command=f"robot-stack data view {_quoted(out)}")

    def export(self, view: StoreView, episode_id: str, format: str) -> Made:
        """Write one episode for another program, and return the folder and how it is opened there.

        Raises:
            StackError: If it is not there, the disk refuses, a library is missing, or something else is being made.
        """
        view.check_there([episode_id])
        with self._alone():
            out = self._free(f"{format}-{episode_id}")
            return _EXPORTS[format](view, episode_id, out)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if not self._lock.acquire(blocking=False):
            raise PageError("another folder is being written, must be one at a time; wait for it, then ask again")
        try:
            yield
        finally:
            self._lock.release()

    def _free(self, name: str) -> Path:
        number, out = 1, self.root / name
        while out.exists():
            number += 1
            out = self.root / f"{name}-{number}"
        return out


def _rerun(view: StoreView, episode_id: str, out: Path) -> Made:
    size = export_rerun(view, [episode_id], out, on_episode=_silent)
    file = out / (episode_id + RECORDING)
    said = f"a Rerun recording, {size / 1e6:.1f} MB"
    return Made(folder=out, said=(said,), command=f"rerun {_quoted(file)}", recording=file)


def _mcap(view: StoreView, episode_id: str, out: Path) -> Made:
    count = export_mcap(view, [episode_id], out, on_episode=_silent)
    said = (f"an MCAP file, {count} messages", "in Foxglove: Open local file, then choose it; or read it as a bag:")
    file = out / (episode_id + BAG)
    return Made(folder=out, said=said, command=f"ros2 bag info {_quoted(file)}", bag=file)


def _lerobot(view: StoreView, episode_id: str, out: Path) -> Made:
    exported = export_lerobot(view, [episode_id], out, codec=CODEC, on_episode=_silent)
    said = (f"a LeRobotDataset of {exported.rows} rows, videos {exported.codec}", "where lerobot is installed:")
    command = f"lerobot-dataset-viz --repo-id local/{episode_id} --root {_quoted(out)} --episode-index 0"
    return Made(folder=out, said=said, command=command, recording=out)


_EXPORTS: Mapping[str, Callable[[StoreView, str, Path], Made]] = {
    "rerun": _rerun,
    "mcap": _mcap,
    "lerobot": _lerobot,
}


def _quoted(path: Path) -> str:
    return shlex.quote(str(path.resolve()))


def _silent(_what: str, _number: int, _count: int) -> None:
    """Tell nobody how far an export is: it is of one episode."""
