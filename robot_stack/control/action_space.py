"""The policy's action vector and the twists of the arms, in both directions.

An entry of 1.0 means `translation_m` (or `rotation_rad`) per control step, so a twist is `action * step * rate`, in
the tcp frame. That is a free twist: the frame never enters here, and the filter turns it with R only.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from robot_stack.types.command import Command, Source
from robot_stack.types.errors import SpecError
from robot_stack.types.interfaces import ExecutedWindow
from robot_stack.types.spec import GRIPPER_DEADBAND, ArmSpec, GripperKind, Spec


def opening_of_press(press: int) -> float | None:
    """Return the opening that a teleop gripper press asks for: -1 closes (0.0), +1 opens (1.0), 0 leaves it (None)."""
    return None if press == 0 else float(press > 0)


class ActionSpace:
    """Maps actions, float32 (A,) in [-1, 1], to one SI twist command per arm and back."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec

    def full_scale(self, arm: str) -> np.ndarray:
        """Return the twist of that arm at action 1.0 on every axis.

        float64, shape (6,), m/s and rad/s; 0 on inactive axes.
        """
        return _full_scale(self._arm(arm), self.spec.rate_hz)

    def to_commands(self, action: np.ndarray, stamp_ns: int) -> dict[str, Command]:
        """Convert an action to one POLICY command per arm.

        Args:
            action: float32, shape (A,), in [-1, 1].
            stamp_ns: When it was made, monotonic.

        Raises:
            SpecError: If the action does not fit the spec.
        """
        self.spec.check_action(action)
        entries = np.clip(action.astype(np.float64), -1.0, 1.0)
        commands, offset = {}, 0
        for arm in self.spec.arms:
            part = entries[offset : offset + arm.size]
            offset += arm.size
            twist = np.zeros(6)
            twist[list(arm.axis_indices)] = part[: len(arm.axes)]
            commands[arm.name] = Command(
                arm=arm.name,
                twist=twist * _full_scale(arm, self.spec.rate_hz),
                gripper=_opening(arm.gripper, float(part[-1])),
                stamp_ns=stamp_ns,
                source=Source.POLICY,
            )
        return commands

    def to_action(
        self,
        twists: Mapping[str, np.ndarray],
        grippers: Mapping[str, float | None],
        openings: Mapping[str, float] | None = None,
    ) -> np.ndarray:
        """Convert twists of the arms to the action that asks for them, clipped to [-1, 1].

        Args:
            twists: Arm -> mean twist over a control period, shape (6,), m/s and rad/s, tcp frame.
            grippers: Arm -> wanted opening in [0, 1], or None where nobody asked.
            openings: Arm -> opening that stands in for None with a continuous gripper, see `Openings`.

        Returns:
            float32, shape (A,).

        Raises:
            SpecError: If an arm is missing, or a continuous gripper has no opening, neither wanted nor standing in.
        """
        parts: list[np.ndarray] = []
        for arm in self.spec.arms:
            if arm.name not in twists:
                raise SpecError(f"twists have arms {sorted(twists)}, must include {arm.name}")
            axes = list(arm.axis_indices)
            parts.append(twists[arm.name][axes] / _full_scale(arm, self.spec.rate_hz)[axes])
            if arm.gripper is not GripperKind.NONE:
                standing_in = None if openings is None else openings.get(arm.name)
                parts.append(np.array([_entry(arm, grippers.get(arm.name), standing_in)]))
        action = np.concatenate(parts)
        if not np.isfinite(action).all():
            raise SpecError(f"executed action is {action}, must be finite")
        return np.asarray(np.clip(action, -1.0, 1.0), dtype=np.float32)

    def executed_action(
        self, windows: Mapping[str, ExecutedWindow], openings: Mapping[str, float] | None = None
    ) -> np.ndarray:
        """Return the action that the arms executed in a window of each, float32 (A,); `openings`: see `to_action`."""
        twists = {arm: window.twist for arm, window in windows.items()}
        return self.to_action(twists, {arm: window.gripper for arm, window in windows.items()}, openings)

    def human_action(
        self, windows: Mapping[str, ExecutedWindow], openings: Mapping[str, float] | None = None
    ) -> np.ndarray:
        """Return the action that the human asked of the arms, float32 (A,); `openings` as in `to_action`."""
        twists = {arm: window.human_twist for arm, window in windows.items()}
        presses = {arm: opening_of_press(window.human_gripper) for arm, window in windows.items()}
        return self.to_action(twists, presses, openings)

    def _arm(self, name: str) -> ArmSpec:
        for arm in self.spec.arms:
            if arm.name == name:
                return arm
        raise SpecError(f"arm is {name!r}, must be one of {[arm.name for arm in self.spec.arms]}")


def _full_scale(arm: ArmSpec, rate_hz: float) -> np.ndarray:
    scale = np.array([arm.translation_m] * 3 + [arm.rotation_rad] * 3) * rate_hz
    active = np.zeros(6)
    active[list(arm.axis_indices)] = 1.0
    return np.asarray(scale * active)


def _opening(kind: GripperKind, entry: float) -> float | None:
    if kind is GripperKind.NONE:
        return None
    if kind is GripperKind.CONTINUOUS:
        return (entry + 1.0) / 2.0
    return None if abs(entry) <= GRIPPER_DEADBAND else float(entry > 0)


def _entry(arm: ArmSpec, wanted: float | None, standing_in: float | None) -> float:
    if arm.gripper is GripperKind.DISCRETE:
        return 0.0 if wanted is None else (1.0 if wanted > 0.5 else -1.0)
    opening = standing_in if wanted is None else wanted
    if opening is None:
        raise SpecError(f"gripper of arm {arm.name} is unknown, must be wanted or standing in; pass openings")
    return 2.0 * opening - 1.0
