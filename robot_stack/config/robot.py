"""The models of robots/*.yaml: what is true of a type of arm, wherever it stands. Behind drivers: `config.drivers`."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from robot_stack.config.collision import CollisionConfig
from robot_stack.config.files.explain import PlacedError
from robot_stack.config.kinematics import DhKinematics, Kinematics
from robot_stack.config.section import Name, Quaternion, Section, check_names

Angle = Annotated[float, Field(ge=-4 * math.pi, le=4 * math.pi)]


class JointConfig(Section):
    """The limits of one joint."""

    name: Annotated[str, Field(min_length=1)]
    """As the driver names it."""
    min_rad: Angle
    """Lower end."""
    max_rad: Angle
    """Upper end."""
    max_speed_rad_s: Annotated[float, Field(gt=0, le=20)]
    """Highest speed."""
    max_torque_nm: Annotated[float, Field(gt=0, le=1000)]
    """Highest torque."""

    @field_validator("max_rad")
    @classmethod
    def _above_lower_end(cls, value: float, info: ValidationInfo) -> float:
        lower = info.data.get("min_rad")
        if lower is not None and value <= lower:
            raise ValueError(f"max_rad is {value}, must be above min_rad ({lower}); swap or correct them")
        return value


class ImpedanceConfig(Section):
    """The gains and error limits of the Cartesian impedance controller below the safety filter."""

    translational_stiffness_n_m: Annotated[float, Field(gt=0, le=5000)]
    """Force per metre of position error."""
    rotational_stiffness_nm_rad: Annotated[float, Field(gt=0, le=500)]
    """Torque per radian of rotation error."""
    translational_damping_ns_m: Annotated[float, Field(gt=0, le=1000)]
    """Force per m/s."""
    rotational_damping_nms_rad: Annotated[float, Field(gt=0, le=100)]
    """Torque per rad/s."""
    nullspace_stiffness_nm_rad: Annotated[float, Field(ge=0, le=200)]
    """Pull of the elbow towards home."""
    max_position_error_m: Annotated[float, Field(gt=0, le=0.1)]
    """The error is cut here, so that contact force stays below stiffness times this."""
    max_rotation_error_rad: Annotated[float, Field(gt=0, le=1)]
    """The same for rotation."""


class GripperConfig(Section):
    """The limits of a gripper: its width and force."""

    max_width_m: Annotated[float, Field(gt=0, le=0.5)]
    """Opening at 1.0."""
    max_force_n: Annotated[float, Field(gt=0, le=200)]
    """Highest grasp force."""


class RobotConfig(Section):
    """The settings that every arm has, whatever drives it."""

    name: Name
    """The arm's name in topics and in the spec."""
    backend: str
    """What drives it."""
    base_frame: Annotated[str, Field(min_length=1)]
    """Frame of the workspace box."""
    tcp_frame: Annotated[str, Field(min_length=1)]
    """Frame of actions and twists."""
    joints: Annotated[tuple[JointConfig, ...], Field(min_length=1, max_length=16)]
    """From base to flange."""
    home_rad: tuple[float, ...]
    """Start pose, one angle per joint."""
    gripper: GripperConfig | None = None
    """The gripper, if there is one."""
    kinematics: Kinematics | None = None
    """Of the arm; needed for joint commands, a computed pose, and a way along the joints."""
    collision: CollisionConfig | None = None
    """Its links and hand as capsules; without them, or without kinematics in a file, the links are not watched."""
    max_tcp_speed_m_s: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Hard limit of the process in front of the driver: a faster command is refused, whoever sends it."""
    max_tcp_rotation_speed_rad_s: Annotated[float, Field(gt=0, le=3)] = 3.0
    """The same for rotation."""

    @property
    def keeps_last_speed(self) -> bool:
        """Return whether nothing in the driver stops an arm whose commander has died."""
        return False

    @field_validator("kinematics")
    @classmethod
    def _one_link_per_joint(cls, kinematics: Kinematics | None, info: ValidationInfo) -> Kinematics | None:
        joints = info.data.get("joints")
        if isinstance(kinematics, DhKinematics) and joints is not None and len(kinematics.links) != len(joints):
            raise ValueError(
                f"kinematics has {len(kinematics.links)} links, must have {len(joints)}; give one per joint"
            )
        return kinematics

    @field_validator("collision")
    @classmethod
    def _links_that_there_are(cls, collision: CollisionConfig | None, info: ValidationInfo) -> CollisionConfig | None:
        joints = info.data.get("joints")
        if collision is None or joints is None:
            return collision
        for index, capsule in enumerate(collision.capsules):
            if capsule.link > len(joints):
                legal = f"must be within 0 to {len(joints)}, its joints"
                text = f"link of {capsule.name} is {capsule.link}, {legal}; correct it"
                raise PlacedError(text, "capsules", index, "link")
        return collision

    @field_validator("joints")
    @classmethod
    def _unique_names(cls, joints: tuple[JointConfig, ...]) -> tuple[JointConfig, ...]:
        check_names([joint.name for joint in joints], "joint names")
        return joints

    @field_validator("home_rad")
    @classmethod
    def _within_limits(cls, home: tuple[float, ...], info: ValidationInfo) -> tuple[float, ...]:
        joints = info.data.get("joints")
        if joints is None:
            return home
        if len(home) != len(joints):
            raise ValueError(f"home_rad has {len(home)} angles, must have {len(joints)}; give one per joint")
        for index, (joint, angle) in enumerate(zip(joints, home)):
            if not joint.min_rad <= angle <= joint.max_rad:
                text = (
                    f"home_rad of {joint.name} is {angle}, must be within [{joint.min_rad}, {joint.max_rad}]; "
                    "choose a pose inside the joint limits"
                )
                raise PlacedError(text, index)
        return home


class EnvironmentRobot(RobotConfig):
    """The part of an action that an environment takes, in the place of an arm: it has no joints and no place."""

    backend: Literal["gymnasium"]
    """Moved by the steps of an environment."""
    joints: tuple[JointConfig, ...] = ()
    """None."""
    home_rad: tuple[float, ...] = ()
    """None."""


class TwinConfig(Section):
    """The MJCF of an arm without a hand, e.g. of MuJoCo Menagerie; joints are found by the names above."""

    mjcf: Annotated[str, Field(min_length=1)]
    """The file; ~ is the home folder."""
    flange_body: Annotated[str, Field(min_length=1)]
    """Body that the hand is mounted on."""
    flange_position_m: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Where on it."""
    flange_quaternion_xyzw: Quaternion = (0.0, 0.0, 0.0, 1.0)
    """Frame of the flange in that body: z points away from it."""


class SimRobot(RobotConfig):
    """An arm in MuJoCo; without `twin`, its name is that of a built-in model."""

    backend: Literal["sim"]
    """Simulated."""
    twin: TwinConfig | None = None
    """Another arm's model."""
    impedance: ImpedanceConfig
    """Controller gains."""
    gripper: GripperConfig
    """Gripper limits."""
