"""What every robot backend does, simulated or in front of a driver: one suite for all.

Bounds are checked against the stamps that the robot process writes, so that a busy machine can delay what the test
sees, but never make it wrong.
"""

from __future__ import annotations

import time

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS on this machine")

from robot_stack.types.command import Mode
from robot_stack.types.reason import FaultKind
from tests.conformance.conformance_rig import BACKENDS, MS, TIMEOUT_S, Spinning, misfit, wait_until
from tests.conformance.driver_doubles import FINGER_OPEN_M, JOINTS, Impostor
from tests.conformance.kinematic_arm import KinematicArm

TWIST = [0.04, -0.03, -0.05, 0.0, 0.1, 0.3]
DRIVERS = [backend for backend in BACKENDS if backend != "sim"]
HELD_BY_DRIVER = ["pose_target", "franka", "joint_trajectory", "ur"]
"""They keep the last target by themselves, so that nothing need be, and nothing is, repeated for a silent commander."""
WITH_FAULTS = ["servo", "ur", "franka"]


def of(*backends):
    """Runs a fact on these backends; all facts of one backend share its bench."""
    return pytest.mark.parametrize("bench", backends, indirect=True, scope="module")


every_backend = of(*BACKENDS)
every_driver = of(*DRIVERS)


@pytest.fixture(scope="module")
def bench(request, make_bench):
    with make_bench(request.param) as opened:
        opened.await_ready()
        yield opened


@pytest.fixture(autouse=True)
def at_rest(bench):
    """Each test begins with safety commanding zero and nothing wrong."""
    bench.await_ready()
    wait_until(lambda: not bench.moving(), "rest")


@every_backend
def test_the_state_is_fresh_steady_and_in_order(bench):
    for _ in range(20):  # until a busy machine leaves it alone for a moment
        since = len(bench.safety.states)
        bench.let_pass(0.2)
        arrived = bench.safety.states[since:]
        stamps = np.array([state.stamp_ns for _, state in arrived])
        assert (np.diff(stamps) > 0).all()
        ages_ms = [(now_ns - state.stamp_ns) / MS for now_ns, state in arrived]
        if len(arrived) > 0.6 * 0.2 * bench.rate_hz and float(np.median(ages_ms)) < 25.0:
            return
    pytest.fail(f"{len(arrived)} states in 0.2 s, aged {ages_ms} ms")


@every_driver
def test_joints_and_pose_are_those_of_the_arm_whatever_the_order_on_the_wire(bench):
    state, arm = bench.safety.states[-1][1], bench.double.arm
    assert np.allclose(state.joints_rad, arm.angles, atol=1e-3)
    assert state.gripper == pytest.approx(arm.opening, abs=0.01)
    off = state.T_base_tcp.relative_to(arm.pose())
    assert np.linalg.norm(off.position_m) < 2e-3
    assert off.rotation.magnitude() < 5e-3


@every_backend
def test_a_twist_is_followed_in_the_frame_of_the_tool_and_zero_holds(bench):
    assert misfit(bench, TWIST) == ""
    for _ in range(20 if bench.is_sim else 1):  # an arm that is simulated on a busy machine comes to rest later
        after = bench.pose()
        bench.let_pass(0.15)
        drift = bench.pose().relative_to(after)
        if np.linalg.norm(drift.position_m) < 1e-3 and drift.rotation.magnitude() < 0.01:
            return
    pytest.fail(f"it drifts by {drift.position_m * 1e3} mm and {drift.rotation.magnitude():.3f} rad in 0.15 s")


@every_backend
def test_silence_of_safety_stops_the_arm_within_the_timeout_and_one_period(bench):
    bench.safety.twist = np.array(TWIST)
    wait_until(bench.moving, "motion")
    bench.safety.twist = None
    bench.let_pass(0.25)
    last_ns = bench.safety.sent_ns
    late = [twist for stamp_ns, twist in bench.safety.applied if stamp_ns > last_ns + TIMEOUT_S * 1e9 + 10 * MS]
    assert late
    assert not np.any(late)
    if not bench.is_sim:
        rest, sent = bench.pose(), len(bench.double.heard.commands)
        bench.let_pass(0.1)
        if bench.backend in HELD_BY_DRIVER:
            assert len(bench.double.heard.commands) == sent
        assert np.linalg.norm(bench.pose().relative_to(rest).position_m) < 1e-3


@every_backend
def test_an_inactive_robot_process_follows_nothing_and_shows_what_it_senses(bench):
    bench.safety.twist = np.array(TWIST)
    wait_until(bench.moving, "motion")
    bench.deactivate()
    try:
        bench.let_pass(0.1)
        sent = 0 if bench.is_sim else len(bench.double.heard.commands)
        applied, shown = len(bench.safety.applied), len(bench.safety.states)
        bench.let_pass(0.2)
        assert not np.any([twist for _, twist in bench.safety.applied[applied:]])
        assert len(bench.safety.states) > shown
        assert bench.is_sim or len(bench.double.heard.commands) == sent
    finally:
        bench.activate()
    wait_until(bench.moving, "motion")


