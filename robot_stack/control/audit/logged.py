"""A log of decisions as arrays, so that an hour of it is checked in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial.transform import Rotation

from robot_stack.types.command import Decision, Mode
from robot_stack.types.robot import RobotState

MODES = tuple(Mode)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedTick:
    """One logged decision, and the state it was based on if that was logged too.

    Attributes:
        decision: What the safety process decided.
        state: The newest that it can have been based on.
        heard: The newest that had surely arrived by then, in a log of messages; None if it is `state`.
    """

    decision: Decision
    state: RobotState | None = None
    heard: RobotState | None = None

    @property
    def stamp_ns(self) -> int:
        """Return when the decision was made, in ns."""
        return self.decision.command.stamp_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class LogArrays:
    """A log of N ticks, M of them with a state, in time order. Twists are in the tcp frame, m/s and rad/s.

    Attributes:
        stamp_ns: int64, shape (N,).
        twist: Executed, shape (N, 6).
        mode: Index into `MODES`, shape (N,).
        source: Whose motion it is, shape (N,).
        command_source: What the command says of that, shape (N,).
        grips: Whether the gripper was commanded, shape (N,).
        stated: Indices of the ticks with a state, shape (M,).
        rotation: Of the tool in the base frame at those, M of them.
        position_m: Of the TCP at those, shape (M, 3).
        wrench: On the TCP from outside at those, tcp frame, N and Nm, shape (M, 6).
        heard_wrench: The same of the newest states that had surely arrived by then.
        joints_rad: At those, shape (M, J).
    """

    stamp_ns: np.ndarray
    twist: np.ndarray
    mode: np.ndarray
    source: np.ndarray
    command_source: np.ndarray
    grips: np.ndarray
    stated: np.ndarray
    rotation: Rotation
    position_m: np.ndarray
    wrench: np.ndarray
    heard_wrench: np.ndarray
    joints_rad: np.ndarray

    @classmethod
    def of(cls, ticks: Sequence[LoggedTick]) -> LogArrays:
        """Build the arrays from ticks whose twists all have six entries."""
        stated = [index for index, tick in enumerate(ticks) if tick.state is not None]
        states = [tick.state for tick in ticks if tick.state is not None]
        heard = [tick.heard or tick.state for tick in ticks if tick.state is not None]
        decisions = [tick.decision for tick in ticks]
        quaternions = np.array([state.T_base_tcp.quaternion_xyzw for state in states]).reshape(-1, 4)
        return cls(
            stamp_ns=np.array([decision.command.stamp_ns for decision in decisions], dtype=np.int64),
            twist=np.array([decision.command.twist for decision in decisions]).reshape(-1, 6),
            mode=np.array([MODES.index(decision.mode) for decision in decisions], dtype=np.int64),
            source=np.array([int(decision.source) for decision in decisions], dtype=np.int64),
            command_source=np.array([int(decision.command.source) for decision in decisions], dtype=np.int64),
            grips=np.array([decision.command.gripper is not None for decision in decisions], dtype=np.bool_),
            stated=np.array(stated, dtype=np.int64),
            rotation=Rotation.from_quat(quaternions) if states else Rotation.identity(),
            position_m=np.array([state.T_base_tcp.position_m for state in states]).reshape(-1, 3),
            wrench=np.array([state.wrench for state in states]).reshape(-1, 6),
            heard_wrench=np.array([state.wrench for state in heard]).reshape(-1, 6),
            joints_rad=np.array([state.joints_rad for state in states]) if states else np.zeros((0, 0)),
        )

    def since_ns(self, holds: np.ndarray) -> np.ndarray:
        """Return how long a condition (N,) has held without a break at each tick, shape (N,); 0 where it does not."""
        begins = holds & ~np.concatenate([[False], holds[:-1]])
        first = np.maximum.accumulate(np.where(begins, np.arange(len(holds)), 0))
        return np.where(holds, self.stamp_ns - self.stamp_ns[first], 0) if len(holds) else self.stamp_ns
