"""Linux input events of gamepads, keyboards and pedals."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_stack.teleop.bindings import BINDINGS, Device
from robot_stack.teleop.input_events import (
    AXES,
    EV_ABS,
    EV_KEY,
    KEYS,
    AxisState,
    Change,
    InputEvents,
    Snapshot,
    gamepad_actions,
    keyboard_actions,
    pedal_actions,
)
from robot_stack.types.errors import ConfigError, RobotError

HEADER = Path("/usr/include/linux/input-event-codes.h")
STICK = {"x": "ABS_Y"}


def stick(value: int, low: int = -32768, high: int = 32767) -> Snapshot:
    return Snapshot(axes={AXES["ABS_Y"]: AxisState(value=value, low=low, high=high)})


def test_codes_are_those_of_the_kernel():
    if not HEADER.exists():
        pytest.skip("no kernel headers on this machine")
    defined = dict(re.findall(r"#define\s+(\w+)\s+(0x[0-9a-fA-F]+|\d+)", HEADER.read_text()))
    for name, code in {**KEYS, **AXES}.items():
        assert int(defined[name], 0) == code, name


@pytest.mark.parametrize("device", [Device.KEYBOARD, Device.GAMEPAD])
def test_every_key_of_the_table_has_a_code(device: Device):
    actions = keyboard_actions(motion=True) if device is Device.KEYBOARD else gamepad_actions()
    assert set(actions.values()) == set(BINDINGS[device])
    assert set(actions) <= set(KEYS)


@pytest.mark.parametrize(
    ("state", "deflection"),
    [
        (stick(0), 0.0), (stick(32767), 1.0), (stick(-32768), -1.0),
        (stick(128, 0, 255), 0.0), (stick(255, 0, 255), 1.0), (stick(0, 0, 255), -1.0),
    ],
)  # fmt: skip
def test_a_stick_is_centred_in_its_range(state: Snapshot, deflection: float):
    decoder = InputEvents({}, STICK)
    decoder.push(state)
    assert decoder.reading().axes[0] == pytest.approx(deflection, abs=0.005)


@pytest.mark.parametrize("state", [Snapshot(), stick(0, 0, 0), stick(0, 5, -5)])
def test_an_axis_that_is_missing_or_has_no_range_is_refused_by_name(state: Snapshot):
    decoder = InputEvents({}, STICK)
    decoder.push(state)
    with pytest.raises(RobotError, match="ABS_Y"):
        decoder.reading()


def test_opposite_motion_keys_cancel():
    decoder = InputEvents(keyboard_actions(motion=True))
    for key in ("KEY_I", "KEY_K", "KEY_LEFT"):
        decoder.push(Change(EV_KEY, KEYS[key], 1))
    np.testing.assert_array_equal(decoder.reading().axes, [0, 0, 0, 1, 0, 0])


def test_beside_another_device_a_keyboard_moves_nothing():
    decoder = InputEvents(keyboard_actions(motion=False))
    decoder.push(Change(EV_KEY, KEYS["KEY_I"], 1))
    decoder.push(Change(EV_KEY, KEYS["KEY_ESC"], 1))
    reading = decoder.reading()
    assert not reading.axes.any()
    assert reading.tapped == {"hold"}


def test_a_key_that_repeats_is_held_and_not_pressed_again():
    decoder = InputEvents(keyboard_actions(motion=True))
    decoder.push(Change(EV_KEY, KEYS["KEY_S"], 1))
    assert decoder.reading().tapped == {"success"}
    decoder.push(Change(EV_KEY, KEYS["KEY_S"], 2))
    reading = decoder.reading()
    assert (reading.held, reading.tapped) == ({"success"}, frozenset())


def test_a_key_that_was_down_before_anybody_looked_is_held_but_no_press():
    decoder = InputEvents(gamepad_actions())
    decoder.push(Snapshot(keys=frozenset({KEYS["BTN_TL"], KEYS["BTN_WEST"]})))
    reading = decoder.reading()
    assert (reading.held, reading.tapped) == ({"deadman", "success"}, frozenset())


def test_an_analog_trigger_stands_for_the_button_that_a_gamepad_lacks():
    decoder = InputEvents(gamepad_actions(), STICK)
    trigger = AxisState(value=0, low=0, high=255)
    decoder.push(Snapshot(axes={**stick(0).axes, AXES["ABS_RZ"]: trigger}))
    decoder.push(Change(EV_ABS, AXES["ABS_RZ"], 120))
    assert decoder.reading().held == frozenset()
    decoder.push(Change(EV_ABS, AXES["ABS_RZ"], 140))
    assert decoder.reading().held == {"gripper_open"}


def test_pedals_mean_what_the_table_says_whatever_keys_they_send():
    actions = pedal_actions({"middle": "KEY_F13", "left": "KEY_A"})
    assert actions == {"KEY_F13": "deadman", "KEY_A": "hold"}


@pytest.mark.parametrize("names", [{"KEY_NONE": "hold"}, {"BTN_EAST ": "hold"}])
def test_a_key_that_there_is_not_is_refused_at_the_start(names: dict[str, str]):
    with pytest.raises(ConfigError, match="must be one of"):
        InputEvents(names)


def test_an_axis_that_there_is_not_is_refused_at_the_start():
    with pytest.raises(ConfigError, match="ABS_FOO"):
        InputEvents({}, {"x": "ABS_FOO"})


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 800), st.integers(-(2**31), 2**31 - 1)), max_size=20))
def test_any_events_are_decoded_ignored_or_refused(events: list[tuple[int, int, int]]):
    decoder = InputEvents(gamepad_actions(), STICK)
    decoder.push(stick(0))
    with suppress(RobotError):
        for event in events:
            decoder.push(Change(*event))
        assert np.abs(decoder.reading().axes).max() <= 2.0


def test_a_key_that_went_down_among_dropped_events_is_a_press():
    decoder = InputEvents(keyboard_actions(motion=True))
    decoder.push(Snapshot())
    decoder.push(Snapshot(keys=frozenset({KEYS["KEY_ESC"], KEYS["KEY_F"]})))
    assert decoder.reading().tapped == {"hold", "failure"}
    decoder.push(Snapshot(keys=frozenset({KEYS["KEY_ESC"]})))
    assert decoder.reading().tapped == frozenset()


def test_hold_and_stop_count_also_if_they_are_down_as_the_device_comes():
    decoder = InputEvents(keyboard_actions(motion=True))
    down = {action: key for key, action in keyboard_actions(motion=True).items()}
    decoder.push(Snapshot(keys=frozenset(KEYS[down[action]] for action in ("hold", "stop", "failure", "arm"))))
    assert decoder.reading().tapped == {"hold", "stop"}
