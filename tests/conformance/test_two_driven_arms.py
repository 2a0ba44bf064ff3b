"""Two arms, each behind a driver of another kind, in one robot process: nothing of one is the other's."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS on this machine")

import rclpy
from rclpy.context import Context
from rclpy.signals import SignalHandlerOptions

from robot_stack.config.cell import CellArm
from robot_stack.nodes.base import NodeSettings
from robot_stack.nodes.robot.node import build
from tests.conformance import driver_doubles
from tests.conformance.conformance_rig import KEY, Safety, Spinning, robot_of, wait_until
from tests.conformance.driver_doubles import RATE_HZ, DriverDouble, ServoDouble, UrDouble

TWIST = np.array([0.04, -0.03, -0.05, 0.0, 0.1, 0.3])
KINDS = {"left": ("servo", ServoDouble), "right": ("ur", UrDouble)}
SHARED = ("joint_states", "gripper/commands")
"""What the doubles call alike; here each is below the name of its arm."""


@pytest.fixture(scope="module")
def cell(ros, sim_run) -> Iterator[SimpleNamespace]:
    robots, spinning, contexts, doubles = {}, [], [], {}
    before = driver_doubles.CONTEXT
    try:
        for arm, (backend, make) in KINDS.items():
            rules = [word for name in SHARED for word in ("-r", f"/{name}:=/{arm}/{name}")]
            driver_doubles.CONTEXT = Context()
            contexts.append(driver_doubles.CONTEXT)
            rclpy.init(
                args=["--ros-args", *rules],
                context=driver_doubles.CONTEXT,
                signal_handler_options=SignalHandlerOptions.NO,
            )
            doubles[arm] = make()
            spinning.append(Spinning(doubles[arm]))
            plain = robot_of(backend)
            gripper = {**plain.model_dump()["gripper"], "command": f"/{arm}/gripper/commands"}
            robots[arm] = robot_of(backend, joint_states=f"/{arm}/joint_states", gripper=gripper)
        arms = {arm: CellArm(robot=kind, workspace=sim_run.cell.workspace) for arm, (kind, _) in KINDS.items()}
        run = replace(sim_run, robots=robots, cell=sim_run.cell.model_copy(update={"arms": arms}))
        node = build(NodeSettings(run=run, namespace=run.run.cell, options=argparse.Namespace(), key=KEY))
        node.bring_up()
        spinning.append(Spinning(node))
        safeties = {arm: Safety(run.run.cell, arm) for arm in KINDS}
        spinning.extend(Spinning(safety) for safety in safeties.values())
        yield SimpleNamespace(doubles=doubles, safeties=safeties)
    finally:
        for each in reversed(spinning):
            each.end()
        driver_doubles.CONTEXT = before
        for context in contexts:
            rclpy.try_shutdown(context=context)


@pytest.fixture
def left(cell) -> tuple[Safety, DriverDouble]:
    return cell.safeties["left"], cell.doubles["left"]


@pytest.fixture
def right(cell) -> tuple[Safety, DriverDouble]:
    return cell.safeties["right"], cell.doubles["right"]


@pytest.fixture(autouse=True)
def at_rest(cell) -> None:
    for safety in cell.safeties.values():
        safety.twist = np.zeros(6)
    for arm, safety in cell.safeties.items():
        wait_until(lambda safety=safety: safety.states and safety.fault == "" and safety.applied, f"{arm} ready")
        rest(safety, cell.doubles[arm])


def rest(safety: Safety, double: DriverDouble) -> None:
    """Wait until no command moves an arm and its driver, which hears a command later than it is sent, has obeyed."""
    wait_until(lambda: not moving(safety), "no motion in the commands")
    wait_until(lambda: stands(double), "no motion of the arm")


def stands(double: DriverDouble) -> bool:
    before = double.arm.angles
    time.sleep(10 / RATE_HZ)
    return np.array_equal(before, double.arm.angles)


def moving(safety: Safety) -> bool:
    return bool(safety.applied) and float(np.abs(safety.applied[-1][1]).max()) > 1e-6


def test_each_arm_follows_its_own_commands_and_shows_its_own_state(left, right):
    for (safety, double), (other_safety, other) in ((left, right), (right, left)):
        still = other.arm.angles.copy()
        began = double.arm.angles.copy()
        since = len(other_safety.applied)
        safety.twist = TWIST
        wait_until(lambda double=double, began=began: np.abs(double.arm.angles - began).max() > 0.01, "motion")
        safety.twist = np.zeros(6)
        rest(safety, double)
        assert np.allclose(other.arm.angles, still, atol=1e-6)
        assert not np.any([twist for _, twist in other_safety.applied[since:]])
    for safety, double in (left, right):
        wait_until(
            lambda safety=safety, double=double: np.allclose(
                safety.states[-1][1].joints_rad, double.arm.angles, atol=1e-3
            ),
            "its own joints",
        )
        assert double.heard.refused == []


def test_a_gripper_wish_reaches_the_gripper_of_its_arm_alone(left, right):
    (safety, double), (_, other) = left, right
    safety.gripper = 0.5
    wait_until(lambda: double.gripper_wishes, "wish")
    safety.gripper = None
    wait_until(lambda: abs(safety.states[-1][1].gripper - 0.5) < 0.01, "measured opening")
    assert other.gripper_wishes == []


def test_a_fault_is_that_of_its_arm_and_so_is_the_recovery(left, right):
    (other_safety, _), (safety, double) = left, right
    safety.twist = other_safety.twist = TWIST
    wait_until(lambda: moving(safety) and moving(other_safety), "motion of both")
    double.begin_fault()
    wait_until(lambda: "then call /sim/right/recover" in safety.fault, "fault")
    wait_until(lambda: not moving(safety), "rest")
    assert other_safety.fault == ""
    assert moving(other_safety)  # what follows for the cell is decided by the safety process
    double.end_fault()
    assert other_safety.recover().message == "no fault"
    assert "then call /sim/right/recover" in safety.fault
    safety.twist = np.zeros(6)
    wait_until(lambda: safety.recover().success, "recovery")
    wait_until(lambda: safety.fault == "", "end of the fault")


def test_each_driver_has_its_diagnoses(left, right):
    for arm, (safety, _) in (("left", left), ("right", right)):
        wanted = {f"robot: arm {arm}", f"robot: driver of {arm}", f"robot: clocks of {arm}"}
        wait_until(lambda safety=safety, wanted=wanted: wanted <= set(safety.diagnoses), f"diagnoses of {arm}")
