"""The capsules and joints of an arm in the frame of the cell, at its newest state."""

from __future__ import annotations

import numpy as np

from robot_stack.control.kinematics.body import ArmBody
from robot_stack.control.kinematics.chain import Chain, ChainJoint
from robot_stack.control.kinematics.segments import closest_points
from robot_stack.types.robot import RobotState


class PosedArm:
    """Moves an arm's capsules by forward kinematics, once per state and for all who ask.

    Args:
        name: Of the arm, for messages.
        body: Its links and surroundings.
    """

    def __init__(self, name: str, body: ArmBody) -> None:
        self.name = name
        self.body = body
        self.radii_m = np.array([capsule.radius_m for capsule in body.capsules])
        self.links = np.array([capsule.link for capsule in body.capsules], dtype=np.int64)
        self.joints = len(body.axes)
        self.base = np.array(body.base_in_cell)
        """T_cell_base, shape (4, 4)."""
        self.state: RobotState | None = None
        """Newest that was heard."""
        self.ends = np.zeros((2, 3, len(body.capsules)))
        """Of the capsules' lines, as columns."""
        self.axes = np.zeros((3, self.joints))
        """Of the joints, as columns."""
        self.points = np.zeros((3, self.joints))
        """One on each axis."""
        origins = np.array(body.origins)
        origins[0] = self.base @ origins[0]
        axes = np.array(body.axes)
        self._chain = Chain(
            [ChainJoint(name=f"joint {i}", origin=origins[i], axis=axes[i]) for i in range(self.joints)], np.eye(4)
        )
        self._in_link = np.array([[capsule.from_m, capsule.to_m] for capsule in body.capsules])
        self._posed: RobotState | None = None

    def hear(self, state: RobotState) -> None:
        """Take the newest state of the arm."""
        self.state = state

    def pose(self) -> bool:
        """Bring capsules and joints to the newest state; return False if none has as many joints as the body."""
        state = self.state
        if state is None or len(state.joints_rad) != self.joints:
            return False
        if state is not self._posed:
            self.place(state.joints_rad)
            self._posed = state
        return True

    def place(self, joints_rad: np.ndarray) -> None:
        """Bring capsules and joints to where they are at these angles, shape (J,), rad."""
        frames = np.empty((self.joints + 1, 4, 4))
        frames[0] = self.base
        frames[1:] = self._chain.frames(joints_rad)
        rotations, origins = frames[:, :3, :3], frames[:, :3, 3]
        placed = self._in_link @ rotations[self.links].transpose(0, 2, 1) + origins[self.links, None]
        self.ends = placed.transpose(1, 2, 0).copy()
        self.axes = (rotations[1:] @ self._chain.axes[:, :, None])[:, :, 0].T.copy()
        self.points = origins[1:].T.copy()

    def own_distances_m(self) -> np.ndarray:
        """Measure the distances of `body.self_pairs` where the capsules are now, shape (P,)."""
        one, other = np.array(self.body.self_pairs, dtype=np.int64).reshape(-1, 2).T
        start, end = self.ends
        here, there = closest_points(start[:, one], end[:, one], start[:, other], end[:, other])
        return np.asarray(np.linalg.norm(here - there, axis=0) - self.radii_m[one] - self.radii_m[other])
