"""Every teleop device in a hand that a test moves, with a clock that only the test turns.

A hand can take control, push along an axis, press what the device has keys for, pull the plug and put it back. How
that looks to the device is the business of each rig.
"""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np
from scipy.spatial.transform import Rotation

from robot_stack.config.files.library import config_root
from robot_stack.config.files.loader import load
from robot_stack.config.kinds import TELEOPS
from robot_stack.config.teleop import LeaderTeleop, So101LeaderTeleop, TeleopConfig
from robot_stack.teleop.bindings import BINDINGS, MOTIONS, Device
from robot_stack.teleop.build import BuiltTeleop, build_teleop
from robot_stack.teleop.evdev_port import BY_PLACE
from robot_stack.teleop.input_events import KEYS, axis_code, keyboard_actions
from robot_stack.teleop.messages import Chain, JointPacket, JoyPacket, Link
from robot_stack.teleop.page import TOPIC as PAGE_TOPIC
from robot_stack.teleop.page import page_packet
from robot_stack.teleop.readers import MessageReader
from robot_stack.types.errors import RobotError
from robot_stack.types.pose import Pose
from robot_stack.types.robot import EVENTS, TeleopSample
from robot_stack.types.spec import AXES
from tests.teleop.fake_devices import FakeEvdev, FakeHid, FakeInput, FakeSpaceMouse, machine

MS = 1_000_000
STEP_NS = 4 * MS
"""How often the teleop process reads a real device."""
REPEAT_NS = 20 * MS
"""How often senders of messages repeat themselves here."""
FULL_SCALE = np.array([0.1, 0.1, 0.1, 0.6, 0.6, 0.6])


def shipped(name: str, *overrides: str) -> TeleopConfig:
    """A file of hardware_configs/teleop."""
    return load(config_root() / "teleop" / f"{name}.yaml", TELEOPS, overrides)


class Rig:
    """A device in a hand."""

    axes: tuple[str, ...] = AXES
    """Along which it can push."""
    events: tuple[str, ...] = ()
    """Keys it has."""
    analog = True
    """Whether a push has a size."""
    by_motion = False
    """Whether a push alone takes control."""
    repeats = False
    """Whether it is heard only while it repeats itself."""

    def __init__(self, built: BuiltTeleop, *, deadzone: float = 0.0, ramp_s: float = 0.1) -> None:
        self.built = built
        self.device = built.device
        self.deadzone = deadzone
        self.ramp_s = ramp_s
        self.now_ns = 1_000 * MS

    def tick(self) -> TeleopSample:
        """One reading later."""
        self.now_ns += STEP_NS
        self.before_sample()
        return self.device.sample(self.now_ns)

    def run(self, seconds: float) -> list[TeleopSample]:
        return [self.tick() for _ in range(max(1, round(seconds * 1e9 / STEP_NS)))]

    def ready(self) -> Rig:
        """Connected, at rest, with nothing pressed, long after any loss."""
        self.run(0.7)
        return self

    def before_sample(self) -> None:
        """What happens by itself as time passes."""

    def press(self) -> None:
        """Hold the deadman, if there is one."""

    def release(self) -> None:
        """Let it go."""

    def push(self, axis: str, amount: float) -> None:
        """Push along an axis of the tool, 1 is as far as it goes; 0 lets go."""
        raise NotImplementedError

    def take_control(self) -> None:
        self.press()
        if self.by_motion:
            self.push("x", 0.6)

    def give_back(self) -> None:
        self.release()
        if self.by_motion:
            self.push("x", 0.0)

    def grip(self, press: int) -> None:
        """-1 closes, +1 opens, 0 lets go."""
        raise NotImplementedError

    def tap(self, event: str) -> None:
        """Press a key and let go before the device is read again."""
        raise NotImplementedError

    def garbage(self) -> None:
        """The device sends something that it cannot mean."""
        raise NotImplementedError

    def unplug(self) -> None:
        raise NotImplementedError

    def plug(self) -> None:
        raise NotImplementedError

    def flood(self, axis: str, amount: float) -> None:
        """Very many reports since the last reading; only in the newest the axis is pushed."""
        for _ in range(300):
            self.push(axis, -amount)
        self.push(axis, amount)


