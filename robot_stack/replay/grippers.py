"""When an executed action effectively changes a discrete gripper: closes it while open, or opens it while closed."""

from __future__ import annotations

import numpy as np

from robot_stack.types.errors import SpecError
from robot_stack.types.spec import GripperKind, Spec

DEADBAND = 0.5
"""A gripper entry beyond this closes (negative) or opens (positive); between, the gripper stays. As in control."""
OPENING = "gripper"
"""Proprio field with one measured opening per arm, in [0, 1]."""


class DiscreteGrippers:
    """The G arms with a discrete gripper, in the order of the spec."""

    def __init__(self, spec: Spec) -> None:
        arms = [(n, arm) for n, arm in enumerate(spec.arms) if arm.gripper is not GripperKind.NONE]
        discrete = [(n, i) for (n, arm), i in zip(arms, spec.gripper_indices) if arm.gripper is GripperKind.DISCRETE]
        self._entries = np.array([i for _, i in discrete], np.int64)
        first = _first_opening(spec) if discrete else None
        self._openings = None if first is None else np.array([first + n for n, _ in discrete])

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
        return np.where(np.abs(entries) > DEADBAND, entries > 0, is_open)


def _first_opening(spec: Spec) -> int | None:
    """Position of the first arm's opening in the proprio vector, or None if none is recorded."""
    offset = 0
    for field in spec.proprio:
        if field.name == OPENING:
            if field.size != len(spec.arms):
                raise SpecError(
                    f"size of proprio field {OPENING!r} is {field.size}, must be {len(spec.arms)}, one entry per arm; "
                    "record the opening of each arm, in their order"
                )
            return offset
        offset += field.size
    return None
