"""The devices for an operator's hand that are connected, and what could not be looked at."""

from __future__ import annotations

from robot_stack.teleop.connected import ConnectedDevice, connected_devices
from robot_stack.types.errors import RobotError
from tests.teleop.fake_devices import FakeEvdev, FakeHid, FakeInput, FakeSpaceMouse

LETTERS = set(range(16, 58))
GAMEPAD = FakeInput(
    "Sony DualSense",
    {0x130, 0x131},
    {0: [128, 0, 255], 1: [128, 0, 255]},
    vendor=0x54C,
    product=0xCE6,
    phys="usb-3/0",
    path="/dev/input/event0",
)
TOUCHPAD = FakeInput(
    "Sony DualSense Touchpad",
    {0x14A},
    {0: [0, 0, 1919], 1: [0, 0, 1079]},
    vendor=0x54C,
    product=0xCE6,
    phys="usb-3/1",
    path="/dev/input/event1",
)
KEYBOARD = FakeInput("Logitech K120", LETTERS, vendor=0x46D, product=0xC31C, phys="usb-1/0", path="/dev/input/event2")
MEDIA = FakeInput(
    "Logitech K120 Consumer Control",
    {113, 114, 115},
    vendor=0x46D,
    product=0xC31C,
    phys="usb-1/1",
    path="/dev/input/event3",
)
PEDAL = FakeInput(
    "PCsensor FootSwitch", {30, 48, 46}, vendor=0x3553, product=0xB001, phys="usb-2/0", path="/dev/input/event4"
)


def missing() -> object:
    raise RobotError("module hid is missing, must be there to read a SpaceMouse; pip install 'robot-stack[teleop]'")


def test_each_device_is_listed_once_with_its_kind() -> None:
    evdev = FakeEvdev(GAMEPAD, TOUCHPAD, KEYBOARD, MEDIA, PEDAL)
    found = connected_devices(lambda: evdev, lambda: FakeHid(FakeSpaceMouse()))
    assert set(found.devices) == {
        ConnectedDevice(kind="gamepad", name="Sony DualSense", usb="054c:0ce6"),
        ConnectedDevice(kind="keyboard", name="Logitech K120", usb="046d:c31c"),
        ConnectedDevice(kind="buttons", name="PCsensor FootSwitch", usb="3553:b001"),
        ConnectedDevice(kind="spacemouse", name="SpaceMouse", usb="256f:c635"),
    }


def test_what_is_missing_hides_only_its_own_devices() -> None:
    found = connected_devices(lambda: FakeEvdev(PEDAL), missing)
    assert [each.kind for each in found.devices] == ["buttons"]
    assert any("pip install 'robot-stack[teleop]'" in each for each in found.hidden)
    found = connected_devices(missing, lambda: FakeHid(FakeSpaceMouse()))
    assert [each.kind for each in found.devices] == ["spacemouse"]
    assert any("module hid is missing" in each for each in found.hidden)
