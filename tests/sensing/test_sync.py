"""Which frames and states may be looked at together."""

from __future__ import annotations

import numpy as np
import pytest

from robot_stack.config.resolve import load_run
from robot_stack.sensing.sync import Synchroniser, SyncLimits
from robot_stack.types.errors import SpecError
from robot_stack.types.pose import Pose
from robot_stack.types.robot import RobotState

MS = 1_000_000
NOW_NS = 1_000 * MS
AGES_S = {"wrist": 0.2, "front": 0.2}
LIMITS = SyncLimits(max_image_age_s=AGES_S, max_state_age_s=0.1, max_skew_s=0.05, frozen_after_s={"wrist": 0.1})


def state(stamp_ns: int, arm: str = "arm") -> RobotState:
    return RobotState(
        arm=arm,
        stamp_ns=stamp_ns,
        T_base_tcp=Pose.identity(),
        twist=np.zeros(6),
        wrench=np.zeros(6),
        joints_rad=np.zeros(7),
        joint_speeds_rad_s=np.zeros(7),
        gripper=0.5,
    )


def image(value: int = 0) -> np.ndarray:
    return np.full((8, 8, 3), value, dtype=np.uint8)


def filled(*, wrist_age_ms: int = 0, front_age_ms: int = 0, state_age_ms: int = 0) -> Synchroniser:
    sync = Synchroniser(("wrist", "front"), ("arm",), LIMITS)
    for camera, age_ms in (("wrist", wrist_age_ms), ("front", front_age_ms)):
        stamp_ns = NOW_NS - age_ms * MS
        assert sync.offer_frame(camera, image(), stamp_ns, stamp_ns) == ""
    stamp_ns = NOW_NS - state_age_ms * MS
    assert sync.offer_state(state(stamp_ns), stamp_ns) == ""
    return sync


def test_a_snapshot_has_the_newest_of_each_part():
    sync = filled(wrist_age_ms=40)
    sync.offer_frame("wrist", image(9), NOW_NS - 10 * MS, NOW_NS)
    snapshot = sync.take(NOW_NS)
    assert snapshot is not None
    assert (snapshot.images["wrist"] == 9).all()
    assert snapshot.age_s == pytest.approx(0.01)
    assert snapshot.skew_s == pytest.approx(0.01)


def test_a_missing_part_is_named():
    sync = Synchroniser(("wrist",), ("arm",), LIMITS)
    assert "camera wrist has sent no image" in sync.problem(NOW_NS)
    sync.offer_frame("wrist", image(), NOW_NS, NOW_NS)
    assert "arm arm has sent no state" in sync.problem(NOW_NS)
    assert sync.take(NOW_NS) is None


@pytest.mark.parametrize(
    ("ages", "word"),
    [
        ({"wrist_age_ms": 200, "front_age_ms": 200, "state_age_ms": 100}, "apart"),
        ({"wrist_age_ms": 201}, "camera wrist is 201 ms old (limit 200)"),
        ({"front_age_ms": 201}, "camera front is 201 ms old (limit 200)"),
        ({"state_age_ms": 101, "wrist_age_ms": 90, "front_age_ms": 90}, "state of arm arm is 101 ms old (limit 100)"),
        ({"front_age_ms": 51}, "51 ms apart (limit 50)"),
        ({"front_age_ms": 50}, ""),
    ],
)
def test_stale_and_skewed_parts_are_named_at_exact_bounds(ages: dict[str, int], word: str):
    problem = filled(**ages).problem(NOW_NS)
    assert word in problem
    assert (problem == "") is (word == "")


def test_a_slow_camera_beside_a_fast_one_is_judged_by_its_own_limit() -> None:
    """Frames of 10 Hz are up to 100 ms old beside their latency; only the fast camera's must be younger than 150 ms."""
    run = load_run("peg_insert", ["cameras.front.max_age_s=0.5", "cameras.wrist.max_age_s=0.15"])
    (arm,) = run.robots
    sync = Synchroniser(list(run.cameras), [arm], SyncLimits.of(run))
    for camera, age_ms in (("front", 300), ("wrist", 40)):
        assert sync.offer_frame(camera, image(), NOW_NS - age_ms * MS, NOW_NS) == ""
    sync.offer_state(state(NOW_NS, arm), NOW_NS)
    assert sync.problem(NOW_NS) == ""
    assert "wrist is 151 ms old (limit 150)" in sync.problem(NOW_NS + 111 * MS)
    sync.offer_frame("wrist", image(1), NOW_NS + 200 * MS, NOW_NS + 201 * MS)
    assert "front is 501 ms old (limit 500)" in sync.problem(NOW_NS + 201 * MS)


@pytest.mark.parametrize(
    ("stamp_ns", "cause"),
    [
        (0, "unset stamp"),
        (-5, "unset stamp"),
        (NOW_NS + 6 * MS, "future stamp"),
        (NOW_NS - 201 * MS, "late"),
        (NOW_NS - 100 * MS, "out of order"),
    ],
)
def test_a_badly_stamped_frame_is_refused_and_counted(stamp_ns: int, cause: str):
    sync = Synchroniser(("wrist",), ("arm",), LIMITS)
    if cause == "out of order":
        sync.offer_frame("wrist", image(), NOW_NS - 100 * MS, NOW_NS)
    assert sync.offer_frame("wrist", image(), stamp_ns, NOW_NS) != ""
    assert sync.counters == {f"wrist: {cause}": 1}


def test_a_frozen_camera_is_found_by_content_though_its_stamps_are_fresh():
    sync = filled()
    for k in range(1, 5):
        assert "frozen" not in sync.problem(NOW_NS)
        sync.offer_frame("wrist", image(), NOW_NS + 25 * k * MS, NOW_NS + 25 * k * MS)
    assert "camera wrist is frozen: 5 identical images in 0.1 s" in sync.problem(NOW_NS + 100 * MS)
    sync.offer_frame("wrist", image(1), NOW_NS + 101 * MS, NOW_NS + 101 * MS)
    assert "frozen" not in sync.problem(NOW_NS + 101 * MS)


def test_a_camera_without_a_limit_may_show_one_picture_for_ever():
    sync = filled()
    for k in range(1, 50):
        sync.offer_frame("front", image(), NOW_NS + k, NOW_NS + k)
    assert sync.problem(NOW_NS + 49) == ""


def test_unknown_cameras_and_arms_are_programming_errors():
    sync = filled()
    with pytest.raises(SpecError, match="must be one of"):
        sync.offer_frame("side", image(), NOW_NS, NOW_NS)
    with pytest.raises(SpecError, match="must be one of"):
        sync.offer_state(state(NOW_NS, arm="other"), NOW_NS)
