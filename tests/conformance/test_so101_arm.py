"""An SO-101 in the robot process, over DDS above and emulated servos below."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS on this machine")

from robot_stack.config.files.library import config_root
from robot_stack.config.files.loader import load
from robot_stack.config.kinds import ROBOTS
from robot_stack.nodes.base import NodeSettings
from robot_stack.nodes.robot.node import build
from robot_stack.types.reason import FaultKind
from tests.conformance.conformance_rig import KEY, Safety, Spinning, wait_until
from tests.servos.sts_emulator import NAMES, STATUS, StsBus

ARM = "so101"
TURN = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.4])
"""About the axis of the wrist."""


@pytest.fixture(scope="module")
def cell(ros, sim_run, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    bus, spinning = StsBus(position=2000), []
    calibration = tmp_path_factory.mktemp("so101") / "arm.json"
    servo = {"drive_mode": 0, "homing_offset": 0, "range_min": 800, "range_max": 3200}
    calibration.write_text(json.dumps({name: {"id": place + 1, **servo} for place, name in enumerate(NAMES)}))
    overrides = [
        f"servos.port={bus.port}", f"servos.calibration={calibration}", "servos.reply_s=0.1",
        "joint_states_timeout_s=0.5",
    ]  # fmt: skip
    robot = load(config_root() / "robots" / "so101_bus.yaml", ROBOTS, overrides)
    run = replace(sim_run, robots={ARM: robot})
    try:
        node = build(NodeSettings(run=run, namespace=run.run.cell, options=argparse.Namespace(), key=KEY))
        node.bring_up()
        spinning.append(Spinning(node))
        safety = Safety(run.run.cell, ARM)
        spinning.append(Spinning(safety))
        yield SimpleNamespace(bus=bus, safety=safety)
    finally:
        for each in reversed(spinning):
            each.end()
        bus.close()


@pytest.fixture
def safety(cell: SimpleNamespace) -> Safety:
    safety = cell.safety
    safety.twist = np.zeros(6)
    wait_until(lambda: safety.states and safety.fault == "", "ready")
    return safety


def test_it_stays_limp_until_safety_lets_a_motion_through_and_then_follows_it(cell: SimpleNamespace, safety: Safety):
    assert not cell.bus.goals
    began = safety.states[-1][1].joints_rad.copy()
    safety.twist = TURN
    wait_until(lambda: np.abs(safety.states[-1][1].joints_rad - began)[4] > 0.1, "the wrist turns")
    safety.twist = np.zeros(6)
    assert set(cell.bus.goals[0].values()) == {2000}
    assert all(servo.torque for servo in cell.bus.servos.values())
    np.testing.assert_allclose(safety.states[-1][1].joints_rad[:4], began[:4], atol=0.05)


def test_a_wish_moves_the_gripper_and_its_opening_is_seen(cell: SimpleNamespace, safety: Safety):
    safety.gripper = 1.0
    wait_until(lambda: safety.states[-1][1].gripper == pytest.approx(1.0), "open")
    safety.gripper = 0.25
    wait_until(lambda: safety.states[-1][1].gripper == pytest.approx(0.25, abs=1e-3), "a quarter")
    safety.gripper = None
    assert cell.bus.servos[6].position == 1400


def test_a_servo_that_falls_silent_is_a_stale_input_by_name_and_ends_by_itself(cell: SimpleNamespace, safety: Safety):
    cell.bus.silent = {3}
    wait_until(lambda: safety.kinds[-1] is FaultKind.INPUT_STALE, "stale")
    assert "elbow_flex (id 3)" in safety.fault
    cell.bus.silent = set()
    wait_until(lambda: safety.fault == "", "back")


def test_an_overload_stops_the_arm_until_a_person_recovers(cell: SimpleNamespace, safety: Safety):
    cell.bus.servos[2].put(STATUS, 0x20, 1)
    wait_until(lambda: safety.kinds[-1] is FaultKind.PROTECTIVE_STOP, "protective stop")
    assert "shoulder_lift" in safety.fault
    cell.bus.servos[2].put(STATUS, 0, 1)
    wait_until(lambda: safety.recover().success, "recovery")
    wait_until(lambda: safety.fault == "", "end of the fault")


def test_its_bus_is_diagnosed(safety: Safety):
    wait_until(lambda: {"reads", "silences", "hottest_c", "lowest_v"} <= set(safety.values), "values of the bus")