class SpaceMouseRig(Rig):
    """Reports every 8 ms while the cap is off its centre; three times zeros, then nothing."""

    events = tuple(event for event in EVENTS if event in BINDINGS[Device.SPACEMOUSE])
    by_motion = True

    def __init__(self, *, split: bool, name: str = "spacemouse", evdev: FakeEvdev | None = None) -> None:
        config = shipped(name)
        self.mouse = FakeSpaceMouse(product=0xC635 if split else 0xC632)
        self.split = split
        self.counts = np.zeros(6, dtype=int)
        self.bits = 0
        self.in_reach = True
        built = build_teleop(config, FULL_SCALE, machine(FakeHid(self.mouse), evdev))
        super().__init__(built, deadzone=config.deadzone, ramp_s=config.ramp_s)

    def before_sample(self) -> None:
        if self.counts.any() and self.in_reach and not self.mouse.waiting:
            self.report()

    def report(self) -> None:
        """The device counts right, back and down."""
        x, y, z, rx, ry, rz = (int(count) for count in self.counts)
        raw = (-y, -x, -z, -ry, -rx, -rz)
        if self.split:
            self.mouse.send(b"\x01" + struct.pack("<3h", *raw[:3]), b"\x02" + struct.pack("<3h", *raw[3:]))
        else:
            self.mouse.send(b"\x01" + struct.pack("<6h", *raw))

    def push(self, axis: str, amount: float) -> None:
        self.counts[AXES.index(axis)] = round(350 * amount)
        self.report()

    def buttons(self, bits: int) -> None:
        self.bits = bits
        self.mouse.send(b"\x03" + struct.pack("<I", bits))

    def grip(self, press: int) -> None:
        self.buttons({-1: 1, 1: 2, 0: 0}[press])

    def tap(self, event: str) -> None:
        keys = {"BTN_K1": 12, "BTN_K2": 13, "BTN_K3": 14, "BTN_K4": 15}
        bits = {**keys, "BTN_ESC": 22, "BTN_ALT": 23, "BTN_SHIFT": 24, "BTN_CTRL": 25}
        self.buttons(1 << bits[BINDINGS[Device.SPACEMOUSE][event]])
        self.buttons(0)

    def garbage(self) -> None:
        self.mouse.send(b"\x01\x00\x00\x00")

    def unplug(self) -> None:
        self.mouse.plugged = False

    def plug(self) -> None:
        self.mouse.plugged = True


class EventRig(Rig):
    """A device with keys, read as input events."""

    column: Device

    def __init__(self, name: str, thing: FakeInput) -> None:
        config = shipped(name)
        self.thing = thing
        self.evdev = FakeEvdev(thing)
        self.events = tuple(event for event in EVENTS if event in BINDINGS[self.column])
        built = build_teleop(config, FULL_SCALE, machine(evdev=self.evdev))
        super().__init__(built, deadzone=config.deadzone, ramp_s=config.ramp_s)

    def code(self, action: str) -> int:
        key = BINDINGS[self.column][action]
        return KEYS[key if key.startswith("BTN_") else f"KEY_{key.upper()}"]

    def press(self) -> None:
        self.thing.key(self.code("deadman"), 1)

    def release(self) -> None:
        self.thing.key(self.code("deadman"), 0)

    def grip(self, press: int) -> None:
        for action, sign in (("gripper_close", -1), ("gripper_open", 1)):
            self.thing.key(self.code(action), int(press == sign))

    def tap(self, event: str) -> None:
        self.thing.key(self.code(event), 1)
        self.thing.key(self.code(event), 0)

    def garbage(self) -> None:
        self.thing.emit(1, self.code("deadman"), 7)

    def unplug(self) -> None:
        self.thing.unplug()

    def plug(self) -> None:
        self.thing.plugged, self.thing.grabbed = True, False


