"""The links keep clear of table, walls, boxes, each other and other arms; away from all of them nothing changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from robot_stack.control.kinematics.body import DEEP_M, ArmBody, Capsule, HalfSpace, KeepOut
from robot_stack.control.kinematics.joint_motion import damped_inverse
from robot_stack.control.kinematics.posed_arm import PosedArm
from robot_stack.control.safety.clearance import Clearance, clearances_of
from robot_stack.control.safety.motion import MotionShaper
from robot_stack.types.errors import ConfigError
from robot_stack.types.reason import RefusalKind
from tests.control.clearance_arm import TABLE, WIDE, KinematicArm, shipped_body, watched_arm
from tests.examples import examples

pytestmark = pytest.mark.long

ARMS = ("fr3", "ur5e")
AROUND = {"fr3": (0.5, 0.0, 0.1), "ur5e": (-0.5, -0.13, 0.25)}
"""A place near the hand at home."""
TOLERANCE_M = 1e-3
"""What a tick of 10 ms may take beyond the margin: directions change within it."""
TWISTS = st.lists(st.floats(-0.4, 0.4), min_size=6, max_size=6).map(lambda v: np.array(v) * [1, 1, 1, 4, 4, 4])


def surrounded(name: str) -> ArmBody:
    """With table, a wall and a box near the hand."""
    x, y, z = AROUND[name]
    wall = HalfSpace(name="wall", normal=(0.0, -1.0, 0.0), offset_m=-(y + 0.3))
    box = KeepOut(name="box", min_m=(x - 0.1, y - 0.5, 0.0), max_m=(x + 0.1, y - 0.25, z))
    return shipped_body(name, half_spaces=(TABLE, wall), keep_outs=(box,))


def distances(clearance: Clearance, arm: KinematicArm, angles: np.ndarray) -> np.ndarray:
    arm.angles = angles
    clearance.hear(arm.state())
    measured = clearance.distances()
    assert measured is not None
    return measured.left_m


@settings(max_examples=examples(25), deadline=None)
@given(seed=st.integers(0, 10_000), name=st.sampled_from(ARMS))
@example(seed=315, name="ur5e")
def test_rates_of_distances_are_those_of_finite_differences(seed: int, name: str):
    rng = np.random.default_rng(seed)
    body, step = surrounded(name), 1e-5
    other = PosedArm("other", replace(body, base_in_cell=shifted(0.9, 0.4)))
    clearance = Clearance(PosedArm("arm", body), replace(WIDE, body=body), [other])
    arm = KinematicArm(name, MotionShaper(WIDE))
    other.hear(arm.state())
    angles = arm.angles + rng.uniform(-0.6, 0.6, len(arm.angles))
    distances(clearance, arm, angles)
    by_joint = clearance.distances().by_joint
    to_box = np.array([clearance.parts[partner] == "box" for _, partner in clearance.distances().pairs])
    for joint in range(len(angles)):
        ahead, behind = angles.copy(), angles.copy()
        ahead[joint] += step
        behind[joint] -= step
        after, before = distances(clearance, arm, ahead), distances(clearance, arm, behind)
        now = distances(clearance, arm, angles)
        kink = np.abs(after + before - 2.0 * now) > 1e-8  # the nearest point jumps here
        assert kink.mean() < 0.1
        held = ~kink & ~(to_box & (now < -DEEP_M))  # an axis inside a box: only which way is out, and nothing moves
        np.testing.assert_allclose(((after - before) / (2.0 * step))[held], by_joint[held, joint], atol=1e-4)


@settings(max_examples=examples(12), deadline=None)
@given(pushes=st.lists(TWISTS, min_size=2, max_size=5), name=st.sampled_from(ARMS))
def test_whatever_is_wanted_no_watched_distance_falls_below_the_margin(pushes: list[np.ndarray], name: str):
    body = surrounded(name)
    arm = watched_arm(name, body)
    for push in pushes:
        for _ in range(120):
            arm.tick(push)
            assert arm.nearest_m() > body.margin_m - TOLERANCE_M


@pytest.mark.parametrize("name", ARMS)
def test_a_hand_driven_at_the_table_stops_at_the_margin_and_says_why(name: str):
    body = shipped_body(name, half_spaces=(TABLE,))
    arm = watched_arm(name, body)
    cuts = set()
    for _ in range(600):
        cuts |= set(arm.tick(down(arm)))
    assert "clearance" in cuts
    assert arm.nearest_m() == pytest.approx(body.margin_m, abs=2e-3)
    assert np.linalg.norm(arm.twist) < 0.01


@pytest.mark.parametrize("name", ARMS)
def test_from_within_the_margin_the_way_out_passes_and_the_way_in_does_not(name: str):
    arm = watched_arm(name, shipped_body(name, half_spaces=(TABLE,)))
    for _ in range(600):
        arm.tick(down(arm))
    thicker = replace(arm.clearance._arm.body, margin_m=0.05)
    clearance = clearances_of({"arm": replace(WIDE, body=thicker)})["arm"]
    clearance.hear(arm.state())
    assert arm.nearest_m() < 0.05
    np.testing.assert_array_equal(clearance.slowed(-down(arm), np.zeros(6), 0.0), -down(arm))
    np.testing.assert_array_equal(clearance.slowed(down(arm), np.zeros(6), 0.0), np.zeros(6))


@settings(max_examples=examples(40), deadline=None)
@given(wanted=TWISTS, seed=st.integers(0, 1000), name=st.sampled_from(ARMS))
def test_a_twist_is_only_ever_shortened_in_its_own_direction(wanted: np.ndarray, seed: int, name: str):
    arm = watched_arm(name, surrounded(name))
    arm.angles = arm.angles + np.random.default_rng(seed).uniform(-0.5, 0.5, len(arm.angles))
    arm.clearance.hear(arm.state())
    slowed = arm.clearance.slowed(wanted, np.zeros(6), 0.0)
    size = float(wanted @ wanted)
    share = float(slowed @ wanted) / size if size > 0 else 1.0
    assert -1e-12 <= share <= 1.0 + 1e-12
    np.testing.assert_allclose(slowed, share * wanted, atol=1e-12)


@settings(max_examples=examples(25), deadline=None)
@given(wanted=TWISTS)
def test_far_from_everything_nothing_changes(wanted: np.ndarray):
    limits = replace(WIDE, body=shipped_body("fr3", half_spaces=(replace(TABLE, offset_m=-1.0),)))
    watched = KinematicArm("fr3", MotionShaper(limits, clearances_of({"arm": limits})["arm"]))
    free = KinematicArm("fr3", MotionShaper(WIDE))
    for _ in range(3):
        assert "clearance" not in watched.tick(wanted)
        free.tick(wanted)
        np.testing.assert_array_equal(watched.twist, free.twist)


def test_of_an_arm_that_is_told_to_stand_nothing_is_measured(monkeypatch: pytest.MonkeyPatch):
    arm = watched_arm("fr3", surrounded("fr3"))
    clearance = arm.clearance
    clearance.hear(arm.state())
    measured = []
    measure = clearance._measure
    monkeypatch.setattr(clearance, "_measure", lambda: measured.append(1) or measure())
    assert not clearance.slowed(np.zeros(6), np.zeros(6), 0.0).any()
    assert measured == []
    clearance.slowed(np.full(6, 0.1), np.zeros(6), 0.0)
    assert measured == [1]


def test_an_elbow_is_watched_where_the_tcp_is_far_from_the_wall():
    wall = HalfSpace(name="wall", normal=(1.0, 0.0, 0.0), offset_m=-0.30)
    body = shipped_body("fr3", half_spaces=(wall,))
    arm = watched_arm("fr3", body)
    cuts = set()
    for _ in range(500):  # the elbow swings back as the hand is drawn in
        rotation = arm.chain.pose(arm.angles).rotation
        cuts |= set(arm.tick(np.concatenate([rotation.inv().apply([-0.2, 0.0, 0.05]), np.zeros(3)])))
    assert "clearance" in cuts
    assert arm.chain.pose(arm.angles).position_m[0] > -0.2
    assert arm.nearest_m() > body.margin_m - TOLERANCE_M


def test_two_arms_driven_at_each_other_keep_their_distance():
    bodies = {"left": shipped_body("fr3"), "right": shipped_body("fr3", base_in_cell=shifted(1.1, 0.0, turn=np.pi))}
    limits = {name: replace(WIDE, body=body) for name, body in bodies.items()}
    clearances = clearances_of(limits)
    arms = {
        name: KinematicArm("fr3", MotionShaper(limits[name], clearances[name]), clearances[name]) for name in bodies
    }
    for arm in arms.values():
        arm.shaper.watch(arm.state())
    nearest = []
    for _ in range(400):
        for arm in arms.values():
            ahead = arm.chain.pose(arm.angles).rotation.inv().apply([0.25, 0.0, 0.0])
            arm.tick(np.concatenate([ahead, np.zeros(3)]))
        nearest.append(arms["left"].nearest_m())
    assert min(nearest) > bodies["left"].margin_m - TOLERANCE_M
    assert nearest[-1] < bodies["left"].margin_m + 0.01  # they did come near


def test_an_arm_that_was_never_heard_of_stops_nobody():
    body = shipped_body("fr3")
    limits = {name: replace(WIDE, body=body) for name in ("one", "silent")}  # at one and the same place
    clearance = clearances_of(limits)["one"]
    arm = KinematicArm("fr3", MotionShaper(WIDE))
    clearance.hear(arm.state())
    assert clearance.inside() is None
    np.testing.assert_array_equal(clearance.slowed(np.full(6, 0.1), np.zeros(6), 0.0), np.full(6, 0.1))


def test_parts_inside_each_other_are_refused_by_name_and_touching_ones_are_not():
    for depth, refused in ((DEEP_M - 1e-3, False), (DEEP_M + 1e-3, True)):
        table = replace(TABLE, offset_m=0.5)
        left = distances_to("table", watched_arm("fr3", shipped_body("fr3", half_spaces=(table,))))
        raised = watched_arm("fr3", shipped_body("fr3", half_spaces=(replace(table, offset_m=0.5 + left + depth),)))
        raised.clearance.hear(raised.state())
        refusal = raised.clearance.inside()
        assert (refusal is not None) is refused
        if refusal is not None:
            assert refusal.kind is RefusalKind.OUTSIDE
            assert refusal.text.startswith("shoulder is 6 mm inside table, must be outside")


def test_what_an_arm_does_in_its_null_space_counts_as_approach():
    arm = KinematicArm("fr3", MotionShaper(WIDE))
    _, jacobian = arm.chain.jacobian(arm.angles)
    inverse, _ = damped_inverse(jacobian)
    swing = np.eye(7)[2] - inverse @ jacobian[:, 2]  # the elbow moves, the tcp does not
    body = shipped_body("fr3")
    elbow = next(capsule for capsule in body.capsules if capsule.name == "elbow")
    wall = HalfSpace(name="wall", normal=(0.0, -1.0, 0.0), offset_m=-0.06 - elbow.radius_m - body.margin_m - 0.001)
    alone = replace(body, capsules=(elbow,), unwatched=(), half_spaces=(wall,))
    clearance = clearances_of({"arm": replace(WIDE, body=alone)})["arm"]
    clearance.hear(arm.state())
    rates = clearance.distances().by_joint
    swing = -swing * np.sign((rates @ swing)[0])
    towards = -(rates @ inverse)[int(np.argmin(clearance.distances().left_m))]
    towards *= 0.2 / np.linalg.norm(towards)  # in the base frame
    pose = arm.chain.pose(arm.angles)
    towards = np.concatenate([pose.rotation.inv().apply(towards[:3]), pose.rotation.inv().apply(towards[3:])])
    sizes = []
    for speeds in (0.0 * swing, 0.1 * swing, -0.1 * swing):
        clearance.hear(replace(arm.state(), joint_speeds_rad_s=speeds))
        sizes.append(float(np.linalg.norm(clearance.slowed(towards, np.zeros(6), 0.0))))
    assert sizes[1] < sizes[0]
    assert sizes[2] == pytest.approx(sizes[0])  # away is no room that could be used


def test_the_age_of_a_state_is_bridged_by_what_was_let_through():
    body = shipped_body("fr3", half_spaces=(TABLE,))
    arm = watched_arm("fr3", body)
    for _ in range(600):
        arm.tick(down(arm))
        if arm.nearest_m() < body.margin_m + 0.01:
            break
    fresh = arm.clearance.slowed(down(arm), down(arm), 0.0)
    old = arm.clearance.slowed(down(arm), down(arm), 0.03)
    assert np.linalg.norm(old) < np.linalg.norm(fresh)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"margin_m": 0.5}, "margin_m"),
        ({"unwatched": (("elbow", "nose"),)}, "nose"),
        ({"half_spaces": (HalfSpace(name="wall", normal=(1.0, 1.0, 0.0), offset_m=0.0),)}, "length 1"),
        ({"keep_outs": (KeepOut(name="press", min_m=(0.0, 0.0, 0.0), max_m=(1.0, 0.0, 1.0)),)}, "press"),
        ({"capsules": (Capsule(name="a", link=9, from_m=(0, 0, 0), to_m=(0, 0, 0), radius_m=0.1),)}, "link"),
        ({"capsules": (Capsule(name="a", link=1, from_m=(0, 0, 0), to_m=(0, 0, 0), radius_m=0.0),)}, "radius"),
        ({"base_in_cell": ((float("nan"),) * 4,) * 4}, "base_in_cell"),
        ({"axes": ((0.0, 0.0, 2.0),) * 7}, "axis 0"),
    ],
)
def test_a_body_that_does_not_fit_together_is_refused_in_words(change: dict, word: str):
    body = shipped_body("fr3")
    with pytest.raises(ConfigError, match=word):
        replace(body, **change)


def down(arm: KinematicArm, speed: float = 0.2) -> np.ndarray:
    """Straight down, in the tcp frame."""
    pose = arm.chain.pose(arm.angles)
    return np.concatenate([pose.rotation.inv().apply([0.0, 0.0, -speed]), np.zeros(3)])


def distances_to(partner: str, arm: KinematicArm) -> float:
    arm.clearance.hear(arm.state())
    measured = arm.clearance.distances()
    named = [arm.clearance.parts[pair] == partner for pair in measured.pairs[:, 1]]
    return float(measured.left_m[named].min())


def shifted(x: float, y: float, turn: float = 0.0) -> tuple[tuple[float, ...], ...]:
    c, s = float(np.cos(turn)), float(np.sin(turn))
    return ((c, -s, 0.0, x), (s, c, 0.0, y), (0.0, 0.0, 1.0, 0.0), (0.0, 0.0, 0.0, 1.0))
