"""When an executed action effectively changes a discrete gripper: closes it while open, or opens it while closed."""

from __future__ import annotations

import numpy as np

from robot_stack.types.spec import GRIPPER_DEADBAND, GripperKind, Spec


class DiscreteGrippers:
    """The G arms with a discrete gripper, in the order of the spec."""

    def __init__(self, spec: Spec) -> None:
        self._entries = np.array(spec.discrete_gripper_indices, np.int64)
        measured = spec.openings
        arms = [arm.name for arm in spec.arms if arm.gripper is GripperKind.DISCRETE]
        self._known = np.array([arm in measured for arm in arms], np.bool_)
        self._openings = np.array([measured[arm] for arm in arms if arm in measured], np.int64)

    def __len__(self) -> int:
        """G."""
        return len(self._entries)

    def at_start(self, proprio: np.ndarray) -> np.ndarray:
        """What is open at frame 0, bool (G,): as measured there; open, where no opening is recorded."""
        is_open = np.ones(len(self), np.bool_)
        is_open[self._known] = proprio[self._openings] >= 0.5
        return is_open

    def after(self, executed: np.ndarray, is_open: np.ndarray) -> np.ndarray:
        """What is open once an action was executed, bool (G,): an entry within the deadband leaves it."""
        entries = executed[self._entries]
        return np.where(np.abs(entries) > GRIPPER_DEADBAND, entries > 0, is_open)
