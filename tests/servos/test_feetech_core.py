"""Feetech servos without a bus: packets, calibration, goals, statuses."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_stack.control.drivers.feetech import (
    RAD_PER_TICK,
    ServoCalibration,
    calibrations_of,
    chosen,
    contradiction,
    goals_of,
    status_fault,
)
from robot_stack.control.drivers.feetech_packets import (
    REGISTERS,
    ReplyParser,
    decoded,
    encoded,
    packet,
    read_request,
    sync_read_request,
    sync_write_request,
    write_request,
)
from robot_stack.types.errors import ConfigError, RobotError, SpecError
from robot_stack.types.reason import FaultKind
from tests.servos.sts_emulator import NAMES

SERVO = ServoCalibration(id=1, drive_mode=0, homing_offset=-5, range_min=1000, range_max=3000)
TURNED = ServoCalibration(id=1, drive_mode=1, homing_offset=-5, range_min=1000, range_max=3000)


def test_requests_are_those_of_the_makers_examples():
    assert packet(1, 1) == bytes.fromhex("ffff010201fb")  # ping of servo 1
    assert read_request(1, REGISTERS["Present_Position"]) == bytes.fromhex("ffff0104023802be")
    assert write_request(1, REGISTERS["Torque_Enable"], 1) == bytes.fromhex("ffff0104032801ce")
    assert sync_read_request([1, 2], REGISTERS["Present_Position"]) == bytes.fromhex("ffff fe 06 82 38 02 01 02 3c")
    assert sync_write_request(REGISTERS["Goal_Position"], {1: 2048}) == bytes.fromhex("ffff fe 07 83 2a 02 01 00 08 42")


@given(st.sampled_from(sorted(REGISTERS)), st.integers(-2047, 2047))
def test_a_value_comes_back_as_it_was_written(name: str, value: int):
    register = REGISTERS[name]
    value = abs(value) % 256 if register.size == 1 else abs(value) if register.sign_bit is None else value
    assert decoded(register, encoded(register, value)) == value


def test_a_negative_offset_is_a_sign_and_a_magnitude():
    assert encoded(REGISTERS["Homing_Offset"], -5) == bytes([5, 0x08])
    with pytest.raises(SpecError, match=r"is -2048, must be in \[-2047, 2047\]"):
        encoded(REGISTERS["Homing_Offset"], -2048)


@given(st.binary(max_size=40), st.integers(1, 6), st.binary(max_size=4))
def test_a_reply_is_found_behind_any_noise_that_does_not_look_like_one(noise: bytes, servo_id: int, data: bytes):
    parser = ReplyParser()
    reply = packet(servo_id, 0, data)  # a status of 0 where a request has its instruction
    found = parser.push(noise.replace(b"\xff", b"\x00") + reply[:3]) + parser.push(reply[3:])
    assert [(each.servo_id, each.parameters) for each in found] == [(servo_id, data)]


def test_a_reply_with_a_wrong_checksum_is_counted_and_not_believed():
    parser = ReplyParser()
    good = packet(3, 0, b"\x00\x08")
    assert parser.push(good[:-1] + bytes([good[-1] ^ 1])) == []
    assert parser.broken == 1
    assert [each.servo_id for each in parser.push(good)] == [3]


def test_the_middle_of_the_range_is_zero_and_a_turned_servo_counts_the_other_way():
    assert SERVO.angle(2000) == 0.0
    assert SERVO.angle(2000 + 1024) == pytest.approx(math.pi / 2)
    assert TURNED.angle(2000 + 1024) == pytest.approx(-math.pi / 2)


@given(st.integers(1000, 3000), st.sampled_from([SERVO, TURNED]))
def test_ticks_to_radians_and_back_is_the_same_tick(ticks: int, servo: ServoCalibration):
    assert servo.ticks(servo.angle(ticks)) == ticks
    assert servo.ticks_of_percent(servo.percent(ticks)) == ticks


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([SERVO, TURNED]))
def test_a_goal_is_always_inside_the_range(value: float, servo: ServoCalibration):
    assert 1000 <= servo.ticks(value) <= 3000
    assert 1000 <= servo.ticks_of_percent(value) <= 3000


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_goal_that_is_not_finite_is_never_one(value: float):
    with pytest.raises(RobotError, match="must be finite; nothing is sent"):
        goals_of({"a": SERVO, "b": SERVO}, np.array([0.0, value]))
    with pytest.raises(RobotError, match="must be finite; nothing is sent"):
        SERVO.ticks_of_percent(value)


def test_a_tick_is_a_4096th_of_a_turn():
    assert pytest.approx(2 * math.pi) == 4096 * RAD_PER_TICK


def test_lerobots_file_is_read(calibration: Path):
    found = calibrations_of(calibration.read_text(), "it")
    assert tuple(found) == NAMES
    assert found["gripper"].id == 6
    assert list(chosen(found, ["gripper", "elbow_flex"], "it")) == ["gripper", "elbow_flex"]
    with pytest.raises(ConfigError, match=r"must have \['wrist'\] too"):
        chosen(found, ["wrist"], "it")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (None, "cannot be read"),
        ({"id": 1}, "cannot be read"),
        ({"range_min": 3200, "range_max": 800}, "must have whole numbers and a range"),
        ({"range_max": 4096}, "must have whole numbers and a range"),
        ({"homing_offset": 0.5}, "must have whole numbers and a range"),
        ({"drive_mode": 2}, "must have whole numbers and a range"),
        ({"id": 2}, "must be unique"),
    ],
)
def test_a_file_that_is_none_is_refused_in_words(calibration: Path, entry: dict | None, message: str):
    tree = json.loads(calibration.read_text())
    whole = entry if entry is None or (len(entry) == 1 and "id" in entry and entry["id"] == 1) else None
    tree["shoulder_pan"] = whole if whole is not None or entry is None else {**tree["shoulder_pan"], **entry}
    with pytest.raises(ConfigError, match=message):
        calibrations_of(json.dumps(tree), "it")


@pytest.mark.parametrize("text", ["calibration", "[" * 100_000])
def test_text_that_is_no_json_is_refused_in_words(text: str):
    with pytest.raises(ConfigError, match="it cannot be read"):
        calibrations_of(text, "it")


@pytest.mark.parametrize(
    ("bits", "kind", "word"),
    [
        (0x01, FaultKind.DRIVER_ERROR, "voltage"),
        (0x02, FaultKind.DRIVER_ERROR, "sensor"),
        (0x04, FaultKind.PROTECTIVE_STOP, "hot"),
        (0x08, FaultKind.PROTECTIVE_STOP, "current"),
        (0x20, FaultKind.PROTECTIVE_STOP, "overloaded"),
        (0x21, FaultKind.PROTECTIVE_STOP, "overloaded"),
    ],
)
def test_each_bit_of_the_status_is_a_kind_of_fault(bits: int, kind: FaultKind, word: str):
    fault = status_fault({"a": 0, "elbow_flex": bits}, "/dev/x")
    assert fault is not None
    assert fault.kind is kind
    assert "elbow_flex on /dev/x" in fault.text
    assert word in fault.text
    assert status_fault({"a": 0, "elbow_flex": 0}, "/dev/x") is None


def test_a_calibration_of_another_arm_contradicts():
    servos = {"a": SERVO}
    assert contradiction(servos, {"a": (-5, 1000, 3000)}, "it") is None
    fault = contradiction(servos, {"a": (7, 1000, 3000)}, "it")
    assert fault is not None
    assert fault.kind is FaultKind.CONTRADICTION
