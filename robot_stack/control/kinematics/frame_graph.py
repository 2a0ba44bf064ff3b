"""Frames that hang on each other, as TF tells them, and where each is seen from one of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

MOST_FRAMES = 1000
"""Further ones are left out once the stale ones are dropped: a name that counts up would fill the memory."""
FARTHEST_M = 1e4
SKEWED = 1e-3
"""Largest error of a rotation matrix against its own inverse; single precision has a thousandth of it."""
STALE_S = 1.0
"""A moving frame that nobody has told for so long is not where it was."""


@dataclass(frozen=True, slots=True)
class _Link:
    parent: str
    pose: np.ndarray
    heard_s: float
    """When it was told; infinity of one that never moves."""


class FrameGraph:
    """The frames that were told, each in its parent."""

    def __init__(self) -> None:
        self._links: dict[str, _Link] = {}

    def hang(self, frame: str, parent: str, pose: np.ndarray, heard_s: float) -> None:
        """Take where a frame is in its parent; the last that is told holds. What cannot be is left out.

        Args:
            frame: Its name.
            parent: Name of the frame that it hangs on.
            pose: T_parent_frame, shape (4, 4).
            heard_s: When it was told, by a clock that only goes on; infinity of one that never moves.
        """
        if not frame or not parent or frame == parent or not _is_pose(pose):
            return
        link = _Link(parent, pose, heard_s)
        if frame not in self._links and len(self._links) >= MOST_FRAMES:
            told_s = [each.heard_s for each in (*self._links.values(), link) if each.heard_s < math.inf]
            oldest_s = max(told_s, default=0.0) - STALE_S
            self._links = {name: each for name, each in self._links.items() if each.heard_s > oldest_s}
        if frame in self._links or len(self._links) < MOST_FRAMES:
            self._links[frame] = link

    def seen_from(self, root: str, now_s: float) -> dict[str, np.ndarray]:
        """Return frame -> pose in a root, shape (4, 4), of all that hang together with it; fresh ones only.

        Args:
            root: Name of the frame.
            now_s: By the same clock.
        """
        names = {root, *self._links, *(link.parent for link in self._links.values())}
        above = {name: self._climb(name, now_s) for name in names}
        top, root_in_top = above[root]
        to_root = np.linalg.inv(root_in_top)
        return {name: to_root @ pose for name, (its_top, pose) in above.items() if its_top == top and name != root}

    def _climb(self, name: str, now_s: float) -> tuple[str, np.ndarray]:
        """Return the frame at the top of what one hangs on, and its pose there; a ring has no top and ends anywhere."""
        pose, passed = np.eye(4), {name}
        while (link := self._links.get(name)) is not None and now_s - link.heard_s < STALE_S:
            if link.parent in passed:
                break
            pose, name = link.pose @ pose, link.parent
            passed.add(name)
        return name, pose


def _is_pose(matrix: np.ndarray) -> bool:
    """Return whether a matrix (4, 4) turns and moves without stretching or mirroring, and is of this world."""
    rotation = matrix[:3, :3]
    return bool(
        (np.abs(matrix) < FARTHEST_M).all()
        and (matrix[3] == (0.0, 0.0, 0.0, 1.0)).all()
        and (np.abs(rotation @ rotation.T - np.eye(3)) < SKEWED).all()
        and np.linalg.det(rotation) > 0.0
    )
