"""Labels of actions: the entries of an executed action that may be imitated. What nobody showed is no label.

Labels are for imitation alone. What was executed is data for temporal differences, whoever did it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from robot_stack.types.command import IN_HAND, Source
from robot_stack.types.spec import GRIPPER_DEADBAND, GripperKind, Spec

HANDOVER_S = 0.2
"""Length of the blend at a handover, where a cell does not say otherwise."""


class StepLabels:
    """The labels of actions of one spec, whose arms have N names and whose actions A entries.

    In a step that an operator executed, an arm that was not in a hand stood still because the cell held it: that is no
    label. In a demonstration a discrete gripper whose key was not pressed stays because the operator wants it to: that
    is the label "stay". In a correction the key that was not pressed says nothing, since the operator corrected
    something else. Nor do the motions at the start of a correction say what the operator wanted: until the handover is
    over, they are blended with the very motion that was corrected. An arm that nobody drove shows
    nothing, and one that an operator held still no motion. All entries of other steps count, for those who learn from
    what was executed.

    Args:
        handover_s: Length of the blend when an operator takes over.
    """

    def __init__(self, spec: Spec, *, handover_s: float = HANDOVER_S) -> None:
        self._size = spec.action_size
        self._handover = math.ceil(handover_s * spec.rate_hz - 1e-6)
        self._parts: list[tuple[slice, int | None]] = []
        """Entries of each arm, and which of them is a discrete gripper."""
        self._motions: list[slice] = []
        offset = 0
        for arm in spec.arms:
            entries = slice(offset, offset + arm.size)
            self._motions.append(slice(offset, offset + len(arm.axes)))
            offset += arm.size
            self._parts.append((entries, offset - 1 if arm.gripper is GripperKind.DISCRETE else None))

    def of(self, arrays: Mapping[str, np.ndarray], *, demo: bool, in_hand: np.ndarray | None = None) -> np.ndarray:
        """Return the labels of T steps: True for each entry of an action that counts as shown.

        Args:
            arrays: `source` (T,), `gripper_pressed` (T,), and with several arms `sources` (T, N) and `human` (T, A).
            in_hand: For how many steps before these an operator has had each arm, int64 (N,), which is brought up to
                date; None at the start of an episode.

        Returns:
            bool, shape (T, A).
        """
        several = len(self._parts) > 1
        by_hand = arrays["source"] == Source.HUMAN
        sources = arrays["sources"] if several else arrays["source"][:, None]
        held = np.isin(sources, IN_HAND)
        labels = np.ones((len(by_hand), self._size), np.bool_)
        counts = np.zeros(len(self._parts), np.int64) if in_hand is None else in_hand
        for number, (entries, gripper) in enumerate(self._parts):
            if several:
                labels[:, entries] = (~by_hand | (sources[:, number] == Source.HUMAN))[:, None]
            labels[:, entries] &= (sources[:, number] != Source.HOLD)[:, None]
            labels[:, self._motions[number]] &= (sources[:, number] != Source.IDLE)[:, None]
            if demo:
                continue
            for step, is_held in enumerate(held[:, number]):
                counts[number] = counts[number] + 1 if is_held else 0
                if 0 < counts[number] <= self._handover:
                    labels[step, self._motions[number]] &= not by_hand[step]
            if gripper is not None:
                pressed = (
                    np.abs(arrays["human"][:, gripper]) > GRIPPER_DEADBAND if several else arrays["gripper_pressed"]
                )
                labels[:, gripper] &= ~by_hand | pressed
        return labels
