"""The whole filter with watched links: it refuses to arm inside, names its cuts, and hears of every arm."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import numpy as np
import pytest

from robot_stack.config.resolve import load_run
from robot_stack.control.kinematics.body import ArmBody, Capsule, HalfSpace
from robot_stack.control.safety.arm_filter import GuardedArm
from robot_stack.control.safety.cell_filter import SafetyFilter
from robot_stack.control.safety.clearance import clearances_of
from robot_stack.types.command import Mode
from robot_stack.types.reason import RefusalKind
from robot_stack.workcell.build_safety import build_safety, limits_of, unwatched_of
from robot_stack.workcell.command_log import limits_from
from tests.control.clearance_arm import shipped_body
from tests.control.filter_rig import DOWN, LIMITS, Rig, TwoArmRig, twist


def gantry(table_m: float, *, x: float = 0.0, turned: float = 0.0) -> ArmBody:
    """Three joints far away that turn a ball about: at angle 0 it is at the origin, 5 cm thick."""
    far = ((1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0), (0.0, 0.0, 0.0, 1.0))
    c, s = float(np.cos(turned)), float(np.sin(turned))
    return ArmBody(
        base_in_cell=((c, -s, 0.0, x), (s, c, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0), (0.0, 0.0, 0.0, 1.0)),
        origins=(far,) * 7,
        axes=((0.0, 0.0, 1.0), (0.0, 1.0, 0.0), (1.0, 0.0, 0.0)) + ((0.0, 0.0, 1.0),) * 4,
        capsules=(Capsule(name="ball", link=7, from_m=(0.0, 0.0, 0.0), to_m=(0.0, 0.0, 0.0), radius_m=0.05),),
        margin_m=0.01,
        half_spaces=(HalfSpace(name="table", normal=(0.0, 0.0, 1.0), offset_m=table_m),),
    )


def watched_rig(body: ArmBody) -> Rig:
    limits = replace(LIMITS, body=body)
    rig = Rig(limits)
    guarded = GuardedArm(limits=limits, teleop_scale=np.full(6, 0.2), clearance=clearances_of({"arm": limits})["arm"])
    rig.filter = SafetyFilter({"arm": guarded})
    return rig


def test_nobody_arms_an_arm_whose_part_is_inside_the_table():
    rig = watched_rig(gantry(table_m=-0.04))
    rig.filter.offer_state(rig.state(), rig.now_ns)
    refusal = rig.filter.arm(rig.now_ns)
    assert refusal is not None
    assert refusal.kind is RefusalKind.OUTSIDE
    assert refusal.text.startswith("ball is 10 mm inside table")
    assert rig.filter.mode is Mode.DISARMED


def test_touching_within_what_noise_makes_is_no_refusal():
    rig = watched_rig(gantry(table_m=-0.046)).armed()
    assert rig.tick().mode is Mode.POLICY


def test_two_arms_inside_each_other_are_named_with_their_arms():
    limits = {name: replace(LIMITS, body=gantry(-1.0, x=x)) for name, x in (("left", 0.0), ("right", 0.09))}
    clearances = clearances_of(limits)
    rig = TwoArmRig(
        SafetyFilter(
            {
                name: GuardedArm(limits=each, teleop_scale=np.full(6, 0.2), clearance=clearances[name])
                for name, each in limits.items()
            }
        )
    )
    rig.tell_states()
    refusal = rig.filter.arm(rig.now_ns)
    assert refusal is not None
    assert refusal.kind is RefusalKind.OUTSIDE
    assert "left: ball is 10 mm inside ball of arm right" in refusal.text


def test_the_shipped_dry_runs_watch_every_arm_and_stand_clear():
    for name in ("peg_insert", "two_arm_insert", "peg_in_and_out"):
        resolved = load_run(name)
        assert unwatched_of(resolved) == {}
        for arm, limits in limits_of(resolved).items():
            assert limits.body is not None
            assert [space.name for space in limits.body.half_spaces] == ["table"]
            assert limits.yaw_zero_xyzw is not None
            assert len(limits.body.self_pairs) > 20, arm
        assert build_safety(resolved).mode is Mode.DISARMED


def test_a_robot_file_without_capsules_is_said_to_be_unwatched():
    resolved = load_run("ur5e_twin")
    reasons = unwatched_of(resolved)
    assert len(reasons) == 1
    assert "collision" in next(iter(reasons.values()))
    assert next(iter(limits_of(resolved).values())).body is None


def test_limits_with_a_body_come_back_from_a_log():
    body = shipped_body("fr3", half_spaces=gantry(0.0).half_spaces)
    limits = replace(LIMITS, body=body, yaw_zero_xyzw=(1.0, 0.0, 0.0, 0.0))
    assert limits_from(json.loads(json.dumps(asdict(limits)))) == limits


def test_limits_of_an_older_log_have_no_body():
    plain = json.loads(json.dumps(asdict(LIMITS)))
    for key in ("body", "yaw_zero_xyzw", "yaw_range_rad"):
        del plain[key]
    assert limits_from(plain) == LIMITS


@pytest.mark.long
def test_the_turn_of_the_tool_is_cut_at_its_range_and_says_so():
    limits = replace(LIMITS, yaw_range_rad=1.0)
    rig = Rig(limits).armed()
    rig.policy = twist(rz=0.8)
    cuts = {name for decision in rig.run(3.0) for name in decision.clamped}
    assert "yaw" in cuts
    assert abs(turned(rig)) == pytest.approx(1.0, abs=5e-3)
    rig.policy = twist(rz=-0.8)
    rig.run(1.0)
    assert abs(turned(rig)) < 0.5


@pytest.mark.long
def test_two_whole_turns_are_counted_and_have_to_be_undone():
    rig = Rig(replace(LIMITS, yaw_range_rad=7.0)).armed()
    rig.policy = twist(rz=1.0)
    rig.run(9.0)
    assert abs(turned(rig)) == pytest.approx(7.0 - 2.0 * np.pi, abs=0.01)  # near where it began, one turn later
    assert abs(rig.tick().command.twist[5]) < 0.02
    rig.policy = twist(rz=-1.0)
    rig.run(3.0)
    assert abs(turned(rig)) > 1.5  # on the way back through that turn


def turned(rig: Rig) -> float:
    return float((DOWN.inv() * rig.pose.rotation).as_euler("zyx")[0])
