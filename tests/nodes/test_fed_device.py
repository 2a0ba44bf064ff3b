"""A device over real DDS: the teleop and the safety process, fed by a Joy, a robot and a policy of the test's own.

Times are those of the stamps that the safety process writes when it decides, so that a busy machine can delay what the
test sees, but never make it wrong.
"""

from __future__ import annotations

import time

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS on this machine")

from sensor_msgs.msg import Joy

from benchmarks.fed_cell import POLICY_TWIST, FedCell, fed_cell, fed_run, steps_over_limit
from robot_stack.types.command import Mode, Source

MS = 1_000_000
DOMAIN = 72
TIMEOUT_S = 0.15


@pytest.fixture(scope="module")
def shared_cell(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fed")
    with fed_cell(fed_run(folder / "config", DOMAIN), folder / "run") as cell:
        yield cell


@pytest.fixture
def cell(shared_cell: FedCell) -> FedCell:
    """The policy drives, the device is let go."""
    shared_cell.joy_sends = True
    for axis in ("x", "y", "z", "rz"):
        shared_cell.push(axis, 0.0)
    shared_cell.button("deadman", 0)
    shared_cell.until(shared_cell.believed, "a device that is believed")
    shared_cell.until(shared_cell.recovered, "the policy's turn")
    return shared_cell


def take_over(cell: FedCell) -> None:
    cell.button("deadman", 1)
    cell.until(lambda: cell.decisions[-1].mode is Mode.HUMAN, "take-over")


def first_after(cell: FedCell, begin: int, mode: Mode) -> int:
    """Stamp of the first decision in that mode."""
    cell.until(lambda: any(each.mode is mode for each in cell.decisions[begin:]), str(mode))
    return next(each.command.stamp_ns for each in cell.decisions[begin:] if each.mode is mode)


def test_a_person_takes_over_drives_and_hands_back_without_a_jump(cell: FedCell):
    begin = len(cell.commands)
    take_over(cell)
    cell.push("x", -1.0)
    # full deflection at half the scale, towards the base: with the tool pointing down its x is the base's
    speed = 0.5 * cell.run.task.arm.translation_m * cell.run.run.rate_hz
    cell.until(lambda: abs(cell.commands[-1].twist[0] + speed) < 1e-3, "motion of the operator")
    assert cell.decisions[-1].source is Source.HUMAN
    cell.button("deadman", 0)
    cell.until(lambda: cell.decisions[-1].source is Source.POLICY, "hand-back")
    cell.until(lambda: np.allclose(cell.commands[-1].twist, POLICY_TWIST, atol=1e-3), "motion of the policy")
    safety = cell.run.safety
    share = steps_over_limit(
        cell.commands[begin:], safety.max_acceleration_m_s2, safety.max_rotation_acceleration_rad_s2
    )
    assert 0.0 < share <= 1.001


def test_a_device_that_falls_silent_in_control_is_a_hold_and_needs_a_person_and_a_new_press(cell: FedCell):
    take_over(cell)
    begin = len(cell.decisions)
    last_ns = cell.button("deadman", 1)
    cell.joy_sends = False
    held_ns = first_after(cell, begin, Mode.HOLD)
    assert (held_ns - last_ns) / 1e9 <= TIMEOUT_S + 0.06
    cell.until(lambda: cell.banner[0] is Mode.HOLD, "banner")
    assert "teleop device is lost" in str(cell.banner[1])
    cell.joy_sends = True
    cell.until(lambda: cell.request("resume") == "", "resume")
    begin = len(cell.decisions)
    cell.until(lambda: len(cell.decisions) > begin + 80, "decisions with the deadman still held")
    assert not any(each.mode is Mode.HUMAN for each in cell.decisions[begin:])
    cell.button("deadman", 0)
    cell.until(lambda: cell.teleop is not None and not cell.teleop.deadman, "the release")
    begin = len(cell.decisions)
    cell.until(lambda: len(cell.decisions) > begin + 10, "decisions about it")
    cell.button("deadman", 1)
    cell.until(lambda: cell.decisions[-1].mode is Mode.HUMAN, "take-over by a new press")


def test_nonsense_in_control_is_a_hold_at_once_and_not_after_a_timeout(cell: FedCell):
    take_over(cell)
    begin = len(cell.decisions)
    sent_ns = cell.send_nonsense()
    held_ns = first_after(cell, begin, Mode.HOLD)
    assert (held_ns - sent_ns) / 1e9 < 0.1


@pytest.mark.parametrize("stamp_s", [1_000_000_000, 0])
def test_a_recording_of_the_device_that_is_played_moves_nothing(cell: FedCell, stamp_s: int):
    """With stamps of its day alone, or with none beside the device: then that there are two publishers tells it."""
    cell.joy_sends = False
    if stamp_s:
        cell.unplug()
    cell.until(lambda: not cell.believed(), "a device that is lost")
    cell.until(lambda: cell.banner[0] is Mode.HOLD, "hold without a device")
    player = cell.create_publisher(Joy, "joy", 10)
    numbers = cell.run.teleop.model_dump()["buttons"]
    begin = len(cell.decisions)
    try:
        for pressed in (None, "arm", None, "deadman"):
            recorded = Joy(axes=[0.0] * len(cell.axes), buttons=[0] * len(cell.buttons))
            recorded.header.stamp.sec = stamp_s
            if pressed is not None:
                recorded.buttons[numbers[pressed]] = 1
            for _ in range(80):
                player.publish(recorded)
                time.sleep(0.01)
        cell.until(lambda: len(cell.decisions) > begin + 150, "decisions beside the recording")
        assert {each.mode for each in cell.decisions[begin:]} == {Mode.HOLD}
    finally:
        cell.destroy_publisher(player)
        if stamp_s:
            cell.plug_in()


def test_keys_of_the_device_reach_the_filter(cell: FedCell):
    cell.button("hold", 1)
    cell.until(lambda: cell.banner[0] is Mode.HOLD, "hold")
    assert str(cell.banner[1]).startswith("hold pressed on joy (since ")
    cell.button("hold", 0)
    cell.button("arm", 1)
    cell.until(lambda: cell.banner[0] is Mode.POLICY, "resume by the arm key")
    cell.button("arm", 0)