class GamepadRig(EventRig):
    """Sticks of 16 bits, a cross, and triggers that stand for buttons."""

    column = Device.GAMEPAD

    def __init__(self) -> None:
        codes = {KEYS[key] for key in BINDINGS[Device.GAMEPAD].values()} - {KEYS["BTN_TR2"]}
        axes = {axis_code(f"ABS_{name}"): [0, -32768, 32767] for name in ("X", "Y", "RX", "RY")}
        axes |= {axis_code(f"ABS_{name}"): [0, 0, 1023] for name in ("Z", "RZ")}
        axes |= {axis_code(f"ABS_{name}"): [0, -1, 1] for name in ("HAT0X", "HAT0Y")}
        pad = FakeInput(name="Microsoft X-Box 360 pad", keys=codes, axes=axes, vendor=BY_PLACE[0], version=0x8111)
        super().__init__("gamepad", pad)

    def before_sample(self) -> None:
        """Its file means pushes in the frame of the base: here the tool is turned like that."""
        assert self.built.robot is not None
        self.built.robot.see(Pose.identity(), self.now_ns)

    def push(self, axis: str, amount: float) -> None:
        name, sign = {
            "x": ("Y", -1), "y": ("X", -1), "z": ("RY", -1), "rx": ("HAT0X", 1), "ry": ("HAT0Y", 1), "rz": ("RX", -1),
        }[axis]  # fmt: skip
        code = axis_code(f"ABS_{name}")
        _, low, high = self.thing.axes[code]
        self.thing.axis(code, round((low + high) / 2 + sign * amount * (high - low) / 2))

    def grip(self, press: int) -> None:
        self.thing.key(self.code("gripper_close"), int(press == -1))
        self.thing.axis(axis_code("ABS_RZ"), 1023 if press == 1 else 0)


class KeyboardRig(EventRig):
    """All or nothing."""

    column = Device.KEYBOARD
    analog = False

    def __init__(self) -> None:
        codes = {KEYS[key] for key in keyboard_actions(motion=True)}
        super().__init__("keyboard", FakeInput(name="Some Keyboard", keys=codes))

    def before_sample(self) -> None:
        assert self.built.robot is not None
        turned = Pose(position_m=np.zeros(3), quaternion_xyzw=np.array([0.0, 0.0, 1.0, 0.0]))
        self.built.robot.see(turned, self.now_ns)  # the tool is turned as the operator looks

    def push(self, axis: str, amount: float) -> None:
        for motion in MOTIONS:
            if motion[:-1] == axis:
                wanted = amount > 0 if motion.endswith("+") else amount < 0
                self.thing.key(self.code(motion), int(wanted))


class MessageRig(Rig):
    """A sender that repeats itself every 20 ms while it lives."""

    repeats = True

    def __init__(self, built: BuiltTeleop, **options: float) -> None:
        super().__init__(built, **options)
        self.sends = True
        self.sent_ns = 0

    def before_sample(self) -> None:
        if self.sends and self.now_ns - self.sent_ns >= REPEAT_NS:
            self.send()

    def send(self) -> None:
        raise NotImplementedError

    def unplug(self) -> None:
        self.sends = False

    def plug(self) -> None:
        self.sends = True


class JoyRig(MessageRig):
    """game_controller_node, as its file has it; or spacenav, which is moved without a deadman."""

    def __init__(self, *, spacenav: bool = False) -> None:
        if spacenav:
            self.by_motion = True
            overrides = (
                "topic=/spacenav/joy", "full=0.68", "deadman=motion", "frame=tcp",
                "buttons={gripper_close: 0, gripper_open: 1}", "triggers={}",
                "axes={x: 0, y: 1, z: 2, rx: 3, ry: 4, rz: 5}",
            )  # fmt: skip
        else:
            overrides = ("frame=tcp",)
        config = shipped("joy", *overrides)
        self.config = config
        self.axes = tuple(config.axes)
        self.events = tuple(event for event in EVENTS if event in config.buttons)
        self.values = [0.0] * 6
        self.pressed = [0] * 21
        built = build_teleop(config, FULL_SCALE, machine())
        super().__init__(built, deadzone=config.deadzone, ramp_s=config.ramp_s)

    @property
    def reader(self) -> MessageReader[JoyPacket]:
        return self.built.joy[self.config.topic]

    def send(self) -> None:
        self.sent_ns = self.now_ns
        self.reader.feed(JoyPacket(axes=tuple(self.values), buttons=tuple(self.pressed)), self.now_ns)

    def button(self, action: str, value: int) -> None:
        self.pressed[self.config.buttons[action]] = value
        self.send()

    def press(self) -> None:
        if not self.by_motion:
            self.button("deadman", 1)

    def release(self) -> None:
        if not self.by_motion:
            self.button("deadman", 0)

    def push(self, axis: str, amount: float) -> None:
        self.values[self.config.axes[axis]] = amount * self.config.full
        self.send()

    def grip(self, press: int) -> None:
        self.button("gripper_close", int(press == -1))
        trigger = self.config.triggers.get("gripper_open")
        if trigger is None:
            self.button("gripper_open", int(press == 1))
        else:
            self.values[trigger.axis] = trigger.pulled if press == 1 else trigger.released
            self.send()

    def tap(self, event: str) -> None:
        self.button(event, 1)
        self.button(event, 0)

    def garbage(self) -> None:
        self.reader.feed(JoyPacket(axes=(np.nan,) * 6, buttons=tuple(self.pressed)), self.now_ns)


