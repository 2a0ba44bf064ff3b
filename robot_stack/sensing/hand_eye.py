r"""The pose of a camera, from views of a board taken at several poses of the arm.

On the hand: :math:`T_{base,tcp}\, X\, T_{cam,board}` is the same for every view, X = T_tcp_cam. Beside the arm, the
board in the hand: :math:`T_{base,tcp}^{-1}\, X\, T_{cam,board}` is, X = T_base_cam. Both give :math:`A X = X B` for
every pair of views.

Source: Park and Martin, 1994, IEEE T-RO 10(5): rotation in closed form from the logarithms of all pairs, then the
translation by least squares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
from scipy.spatial.transform import Rotation

from robot_stack.types.errors import SpecError
from robot_stack.types.pose import Pose

LEAST_VIEWS = 4
LEAST_TURN_RAD = 0.17
"""The views must be turned against each other by this much, about at least two axes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mounting:
    """The pose of a mounted camera, and how well the views agree.

    Attributes:
        T_parent_camera: In the tcp frame for a camera on the hand, else in the base frame; optical frame.
        error_m: Root mean square distance of the board's place from its mean over all views.
        error_rad: The same for its orientation.
    """

    T_parent_camera: Pose
    error_m: float
    error_rad: float


def find_mounting(
    T_base_tcp: Sequence[Pose], T_camera_board: Sequence[Pose], mounted: Literal["hand", "base"]
) -> Mounting:
    """Find the mounting of a camera from paired poses of arm and board.

    Args:
        T_base_tcp: Of the arm at each view.
        T_camera_board: Of the board in the same view.
        mounted: "hand": the camera moves with the tcp, the board stands still. "base": the other way round.

    Raises:
        SpecError: If there are too few views, or they are turned about one axis only.
    """
    count = len(T_base_tcp)
    if count != len(T_camera_board) or count < LEAST_VIEWS:
        raise SpecError(f"{count} views, must be {LEAST_VIEWS} at least; take more, each with the arm turned anew")
    arm = [pose if mounted == "hand" else pose.inverse() for pose in T_base_tcp]
    pairs = [
        (arm[j].inverse() @ arm[i], T_camera_board[j] @ T_camera_board[i].inverse())
        for i, j in combinations(range(count), 2)
    ]
    rotation = _rotation(pairs)
    shift = _translation(pairs, rotation)
    mounting = Pose.from_rotation(shift, rotation)
    return _with_errors(mounting, arm, T_camera_board)


def _rotation(pairs: Sequence[tuple[Pose, Pose]]) -> Rotation:
    left = np.stack([a.rotation.as_rotvec() for a, _ in pairs])
    right = np.stack([b.rotation.as_rotvec() for _, b in pairs])
    turns = np.linalg.svd(left, compute_uv=False) / np.sqrt(len(pairs))
    if turns[1] < LEAST_TURN_RAD:
        raise SpecError(
            f"views are turned by {turns[0]:.2f} rad about one axis and by {turns[1]:.2f} about any other, must be "
            f"{LEAST_TURN_RAD} about two; tilt the hand both ways between views"
        )
    u, _, vt = np.linalg.svd(left.T @ right)  # the rotation that best turns every `right` into its `left`
    return Rotation.from_matrix(u @ np.diag([1.0, 1.0, np.linalg.det(u @ vt)]) @ vt)


def _translation(pairs: Sequence[tuple[Pose, Pose]], rotation: Rotation) -> np.ndarray:
    """Solve (R_A - I) t_X = R_X t_B - t_A for t_X by least squares, over all pairs."""
    rows = np.concatenate([a.rotation.as_matrix() - np.eye(3) for a, _ in pairs])
    wanted = np.concatenate([rotation.apply(b.position_m) - a.position_m for a, b in pairs])
    return np.asarray(np.linalg.lstsq(rows, wanted, rcond=None)[0])


def _with_errors(mounting: Pose, arm: Sequence[Pose], boards: Sequence[Pose]) -> Mounting:
    places = [each @ mounting @ board for each, board in zip(arm, boards, strict=True)]
    points = np.stack([place.position_m for place in places])
    mean = Rotation.concatenate([place.rotation for place in places]).mean()
    turns = np.array([(mean.inv() * place.rotation).magnitude() for place in places])
    spread = points - points.mean(axis=0)
    return Mounting(
        T_parent_camera=mounting,
        error_m=float(np.sqrt(np.mean(np.sum(spread**2, axis=1)))),
        error_rad=float(np.sqrt(np.mean(turns**2))),
    )
