"""The parts of the models of teleop devices: how a device is found, and what else lies beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from robot_stack.config.files import patterns
from robot_stack.config.section import Section

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")
Axis = Literal["x", "y", "z", "rx", "ry", "rz"]
Action = Literal[
    "success", "failure", "discard", "hold", "stop", "reset_done", "arm", "next_arm", "dismiss", "stage",
    "deadman", "fine", "gripper_close", "gripper_open",
]  # fmt: skip
"""Everything that a key can mean, motion aside."""
KeyCode = Annotated[str, Field(pattern=patterns.KEY_CODE)]
"""Name of a key in linux/input-event-codes.h."""
Topic = Annotated[str, Field(pattern=patterns.ROS_NAME, max_length=200)]
"""Absolute with a slash in front, else under the namespace of the cell."""
Silence = Annotated[float, Field(gt=0, le=1)]
Gain = Annotated[float, Field(ge=-1, le=1)]
Gains = tuple[Gain, Gain, Gain, Gain, Gain, Gain]


def _one_meaning_each(bound: dict[KeyT, ValueT]) -> dict[KeyT, ValueT]:
    """Refuse a key, button or axis that stands for two things."""
    twice = sorted({str(value) for value in bound.values() if list(bound.values()).count(value) > 1})
    if twice:
        raise ValueError(f"{', '.join(twice)} stands for more than one thing, must stand for one; change the others")
    return bound


OneMeaning = AfterValidator(_one_meaning_each)
Stamps = Literal["wall", "own"]
"""Clock by which a sender stamps: the wall clock, which must be that of this host to a second, or one of its own."""
Deadzone = Annotated[float, Field(ge=0, lt=1)]
Buttons = Annotated[dict[Action, Annotated[int, Field(ge=0, le=63)]], OneMeaning]
"""Action -> index of its button."""


class TeleopScale(Section):
    """The share of the highest speed that a full deflection asks for."""

    linear: Annotated[float, Field(gt=0, le=1)]
    """Translation."""
    angular: Annotated[float, Field(gt=0, le=1)]
    """Rotation."""


class Feel(Section):
    """The settings by which a deflection becomes a wanted velocity."""

    deadzone: Deadzone
    """Deflection below this is none; beyond, it starts again from 0."""
    gains: Gains = (1.0, 1.0, 1.0, 1.0, 1.0, 1.0)
    """x, y, z, rx, ry, rz: share of the deflection that counts; a negative one turns the axis round, 0 blocks it."""
    ramp_s: Annotated[float, Field(gt=0, le=2)] = 0.1
    """From rest to full deflection at the fastest."""
    frame: Literal["tcp", "base", "viewer"] = "tcp"
    """Frame in which a deflection is meant: the tool's, the robot base's, or the operator's."""
    viewer_yaw_rad: Annotated[float, Field(ge=-6.3, le=6.3)] | None = None
    """With frame: viewer, the direction that the operator looks in, about z of the base; 0 looks along its x."""

    @field_validator("viewer_yaw_rad")
    @classmethod
    def _only_for_a_viewer(cls, yaw: float | None, info: ValidationInfo) -> float | None:
        frame = info.data.get("frame")
        if frame is not None and (frame == "viewer") != (yaw is not None):
            have = "absent" if yaw is None else "given"
            raise ValueError(
                f"viewer_yaw_rad is {have} with frame '{frame}', must be given only with 'viewer'; correct either"
            )
        return yaw


class PageHand(Feel):
    """An operator at the console's page who moves a simulated arm with keys, a gamepad or the pad on the screen."""

    timeout_s: Silence = 0.2
    """Without a word of the page for this long, it is lost: it repeats itself 25 times a second."""


ON_REQUEST: Final = "on_request"
"""Attention of an operator who looks only while the policy asks for help."""