@every_backend
def test_nothing_broken_reaches_the_driver(bench):
    bench.safety.twist = None
    bench.let_pass(0.1)
    since = len(bench.safety.applied)
    for broken in (np.full(6, np.nan), np.array([0, 0, np.inf, 0, 0, 0]), np.full(6, 1e6)):
        bench.safety.send_raw(broken, time.monotonic_ns())
        bench.let_pass(0.01)
    for stamp_ns in (0, time.monotonic_ns() - 200 * MS, time.monotonic_ns() + 500 * MS):
        bench.safety.send_raw(np.array(TWIST), stamp_ns)
        bench.let_pass(0.01)
    bench.let_pass(0.05)
    assert not np.any([twist for _, twist in bench.safety.applied[since:]])
    if not bench.is_sim:
        heard = bench.double.heard
        assert all(np.isfinite(values).all() for _, values in heard.commands)
        assert heard.refused == []


@every_driver
def test_joint_states_that_cannot_be_used_are_a_fault_that_names_their_topic(bench):
    bench.safety.twist = np.array(TWIST)
    wait_until(bench.moving, "motion")
    bench.double.broken_joint = 3
    wait_until(lambda: "joint states on /joint_states are" in bench.safety.fault, "fault")
    assert "must be finite" in bench.safety.fault
    wait_until(lambda: not bench.moving(), "rest")
    bench.double.joint_names = ["fr3_joint_one", *bench.double.joint_names[1:]]
    wait_until(lambda: "must include ['fr3_joint1']" in bench.safety.fault, "fault")
    assert "joint states on /joint_states name" in bench.safety.fault
    bench.double.joint_names = [*JOINTS, *bench.double.joint_names[7:]]
    bench.double.broken_joint = None
    bench.await_no_fault()
    assert all(np.isfinite(values).all() for _, values in bench.double.heard.commands)


@of("servo", "joint_trajectory")
def test_a_silent_driver_is_a_fault_and_no_state_looks_fresh(bench):
    bench.safety.twist = np.array(TWIST)
    wait_until(bench.moving, "motion")
    bench.double.muted = True
    wait_until(lambda: "silent" in bench.safety.fault, "fault")
    wait_until(lambda: not bench.moving(), "rest")
    newest_ns = bench.safety.states[-1][1].stamp_ns
    bench.let_pass(0.1)
    assert bench.safety.states[-1][1].stamp_ns == newest_ns
    bench.safety.twist = np.zeros(6)
    bench.double.muted = False
    bench.await_no_fault()


@of(*WITH_FAULTS)
def test_a_fault_of_the_driver_is_said_and_only_a_person_ends_it(bench):
    bench.safety.twist = np.array(TWIST)
    wait_until(bench.moving, "motion")
    bench.double.begin_fault()
    wait_until(lambda: "/sim/fr3/recover" in bench.safety.fault, "fault")
    wait_until(lambda: not bench.moving(), "rest")
    bench.double.end_fault()
    bench.let_pass(0.15)
    assert "/sim/fr3/recover" in bench.safety.fault
    assert not bench.moving()
    bench.safety.twist = np.zeros(6)
    assert bench.safety.recover().success
    bench.await_no_fault()


@of("ur")
def test_recovery_is_refused_while_the_driver_still_reports_its_fault(bench):
    bench.double.begin_fault()
    wait_until(lambda: "PROTECTIVE_STOP" in bench.safety.fault, "fault")
    answer = bench.safety.recover()
    assert not answer.success
    assert "driver still reports" in answer.message
    bench.double.end_fault()
    wait_until(lambda: bench.safety.recover().success, "recovery")


@of("franka")
def test_nobody_but_a_person_asks_a_franka_to_recover(bench):
    asked = bench.double.recoveries
    bench.double.begin_fault()
    wait_until(lambda: "REFLEX" in bench.safety.fault, "fault")
    bench.let_pass(0.3)
    assert bench.double.recoveries == asked
    bench.double.end_fault()
    assert bench.safety.recover().success
    bench.await_no_fault()
    assert bench.double.recoveries == asked + 1


@every_driver
def test_a_gripper_wish_is_not_repeated_and_comes_in_the_grippers_own_units(bench):
    since = len(bench.double.gripper_wishes)
    bench.safety.gripper = 0.25
    wait_until(lambda: len(bench.double.gripper_wishes) > since, "wish")
    bench.let_pass(0.2)
    wishes = bench.double.gripper_wishes[since:]
    # on a busy machine safety's silence stops the gripper on its way, and the next wish is a new one
    assert np.allclose([wishes[0], wishes[-1]], 0.25 * FINGER_OPEN_M)
    assert all(0.25 * FINGER_OPEN_M - 1e-6 < wish < FINGER_OPEN_M + 1e-6 for wish in wishes)
    assert len(wishes) < 4  # of twenty
    wait_until(lambda: abs(bench.safety.states[-1][1].gripper - 0.25) < 0.01, "measured opening")
    bench.safety.gripper = None


