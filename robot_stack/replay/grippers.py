"""Effective changes of discrete grippers: an executed action closes one that is open, or opens one that is closed."""

from __future__ import annotations

import numpy as np

from robot_stack.types.spec import GRIPPER_DEADBAND, GripperKind, Spec


class DiscreteGrippers:
    """The discrete grippers of G arms, in the order of the spec."""

    def __init__(self, spec: Spec) -> None:
        self._entries = np.array(spec.discrete_gripper_indices, np.int64)
        measured = spec.openings
        arms = [arm.name for arm in spec.arms if arm.gripper is GripperKind.DISCRETE]
        self._known = np.array([arm in measured for arm in arms], np.bool_)
        self._openings = np.array([measured[arm] for arm in arms if arm in measured], np.int64)

    def __len__(self) -> int:
        """Return G, the number of discrete grippers."""
        return len(self._entries)

    def at_start(self, proprio: np.ndarray) -> np.ndarray:
        """Return which grippers are open at frame 0, bool (G,): as measured; open, where no opening is recorded."""
        is_open = np.ones(len(self), np.bool_)
        is_open[self._known] = proprio[self._openings] >= 0.5
        return is_open

    def after(self, executed: np.ndarray, is_open: np.ndarray) -> np.ndarray:
        """Return which grippers are open after an action, bool (G,): an entry in the deadband changes nothing."""
        entries = executed[self._entries]
        return np.where(np.abs(entries) > GRIPPER_DEADBAND, entries > 0, is_open)
