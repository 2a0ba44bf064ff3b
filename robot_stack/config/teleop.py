"""The models of teleop/*.yaml: the device in the operator's hand, or the operator that the simulator scripts.

One model per device, told apart by `device`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from robot_stack.config.feetech import ServoPort
from robot_stack.config.files import patterns
from robot_stack.config.section import Section, check_names
from robot_stack.config.teleop_parts import (
    ON_REQUEST,
    Alive,
    Axis,
    Buttons,
    Deadzone,
    Feel,
    Find,
    GripperTopic,
    JoyButtons,
    LeaderGripper,
    LeaderJoint,
    Match,
    MotionDeadman,
    OneMeaning,
    OperatorConfig,
    PageHand,
    PedalConfig,
    SideKeyboard,
    Silence,
    Stamps,
    TeleopScale,
    Topic,
    Triggers,
    each_once,
)

AxisName = Annotated[str, Field(pattern=patterns.AXIS_CODE)]
AxisIndex = Annotated[int, Field(ge=0, le=63)]


class TeleopConfig(Section):
    """The settings that every teleop device has."""

    device: str
    """Kind of device."""
    rate_hz: Annotated[float, Field(ge=10, le=500)]
    """How often what it says is sent on; a change of the deadman goes at once."""
    scale: TeleopScale
    """Sensitivity."""
    release_s: Annotated[float, Field(ge=0, le=2)] = 0.3
    """From letting go to the policy's return."""
    blend_s: Annotated[float, Field(ge=0, le=2)] = 0.2
    """Length of the ramp at a handover."""


class ScriptedTeleop(TeleopConfig):
    """The operator that the simulator scripts."""

    device: Literal["scripted"]
    """Kind of device."""
    deadzone: Deadzone
    """Deflection below this is none."""
    operator: OperatorConfig
    """What the operator is like."""
    page: PageHand | None = None
    """An operator at the console's page, who may take the arm from the scripted one; None lets no page move it."""


class ExpertTeleop(TeleopConfig):
    """The expert of an environment, who is given in the task."""

    device: Literal["expert"]
    """Kind of device."""


class RealTeleop(TeleopConfig):
    """A device that is really there, and what lies beside it."""

    pedal: PedalConfig | None = None
    """Pedals beside it."""
    keyboard: SideKeyboard | None = None
    """A keyboard beside it."""
    deadman: str
    """What takes control."""

    @field_validator("deadman")
    @classmethod
    def _is_there(cls, deadman: str, info: ValidationInfo) -> str:
        if deadman in ("pedal", "keyboard") and info.data.get(deadman) is None:
            raise ValueError(f"deadman is '{deadman}', must be on something that is there; add '{deadman}:'")
        if deadman == "pedal" and "middle" not in info.data["pedal"].keys:
            raise ValueError("deadman is 'pedal', must be the middle one; give the key that it sends under pedal.keys")
        return deadman


class HandTeleop(Feel, RealTeleop):
    """A device whose deflection asks for a velocity."""


class BrowserTeleop(PageHand, RealTeleop):
    """The console's page; for simulated arms only."""

    device: Literal["browser"]
    """Kind of device."""
    deadman: Literal["page"] = "page"
    """What must be held: the space key, a gamepad's left shoulder button, or the pad on the screen."""


class SpaceMouseTeleop(HandTeleop):
    """A 3Dconnexion SpaceMouse, read as raw HID."""

    device: Literal["spacemouse"]
    """Kind of device."""
    match: Match = Match()
    """Which one, if there are several."""
    full_count: Annotated[int, Field(ge=100, le=2000)] = 350
    """Counts at full deflection."""
    silence_s: Annotated[float, Field(gt=0, le=10)] = 0.25
    """A deflected cap reports every 8 to 16 ms; deflected and silent for this long, it is lost."""
    deadman: Literal["motion", "pedal", "keyboard"] = "motion"
    """What takes control: moving the cap or pressing its gripper buttons, or something held beside it."""
    motion: MotionDeadman = MotionDeadman()
    """With deadman: motion, how far."""


