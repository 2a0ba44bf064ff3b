"""A right arm passes the first motion; a wrong sign, gain, frame and TCP are each named for what they are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from robot_stack.control.drivers.first_motion import FirstMotion, Moved, Trouble, judge
from robot_stack.types.pose import Pose
from robot_stack.types.spec import AXES

DT_NS = 10_000_000
DOWN = Pose.from_rotation(np.array([0.4, 0.0, 0.3]), Rotation.from_euler("x", np.pi))
TILTED = Pose.from_rotation(np.array([0.4, 0.0, 0.3]), Rotation.from_euler("xyz", [2.6, 0.3, 0.5]))
Driver = Callable[[Pose, np.ndarray], np.ndarray]
"""Pose and asked twist -> the twist that the arm makes of it, tool frame."""


def right(pose: Pose, twist: np.ndarray) -> np.ndarray:
    return twist


def other_way(pose: Pose, twist: np.ndarray) -> np.ndarray:
    return -twist


def y_other_way(pose: Pose, twist: np.ndarray) -> np.ndarray:
    return twist * np.array([1, -1, 1, 1, 1, 1])


def too_fast(pose: Pose, twist: np.ndarray) -> np.ndarray:
    return 2.5 * twist


def in_base(pose: Pose, twist: np.ndarray) -> np.ndarray:
    turn = pose.rotation.inv()
    return np.concatenate([turn.apply(twist[:3]), turn.apply(twist[3:])])


def turned_tool(pose: Pose, twist: np.ndarray) -> np.ndarray:
    turn = Rotation.from_euler("z", np.pi / 4)
    return np.concatenate([turn.apply(twist[:3]), turn.apply(twist[3:])])


def about_the_flange(pose: Pose, twist: np.ndarray) -> np.ndarray:
    lever = np.array([0.0, 0.0, 0.1034])
    return np.concatenate([twist[:3] + np.cross(twist[3:], lever), twist[3:]])


def standing(pose: Pose, twist: np.ndarray) -> np.ndarray:
    return np.zeros(6)


def moved_by(driver: Driver, start: Pose, held: Callable[[float], bool] = lambda s: True) -> tuple[FirstMotion, Pose]:
    """Run the motion with an arm that follows at once."""
    motion = FirstMotion(AXES, speed_m_s=0.025, rotation_speed_rad_s=0.1)
    pose, now_ns = start, 0
    while not motion.done and now_ns < 60_000_000_000:
        twist = driver(pose, motion.twist(pose, now_ns, held=held(now_ns / 1e9)))
        dt_s = DT_NS / 1e9
        pose = pose @ Pose.from_rotation(twist[:3] * dt_s, Rotation.from_rotvec(twist[3:] * dt_s))
        now_ns += DT_NS
    return motion, pose


def troubles(driver: Driver, start: Pose = DOWN) -> list[Trouble]:
    return [verdict.kind for verdict in judge(moved_by(driver, start)[0].moved)]


@pytest.mark.parametrize("start", [DOWN, TILTED])
def test_a_right_arm_passes_and_is_back_where_it_was(start: Pose) -> None:
    motion, end = moved_by(right, start)
    assert [verdict.kind for verdict in judge(motion.moved)] == [Trouble.NONE] * 6
    assert [each.axis for each in motion.moved] == list(AXES)
    off = end.relative_to(start)
    assert np.linalg.norm(off.position_m) < 1e-6
    assert off.rotation.magnitude() < 1e-6


@pytest.mark.long
@pytest.mark.parametrize("start", [DOWN, TILTED])
@pytest.mark.parametrize(
    ("driver", "expected"),
    [
        (other_way, [Trouble.SIGN] * 6),
        (y_other_way, [Trouble.NONE, Trouble.SIGN, *[Trouble.NONE] * 4]),
        (too_fast, [Trouble.GAIN] * 6),
        (turned_tool, [Trouble.FRAME, Trouble.FRAME, Trouble.NONE] * 2),
        (about_the_flange, [*[Trouble.NONE] * 3, Trouble.LEVER, Trouble.LEVER, Trouble.NONE]),
        (standing, [Trouble.STILL] * 6),
    ],
)
def test_a_wrong_arm_is_told_what_is_wrong(driver: Driver, expected: list[Trouble], start: Pose) -> None:
    assert troubles(driver, start) == expected


@pytest.mark.long
def test_twists_taken_in_the_base_frame_are_a_wrong_frame_also_where_they_look_like_wrong_signs() -> None:
    """With the tool straight down, y and z go the other way and x is right."""
    assert troubles(in_base, DOWN) == [Trouble.NONE, Trouble.FRAME, Trouble.FRAME] * 2
    assert set(troubles(in_base, TILTED)) == {Trouble.FRAME}
    verdicts = judge(moved_by(in_base, DOWN)[0].moved)
    assert "the driver takes twists in base_frame" in verdicts[1].text


def test_a_gain_is_said_as_a_number_with_what_to_correct() -> None:
    assert judge(moved_by(too_fast, DOWN)[0].moved)[0].text == (
        "x: moved 25.0 mm of 10, 2.5 times as far as asked; correct the units: command_in and the two scales"
    )


def test_nothing_is_asked_while_the_deadman_is_not_held() -> None:
    motion = FirstMotion(AXES, speed_m_s=0.025, rotation_speed_rad_s=0.1)
    for tick in range(1000):
        assert not motion.twist(DOWN, tick * DT_NS, held=False).any()
    assert not motion.done


def test_letting_go_stops_at_once_and_the_axis_begins_anew() -> None:
    asked = []

    def spy(pose: Pose, twist: np.ndarray) -> np.ndarray:
        asked.append(twist)
        return twist

    motion, _ = moved_by(spy, DOWN, held=lambda s: not 0.7 < s < 1.2)
    released = asked[71:120]
    assert not np.any(released)
    assert np.any(asked[61:70])
    assert motion.done
    assert len(motion.moved) == 6


def test_it_never_goes_faster_than_it_was_told() -> None:
    asked = []

    def spy(pose: Pose, twist: np.ndarray) -> np.ndarray:
        asked.append(twist)
        return twist

    moved_by(spy, DOWN)
    assert np.abs(np.array(asked)[:, :3]).max() == pytest.approx(0.025)
    assert np.abs(np.array(asked)[:, 3:]).max() == pytest.approx(0.1)


def test_only_axes_that_the_task_has_are_driven() -> None:
    motion = FirstMotion(("z",), speed_m_s=0.025, rotation_speed_rad_s=0.1)
    for tick in range(400):
        motion.twist(DOWN, tick * DT_NS, held=True)
    assert [each.axis for each in motion.moved] == ["z"]
    assert motion.done


def test_nothing_moved_is_no_frame() -> None:
    still = Moved(axis="x", way=np.zeros(6), rotation=DOWN.rotation)
    assert [verdict.kind for verdict in judge([still])] == [Trouble.STILL]