class OperatorConfig(Section):
    """The skill and attention of the scripted operator."""

    reaction_s: Annotated[float, Field(ge=0, le=5)] = 0.3
    """Delay between what happens and what the operator sees."""
    position_noise_m: Annotated[float, Field(ge=0, le=0.05)] = 0.0008
    """Standard deviation of how the goal is misjudged."""
    yaw_noise_rad: Annotated[float, Field(ge=0, le=0.5)] = 0.02
    """The same for yaw."""
    far_position_noise_m: Annotated[float, Field(ge=0, le=0.05)] = 0.004
    """What is added to it from far away, until the tool is near the aim."""
    far_yaw_noise_rad: Annotated[float, Field(ge=0, le=0.5)] = 0.12
    """The same for yaw."""
    attention: Annotated[float, Field(gt=0, le=1)] | Literal["on_request"] = 0.9
    """Probability per second of looking at the cell; 1 looks always, `on_request` while the policy asks for help."""
    speed: Annotated[float, Field(gt=0, le=1)] = 0.8
    """Share of full deflection that is used."""
    tremor: Annotated[float, Field(ge=0, le=0.5)] = 0.05
    """Standard deviation of the hand's noise, in deflection."""
    direction_noise_rad: Annotated[float, Field(ge=0, le=3)] = 0.0
    """Standard deviation of the error of the direction, about the axis of the tool; drawn anew each second."""
    slip_per_s: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Probability per second of letting go of the arm too early in a correction."""
    stuck_s: Annotated[float, Field(gt=0, le=60)] = 1.5
    """Without progress for this long, the operator steps in."""
    patience_s: Annotated[float, Field(gt=0, le=600)] = 4.4
    """This late in an episode the operator steps in, unless the tip is going in."""
    off_course_m: Annotated[float, Field(gt=0, le=1)] = 0.025
    """Further than this from its best distance to the goal, the operator steps in."""
    force_limit_n: Annotated[float, Field(gt=0, le=100)] = 18.0
    """Pushing harder than this, the operator steps in."""
    verdict_s: Annotated[float, Field(gt=0, le=10)] = 0.6
    """The task must look finished for this long before the operator says so."""
    marks_stages: bool = False
    """Whether the operator presses the stage key where a stage of the task begins that has not begun before."""


class MotionDeadman(Section):
    """The deflections beyond the dead zone at which a device takes control and gives it back."""

    enter: Annotated[float, Field(gt=0, lt=1)] = 0.15
    """Takes control."""
    leave: Annotated[float, Field(gt=0, lt=1)] = 0.05
    """Below this it is given back."""

    @field_validator("leave")
    @classmethod
    def _below_enter(cls, leave: float, info: ValidationInfo) -> float:
        enter = info.data.get("enter")
        if enter is not None and leave >= enter:
            raise ValueError(
                f"leave is {leave}, must be below enter ({enter}), so that control does not chatter; lower it"
            )
        return leave


class Match(Section):
    """The choice of one device on this machine. All that is given must fit, and exactly one device may."""

    name: Annotated[str, Field(min_length=1)] | None = None
    """Part of the name that the device gives itself, in any case."""
    usb: Annotated[str, Field(pattern=patterns.USB)] | None = None
    """Vendor and product, as lsusb prints them, in quotes."""
    serial: Annotated[str, Field(min_length=1)] | None = None
    """Serial number, or another text that is the device's own (`uniq` in /proc/bus/input/devices), in quotes."""


class Find(Match):
    """A match that asks for something, for devices that no list of known products covers."""

    @field_validator("serial")
    @classmethod
    def _something(cls, serial: str | None, info: ValidationInfo) -> str | None:
        if serial is None and info.data.get("name") is None and info.data.get("usb") is None:
            raise ValueError("match has neither name nor usb nor serial, must have one; see /proc/bus/input/devices")
        return serial


class PedalConfig(Section):
    """Pedals that send keys. Left, middle and right mean what the key table says."""

    match: Find
    """Which device."""
    keys: Annotated[dict[Literal["left", "middle", "right"], KeyCode], Field(min_length=1), OneMeaning]
    """Pedal -> the key it sends; pedals are sold with keys a, b, c and can be given others."""


class SideKeyboard(Section):
    """A keyboard beside another device: its keys for events and gripper count, those for motion do not."""

    match: Find
    """Which device."""
    grab: bool = True
    """Take it from the desktop, so that what is typed elsewhere is no verdict, and no verdict is typed elsewhere."""


LEAST_PULL = 0.2
"""Less than this between a trigger's ends would press it by noise."""


class Alive(Section):
    """A topic of the same sender by which it shows that the device itself is still there: the pose of a tracked hand.

    Some senders repeat the last they read for ever once the device is gone, stamped as if it were new.
    """

    topic: Topic
    """Where it is published, a geometry_msgs/PoseStamped."""
    timeout_s: Silence = 0.15
    """Without a message for this long, the device is lost."""
    freeze_s: Annotated[float, Field(ge=0.05, le=5)] = 0.3
    """A pose that has not changed at all for this long is a device that is gone: a hand is never so still."""