class GamepadTeleop(HandTeleop):
    """A gamepad, read as Linux input events."""

    device: Literal["gamepad"]
    """Kind of device."""
    match: Match = Match()
    """Which one, if there are several."""
    axes: Annotated[dict[Axis, AxisName], Field(min_length=1), OneMeaning]
    """Axis of the motion -> axis of the gamepad."""
    bluetooth: bool = False
    """Accept one without a cable. Out of reach it keeps its last stick position for up to half a minute."""
    deadman: Literal["button", "pedal", "keyboard"] = "button"
    """What must be held."""


class KeyboardTeleop(HandTeleop):
    """A keyboard, read as Linux input events."""

    device: Literal["keyboard"]
    """Kind of device."""
    match: Find
    """Which one."""
    grab: bool = True
    """Take it from the desktop, so that what is typed elsewhere moves no robot."""
    deadman: Literal["key", "pedal"] = "key"
    """What must be held."""

    @field_validator("keyboard")
    @classmethod
    def _is_one_itself(cls, keyboard: SideKeyboard | None) -> None:
        if keyboard is not None:
            raise ValueError("keyboard is given with device 'keyboard', must be absent; one is enough, remove it")


class JoyTeleop(HandTeleop):
    """A foreign node that publishes sensor_msgs/Joy: joy_node, game_controller_node, spacenav."""

    device: Literal["joy"]
    """Kind of device."""
    topic: Topic
    """Where it publishes."""
    timeout_s: Silence = 0.15
    """Without a message for this long, it is lost: it must repeat itself, 20 times a second or more."""
    stamps: Stamps = "wall"
    """Whose clock its stamps are of."""
    alive: Alive | None = None
    """Topic that shows whether the device is there, for a sender that repeats its last message without one."""
    axes: Annotated[dict[Axis, AxisIndex], Field(min_length=1), OneMeaning]
    """Axis of the motion -> index in `axes` of the message."""
    full: Annotated[float, Field(gt=0, le=10)] = 1.0
    """What an axis reads at full deflection."""
    buttons: Buttons = Field(default_factory=dict)
    """Action -> index in `buttons` of the message."""
    triggers: Triggers = Field(default_factory=dict)
    """Action -> axis of the message that is pulled for it."""
    deadman: Literal["button", "motion", "pedal", "keyboard"]
    """What takes control."""
    motion: MotionDeadman = MotionDeadman()
    """With deadman: motion, how far."""

    @field_validator("triggers")
    @classmethod
    def _with_the_deadman(cls, triggers: Triggers, info: ValidationInfo) -> Triggers:
        buttons = info.data.get("buttons")
        if buttons is None:
            return triggers
        if info.data.get("deadman") == "button" and "deadman" not in {*buttons, *triggers}:
            raise ValueError("buttons have no 'deadman', must have it with deadman: button; add its index")
        return each_once(buttons, triggers)


class Following(Section):
    """The settings by which a follower repeats a handle's motion."""

    yaw_rad: Annotated[float, Field(ge=-6.3, le=6.3)] = 0.0
    """From the follower's base to the leader's, about z."""
    motion_scale: Annotated[float, Field(gt=0, le=5)] = 1.0
    """Metres of the follower for a metre of the leader; rotation is always one to one."""
    gain_per_s: Annotated[float, Field(gt=0, le=20)] = 5.0
    """Speed for a metre behind. Further behind than full speed over this, the rest is let go."""
    max_jump_m: Annotated[float, Field(gt=0, le=1)] = 0.05
    """Between two messages the handle moves less than this; a larger jump is a broken sensor."""