class PageRig(MessageRig):
    """The console's page, with full gains and pushes in the tool's frame."""

    events = ("next_arm",)

    def __init__(self) -> None:
        config = shipped("browser", "frame=tcp", "viewer_yaw_rad=null", "gains=[1, 1, 1, 1, 1, 1]", "timeout_s=0.15")
        self.values = [0.0] * 6
        self.pressed: set[str] = set()
        super().__init__(build_teleop(config, FULL_SCALE, machine()), deadzone=0.1, ramp_s=0.2)

    def send(self) -> None:
        self.sent_ns = self.now_ns
        self.built.joy[PAGE_TOPIC].feed(page_packet(self.values, self.pressed), self.now_ns)

    def button(self, action: str, down: bool) -> None:
        (self.pressed.add if down else self.pressed.discard)(action)
        self.send()

    def press(self) -> None:
        self.button("deadman", True)

    def release(self) -> None:
        self.button("deadman", False)

    def push(self, axis: str, amount: float) -> None:
        self.values[AXES.index(axis)] = amount
        self.send()

    def grip(self, press: int) -> None:
        self.button("gripper_close", press == -1)
        self.button("gripper_open", press == 1)

    def tap(self, event: str) -> None:
        self.button(event, True)
        self.button(event, False)

    def garbage(self) -> None:
        self.built.joy[PAGE_TOPIC].feed(page_packet(self.values, self.pressed, gone=True), self.now_ns)


class LeaderRig(MessageRig):
    """A leader arm: pushing along an axis is moving its handle, faster than the follower may."""

    analog = False
    axes = AXES

    def __init__(self) -> None:
        buttons = "{deadman: 0, arm: 1, hold: 2, gripper_close: 3, gripper_open: 4}"
        config = shipped(
            "leader", "deadman=joy", "pedal=null", f"joy={{topic: buttons, buttons: {buttons}}}",
            "follow=pose", "joints=[]", "gripper=null",
        )  # fmt: skip
        self.events = ("hold", "arm")
        self.speed = np.zeros(6)
        self.handle = Pose(position_m=np.array([0.3, 0.1, 0.2]), quaternion_xyzw=np.array([0.0, 0.0, 0.0, 1.0]))
        self.buttons = [0] * 5
        self.sign = 1.0
        super().__init__(build_teleop(config, FULL_SCALE, machine()))

    def before_sample(self) -> None:
        assert self.built.robot is not None
        self.built.robot.see(Pose.identity(), self.now_ns)
        super().before_sample()

    def send(self) -> None:
        self.send_pose()
        self.built.joy["buttons"].feed(JoyPacket(axes=(), buttons=tuple(self.buttons)), self.now_ns)

    def send_pose(self) -> None:
        assert self.built.leader is not None
        passed_s = min(1.0, (self.now_ns - self.sent_ns) / 1e9)
        self.sent_ns = self.now_ns
        step = Pose.identity()
        if self.speed.any() and passed_s < 0.5:
            step = Pose.from_rotation(self.speed[:3] * passed_s, Rotation.from_rotvec(self.speed[3:] * passed_s))
        self.handle = Pose.from_rotation(self.handle.position_m + step.position_m, step.rotation * self.handle.rotation)
        turned = self.sign * self.handle.quaternion_xyzw
        self.built.leader.feed(Pose(position_m=self.handle.position_m, quaternion_xyzw=turned), self.now_ns)

    def button(self, index: int, value: int) -> None:
        self.buttons[index] = value
        self.send()

    def press(self) -> None:
        self.button(0, 1)

    def release(self) -> None:
        self.button(0, 0)

    def push(self, axis: str, amount: float) -> None:
        self.speed[AXES.index(axis)] = amount * 3.0 * FULL_SCALE[AXES.index(axis)]

    def grip(self, press: int) -> None:
        self.button(3, int(press == -1))
        self.button(4, int(press == 1))

    def tap(self, event: str) -> None:
        index = {"arm": 1, "hold": 2}[event]
        self.button(index, 1)
        self.button(index, 0)

    def garbage(self) -> None:
        assert self.built.leader is not None
        self.built.leader.feed(JointPacket(names=("a",), positions=(np.nan,)), self.now_ns)

    def flood(self, axis: str, amount: float) -> None:
        for _ in range(300):
            self.send()
        self.push(axis, amount)
        self.now_ns += REPEAT_NS
        self.send()


