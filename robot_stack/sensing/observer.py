"""The builder of the observations that the spec declares, from synchronised parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from robot_stack.sensing.sync import Snapshot
from robot_stack.types.errors import SpecError
from robot_stack.types.observation import Observation
from robot_stack.types.pose import Pose
from robot_stack.types.robot import RobotState
from robot_stack.types.spec import BASE, BASE_NOISE, BASE_TICKS, DIRECTION, PROPRIO_SIZES, TASK, ProprioField, Spec


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """The values that the first observation of an episode fixes.

    Attributes:
        pose: T_base_tcp of the arm.
        told: Which task is at hand, see `TaskTurn` of the configuration.
    """

    pose: Pose
    told: tuple[float, ...]


Reader = Callable[[RobotState, Beginning], np.ndarray]


def relative_pose(state: RobotState, beginning: Beginning) -> np.ndarray:
    """Return the TCP pose in the start pose of the episode: position in m, then rotation vector in rad, shape (6,)."""
    pose = state.T_base_tcp.relative_to(beginning.pose)
    return np.concatenate([pose.position_m, pose.rotation.as_rotvec()])


READERS: Mapping[str, Reader] = {
    "tcp_pose": relative_pose,
    "tcp_twist": lambda state, _: state.twist,
    "wrench": lambda state, _: state.wrench,
    "gripper": lambda state, _: np.array([state.gripper]),
    "joints": lambda state, _: state.joints_rad,
    "joint_speeds": lambda state, _: state.joint_speeds_rad_s,
    DIRECTION: lambda _, beginning: np.array(beginning.told),
}
"""Proprio fields by name; with several arms a field of one is called "<arm>.<name>"."""


class Observer:
    """A builder of observations, with proprio in SI units, float32, in the order of the spec."""

    def __init__(self, spec: Spec) -> None:
        """Find the reader of each proprio field of the spec; nothing is read yet.

        The first observation after `begin_episode` fixes the start pose.

        Raises:
            SpecError: If a proprio field is unknown or has another size.
        """
        self._spec = spec
        self._fields = [_resolve(field, spec) for field in spec.proprio]
        self._beginning: dict[str, Beginning] = {}
        self._told: tuple[float, ...] = (1.0,)

    def begin_episode(self, *, told: tuple[float, ...] = (1.0,), again: bool = False) -> None:
        """Forget the start pose: the next observation becomes the new one.

        Args:
            told: Which task is at hand, in [-1, 1]; nobody reads it where there is only one.
            again: The same task is tried again from where the last try ended: the start pose is still that of the first
                try, so that what is measured from it, as the gate of success does, means the same.
        """
        if not again or told != self._told:
            self._beginning = {}
        self._told = told

    def observe(self, snapshot: Snapshot, stamp_ns: int) -> Observation:
        """Build the observation of the control tick at `stamp_ns`.

        Raises:
            SpecError: If images or proprio do not fit the spec, or are not finite.
        """
        self._spec.check_images(dict(snapshot.images))
        for arm, state in snapshot.states.items():
            self._beginning.setdefault(arm, Beginning(pose=state.T_base_tcp, told=self._told))
        parts = []
        for field, arm, reader in self._fields:
            value = reader(snapshot.states[arm], self._beginning[arm])
            if value.shape != (field.size,):
                raise SpecError(f"proprio {field.name} is {value.shape}, must be ({field.size},) as the task says")
            parts.append(value)
        proprio = np.concatenate(parts).astype(np.float32)
        self._spec.check_proprio(proprio)
        return Observation(
            images=snapshot.images,
            proprio=proprio,
            stamp_ns=stamp_ns,
            age_s=snapshot.age_s,
            skew_s=snapshot.skew_s,
            T_base_tcp={arm: state.T_base_tcp for arm, state in snapshot.states.items()},
        )


def _resolve(field: ProprioField, spec: Spec) -> tuple[ProprioField, str, Reader]:
    arms = [arm.name for arm in spec.arms]
    if field.name in (BASE_NOISE, BASE_TICKS, BASE):  # nobody senses them: whoever asks the base fills them in
        return field, arms[0], lambda *_: np.zeros(field.size)
    if field.name == TASK:
        return field, arms[0], READERS[DIRECTION]
    arm, name = field.name.split(".", 1) if "." in field.name else (arms[0], field.name)
    if name not in READERS or arm not in arms:
        raise SpecError(
            f"proprio field is {field.name!r}, must be one of {sorted(READERS)}, if needed behind an arm "
            f"of {arms} and a dot"
        )
    if "." not in field.name and len(arms) > 1 and name != DIRECTION:
        raise SpecError(f"proprio field is {field.name!r}, must name its arm; write {arms[0]}.{name}")
    if PROPRIO_SIZES[name] not in (None, field.size):
        raise SpecError(f"size of proprio field {field.name} is {field.size}, must be {PROPRIO_SIZES[name]}")
    return field, arm, READERS[name]
