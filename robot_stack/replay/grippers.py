"""When an executed action effectively changes a discrete gripper: closes it while open, or opens it while closed."""

from __future__ import annotations

import numpy as np

from robot_stack.types.spec import GRIPPER_DEADBAND, GripperKind, Spec


class DiscreteGrippers:
    """The G arms with a discrete gripper, in the order of the spec."""

    def __init__(self, spec: Spec) -> None:
        self._entries = np.array(spec.discrete_gripper_indices, np.int64)
        arms = np.array([n for n, arm in enumerate(spec.arms) if arm.gripper is GripperKind.DISCRETE], np.int64)
        first = spec.opening_index if len(arms) else None
        self._openings = None if first is None else first + arms

    def __len__(self) -> int:
        """G."""
        return len(self._entries)

    def at_start(self, proprio: np.ndarray) -> np.ndarray:
        """What is open at frame 0, bool (G,): as measured there, or all, if the spec records no opening."""
        if self._openings is None:
            return np.ones(len(self), np.bool_)
        return np.asarray(proprio[self._openings] >= 0.5)

    def after(self, executed: np.ndarray, is_open: np.ndarray) -> np.ndarray:
        """What is open once an action was executed, bool (G,): an entry within the deadband leaves it."""
        entries = executed[self._entries]
        return np.where(np.abs(entries) > GRIPPER_DEADBAND, entries > 0, is_open)
