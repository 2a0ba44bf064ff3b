"""What the page writes beside the episodes: trimmed copies of the dataset, and exports of one episode."""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
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
FOR_RERUN, FOR_FOXGLOVE = "for_rerun", "for_foxglove"
"""Keys of what Rerun's viewer opens of what was written, and Foxglove."""


class Maker:
    """Maker of new folders below one; what they are made from stays as it is. One thing is made at a time.

    Args:
        root: Where they go; made when the first one is.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock = threading.Lock()

    def trim(self, view: StoreView, trims: Mapping[str, tuple[int, int]]) -> dict[str, Any]:
        """Write a dataset in which some episodes are trimmed, and return its folder and what to do with it.

        Raises:
            StackError: If an episode cannot be trimmed so, the disk refuses, or something else is being made.
        """
        with self._alone():
            out = self._free("trimmed")
            store = edit(view, out, Changes(trims=trims), now_unix_s=time.time())
            left_out = [f"left out {name}: {why}" for name, why in store.left_out.items()]
            said = f"{len(store.taken)} episodes, {len(trims)} of them trimmed; what they were made from is unchanged"
            return _made(out, [said, *left_out], f"robot-stack data view {_quoted(out)}")

    def export(self, view: StoreView, episode_id: str, format: str) -> dict[str, Any]:
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


def _rerun(view: StoreView, episode_id: str, out: Path) -> dict[str, Any]:
    size = export_rerun(view, [episode_id], out, on_episode=_silent)
    file = out / (episode_id + RECORDING)
    return _made(out, [f"a Rerun recording, {size / 1e6:.1f} MB"], f"rerun {_quoted(file)}", {FOR_RERUN: file})


def _mcap(view: StoreView, episode_id: str, out: Path) -> dict[str, Any]:
    count = export_mcap(view, [episode_id], out, on_episode=_silent)
    said = [f"an MCAP file, {count} messages", "in Foxglove: Open local file, then choose it; or read it as a bag:"]
    file = out / (episode_id + BAG)
    return _made(out, said, f"ros2 bag info {_quoted(file)}", {FOR_FOXGLOVE: file})


def _lerobot(view: StoreView, episode_id: str, out: Path) -> dict[str, Any]:
    exported = export_lerobot(view, [episode_id], out, codec=CODEC, on_episode=_silent)
    said = [f"a LeRobotDataset of {exported.rows} rows, videos {exported.codec}", "where lerobot is installed:"]
    command = f"lerobot-dataset-viz --repo-id local/{episode_id} --root {_quoted(out)} --episode-index 0"
    return _made(out, said, command, {FOR_RERUN: out})


_EXPORTS: Mapping[str, Callable[[StoreView, str, Path], dict[str, Any]]] = {
    "rerun": _rerun,
    "mcap": _mcap,
    "lerobot": _lerobot,
}


def _made(out: Path, said: list[str], command: str, opened: Mapping[str, Path] | None = None) -> dict[str, Any]:
    return {"folder": str(out.resolve()), "said": said, "command": command, **(opened or {})}


def _quoted(path: Path) -> str:
    return shlex.quote(str(path.resolve()))


def _silent(_what: str, _number: int, _count: int) -> None:
    """Tell nobody how far an export is: it is of one episode."""