@every_driver
def test_a_gripper_on_its_way_stops_where_it_is_once_nothing_may_move(bench):
    def opening() -> float:
        return bench.safety.states[-1][1].gripper

    bench.safety.gripper = 1.0
    wait_until(lambda: opening() > 0.95, "open gripper")
    bench.safety.gripper = 0.0
    wait_until(lambda: opening() < 0.8, "closing gripper")
    bench.safety.gripper, bench.safety.mode = None, Mode.HOLD
    try:
        wait_until(lambda: bench.double.gripper_wishes[-1] > 0.2 * FINGER_OPEN_M, "an end of the closing")
        bench.let_pass(1.0)
        assert opening() > 0.2
    finally:
        bench.safety.mode = Mode.POLICY
    bench.safety.gripper = 0.0
    wait_until(lambda: opening() < 1e-3, "the same opening, asked for again")
    bench.let_pass(0.3)
    sent = len(bench.double.gripper_wishes)
    bench.safety.gripper, bench.safety.mode = None, Mode.HOLD
    try:
        bench.let_pass(0.3)
        assert len(bench.double.gripper_wishes) == sent  # what stands goes on holding
    finally:
        bench.safety.mode = Mode.POLICY
    bench.safety.gripper = 0.25
    wait_until(lambda: abs(opening() - 0.25) < 0.01, "measured opening")
    bench.safety.gripper = None


@every_driver
def test_joint_states_of_another_arm_steer_nothing(bench):
    """Somebody plays an old session, or starts joint_state_publisher, on the driver's own topic."""
    bench.await_ready()
    bench.safety.twist = np.array(TWIST)
    wait_until(bench.moving, "motion")
    impostor = Spinning(Impostor(bench.double.joint_names))
    try:
        wait_until(lambda: bench.safety.kinds[-1] is FaultKind.SECOND_SENDER, "fault of a second publisher")
        assert "joint states on /joint_states jumps by" in bench.safety.fault
        wait_until(lambda: not bench.moving(), "rest")
        here, since = bench.double.arm.angles.copy(), len(bench.safety.states)
        bench.let_pass(0.5)
        assert np.abs(bench.double.arm.angles - here).max() < 0.02
        told = np.array([state.joints_rad for _, state in bench.safety.states[since:]])
        assert np.abs(told - here).max() < 0.02
    finally:
        impostor.end()
    bench.safety.twist = np.zeros(6)
    bench.await_no_fault()


@of(*HELD_BY_DRIVER)
def test_a_target_does_not_outlive_the_modes_in_which_something_may_move(bench):
    """In STOP an arm may be led elsewhere, or freed of what it was blocked by."""
    bench.await_ready()
    bench.safety.twist = np.array(TWIST)
    wait_until(bench.moving, "motion")
    bench.let_pass(0.3)
    bench.safety.twist, bench.safety.mode = np.zeros(6), Mode.STOP
    try:
        bench.let_pass(0.5)
        sent = len(bench.double.heard.commands)
        bench.let_pass(0.5)
        assert len(bench.double.heard.commands) == sent
    finally:
        bench.safety.mode = Mode.POLICY


@of("sim")
def test_a_reset_is_answered_in_words(bench):
    """Of a simulator; a run on a real cell that asks for one does not load."""
    for asked, words in (
        ("7", ""),
        ("7 task=peg_insert_back as_it_is", ""),
        ("seven", "seven: reset request is 'seven', must be a seed"),
    ):
        since = len(bench.safety.reset_answers)
        bench.ask_reset(asked)
        wait_until(lambda since=since: len(bench.safety.reset_answers) > since, "answer")
        answer = bench.safety.reset_answers[-1]
        assert answer.startswith(words) if words else answer == asked
    bench.ask_reset("7")


@every_driver
def test_nobody_answers_in_the_place_of_a_person_who_puts_a_real_scene_back(bench):
    assert bench.safety.resets.get_subscription_count() == 0
    assert bench.safety.reset_answers == []


@every_driver
def test_a_restarted_driver_is_found_again_where_its_arm_is_now(bench):
    """Last of a backend: the double is another one afterwards."""
    bench.safety.twist = np.array(TWIST)
    wait_until(bench.moving, "motion")
    elsewhere = bench.double.arm.angles + np.array([0.4, 0, 0, 0, 0, 0, 0])

    def meanwhile() -> None:
        wait_until(lambda: "joint states" in bench.safety.fault, "silence")
        wait_until(lambda: not bench.moving(), "rest")

    bench.safety.twist = np.zeros(6)
    bench.restart_driver(lambda: BACKENDS[bench.backend][0](KinematicArm(elsewhere)), meanwhile)
    bench.await_no_fault()
    bench.let_pass(0.1)
    assert np.allclose(bench.double.arm.angles, elsewhere, atol=0.01)
    before = bench.pose()
    bench.safety.twist = np.array([0.05, 0, 0, 0, 0, 0])
    wait_until(lambda: np.linalg.norm(bench.pose().relative_to(before).position_m) > 0.004, "motion")
    ahead = bench.pose().relative_to(before).position_m
    assert ahead[0] > 0.8 * np.linalg.norm(ahead)
    assert bench.double.heard.refused == []
