"""The models of robots/*.yaml for real arms, one per driver, with the topics of a driver started as its manual says.

Names without a leading slash lie under the namespace of the cell.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from robot_stack.config.driver_parts import DriverSays, Gripper, PoseFromKinematics, PoseSource, Timeout, WrenchTopic
from robot_stack.config.kinematics import Kinematics, RosName
from robot_stack.config.robot import RobotConfig

LeadLength = Annotated[float, Field(gt=0, le=0.1)]
LeadAngle = Annotated[float, Field(gt=0, le=0.5)]


class DriverRobot(RobotConfig):
    """The settings that every arm behind a driver has."""

    over_topics: ClassVar[bool] = True
    """False for an arm that this machine drives itself: then none of its topics exist."""

    joint_states: RosName = "/joint_states"
    """JointState, in any order of joints."""
    joint_states_timeout_s: Timeout = 0.1
    """Age at which they are stale."""
    pose: PoseSource = Field(default=PoseFromKinematics(source="kinematics"), validate_default=True)
    """Where the pose of the TCP comes from."""
    wrench: WrenchTopic | None = None
    """Without it no force is seen, and no force limit acts."""
    rate_hz: Annotated[float, Field(ge=50, le=250)] = 100.0
    """How often the driver is commanded and the state is published."""
    gripper: Gripper | None = None
    """The gripper, if there is one."""
    driver: DriverSays = DriverSays()
    """What the driver answers when it is asked at the start."""

    @property
    def commands(self) -> Mapping[str, str]:
        """Return the topics that command the arm itself: key in its file, mostly `command` -> name on the wire."""
        topic: str | None = getattr(self, "command", None)
        return {} if topic is None else {"command": topic}

    @property
    def command_topics(self) -> dict[str, str]:
        """Return the topics that command the arm and its gripper; none where this machine drives it itself."""
        if not self.over_topics:
            return {}
        return {**self.commands, **({} if self.gripper is None else {"gripper.command": self.gripper.command})}

    @field_validator("pose")
    @classmethod
    def _pose_can_be_had(cls, pose: PoseSource, info: ValidationInfo) -> PoseSource:
        if pose.source == "kinematics" and "kinematics" in info.data and info.data["kinematics"] is None:
            raise ValueError("kinematics is missing, must be given to compute the pose; add it, or another pose source")
        return pose

    @field_validator("wrench")
    @classmethod
    def _wrench_can_be_turned(cls, wrench: WrenchTopic | None, info: ValidationInfo) -> WrenchTopic | None:
        known = (info.data.get("base_frame"), info.data.get("tcp_frame"))
        if wrench is not None and wrench.tcp_in_frame is None and wrench.frame not in known:
            raise ValueError(
                f"tcp_in_frame is missing for frame '{wrench.frame}', must be given where that is neither base_frame "
                "nor tcp_frame; add it"
            )
        return wrench


class ServoRobot(DriverRobot):
    """An arm behind MoveIt Servo."""

    backend: Literal["servo"]
    """Twists to MoveIt Servo."""
    node: RosName = "/servo_node"
    """Servo's node, whose parameters are asked for."""
    command: RosName = "/servo_node/delta_twist_cmds"
    """TwistStamped."""
    command_in: Literal["unitless", "speed_units"]
    """Servo's command_in_type: "speed_units" are m/s and rad/s, "unitless" is a share of the two scales. Without a
    default: the wrong one is a wrong speed."""
    linear_scale_m_s: Annotated[float, Field(gt=0, le=5)] = 0.4
    """Servo's scale.linear: speed at 1.0. Used, and asked for, if unitless."""
    rotational_scale_rad_s: Annotated[float, Field(gt=0, le=10)] = 0.8
    """Servo's scale.rotational."""
    status: RosName = "/servo_node/status"
    """Servo's status."""
    status_type: Literal["moveit_msgs/ServoStatus", "std_msgs/Int8"] = "moveit_msgs/ServoStatus"
    """Its type; the second is that of Humble."""
    status_timeout_s: Timeout = 0.5
    """Silence of the status at which Servo counts as paused or gone."""
    pause: RosName = "/servo_node/pause_servo"
    """SetBool; recovery ends a pause. Humble's Servo has a Trigger beside it for that, unpause_servo."""
    switch_command_type: RosName = "/servo_node/switch_command_type"
    """Servo takes no twist before it is told to; needs moveit_msgs."""

    @property
    def unpause(self) -> str:
        """Return the Trigger that ends a pause of Humble's Servo, whose pause_servo can only begin one."""
        return f"{self.pause.rpartition('/')[0]}/unpause_servo"


class PoseCommandedRobot(DriverRobot):
    """An arm that is sent poses of its TCP."""

    command: RosName = "/target_pose"
    """PoseStamped in base_frame."""
    max_lead_m: LeadLength = 0.03
    """The target is at most this far ahead of the arm: with an impedance, stiffness times this is the push."""
    max_lead_rad: LeadAngle = 0.2
    """The same for rotation."""


