"""Labels of actions: the entries of an executed action that may be imitated. What nobody showed is no label.

Labels are for imitation alone. What was executed is data for temporal differences, whoever did it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from robot_stack.types.command import Source
from robot_stack.types.spec import GRIPPER_DEADBAND, GripperKind, Spec


class StepLabels:
    """The labels of actions of one spec, whose arms have N names and whose actions A entries.

    In a step that an operator executed, an arm that was not in a hand stood still because the cell held it: that is no
    label. In a demonstration a discrete gripper whose key was not pressed stays because the operator wants it to: that
    is the label "stay". In a correction the key that was not pressed says nothing, since the operator corrected
    something else. All entries of other steps count, for those who learn from what was executed.
    """

    def __init__(self, spec: Spec) -> None:
        self._size = spec.action_size
        self._parts: list[tuple[slice, int | None]] = []
        offset = 0
        for arm in spec.arms:
            entries = slice(offset, offset + arm.size)
            offset += arm.size
            self._parts.append((entries, offset - 1 if arm.gripper is GripperKind.DISCRETE else None))

    def of(self, arrays: Mapping[str, np.ndarray], *, demo: bool) -> np.ndarray:
        """Return the labels of T steps: True for each entry of an action that counts as shown.

        Args:
            arrays: `source` (T,), `gripper_pressed` (T,), and with several arms `sources` (T, N) and `human` (T, A).
            demo: Whether the steps are of a demonstration.

        Returns:
            bool, shape (T, A).
        """
        by_hand = arrays["source"] == Source.HUMAN
        labels = np.ones((len(by_hand), self._size), np.bool_)
        several = len(self._parts) > 1
        for number, (entries, gripper) in enumerate(self._parts):
            if several:
                labels[:, entries] = (~by_hand | (arrays["sources"][:, number] == Source.HUMAN))[:, None]
            if gripper is not None and not demo:
                pressed = (
                    np.abs(arrays["human"][:, gripper]) > GRIPPER_DEADBAND if several else arrays["gripper_pressed"]
                )
                labels[:, gripper] &= ~by_hand | pressed
        return labels
