"""A gamepad that the kernel believes in, where it allows that: found, held, unplugged and plugged in again."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from robot_stack.config.files.library import config_root
from robot_stack.config.files.loader import load
from robot_stack.config.kinds import TELEOPS
from robot_stack.teleop.bindings import BINDINGS, Device
from robot_stack.teleop.build import build_teleop
from robot_stack.teleop.input_events import AXES, EV_ABS, EV_KEY, KEYS
from robot_stack.types.robot import TeleopSample

evdev = pytest.importorskip("evdev", reason="evdev is not installed")
UINPUT = Path("/dev/uinput")
if not UINPUT.exists():
    pytest.skip("the kernel of this machine has no /dev/uinput", allow_module_level=True)

NAME = "robot-stack test pad"


def made_up_pad() -> evdev.UInput:
    axes = [(AXES[f"ABS_{name}"], evdev.AbsInfo(0, -32768, 32767, 0, 0, 0)) for name in ("X", "Y", "RX", "RY")]
    axes += [(AXES[f"ABS_{name}"], evdev.AbsInfo(0, -1, 1, 0, 0, 0)) for name in ("HAT0X", "HAT0Y")]
    keys = [KEYS[key] for key in BINDINGS[Device.GAMEPAD].values()]
    return evdev.UInput({EV_KEY: keys, EV_ABS: axes}, name=NAME)


def until(device: object, fits: Callable[[TeleopSample], bool], what: str) -> None:
    deadline_s = time.monotonic() + 10.0
    while not fits(device.sample(time.monotonic_ns())):
        assert time.monotonic() < deadline_s, f"{what} not within 10 s"
        time.sleep(0.004)


def test_a_gamepad_of_the_kernel_takes_control_is_lost_and_comes_back():
    config = load(config_root() / "teleop" / "gamepad.yaml", TELEOPS, [f"match={{name: {NAME}}}", "frame=tcp"])
    device = build_teleop(config, np.full(6, 0.1)).device
    pad = made_up_pad()
    until(device, lambda sample: not sample.lost, "device")
    pad.write(EV_KEY, KEYS["BTN_TL"], 1)
    pad.syn()
    until(device, lambda sample: sample.deadman, "deadman")
    pad.write(EV_ABS, AXES["ABS_Y"], -32768)
    pad.syn()
    until(device, lambda sample: sample.twist[0] > 0.99, "full deflection")
    pad.close()
    until(device, lambda sample: sample.lost and not sample.deadman, "loss")
    pad = made_up_pad()
    until(device, lambda sample: not sample.lost, "device again")
    pad.write(EV_KEY, KEYS["BTN_NORTH"], 1)
    pad.syn()
    until(device, lambda sample: sample.events == ("success",), "verdict")
    pad.close()
