"""The first and last image of every camera in each episode, as one small JPEG that a run keeps."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np

from robot_stack.disk.durable import write_durable
from robot_stack.runs.paths import RunPaths
from robot_stack.sensing.pixels import jpeg_of
from robot_stack.types.errors import SpecError
from robot_stack.types.names import check_name

SIDE_PX = 96
GAP_PX = 2


class EpisodePictures:
    """The pictures of a run's episodes, `console/pictures/<episode>.jpg` in its folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = RunPaths(folder).console / "pictures"
        self._newest: dict[str, np.ndarray] = {}
        self._first: dict[str, np.ndarray] = {}
        self._episode_id = ""
        self._kept: set[str] = set()

    def open(self) -> None:
        """Make the folder and find the pictures that earlier lives of the process have kept."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._kept = {path.stem for path in self._folder.glob("*.jpg")}

    def look(self, camera: str, image: np.ndarray) -> None:
        """Take in the newest image of a camera, RGB uint8."""
        self._newest[camera] = image
        if self._episode_id:
            self._first.setdefault(camera, image)

    def begin(self, episode_id: str) -> None:
        """Begin the picture of an episode that starts."""
        self._episode_id, self._first = episode_id, {}

    def end(self) -> bool:
        """Keep the picture of the episode that is over, and return whether there is a new one.

        A disk that refuses loses it, and nothing else.
        """
        episode_id, self._episode_id = self._episode_id, ""
        if not episode_id or not self._first:
            return False
        shown = [*self._first.values(), *(self._newest[camera] for camera in self._first)]
        strip = np.hstack([_small(image) for image in shown])
        try:
            write_durable(self._path(episode_id), jpeg_of(strip))
        except (OSError, SpecError):
            return False
        self._kept.add(episode_id)
        return True

    def has(self, episode_id: str) -> bool:
        """Return whether there is a picture of an episode."""
        return episode_id in self._kept

    def get(self, episode_id: str) -> bytes | None:
        """Return the JPEG of an episode, or None."""
        if episode_id not in self._kept:
            return None
        try:
            return self._path(episode_id).read_bytes()
        except OSError:
            return None

    def _path(self, episode_id: str) -> Path:
        return self._folder / f"{check_name(episode_id, 'episode id')}.jpg"


def _small(image: np.ndarray) -> np.ndarray:
    """Scale an image into a square of `SIDE_PX`, with a gap to the next one."""
    height, width = image.shape[:2]
    scale = SIDE_PX / max(height, width)
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    small = cv2.resize(image, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_NEAREST)
    return cv2.copyMakeBorder(
        small, 0, SIDE_PX - size[1], 0, GAP_PX + SIDE_PX - size[0], cv2.BORDER_CONSTANT, value=(255, 255, 255)
    )