class LeaderTeleop(Following, RealTeleop):
    """A leader arm or a tracked handle: the follower repeats its motion while the clutch is held."""

    device: Literal["leader"]
    """Kind of device."""
    deadman: Literal["pedal", "keyboard", "joy"]
    """The clutch."""
    follow: Literal["pose", "joints"]
    """What it publishes: geometry_msgs/PoseStamped of the handle, or sensor_msgs/JointState."""
    topic: Topic
    """Where it publishes."""
    timeout_s: Silence = 0.15
    """Without a message for this long, it is lost."""
    stamps: Stamps = "wall"
    """Whose clock its stamps are of, on all topics."""
    joints: tuple[LeaderJoint, ...] = ()
    """With follow: joints, from base to handle."""
    tip_m: Annotated[float, Field(ge=-1, le=1)] = 0.0
    """With follow: joints, from the last joint to the point that is followed, along its axis."""
    gripper: LeaderGripper | None = None
    """With follow: joints, the handle's grip."""
    gripper_topic: GripperTopic | None = None
    """The handle's grip, where it has a topic of its own."""
    axes: Literal["ros", "openxr"] = "ros"
    """Axes of the leader's base: x forward, y left, z up; or x right, y up, z backward, as headsets and browsers do."""
    freeze_s: Annotated[float, Field(ge=0.05, le=5)] | None = None
    """With follow: pose, a pose that has not changed at all for this long is a tracker that has lost the handle; null
    for one that can lie still."""
    joy: JoyButtons | None = None
    """Buttons on the handle."""

    @field_validator("joy")
    @classmethod
    def _is_the_clutch(cls, joy: JoyButtons | None, info: ValidationInfo) -> JoyButtons | None:
        if info.data.get("deadman") == "joy" and (joy is None or "deadman" not in joy.actions):
            raise ValueError("joy has no button 'deadman', must have it with deadman: joy; add its topic and index")
        return joy

    @field_validator("gripper")
    @classmethod
    def _is_a_joint(cls, gripper: LeaderGripper | None, info: ValidationInfo) -> LeaderGripper | None:
        if gripper is not None and info.data.get("follow") == "pose":
            raise ValueError("gripper is given with follow 'pose', must be given with 'joints' only; use buttons")
        return gripper

    @field_validator("gripper_topic")
    @classmethod
    def _one_grip(cls, topic: GripperTopic | None, info: ValidationInfo) -> GripperTopic | None:
        if topic is not None and info.data.get("gripper") is not None:
            raise ValueError("gripper_topic is given beside gripper, must be the only one; remove either")
        return topic

    @field_validator("freeze_s")
    @classmethod
    def _only_a_pose_freezes(cls, freeze_s: float | None, info: ValidationInfo) -> float | None:
        if freeze_s is not None and info.data.get("follow") == "joints":
            raise ValueError(
                f"freeze_s is {freeze_s} with follow 'joints', must be null, as joints may stand still; leave it out"
            )
        return freeze_s

    @field_validator("joints")
    @classmethod
    def _only_with_joints(cls, joints: tuple[LeaderJoint, ...], info: ValidationInfo) -> tuple[LeaderJoint, ...]:
        follow = info.data.get("follow")
        if follow is not None and (follow == "joints") != bool(joints):
            raise ValueError(
                f"joints has {len(joints)} entries with follow '{follow}', must be with 'joints' only; correct either"
            )
        check_names([joint.name for joint in joints], "joint names")
        return joints


class So101LeaderTeleop(Following, RealTeleop):
    """An SO-101 leader arm at a serial port of this machine, without a driver of ROS."""

    device: Literal["so101_leader"]
    """Kind of device."""
    deadman: Literal["pedal", "keyboard"]
    """The clutch; the handle has no button."""
    servos: ServoPort
    """Where its servos are."""
    timeout_s: Silence = 0.15
    """Without a reading of all servos for this long, it is lost."""
    joints: Annotated[tuple[LeaderJoint, ...], Field(min_length=1)]
    """From base to handle, by their names in the calibration file."""
    tip_m: Annotated[float, Field(ge=-1, le=1)] = 0.0
    """From the last joint to the point that is followed, along its axis."""
    gripper: Annotated[str, Field(min_length=1)] | None = "gripper"
    """Servo of the handle that stands for the gripper, as in the calibration file, where shut is 0 and open is 100."""


def looks_on_request(config: TeleopConfig) -> bool:
    """Return whether the operator at a device looks at the cell only when the policy asks for help.

    An operator who is no script is taken to do so wherever a run's policy asks.
    """
    return not isinstance(config, ScriptedTeleop) or config.operator.attention == ON_REQUEST


def page_hand(config: TeleopConfig) -> PageHand | None:
    """Return the settings by which a page moves the arm through a device; None where it does not."""
    if isinstance(config, BrowserTeleop):
        return config
    return config.page if isinstance(config, ScriptedTeleop) else None