class Trigger(Section):
    """An axis of a sensor_msgs/Joy that is pulled like a trigger and stands for a button.

    Senders do not agree: joy_node sends 1 for a trigger that is let go, -1 for one that is pulled, and 0 before it was
    first touched; game_controller_node sends 0 and -1; others 0 and 1.
    """

    axis: Annotated[int, Field(ge=0, le=63)]
    """Index in `axes` of the message."""
    released: Annotated[float, Field(ge=-1, le=1)]
    """What it reads when it is let go. Read it from the topic, after it was pulled once."""
    pulled: Annotated[float, Field(ge=-1, le=1)]
    """What it reads when it is pulled as far as it goes. It is pressed beyond 60 % of the way, let go below half."""

    @model_validator(mode="before")
    @classmethod
    def _names_both_ends(cls, given: Any) -> Any:
        """Say what to write instead of `above`, which could not tell the two ends apart."""
        if isinstance(given, Mapping) and "above" in given:
            raise ValueError(
                f"above is {given['above']!r}, must be released and pulled: what the axis reads at its ends; for a "
                "Quest write released: 0, pulled: 1"
            )
        return given

    @field_validator("pulled")
    @classmethod
    def _moves(cls, pulled: float, info: ValidationInfo) -> float:
        released = info.data.get("released")
        if released is not None and abs(pulled - released) < LEAST_PULL - 1e-9:
            raise ValueError(
                f"pulled is {pulled}, must differ from released ({released}) by {LEAST_PULL} or more; read both from "
                "the topic"
            )
        return pulled


Triggers = dict[Action, Trigger]
"""Action -> the axis that stands for its button."""


def each_once(buttons: Buttons, triggers: Triggers) -> Triggers:
    """Refuse an action that has both a button and a trigger, and a trigger that stands for two actions."""
    both = sorted(set(buttons) & set(triggers))
    if both:
        raise ValueError(f"{', '.join(both)} has a button and a trigger, must have one of them; remove the other")
    axes = [trigger.axis for trigger in triggers.values()]
    if len(set(axes)) < len(axes):
        raise ValueError(f"triggers use axes {axes}, must each use one of their own; change one")
    return triggers


class JoyButtons(Section):
    """Buttons of a sensor_msgs/Joy, or of a message that is read as one."""

    topic: Topic
    """Where they are published."""
    type: Literal["sensor_msgs/Joy", "quest2ros/OVR2ROSInputs"] = "sensor_msgs/Joy"
    """Its type. The second is read as axes stick across, stick along, index, grip and as buttons upper, lower."""
    timeout_s: Silence = 0.15
    """Without a message for this long, it is lost."""
    buttons: Buttons = Field(default_factory=dict)
    """Action -> index of its button."""
    triggers: Triggers = Field(default_factory=dict)
    """Action -> the axis that is pulled for it."""

    @property
    def actions(self) -> frozenset[str]:
        """Return all actions that can be pressed."""
        return frozenset(self.buttons) | frozenset(self.triggers)

    @field_validator("triggers")
    @classmethod
    def _some_and_each_once(cls, triggers: Triggers, info: ValidationInfo) -> Triggers:
        buttons = info.data.get("buttons")
        if buttons is None:
            return triggers
        if not buttons and not triggers:
            raise ValueError("joy has neither buttons nor triggers, must have one; add the index of a button")
        return each_once(buttons, triggers)


class LeaderJoint(Section):
    """One joint of a leader arm and the link before it, as a row of modified Denavit-Hartenberg parameters."""

    name: Annotated[str, Field(min_length=1)]
    """In the messages."""
    a_m: Annotated[float, Field(ge=-2, le=2)] = 0.0
    """Along x of the previous joint's frame."""
    alpha_rad: Annotated[float, Field(ge=-6.3, le=6.3)] = 0.0
    """About x of the previous joint's frame."""
    d_m: Annotated[float, Field(ge=-2, le=2)] = 0.0
    """Along the joint's own axis."""
    offset_rad: Annotated[float, Field(ge=-6.3, le=6.3)] = 0.0
    """Added to what the joint reports."""
    sign: Literal[-1, 1] = 1
    """Turns what the joint reports round, before the offset."""


class GripperTopic(Section):
    """A topic of its own for the gripper of a leader arm: a std_msgs/Float32, as GELLO publishes it."""

    topic: Topic
    """Where it is published."""
    timeout_s: Silence = 0.15
    """Without a message for this long, it is lost."""
    closed: float = 0.0
    """What it says when squeezed."""
    open: float = 1.0
    """What it says when let go."""

    @field_validator("open")
    @classmethod
    def _moves(cls, value: float, info: ValidationInfo) -> float:
        if value == info.data.get("closed"):
            raise ValueError(f"open is {value}, must differ from closed; read both from the topic")
        return value


class LeaderGripper(Section):
    """The joint of a leader arm's handle that stands for the gripper."""

    joint: Annotated[str, Field(min_length=1)]
    """In the messages."""
    closed_rad: float
    """What it reports when squeezed."""
    open_rad: float
    """What it reports when let go."""

    @field_validator("open_rad")
    @classmethod
    def _moves(cls, value: float, info: ValidationInfo) -> float:
        if value == info.data.get("closed_rad"):
            raise ValueError(f"open_rad is {value}, must differ from closed_rad; read both from the handle")
        return value
