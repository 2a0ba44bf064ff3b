"""Names under which tools see an arm: its frames, joints and gripper."""

from __future__ import annotations

from dataclasses import dataclass

from robot_stack.config.robot import RobotConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmNames:
    """The TF frames and joint names of an arm in the messages for tools.

    Attributes:
        base: Frame of its base.
        tcp: Frame of its TCP.
        joints: In the order of the state.
        gripper: What its opening in [0, 1] is called among joints.
    """

    base: str
    tcp: str
    joints: tuple[str, ...]
    gripper: str

    @classmethod
    def of(cls, arm: str, robot: RobotConfig) -> ArmNames:
        """Return a driver's own names; those of a simulated arm begin with the arm's, so that two do not collide."""
        prefix = f"{arm}_" if robot.backend == "sim" else ""
        return cls(
            base=prefix + robot.base_frame,
            tcp=prefix + robot.tcp_frame,
            joints=tuple(prefix + joint.name for joint in robot.joints),
            gripper=f"{arm}_gripper_opening",
        )
