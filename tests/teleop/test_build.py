"""From a configuration to a device, and what several parts make together."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from robot_stack.config.files.library import config_root
from robot_stack.config.files.loader import load
from robot_stack.config.kinds import TELEOPS
from robot_stack.config.teleop import TeleopConfig
from robot_stack.teleop.bindings import Device
from robot_stack.teleop.build import BuiltTeleop, build_teleop
from robot_stack.teleop.hid_port import load_hid
from robot_stack.teleop.input_events import KEYS, keyboard_actions
from robot_stack.teleop.messages import JointPacket, JoyPacket
from robot_stack.teleop.sources import Machine
from robot_stack.types.errors import ConfigError, RobotError
from robot_stack.types.pose import Pose
from tests.teleop.fake_devices import FakeEvdev, FakeHid, FakeInput, FakeSpaceMouse, machine

MS = 1_000_000
FULL_SCALE = np.full(6, 0.1)
REAL = ("spacemouse", "spacemouse_pedal", "gamepad", "keyboard", "joy", "leader")


def config(name: str, *overrides: str) -> TeleopConfig:
    return load(config_root() / "teleop" / f"{name}.yaml", TELEOPS, overrides)


def build(name: str, *overrides: str, **devices: object) -> BuiltTeleop:
    return build_teleop(config(name, *overrides), FULL_SCALE, machine(**devices))


@pytest.mark.parametrize("name", REAL)
def test_every_shipped_device_is_built_and_opens_nothing(name: str):
    tries: list[object] = []
    quiet = Machine(hid=lambda: FakeHid(), evdev=lambda: FakeEvdev(), start=tries.append)
    build_teleop(config(name), FULL_SCALE, quiet)
    assert not tries


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("spacemouse_pedal", (Device.SPACEMOUSE, Device.PEDAL, Device.KEYBOARD)),
        ("gamepad", (Device.GAMEPAD,)), ("joy", ()), ("leader", (Device.PEDAL,)),
    ],
)  # fmt: skip
def test_the_columns_of_the_key_table_are_those_of_its_parts(name: str, columns: tuple[Device, ...]):
    assert build(name).keys == columns


@pytest.mark.parametrize(
    ("name", "looks"), [("spacemouse", False), ("gamepad", True), ("keyboard", True), ("leader", True)]
)
def test_only_a_device_that_asks_for_the_robot_is_shown_it(name: str, looks: bool):
    assert (build(name).robot is not None) == looks


def test_a_library_that_is_missing_is_told_at_the_start(monkeypatch):
    for name in ("hid", "hidraw"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(RobotError, match="pip install"):
        build_teleop(config("spacemouse"), FULL_SCALE, Machine(hid=load_hid))


@pytest.mark.parametrize(
    ("name", "override", "message"),
    [
        ("gamepad", "axes={x: ABS_NOSE}", "ABS_NOSE"),
        ("spacemouse_pedal", "pedal.keys={middle: KEY_PEDAL}", "KEY_PEDAL"),
    ],
)
def test_a_name_that_the_kernel_does_not_know_is_told_at_the_start(name: str, override: str, message: str):
    with pytest.raises(ConfigError, match=message):
        build(name, override)


class PedalCell:
    """A SpaceMouse, pedals and a keyboard for verdicts."""

    def __init__(self) -> None:
        self.mouse = FakeSpaceMouse()
        self.pedal = FakeInput(
            name="FootSwitch", keys={KEYS[f"KEY_{letter}"] for letter in "ABC"}, vendor=0x3553, product=0xB001,
            path="/dev/input/event1",
        )  # fmt: skip
        keys = {KEYS[key] for key in keyboard_actions(motion=True)}
        self.keypad = FakeInput(name="Small Keypad", keys=keys, path="/dev/input/event2", phys="usb-2/input0")
        evdev = FakeEvdev(self.pedal, self.keypad)
        self.built = build("spacemouse_pedal", "frame=tcp", hid=FakeHid(self.mouse), evdev=evdev)
        self.now_ns = 0
        self.run(0.7)

    def tick(self):
        self.now_ns += 4 * MS
        return self.built.device.sample(self.now_ns)

    def run(self, seconds: float) -> list:
        return [self.tick() for _ in range(round(seconds / 0.004))]


def test_with_a_pedal_the_cap_alone_moves_nothing():
    cell = PedalCell()
    cell.mouse.send(bytes.fromhex("01 0000 a2fe 0000"))
    assert not any(sample.deadman or sample.twist.any() for sample in cell.run(0.1))


def test_the_keyboards_own_deadman_key_is_none_beside_a_pedal():
    cell = PedalCell()
    cell.keypad.key(KEYS["KEY_SPACE"], 1)
    assert not cell.run(0.1)[-1].deadman
    cell.pedal.key(KEYS["KEY_B"], 1)
    assert cell.run(0.1)[-1].deadman


def test_one_part_that_is_gone_is_the_device_gone_and_a_stop_still_gets_through():
    cell = PedalCell()
    cell.pedal.key(KEYS["KEY_B"], 1)
    assert cell.run(0.1)[-1].deadman
    cell.mouse.plugged = False
    sample = cell.tick()
    assert sample.lost
    assert cell.built.device.problem.startswith("spacemouse: ")
    cell.keypad.key(KEYS["KEY_BACKSPACE"], 1)
    cell.pedal.key(KEYS["KEY_A"], 1)
    assert cell.tick().events == ("hold", "stop")


def test_a_pedal_that_is_gone_is_a_loss_as_well():
    cell = PedalCell()
    cell.pedal.key(KEYS["KEY_B"], 1)
    cell.run(0.1)
    cell.pedal.unplug()
    assert cell.tick().lost
    assert "pedal" in cell.built.device.problem


def test_closing_and_opening_at_once_is_no_press():
    cell = PedalCell()
    cell.mouse.send(bytes.fromhex("03 03 00"))
    assert cell.tick().gripper == 0


def test_without_the_robots_state_a_device_that_needs_it_is_lost_in_words():
    built = build("leader", "deadman=joy", "pedal=null", "joy={topic: b, buttons: {deadman: 0}}")
    assert built.leader is not None
    names = [f"leader_joint{number}" for number in range(1, 8)] + ["leader_gripper"]
    for step in range(50):
        built.leader.feed(JointPacket(names=names, positions=[0.0] * 8), step * 20 * MS)
        built.joy["b"].feed(JoyPacket(axes=(), buttons=(0,)), step * 20 * MS)
        sample = built.device.sample(step * 20 * MS)
    assert sample.lost
    assert "robot state is missing" in built.device.problem
    assert built.robot is not None
    for step in range(50, 80):
        built.leader.feed(JointPacket(names=names, positions=[0.0] * 8), step * 20 * MS)
        built.joy["b"].feed(JoyPacket(axes=(), buttons=(0,)), step * 20 * MS)
        built.robot.see(Pose.identity(), step * 20 * MS)
        sample = built.device.sample(step * 20 * MS)
    assert not sample.lost
    assert built.device.problem == ""


def test_keys_that_end_motion_count_in_messages_that_are_refused_and_no_others_do():
    built = build("joy")
    reader = built.joy["/joy"]
    buttons = config("joy").buttons

    def told(*down: str, tick: int) -> tuple[bool, bool, tuple[str, ...]]:
        pressed = [int(any(buttons.get(name) == index for name in down)) for index in range(16)]
        reader.refuse("of two senders", JoyPacket(axes=(0.0,) * 6, buttons=pressed))
        sample = built.device.sample(tick * 20 * MS)
        return sample.lost, sample.deadman, sample.events

    assert told(tick=1) == (True, False, ())
    assert told("deadman", "success", tick=2) == (True, False, ())
    assert told("deadman", "success", "stop", tick=3) == (True, False, ("stop",))
    assert told("deadman", "success", "stop", tick=4) == (True, False, ()), "it is held, and was pressed once"
    assert told("hold", tick=5) == (True, False, ("hold",))


def test_a_message_that_cannot_be_read_presses_nothing():
    built = build("joy")
    built.joy["/joy"].refuse("of two senders", JoyPacket(axes=(), buttons=[1] * 16))
    assert built.device.sample(20 * MS).events == ()