class QuestRig(LeaderRig):
    """The right controller of a Quest, whose grip and index finger are axes. Its poses are never the same twice."""

    def __init__(self) -> None:
        config = shipped("quest_pose", "axes=ros")
        assert isinstance(config, LeaderTeleop)
        assert config.joy is not None
        self.topic = config.joy.topic
        self.events = ("success", "failure")
        self.speed = np.zeros(6)
        self.handle = Pose(position_m=np.array([0.3, 0.1, 0.2]), quaternion_xyzw=np.array([0.0, 0.0, 0.0, 1.0]))
        self.pulled = [0.0] * 4
        self.buttons = [0] * 4
        self.sign = 1.0
        MessageRig.__init__(self, build_teleop(config, FULL_SCALE, machine()))

    def send(self) -> None:
        self.sign = -self.sign  # the same turn in other bits
        self.send_pose()
        self.built.joy[self.topic].feed(JoyPacket(axes=tuple(self.pulled), buttons=tuple(self.buttons)), self.now_ns)

    def press(self) -> None:
        self.pulled[1] = 0.8
        self.send()

    def release(self) -> None:
        self.pulled[1] = 0.3
        self.send()

    def grip(self, press: int) -> None:
        self.pulled[0], self.buttons[3] = (1.0 if press == -1 else 0.0), int(press == 1)
        self.send()

    def tap(self, event: str) -> None:
        index = {"success": 1, "failure": 0}[event]
        self.button(index, 1)
        self.button(index, 0)


class PedalRig(SpaceMouseRig):
    """A SpaceMouse whose deadman is the middle pedal, with a keyboard for verdicts beside it."""

    by_motion = False

    def __init__(self) -> None:
        pedals = {KEYS[f"KEY_{letter}"] for letter in "ABC"}
        self.pedal = FakeInput(name="FootSwitch", keys=pedals, vendor=0x3553, product=0xB001, path="/dev/input/event1")
        keys = {KEYS[key] for key in keyboard_actions(motion=True)}
        self.keypad = FakeInput(name="Small Keypad", keys=keys, path="/dev/input/event2", phys="usb-2/input0")
        super().__init__(split=False, name="spacemouse_pedal", evdev=FakeEvdev(self.pedal, self.keypad))
        self.events = EVENTS

    def before_sample(self) -> None:
        assert self.built.robot is not None
        self.built.robot.see(Pose.identity(), self.now_ns)
        super().before_sample()

    def press(self) -> None:
        self.pedal.key(KEYS["KEY_B"], 1)

    def release(self) -> None:
        self.pedal.key(KEYS["KEY_B"], 0)

    def tap(self, event: str) -> None:
        code = KEYS[f"KEY_{BINDINGS[Device.KEYBOARD][event].upper()}"]
        self.keypad.key(code, 1)
        self.keypad.key(code, 0)


class ServoPortDouble:
    """Servos of a leader arm as the thread behind the port gives them: joints that arrived since the last look."""

    def __init__(self) -> None:
        self.waiting: list[JointPacket] = []
        self.there = True

    def read(self) -> list[JointPacket]:
        if not self.there:
            raise OSError("servo elbow_flex (id 3) has not answered")
        waiting, self.waiting = self.waiting, []
        return waiting

    def close(self) -> None:
        self.waiting = []