class PoseTargetRobot(PoseCommandedRobot):
    """An arm behind a controller that follows a pose, such as crisp's Cartesian impedance."""

    backend: Literal["pose_target"]
    """Poses to a Cartesian controller."""


class FrankaRobot(PoseCommandedRobot):
    """A Franka arm behind franka_ros2 and a Cartesian impedance controller."""

    backend: Literal["franka"]
    """Poses to a Cartesian controller, and what Franka says of itself."""
    robot_state: RosName = "/franka_robot_state_broadcaster/robot_state"
    """Mode and errors."""
    robot_state_type: Literal["franka_msgs/FrankaRobotState", "std_msgs/UInt8"] = "franka_msgs/FrankaRobotState"
    """Its type; the second is for a relay that sends the mode's number."""
    robot_state_timeout_s: Timeout = 0.5
    """Age at which it is stale."""
    recovery: RosName = "/action_server/error_recovery"
    """Asked only when an operator calls the arm's recover service."""
    recovery_type: Literal["franka_msgs/ErrorRecovery", "std_srvs/Trigger"] = "franka_msgs/ErrorRecovery"
    """The action, or a service in front of it."""


class JointCommandedRobot(DriverRobot):
    """An arm that is sent joint angles or speeds, found with its own kinematics."""

    kinematics: Kinematics
    """Of the arm."""


class JointTrajectoryRobot(JointCommandedRobot):
    """An arm behind a joint_trajectory_controller."""

    backend: Literal["joint_trajectory"]
    """Short trajectories that end at rest."""
    command: RosName = "/joint_trajectory_controller/joint_trajectory"
    """JointTrajectory."""
    max_lead_rad: LeadAngle = 0.1
    """The target is at most this far ahead of each joint."""


class ForwardVelocityRobot(JointCommandedRobot):
    """An arm behind a forward velocity controller, which keeps the last speeds for ever."""

    backend: Literal["forward_velocity"]
    """Joint speeds. Only where the cell has a downstream_timeout_s."""
    command: RosName = "/forward_velocity_controller/commands"
    """Float64MultiArray."""

    @property
    def keeps_last_speed(self) -> bool:
        """Return True: this controller goes on at the last speeds for ever."""
        return True


class UrRobot(JointCommandedRobot):
    """A Universal Robots arm behind ur_robot_driver."""

    backend: Literal["ur"]
    """Joint commands, and what the UR says of its program and its safety."""
    control: Literal["scaled_joint_trajectory", "joint_trajectory", "forward_velocity"] = "scaled_joint_trajectory"
    """Controller that is active. The first is that of Jazzy and Kilted; later drivers have the second alone. The third
    only where the cell has a downstream_timeout_s."""
    trajectory: RosName | None = None
    """JointTrajectory; unless given, that of the controller."""
    speeds: RosName = "/forward_velocity_controller/commands"
    """Float64MultiArray."""
    max_lead_rad: LeadAngle = 0.1
    """The target of a trajectory is at most this far ahead of each joint."""
    program_running: RosName = "/io_and_status_controller/robot_program_running"
    """Bool, latched."""
    safety_mode: RosName = "/io_and_status_controller/safety_mode"
    """Latched."""
    safety_mode_type: Literal["ur_dashboard_msgs/SafetyMode", "std_msgs/UInt8"] = "ur_dashboard_msgs/SafetyMode"
    """Its type; the second is for a relay that sends the mode's number."""
    speed_scaling: RosName = "/speed_scaling_state_broadcaster/speed_scaling"
    """Float64, percent."""

    @property
    def trajectory_topic(self) -> str:
        """Return the topic of trajectories: the one that is given, else that of the controller."""
        return self.trajectory or f"/{self.control}_controller/joint_trajectory"

    @property
    def commands(self) -> Mapping[str, str]:
        """Return the topic of speeds, or that of trajectories, by its key."""
        return {"speeds": self.speeds} if self.keeps_last_speed else {"trajectory": self.trajectory_topic}

    @property
    def keeps_last_speed(self) -> bool:
        """Return whether the controller in use goes on at the last speeds for ever."""
        return self.control == "forward_velocity"


def asked_controllers(robot: DriverRobot) -> tuple[str, ...]:
    """Return the controllers that must be active: those of the file, and the one that takes the joint commands.

    A controller's topics lie under its own name, so the topic tells which it is; one that has no name before its last
    part tells nothing.
    """
    said = robot.driver.controllers
    if robot.driver.controller_manager is None or not isinstance(robot, JointCommandedRobot):
        return said
    for topic in robot.command_topics.values():
        parts = [part for part in topic.split("/") if part]
        return said if len(parts) < 2 or parts[-2] in said else (parts[-2], *said)
    return said
