"""The parts of robot files of arms behind drivers: pose, wrench, gripper, and what the driver answers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from robot_stack.config.kinematics import Frame, RosName, Transform
from robot_stack.config.robot import GripperConfig
from robot_stack.config.section import Section

Timeout = Annotated[float, Field(gt=0, le=2)]


class PoseFromKinematics(Section):
    """The pose of the TCP is computed from the joints."""

    source: Literal["kinematics"]
    """Of this file."""


class PoseFromTopic(Section):
    """The driver publishes the pose of the TCP."""

    source: Literal["topic"]
    """PoseStamped in base_frame."""
    topic: RosName
    """Where."""
    timeout_s: Timeout = 0.1
    """Age at which it is stale."""


class PoseFromTf(Section):
    """The pose of the TCP is looked up in TF; needs tf2_ros_py of a ROS installation."""

    source: Literal["tf"]
    """From base_frame to tcp_frame."""
    timeout_s: Timeout = 0.1
    """Age at which it is stale."""


PoseSource = Annotated[PoseFromKinematics | PoseFromTopic | PoseFromTf, Field(discriminator="source")]


class WrenchTopic(Section):
    """The topic of the force and torque between the tool and what it touches."""

    topic: RosName
    """WrenchStamped."""
    acts: Literal["on_tool", "by_tool"]
    """What the maker's numbers are: what acts on the tool from outside, or what the tool exerts, which has the opposite
    sign. With the wrong one, a push into a contact is let through and the way back is slowed."""
    frame: Frame
    """Of its headers. In base_frame, the torque must already be about the TCP."""
    tcp_in_frame: Transform | None = None
    """Where the TCP is in that frame; needed if it is neither base_frame nor tcp_frame."""
    timeout_s: Timeout = 0.1
    """Age at which it is stale."""


class DriverGripper(GripperConfig):
    """A gripper with one joint in the joint states."""

    joint: Annotated[str, Field(min_length=1)]
    """As the driver names it."""
    closed: float
    """Position of the joint when closed, rad or m."""
    open: float
    """Position of the joint when open."""
    joint_states: RosName | None = None
    """Where its joint is published, if not with the arm's."""

    @field_validator("open")
    @classmethod
    def _apart(cls, opened: float, info: ValidationInfo) -> float:
        closed = info.data.get("closed")
        if closed is not None and abs(opened - closed) < 1e-4:
            raise ValueError(f"open is {opened}, must differ from closed ({closed}); give the joint's two ends")
        return opened


class CommandsGripper(DriverGripper):
    """A gripper behind a forward controller: the position of the joint as a Float64MultiArray of one."""

    interface: Literal["commands"]
    """Newest position wins."""
    command: RosName
    """Where."""


class TrajectoryGripper(DriverGripper):
    """A gripper behind a joint trajectory controller of one joint."""

    interface: Literal["trajectory"]
    """One point per wanted opening."""
    command: RosName
    """Where."""
    duration_s: Annotated[float, Field(gt=0, le=10)] = 0.5
    """From closed to open."""


class ActionGripper(DriverGripper):
    """A gripper behind an action; needs control_msgs of a ROS installation."""

    interface: Literal["action"]
    """One goal per wanted opening."""
    command: RosName
    """The action."""
    command_type: Literal["control_msgs/GripperCommand", "control_msgs/ParallelGripperCommand"] = (
        "control_msgs/GripperCommand"
    )
    """Its type; the second is that of parallel_gripper_action_controller, which stands alone from Kilted on. A server
    of the other type never hears a goal, so the type is asked for at the start."""
    grasp_epsilon_m: Annotated[float, Field(gt=0, le=0.5)] | None = None
    """Of franka_gripper alone: by how much what is held may be wider than the goal without the grasp failing. Its
    default_grasp_epsilon.outer must be at least this, which is asked for at the start."""


class DriverSays(Section):
    """The answers that a driver must give when it is asked at the start; nothing moves before it gives them."""

    joint_states_rate_hz: Annotated[float, Field(ge=1, le=2000)] | None = None
    """Rate of the joint states. Measured; a driver that is slower than 0.7 of it contradicts."""
    joint_states_publisher: Annotated[str, Field(min_length=1)] | None = None
    """Name of the node that publishes them."""
    controller_manager: RosName | None = None
    """Node that lists its controllers; left out where the maker has none."""
    controllers: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Those that must be active, besides the one that takes the arm's joint commands."""

    @field_validator("controllers")
    @classmethod
    def _somebody_can_be_asked(cls, controllers: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if controllers and info.data.get("controller_manager") is None:
            raise ValueError(
                f"controller_manager is missing, must be given to ask for {', '.join(controllers)}; add it, or leave "
                "controllers out"
            )
        return controllers


Gripper = Annotated[CommandsGripper | TrajectoryGripper | ActionGripper, Field(discriminator="interface")]
