"""The checker finds planted approaches, depths and turns, and nothing in what the filter let through."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robot_stack.control.audit.logged import LoggedTick
from robot_stack.control.audit.replay_checker import check_apart, check_log
from robot_stack.control.audit.replay_links import SAMPLED_M, own_distances
from robot_stack.control.kinematics.body import ArmBody, KeepOut
from robot_stack.control.kinematics.posed_arm import PosedArm
from robot_stack.control.safety.clearance import clearances_of
from robot_stack.control.safety.limits import SafetyLimits
from robot_stack.control.safety.motion import MotionShaper
from robot_stack.types.command import Command, Decision, Mode, Source
from tests.control.clearance_arm import TABLE, WIDE, KinematicArm, shipped_body, watched_arm
from tests.control.filter_rig import LIMITS, Rig, twist
from tests.examples import examples

pytestmark = pytest.mark.long

BOX = KeepOut(name="box", min_m=(0.4, -0.6, 0.0), max_m=(0.6, -0.3, 0.4))
DOWN_M_S = 0.2


def driven(arm: KinematicArm, ticks: int, wanted: np.ndarray) -> list[LoggedTick]:
    """What the recorder would have of an arm that is driven: wanted in the frame of the base."""
    log = []
    for _ in range(ticks):
        state = arm.state()
        rotation = arm.chain.pose(arm.angles).rotation
        arm.tick(np.concatenate([rotation.inv().apply(wanted[:3]), rotation.inv().apply(wanted[3:])]))
        log.append(LoggedTick(decision=decision(arm.twist, arm.now_ns), state=state))
    return log


def decision(executed: np.ndarray, stamp_ns: int) -> Decision:
    command = Command(arm="arm", twist=executed, stamp_ns=stamp_ns, source=Source.POLICY)
    return Decision(command=command, mode=Mode.POLICY, source=Source.POLICY, requested=executed)


def rules(log: list[LoggedTick], limits: SafetyLimits) -> set[str]:
    return {violation.rule for violation in check_log(log, limits)} & {"clearance", "yaw"}


@settings(max_examples=examples(10), deadline=None)
@given(seed=st.integers(0, 10_000), name=st.sampled_from(("fr3", "ur5e")))
def test_sampled_distances_are_those_of_the_closed_form_within_what_sampling_costs(seed: int, name: str):
    body = shipped_body(name, half_spaces=(TABLE,), keep_outs=(BOX,))
    limits = replace(WIDE, body=body)
    arm = watched_arm(name, body)
    arm.angles = arm.angles + np.random.default_rng(seed).uniform(-0.8, 0.8, len(arm.angles))
    sampled, names = own_distances(body, arm.angles[None])
    arm.clearance.hear(arm.state())
    exact = arm.clearance.distances()
    nearest: dict[tuple[str, str], float] = {}
    for left, pair in zip(exact.left_m, exact.pairs):
        key = (arm.clearance.parts[pair[0]], arm.clearance.parts[pair[1]])
        nearest[key] = min(float(left), nearest.get(key, np.inf))
    assert set(nearest) == set(names)
    for (one, other), distance in zip(names, sampled[0]):
        if distance > 0.0:  # inside each other, a depth is not sampled
            assert -1e-9 <= distance - nearest[one, other] <= 2.0 * SAMPLED_M
    assert limits.body is body


@pytest.mark.parametrize("wanted", [[0, 0, -DOWN_M_S, 0, 0, 0], [0, -0.2, -0.05, 0, 0, 0], [-0.25, 0, 0, 0, 0, 0.5]])
def test_what_the_filter_let_through_is_no_violation(wanted: list[float]):
    body = shipped_body("fr3", half_spaces=(TABLE,), keep_outs=(BOX,))
    log = driven(watched_arm("fr3", body), 400, np.array(wanted))
    assert rules(log, replace(WIDE, body=body)) == set()


def test_an_approach_that_cannot_stop_is_found_before_it_is_too_deep():
    body = shipped_body("fr3", half_spaces=(TABLE,))
    log = driven(KinematicArm("fr3", MotionShaper(WIDE)), 300, np.array([0, 0, -DOWN_M_S, 0, 0, 0]))
    broken = [v for v in check_log(log, replace(WIDE, body=body)) if v.rule == "clearance"]
    assert broken
    assert "fingers nears table" in broken[0].text
    assert any("must keep 0.01 m" in violation.text for violation in broken)
    assert rules(log, WIDE) == set()  # without a body nothing is judged


def test_an_elbow_that_is_driven_at_a_box_is_found():
    box = KeepOut(name="box", min_m=(-0.6, -0.3, 0.0), max_m=(-0.25, 0.3, 1.2))
    body = shipped_body("fr3", keep_outs=(box,))
    log = driven(KinematicArm("fr3", MotionShaper(WIDE)), 450, np.array([-0.2, 0, 0.05, 0, 0, 0]))
    texts = [v.text for v in check_log(log, replace(WIDE, body=body)) if v.rule == "clearance"]
    assert any("elbow" in text or "forearm" in text or "upper_arm" in text for text in texts)


def test_two_arms_that_meet_are_found_and_those_that_were_stopped_are_not():
    for watched in (False, True):
        logs, limits = two_logs(watched=watched)
        found = check_apart(logs["left"], limits["left"], logs["right"], limits["right"])
        assert bool(found) == (not watched)
        assert {violation.rule for violation in found} <= {"clearance"}


def test_logs_of_other_times_prove_nothing_of_two_arms():
    logs, limits = two_logs(watched=False)
    for late_ns in (-3_000_000_000, 3_000_000_000):
        other = [at(tick, tick.stamp_ns + late_ns) for tick in logs["right"]]
        assert check_apart(logs["left"], limits["left"], other, limits["right"]) == []


def test_arms_that_are_within_their_margin_from_the_first_tick_on_have_not_come_there():
    logs, limits = two_logs(watched=False)
    found = check_apart(logs["left"], limits["left"], logs["right"], limits["right"])
    later = [[tick for tick in logs[arm] if tick.stamp_ns >= found[0].stamp_ns] for arm in ("left", "right")]
    assert len(check_apart(later[0], limits["left"], later[1], limits["right"])) == len(found) - 1


def at(tick: LoggedTick, stamp_ns: int) -> LoggedTick:
    return replace(tick, decision=replace(tick.decision, command=replace(tick.decision.command, stamp_ns=stamp_ns)))


def two_logs(*, watched: bool) -> tuple[dict[str, list[LoggedTick]], dict[str, SafetyLimits]]:
    """Logs and limits of two arms that are driven towards each other."""
    c = -1.0
    turned = ((c, 0.0, 0.0, 1.1), (0.0, c, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0), (0.0, 0.0, 0.0, 1.0))
    bodies: dict[str, ArmBody] = {"left": shipped_body("fr3"), "right": shipped_body("fr3", base_in_cell=turned)}
    limits = {name: replace(WIDE, body=body) for name, body in bodies.items()}
    clearances = clearances_of(limits)
    arms = {
        name: KinematicArm("fr3", MotionShaper(limits[name], clearances[name] if watched else None)) for name in bodies
    }
    for arm in arms.values():
        arm.shaper.watch(arm.state())
    logs: dict[str, list[LoggedTick]] = {name: [] for name in arms}
    for _ in range(300):
        for name, arm in arms.items():
            logs[name] += driven(arm, 1, np.array([0.25, 0, 0, 0, 0, 0]))
    return logs, limits


def test_a_turn_beyond_its_range_is_found_and_one_that_was_cut_is_not():
    limits = replace(LIMITS, yaw_range_rad=1.0)
    for allowed, found in ((limits, set()), (LIMITS, {"yaw"})):
        rig = Rig(allowed).armed()
        rig.policy = twist(rz=0.8)
        rig.run(2.5)
        assert rules(rig.log, limits) == found


def test_turns_are_counted_beyond_half_a_turn():
    limits = replace(LIMITS, yaw_range_rad=5.0)
    rig = Rig(LIMITS).armed()
    rig.policy = twist(rz=1.0)
    rig.run(8.0)
    assert rules(rig.log, limits) == {"yaw"}
    assert rules(rig.log, replace(LIMITS, yaw_range_rad=9.0)) == set()


def test_own_capsules_are_placed_as_the_filter_places_them():
    body = shipped_body("ur5e")
    posed = PosedArm("arm", body)
    angles = np.array([0.3, -1.2, 1.1, -0.4, 0.8, 0.2])
    posed.place(angles)
    sampled, _ = own_distances(body, angles[None])
    np.testing.assert_allclose(sampled[0], posed.own_distances_m(), atol=2.0 * SAMPLED_M)
