"""The one key table."""

from __future__ import annotations

from pathlib import Path

import pytest

from robot_stack.config.files.library import config_root
from robot_stack.config.files.loader import load
from robot_stack.config.kinds import TELEOPS
from robot_stack.teleop.bindings import (
    BINDINGS,
    CONTROLS,
    MEANING,
    MOTIONS,
    Device,
    key_of,
    table,
)
from robot_stack.types.errors import SpecError
from robot_stack.types.robot import EVENTS


@pytest.mark.parametrize("device", list(Device))
def test_no_key_means_two_things(device: Device):
    keys = list(BINDINGS[device].values())
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("device", list(Device))
def test_every_bound_action_exists(device: Device):
    assert set(BINDINGS[device]) <= {*EVENTS, *CONTROLS, *MOTIONS}


@pytest.mark.parametrize("device", [Device.KEYBOARD, Device.BROWSER])
def test_esc_holds_and_nothing_else(device: Device):
    assert [action for action, key in BINDINGS[device].items() if key == "esc"] == ["hold"]


def test_the_browser_moves_nothing_and_takes_no_control():
    assert not set(BINDINGS[Device.BROWSER]) & {*CONTROLS, *MOTIONS, "arm"}


def test_the_keyboard_can_do_everything():
    assert set(BINDINGS[Device.KEYBOARD]) == {*EVENTS, *CONTROLS, *MOTIONS}


def test_the_shipped_joy_means_by_each_place_what_a_gamepad_does():
    """Indices of game_controller_node, as the README of ros-drivers/joystick_drivers lists them."""
    places = ("SOUTH", "EAST", "WEST", "NORTH", "SELECT", "MODE", "START", "THUMBL", "THUMBR", "TL", "TR")
    buttons = {f"BTN_{place}": index for index, place in enumerate(places)}
    triggers = {"BTN_TL2": 4, "BTN_TR2": 5}
    joy = load(config_root() / "teleop" / "joy.yaml", TELEOPS, [])
    table = BINDINGS[Device.GAMEPAD]
    assert joy.buttons == {action: buttons[key] for action, key in table.items() if key in buttons}
    assert {action: trigger.axis for action, trigger in joy.triggers.items()} == {
        action: triggers[key] for action, key in table.items() if key in triggers
    }


def test_a_missing_key_is_told_with_what_there_is():
    assert key_of(Device.PEDAL, "deadman") == "middle"
    with pytest.raises(SpecError, match="must be one of"):
        key_of(Device.PEDAL, "success")


def test_the_table_shows_every_event_with_its_keys():
    lines = table([Device.KEYBOARD, Device.GAMEPAD]).splitlines()
    assert lines[0].split() == ["keyboard", "gamepad"]
    hold = next(line for line in lines if line.startswith("hold"))
    assert hold.split()[1:3] == ["esc", "BTN_SELECT"]
    assert hold.endswith(MEANING["hold"])
    assert not any(line.startswith("x+") for line in table([Device.GAMEPAD]).splitlines())


def test_the_page_shows_the_table_as_it_is():
    page = (Path(__file__).parents[2] / "docs/teleop.md").read_text()
    assert table([Device.KEYBOARD, Device.GAMEPAD, Device.SPACEMOUSE, Device.PEDAL]) in page
