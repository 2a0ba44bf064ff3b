"""Finding, opening and reading devices through the libraries hid and evdev, whose devices are made up here."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from robot_stack.config.files.library import config_root
from robot_stack.config.files.loader import load
from robot_stack.config.kinds import TELEOPS
from robot_stack.config.teleop import GamepadTeleop
from robot_stack.config.teleop_parts import PedalConfig
from robot_stack.teleop import evdev_port
from robot_stack.teleop.evdev_port import EvdevPort, load_evdev, open_event_device
from robot_stack.teleop.hid_port import load_hid, open_spacemouse
from robot_stack.teleop.input_events import (
    AXES,
    BUS_BLUETOOTH,
    EV_KEY,
    KEYS,
    AxisState,
    Change,
    InputEvents,
    Snapshot,
    gamepad_actions,
)
from robot_stack.teleop.match import Wanted
from robot_stack.teleop.reading import Reader
from robot_stack.teleop.sources import gamepad_reader, pedal_reader
from robot_stack.types.errors import RobotError
from tests.teleop.fake_devices import FakeEvdev, FakeHid, FakeInput, FakeSpaceMouse, machine

PAD_KEYS = {KEYS["BTN_SOUTH"], KEYS["BTN_TL"], KEYS["BTN_TR"]}


def pad(**fields: object) -> FakeInput:
    return FakeInput(**{"name": "Microsoft X-Box 360 pad", "keys": set(PAD_KEYS), **fields})


def open_pad(library: FakeEvdev, wanted: Wanted | None = None, **options: bool) -> EvdevPort:
    return open_event_device(library, "gamepad", wanted or Wanted(), keys=frozenset(PAD_KEYS), **options)


@pytest.mark.parametrize(("module", "load"), [("hid", load_hid), ("evdev", load_evdev)])
def test_a_missing_library_is_told_with_what_to_install(module, load, monkeypatch):
    for name in (module, "hidraw"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(RobotError, match=rf"module {module} is missing.*pip install 'robot-stack\[teleop\]'"):
        load()


def test_the_module_that_leaves_the_device_to_the_kernel_comes_first(monkeypatch):
    for name in ("hid", "hidraw"):
        module = ModuleType(name)
        module.device = object
        monkeypatch.setitem(sys.modules, name, module)
    assert load_hid().__name__ == "hidraw"
    monkeypatch.setitem(sys.modules, "hidraw", None)
    assert load_hid().__name__ == "hid"


def test_another_package_of_the_same_module_name_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "hidraw", None)
    monkeypatch.setitem(sys.modules, "hid", ModuleType("hid"))
    with pytest.raises(RobotError, match="must be of hidapi"):
        load_hid()


def test_a_spacemouse_is_found_among_other_devices_and_read_whole():
    mouse = FakeSpaceMouse()
    keys = FakeSpaceMouse(path=b"hidraw1")
    keys.info["usage"] = 6
    printer = FakeSpaceMouse(vendor=0x1111, path=b"hidraw2")
    port = open_spacemouse(FakeHid(printer, keys, mouse), Wanted())
    mouse.send(b"\x01\x00", b"\x02\x00")
    assert port.read() == [b"\x01\x00", b"\x02\x00"]
    assert port.read() == []
    mouse.plugged = False
    with pytest.raises(OSError, match="read error"):
        port.read()


@pytest.mark.parametrize(
    ("vendor", "product"), [(0x256F, 0xC652), (0x256F, 0xC641), (0x046D, 0xC626), (0x046D, 0xC62B)]
)
def test_newer_and_older_models_are_known(vendor: int, product: int):
    assert open_spacemouse(FakeHid(FakeSpaceMouse(vendor=vendor, product=product)), Wanted())


def test_another_device_of_the_older_vendor_is_none():
    with pytest.raises(RobotError, match="is missing"):
        open_spacemouse(FakeHid(FakeSpaceMouse(vendor=0x046D, product=0xC52B)), Wanted())


def test_of_several_interfaces_of_one_receiver_the_first_is_taken():
    second, first = FakeSpaceMouse(path=b"hidraw4"), FakeSpaceMouse(path=b"hidraw5")
    second.info["interface_number"] = 1
    port = open_spacemouse(FakeHid(second, first), Wanted())
    first.send(b"\x03\x01")
    assert port.read() == [b"\x03\x01"]


def test_of_two_spacemice_the_serial_decides_and_without_one_it_is_told():
    one, other = FakeSpaceMouse(serial="A1", path=b"one"), FakeSpaceMouse(serial="B2", path=b"other")
    library = FakeHid(one, other)
    with pytest.raises(RobotError, match=r"one of 2 .*A1.*B2.*tell it apart in match"):
        open_spacemouse(library, Wanted())
    port = open_spacemouse(library, Wanted(serial="B2"))
    other.send(b"\x03\x00")
    assert port.read() == [b"\x03\x00"]


@pytest.mark.parametrize("wanted", [Wanted(usb="256f:c62b"), Wanted(name="navigator"), Wanted(serial="9")])
def test_a_spacemouse_that_does_not_fit_is_missing_and_those_there_are_named(wanted: Wanted):
    with pytest.raises(RobotError, match=r"SpaceMouse is missing .*256f:c635.*plug it in"):
        open_spacemouse(FakeHid(FakeSpaceMouse()), wanted)


def test_a_spacemouse_that_cannot_be_opened_is_told(tmp_path):
    node = tmp_path / "hidraw0"
    node.touch()
    mouse = FakeSpaceMouse(path=bytes(node))
    mouse.refuses = True
    with pytest.raises(RobotError, match="cannot be opened"):
        open_spacemouse(FakeHid(mouse), Wanted())


def test_one_without_the_right_to_read_it_is_told_of_the_rule(tmp_path, monkeypatch):
    node = tmp_path / "hidraw0"
    node.touch()
    mouse = FakeSpaceMouse(path=bytes(node))
    mouse.refuses = True
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(RobotError, match="may not be read; add the udev rule"):
        open_spacemouse(FakeHid(mouse), Wanted())


def test_an_event_device_gives_all_of_itself_first_and_then_what_changes():
    thing = pad(axes={AXES["ABS_X"]: [5, -10, 10]}, down={KEYS["BTN_TL"]})
    port = open_pad(FakeEvdev(thing))
    thing.key(KEYS["BTN_TL"], 0)
    first, change = port.read()
    assert first == Snapshot(
        keys=frozenset({KEYS["BTN_TL"]}), axes={AXES["ABS_X"]: AxisState(value=5, low=-10, high=10)}
    )
    assert change == Change(EV_KEY, KEYS["BTN_TL"], 0)
    assert port.read() == []


def test_after_dropped_events_the_device_is_asked_anew():
    thing = pad()
    port = open_pad(FakeEvdev(thing))
    port.read()
    thing.down = {KEYS["BTN_TR"]}
    thing.overflow()
    assert port.read() == [Snapshot(keys=frozenset({KEYS["BTN_TR"]}))]
    thing.key(KEYS["BTN_TR"], 0)
    assert port.read() == [Change(EV_KEY, KEYS["BTN_TR"], 0)]


def test_after_dropped_events_an_axis_is_where_it_is_and_not_where_it_was_as_the_device_was_opened():
    thing = pad(axes={AXES["ABS_X"]: [10, -10, 10]})
    port = open_pad(FakeEvdev(thing))
    port.read()
    thing.axis(AXES["ABS_X"], 0)
    thing.overflow()
    assert port.read() == [Snapshot(keys=frozenset(), axes={AXES["ABS_X"]: AxisState(value=0, low=-10, high=10)})]


def test_an_event_device_that_is_gone_says_so():
    thing = pad()
    port = open_pad(FakeEvdev(thing))
    port.read()
    thing.unplug()
    with pytest.raises(OSError, match="No such device"):
        port.read()


def test_devices_without_the_keys_or_of_another_name_are_not_meant_and_are_closed():
    mouse = FakeInput(name="X-Box mouse", keys={KEYS["BTN_LEFT"]}, path="/dev/input/event1")
    other = pad(name="Some Keyboard", path="/dev/input/event2")
    library = FakeEvdev(mouse, other, pad())
    open_pad(library, Wanted(name="x-box"))
    assert library.open == 1


def test_of_several_event_devices_of_one_thing_the_first_is_taken_and_two_things_are_refused():
    second = pad(path="/dev/input/event0", phys="usb-3/input1")
    first = pad(path="/dev/input/event1", phys="usb-3/input0")
    library = FakeEvdev(second, first)
    port = open_pad(library)
    port.read()
    first.key(KEYS["BTN_TL"], 1)
    assert port.read() == [Change(EV_KEY, KEYS["BTN_TL"], 1)]
    library.devices.append(pad(path="/dev/input/event2", phys="usb-4/input0"))
    with pytest.raises(RobotError, match="one of 2"):
        open_pad(library)
    assert library.open == 1


@pytest.mark.parametrize("name", ["Microsoft Xbox Series S|X Controller", "Logitech Gamepad F310"])
def test_the_shipped_file_takes_the_only_gamepad_that_there_is_whatever_it_is_called(name: str):
    match = load(config_root() / "teleop" / "gamepad.yaml", TELEOPS, []).match
    assert open_pad(FakeEvdev(pad(name=name)), Wanted(**match.model_dump()))


def test_a_gamepad_beside_which_only_others_are_plugged_in_is_to_be_named():
    library = FakeEvdev(pad(name="Microsoft Xbox Series S|X Controller", vendor=0x45E, product=0xB12))
    with pytest.raises(RobotError) as caught:
        open_pad(library, Wanted(name="x-box"))
    assert str(caught.value) == (
        "gamepad is missing (wanted: name 'x-box'; there are: Microsoft Xbox Series S|X Controller (045e:0b12)); "
        "plug it in, or name one of those in match of the teleop file"
    )


@pytest.mark.parametrize(
    ("vendor", "version", "left", "top"),
    [
        pytest.param(0x045E, 0x0114, "BTN_NORTH", "BTN_WEST", id="xpad"),  # BTN_X has the number of BTN_NORTH
        pytest.param(0x046D, 0x0305, "BTN_NORTH", "BTN_WEST", id="xpad of another vendor"),
        pytest.param(0x054C, 0x8111, "BTN_WEST", "BTN_NORTH", id="hid-playstation"),
        pytest.param(0x054C, 0x0111, "BTN_NORTH", "BTN_WEST", id="another driver, of Sony's vendor number"),
        pytest.param(0x057E, 0x8111, "BTN_WEST", "BTN_NORTH", id="hid-nintendo"),
    ],
)
def test_a_button_of_a_gamepad_means_by_its_place_whatever_the_driver_calls_it(vendor, version, left, top):
    thing = pad(vendor=vendor, version=version, keys={*PAD_KEYS, KEYS[left], KEYS[top]})
    port, events = open_pad(FakeEvdev(thing)), InputEvents(gamepad_actions())
    said = []
    for key in (left, top):
        thing.key(KEYS[key], 1)
        for packet in port.read():
            events.push(packet)
        said.append(events.reading().tapped)
        thing.key(KEYS[key], 0)
    assert said == [{"success"}, {"discard"}]
    thing.overflow()
    thing.down.add(KEYS[left])
    for packet in port.read():
        events.push(packet)
    assert events.reading().tapped == {"success"}, "asked anew after dropped events"


def shipped_reader(*things: FakeInput) -> Reader:
    """The reader of the shipped gamepad.yaml, on a machine with these devices."""
    config = load(config_root() / "teleop" / "gamepad.yaml", TELEOPS, [])
    assert isinstance(config, GamepadTeleop)
    for thing in things:
        thing.axes.update({AXES[axis]: [128, 0, 255] for axis in config.axes.values()})
    return gamepad_reader(config, machine(evdev=FakeEvdev(*things)))


NUMBERED = set(range(KEYS["BTN_SOUTH"], KEYS["BTN_THUMBL"] + 1))
"""Fourteen buttons, as hid-generic numbers them."""


@pytest.mark.parametrize(
    ("vendor", "version", "keys"),
    [
        pytest.param(0x0F0D, 0x0111, NUMBERED, id="PlayStation pad of another vendor"),
        pytest.param(0x054C, 0x0111, NUMBERED, id="PlayStation pad that the kernel is too old for"),
        pytest.param(0x057E, 0x0111, NUMBERED, id="Nintendo pad that the kernel is too old for"),
        pytest.param(0x2DC8, 0x0111, NUMBERED, id="D-input"),
        pytest.param(0x1234, 0x0111, NUMBERED - {KEYS["BTN_Z"]}, id="no sixth button"),
        pytest.param(0x1234, 0x8111, NUMBERED - {KEYS["BTN_C"]}, id="no third button"),
    ],
)
def test_a_gamepad_that_numbers_its_buttons_is_refused(vendor: int, version: int, keys: set[int]):
    """HOLD was its left stick, or failure its success: which button has which number is up to its maker."""
    reader = shipped_reader(pad(name="Fighting Pad", vendor=vendor, version=version, keys=keys))
    assert reader.poll(0) is None
    assert reader.problem == (
        "gamepad: gamepad Fighting Pad has numbered buttons (BTN_C or BTN_Z), must have named ones; "
        "switch it to X-input, take an Xbox pad at its cable, or read it through joy.yaml"
    )


def test_the_capture_button_of_a_nintendo_pad_is_no_number():
    reader = shipped_reader(pad(vendor=0x057E, version=0x8111, keys={*PAD_KEYS, KEYS["BTN_Z"]}))
    assert reader.poll(0) is not None, reader.problem


def test_a_pedal_may_number_its_buttons():
    config = PedalConfig(match={"name": "pad"}, keys={"middle": "BTN_SOUTH"})
    reader = pedal_reader(config, machine(evdev=FakeEvdev(pad(keys=NUMBERED))))
    assert reader.poll(0) is not None, reader.problem


def test_a_gamepad_over_bluetooth_is_refused_unless_it_is_asked_for():
    library = FakeEvdev(pad(bustype=BUS_BLUETOOTH))
    with pytest.raises(RobotError, match="must have a cable"):
        open_pad(library, bluetooth=False)
    assert library.open == 0
    assert open_pad(library, bluetooth=True)


def test_a_grabbed_device_is_taken_from_everybody_else_and_only_once():
    thing = pad()
    library = FakeEvdev(thing)
    open_pad(library, grab=True)
    assert thing.grabbed
    with pytest.raises(RobotError, match="grabbed"):
        open_pad(library, grab=True)


def test_devices_that_may_not_be_read_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(evdev_port, "INPUT_DEVICES", tmp_path)
    for number in range(3):
        (tmp_path / f"event{number}").touch()
    with pytest.raises(RobotError, match="3 devices may not be read: add the udev rule"):
        open_pad(FakeEvdev())


def test_the_libraries_have_what_is_used_of_them():
    evdev = pytest.importorskip("evdev", reason="evdev is not installed")
    pytest.importorskip("hid", reason="hidapi is not installed")
    hid = load_hid()
    for name in (
        "capabilities",
        "absinfo",
        "active_keys",
        "read",
        "grab",
        "close",
        "path",
        "phys",
        "uniq",
        "info",
        "name",
    ):
        assert hasattr(evdev.InputDevice, name), name
    assert isinstance(evdev.list_devices(), list)
    for name in ("open_path", "set_nonblocking", "read", "close"):
        assert hasattr(hid.device(), name), name
    assert isinstance(hid.enumerate(), list)
