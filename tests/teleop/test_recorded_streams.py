"""Streams as devices send them, made by hand from their documented formats, through the whole device.

Each stream is played at its own times into a device that is read every 4 ms, as the teleop process does.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from robot_stack.config.files.library import config_root
from robot_stack.config.files.loader import load
from robot_stack.config.kinds import TELEOPS
from robot_stack.config.teleop import TeleopConfig
from robot_stack.teleop.bindings import BINDINGS, Device
from robot_stack.teleop.build import BuiltTeleop, build_teleop
from robot_stack.teleop.input_events import AXES, EV_ABS, EV_KEY, KEYS, keyboard_actions
from robot_stack.types.robot import TeleopSample
from tests.teleop.fake_devices import FakeEvdev, FakeHid, FakeInput, FakeSpaceMouse, machine

STREAMS = Path(__file__).parent / "streams"
MS = 1_000_000
STEP_MS = 4
FULL_SCALE = np.full(6, 0.1)


def rows(name: str) -> dict[int, list[str]]:
    """What comes at each millisecond."""
    found = defaultdict(list)
    for line in (STREAMS / f"{name}.csv").read_text().splitlines():
        if not line.startswith("#"):
            ms, _, what = line.partition(",")
            found[int(ms)].append(what)
    return found


def config(name: str, *overrides: str) -> TeleopConfig:
    return load(config_root() / "teleop" / f"{name}.yaml", TELEOPS, overrides)


def play(name: str, send: object, built: BuiltTeleop) -> list[tuple[int, TeleopSample]]:
    """(ms, sample) over the stream and half a second more."""
    coming = rows(name)
    samples = []
    for ms in range(max(coming) + 500):
        for what in coming.get(ms, ()):
            send(what)
        if ms % STEP_MS == 0:
            samples.append((ms, built.device.sample(ms * MS)))
    return samples


def spans(samples: list[tuple[int, TeleopSample]], fits: object) -> list[tuple[int, int]]:
    """(first ms, first ms after) of each time that something was so."""
    found: list[list[int]] = []
    before = False
    for ms, sample in samples:
        now = bool(fits(sample))
        if now and not before:
            found.append([ms, ms])
        if now:
            found[-1][1] = ms + STEP_MS
        before = now
    return [(first, last) for first, last in found]


def events(samples: list[tuple[int, TeleopSample]]) -> list[tuple[int, str]]:
    return [(ms, event) for ms, sample in samples for event in sample.events]


def played_spacemouse(name: str, product: int) -> list[tuple[int, TeleopSample]]:
    mouse = FakeSpaceMouse(product=product)
    built = build_teleop(config("spacemouse"), FULL_SCALE, machine(FakeHid(mouse)))
    return play(name, lambda what: mouse.send(bytes.fromhex(what)), built)


def played_keys(name: str, thing: FakeInput, device: TeleopConfig) -> list[tuple[int, TeleopSample]]:
    def send(what: str) -> None:
        kind, code, value = map(int, what.split(","))
        if kind == EV_KEY:
            thing.key(code, value)
        elif kind == EV_ABS:
            thing.axis(code, value)

    return play(name, send, build_teleop(device, FULL_SCALE, machine(evdev=FakeEvdev(thing))))


def test_a_space_navigator_that_is_pushed_gripped_and_turned():
    samples = played_spacemouse("space_navigator", 0xC635)
    (push, grip, turn) = spans(samples, lambda sample: sample.deadman)
    assert push == (832, 1120), "from beyond 67 counts to below 34"
    assert grip[0] == 1500
    assert spans(samples, lambda sample: sample.gripper == -1) == [grip]
    assert grip[1] - grip[0] == pytest.approx(140, abs=8)
    by_ms = dict(samples)
    assert by_ms[1080].twist[0] == pytest.approx((280 / 350 - 0.05) / 0.95)
    assert by_ms[2140].twist[5] == pytest.approx(-1.0), "clockwise is about minus z"
    assert turn[0] == 1924
    assert not any(sample.lost for ms, sample in samples if ms > 600)


def test_a_wireless_spacemouse_out_of_reach_is_lost_until_it_says_that_it_was_let_go():
    samples = played_spacemouse("spacemouse_pro_wireless", 0xC632)
    ((first, last),) = spans(samples, lambda sample: sample.deadman)
    assert first == 816
    silent_from, at_rest = 1040, 2248
    assert last == pytest.approx(silent_from + 250, abs=8)
    lost = spans(samples, lambda sample: sample.lost)[-1]
    assert lost[0] == last
    assert lost[1] == pytest.approx(at_rest + 500, abs=8)
    assert dict(samples)[1200].twist[2] == pytest.approx(1.0), "up"
    assert events(samples) == [(2600, "success"), (2700, "hold")]


def test_a_gamepad_whose_shoulder_is_held_while_the_stick_is_pushed():
    axes = {AXES[f"ABS_{name}"]: [0, -32768, 32767] for name in ("X", "Y", "RX", "RY")}
    axes |= {AXES["ABS_Z"]: [0, 0, 1023], AXES["ABS_RZ"]: [0, 0, 1023]}
    axes |= {AXES["ABS_HAT0X"]: [0, -1, 1], AXES["ABS_HAT0Y"]: [0, -1, 1]}
    keys = {KEYS[key] for key in BINDINGS[Device.GAMEPAD].values()} - {KEYS["BTN_TR2"]}
    thing = FakeInput(name="Microsoft X-Box 360 pad", keys=keys, axes=axes)
    samples = played_keys("xbox_pad", thing, config("gamepad", "frame=tcp"))
    assert spans(samples, lambda sample: sample.deadman) == [(800, 1700)]
    moving = spans(samples, lambda sample: sample.twist.any())
    assert moving == [(900, 1308)], "noise of a resting stick is rest"
    assert dict(samples)[1200].twist[0] == pytest.approx(1.0)
    ((first, last),) = spans(samples, lambda sample: sample.gripper == 1)
    assert first == 1416
    assert last == pytest.approx(1600, abs=8)
    assert events(samples) == [(1604, "arm")]


def test_a_keyboard_with_a_key_that_repeats():
    thing = FakeInput(name="keyboard", keys={KEYS[key] for key in keyboard_actions(motion=True)})
    device = config("keyboard", "frame=tcp", "viewer_yaw_rad=null")
    samples = played_keys("keyboard", thing, device)
    assert spans(samples, lambda sample: sample.deadman) == [(800, 1300)]
    ((first, last),) = spans(samples, lambda sample: sample.twist.any())
    assert (first, last) == (852, 1152)
    assert dict(samples)[1000].twist[0] == pytest.approx(0.5, abs=0.02)
    assert dict(samples)[1148].twist[0] == pytest.approx(0.987, abs=0.02)
    assert events(samples) == [(1200, "hold"), (1500, "success")]
