"""The first motion through the robot process: a right driver passes, a planted fault in one is named for what it is."""

from __future__ import annotations

import time

import pytest

pytest.importorskip("rclpy", reason="no ROS on this machine")

import numpy as np

from robot_stack.control.drivers.first_motion import AxisVerdict, FirstMotion, Trouble, judge
from tests.conformance.conformance_rig import PATIENCE_S, Bench
from tests.conformance.driver_doubles import ServoDouble

AXES = ("x", "y", "z", "rz")
BOUND_S = 5 * PATIENCE_S


class OtherWayDouble(ServoDouble):
    """All axes have the wrong sign."""

    def speeds(self, entries: np.ndarray) -> np.ndarray:
        return -super().speeds(entries)


class FastDouble(ServoDouble):
    """Two and a half times as fast, as an xArm whose twists are shares of scales."""

    def speeds(self, entries: np.ndarray) -> np.ndarray:
        return 2.5 * entries


class BaseFrameDouble(ServoDouble):
    """Takes every twist for one in its base frame."""

    def _follow(self, frame: str, entries: np.ndarray) -> int:
        return super()._follow("base", entries)


def first_motion(bench: Bench) -> list[AxisVerdict]:
    """Drive it in the place of the safety process, with the poses that the robot process shows."""
    bench.await_ready()
    motion = FirstMotion(AXES, speed_m_s=0.025, rotation_speed_rad_s=0.1)
    deadline_s = time.monotonic() + BOUND_S
    while not motion.done and time.monotonic() < deadline_s:
        pose = bench.safety.states[-1][1].T_base_tcp
        bench.safety.twist = motion.twist(pose, time.monotonic_ns(), held=True)
        time.sleep(0.004)
    return judge(motion.moved)


@pytest.mark.parametrize(
    ("double", "troubles"),
    [
        (ServoDouble, [Trouble.NONE] * 4),
        pytest.param(OtherWayDouble, [Trouble.SIGN] * 4, marks=pytest.mark.slow),
        pytest.param(FastDouble, [Trouble.GAIN] * 4, marks=pytest.mark.slow),
        (BaseFrameDouble, [Trouble.NONE, Trouble.FRAME, Trouble.FRAME, Trouble.FRAME]),
    ],
)
def test_what_is_wrong_with_a_driver_is_told_by_its_first_motion(make_bench, double, troubles):
    said: list[AxisVerdict] = []
    for _ in range(3):  # until a busy machine keeps time
        with make_bench("servo", double) as bench:
            said = first_motion(bench)
        if [verdict.kind for verdict in said] == troubles:
            return
    pytest.fail(f"{[verdict.text for verdict in said]}, not {troubles}")