class So101LeaderRig(Rig):
    """An SO-101 leader with a keypad for its clutch. Its table is that of an arm of six joints, so that its handle can
    be pushed along every axis."""

    analog = False
    repeats = True

    def __init__(self) -> None:
        rows = [
            {"name": "a", "d_m": 0.16}, {"name": "b", "alpha_rad": 1.5707963},
            {"name": "c", "a_m": -0.42}, {"name": "d", "a_m": -0.39, "d_m": 0.13},
            {"name": "e", "alpha_rad": 1.5707963, "d_m": 0.1}, {"name": "f", "alpha_rad": -1.5707963, "d_m": 0.1},
        ]  # fmt: skip
        config = shipped(
            "so101_leader", "pedal=null", "keyboard={match: {name: Keypad}}", "deadman=keyboard", f"joints={rows}",
        )  # fmt: skip
        assert isinstance(config, So101LeaderTeleop)
        self.events = EVENTS
        self.chain = Chain([Link(**row) for row in rows], config.tip_m)
        self.angles = np.array([0.2, -1.2, 1.4, -1.5, -1.2, 0.3])
        self.speed = np.zeros(6)
        self.shut = 50.0
        self.sent_ns = 0
        self.port = ServoPortDouble()
        keys = {KEYS[key] for key in keyboard_actions(motion=True)}
        self.keypad = FakeInput(name="Small Keypad", keys=keys, path="/dev/input/event2", phys="usb-2/input0")
        devices = replace(machine(evdev=FakeEvdev(self.keypad)), servos=self.open)
        super().__init__(build_teleop(config, FULL_SCALE, devices))

    def open(self, config: So101LeaderTeleop) -> ServoPortDouble:
        if not self.port.there:
            raise RobotError("servos are not there")
        return self.port

    def before_sample(self) -> None:
        assert self.built.robot is not None
        self.built.robot.see(Pose.identity(), self.now_ns)
        if self.now_ns - self.sent_ns >= REPEAT_NS:
            self.send()

    def send(self) -> None:
        passed_s = (self.now_ns - self.sent_ns) / 1e9
        self.sent_ns = self.now_ns
        if self.speed.any() and passed_s < 0.5:
            self.angles = self.angles + np.linalg.solve(self.jacobian(), self.speed * passed_s)
        names = [*self.chain.names, "gripper"]
        self.port.waiting.append(JointPacket(names=names, positions=[*self.angles, self.shut]))

    def jacobian(self) -> np.ndarray:
        here, columns = self.chain.pose(self.angles), []
        for joint in np.eye(6) * 1e-6:
            there = self.chain.pose(self.angles + joint)
            turned = (there.rotation * here.rotation.inv()).as_rotvec()
            columns.append(np.concatenate([there.position_m - here.position_m, turned]) / 1e-6)
        return np.array(columns).T

    def key(self, action: str, value: int) -> None:
        self.keypad.key(KEYS[f"KEY_{BINDINGS[Device.KEYBOARD][action].upper()}"], value)

    def press(self) -> None:
        self.key("deadman", 1)

    def release(self) -> None:
        self.key("deadman", 0)

    def push(self, axis: str, amount: float) -> None:
        self.speed[AXES.index(axis)] = amount * 3.0 * FULL_SCALE[AXES.index(axis)]

    def grip(self, press: int) -> None:
        self.key("gripper_close", int(press == -1))
        self.key("gripper_open", int(press == 1))

    def tap(self, event: str) -> None:
        self.key(event, 1)
        self.key(event, 0)

    def garbage(self) -> None:
        self.port.waiting.append(JointPacket(names=list(self.chain.names), positions=[np.nan] * 6))

    def unplug(self) -> None:
        self.port.there = False

    def plug(self) -> None:
        self.port.there = True

    def flood(self, axis: str, amount: float) -> None:
        for _ in range(300):
            self.send()
        self.push(axis, amount)
        self.now_ns += REPEAT_NS
        self.send()


RIGS = {
    "spacemouse, two reports": lambda: SpaceMouseRig(split=True),
    "spacemouse, one report": lambda: SpaceMouseRig(split=False),
    "spacemouse with pedal": PedalRig,
    "gamepad": GamepadRig,
    "keyboard": KeyboardRig,
    "joy": JoyRig,
    "joy of spacenav": lambda: JoyRig(spacenav=True),
    "leader": LeaderRig,
    "quest": QuestRig,
    "so101 leader": So101LeaderRig,
    "page": PageRig,
}
