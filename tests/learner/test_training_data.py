"""What is derived from a demonstration, and the policy that is swapped between two ticks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from policies.acting import ActingPolicy, actor_metadata, pack_tensors
from policies.encoders.embedded import EmbeddedTrunk
from policies.learner import LearnerSpec
from policies.registry import find_algorithm
from policies.rlpd.config import RLPDConfig
from robot_stack.learner.data.training_data import (
    LEVER_M,
    TO_GO_SCALE,
    demo_frames,
    distance_progress,
    next_goals,
    reward_inputs,
    sensed_only,
    to_go,
)
from robot_stack.replay.stored_episode import StoredEpisode
from robot_stack.rollout import live_policy
from robot_stack.rollout.live_policy import LivePolicy
from robot_stack.types.errors import SpecError
from robot_stack.types.params import Params
from robot_stack.types.pose import Pose
from robot_stack.types.spec import BASE, BASE_NOISE, BASE_TICKS, GripperKind, ProprioField, Spec
from robot_stack.types.transition import EndReason, EpisodeKind
from tests.learner.bench import SPEC, observation_of
from tests.replay.recorded import header_of

CONFIG = RLPDConfig(hidden=(16, 16), head=8)


def _walk(length: int = 12, seed: int = 0) -> tuple[list[Pose], np.ndarray]:
    """Poses relative to the first one, turning about z only, and the proprio rows that record them."""
    rng = np.random.default_rng(seed)
    poses = [Pose.identity()]
    for _ in range(length):
        turn = Rotation.from_rotvec([0, 0, rng.uniform(-0.05, 0.05)])
        step = Pose.from_rotation(np.array([*rng.uniform(-0.01, 0.01, 2), 0.0]), turn)
        poses.append(poses[-1] @ step)
    rows = np.zeros((len(poses), SPEC.proprio_size), np.float32)
    for row, pose in zip(rows, poses, strict=True):
        row[:6] = [*pose.position_m, *pose.rotation.as_rotvec()]
    return poses, rows


def _success(rows: np.ndarray, executed: np.ndarray, spec: Spec, kind: EpisodeKind = EpisodeKind.DEMO) -> StoredEpisode:
    arrays = {"proprio": rows, "executed": executed}
    arrays |= {f"image_{camera.name}": np.zeros((len(rows), *camera.shape), np.uint8) for camera in spec.cameras}
    return StoredEpisode(header=header_of("a", kind), spec=spec, arrays=arrays, end=EndReason.SUCCESS)


def test_nothing_is_left_to_go_at_the_last_frame() -> None:
    _, rows = _walk()
    left = to_go(rows, SPEC)
    assert left.shape == (13, len(SPEC.arms[0].axes))
    assert left.dtype == np.float32
    np.testing.assert_allclose(left[-1], 0.0, atol=1e-6)
    assert np.abs(left[0]).max() > 0.1


def test_going_what_is_left_leads_to_the_last_pose() -> None:
    poses, rows = _walk()
    axes = list(SPEC.arms[0].axis_indices)
    for pose, left in zip(poses, to_go(rows, SPEC), strict=True):
        full = np.zeros(6)
        full[axes] = left * TO_GO_SCALE[axes]
        reached = pose @ Pose.from_rotation(full[:3], Rotation.from_rotvec(full[3:]))
        np.testing.assert_allclose(reached.position_m, poses[-1].position_m, atol=1e-5)
        assert (reached.rotation * poses[-1].rotation.inv()).magnitude() < 1e-5


def test_to_go_is_the_same_wherever_the_episode_started() -> None:
    poses, rows = _walk()
    start = Pose.from_rotation(np.array([0.3, -0.1, 0.0]), Rotation.from_rotvec([0, 0, 0.7]))
    moved = rows.copy()
    for row, pose in zip(moved, poses, strict=True):
        there = start @ pose
        row[:6] = [*there.position_m, *there.rotation.as_rotvec()]
    np.testing.assert_allclose(to_go(moved, SPEC), to_go(rows, SPEC), atol=1e-4)


def test_a_frame_leads_to_where_the_gripper_is_next_used_and_then_to_the_end() -> None:
    poses, rows = _walk()
    gripping = replace(SPEC, arms=(replace(SPEC.arms[0], gripper=GripperKind.DISCRETE),))
    executed = np.zeros((12, gripping.action_size), np.float32)
    executed[3:6, -1], executed[8, -1] = -1.0, 1.0  # closes at 3 and holds the key, opens at 8
    goals = next_goals(_success(rows, executed, gripping))
    assert goals.tolist() == [3] * 4 + [8] * 5 + [12] * 4
    left = to_go(rows, gripping, goals)
    np.testing.assert_allclose(left[[3, 8, 12]], 0.0, atol=1e-6)
    step = poses[8].relative_to(poses[4]).position_m / TO_GO_SCALE[:3]
    np.testing.assert_allclose(left[4, :2], step[:2], atol=1e-4)
    executed[:, -1] = 1.0  # open as it was: no change, whatever is pressed
    assert set(next_goals(_success(rows, executed, gripping))) == {12}
    assert set(next_goals(_success(rows, executed[:, :-1], SPEC))) == {12}


def test_where_a_policy_closed_in_vain_before_it_succeeded_is_nowhere_to_go() -> None:
    _, rows = _walk()
    gripping = replace(SPEC, arms=(replace(SPEC.arms[0], gripper=GripperKind.DISCRETE),))
    shown, tried = np.zeros((2, 12, gripping.action_size), np.float32)
    shown[4, -1], shown[9, -1] = -1.0, 1.0
    tried[[1, 5], -1], tried[[2, 9], -1] = -1.0, 1.0  # closes beside the part at 1 and opens at 2
    demo = _success(rows, shown, gripping)
    policy = _success(rows, tried, gripping, EpisodeKind.ONLINE)
    assert next_goals(policy, 2).tolist() == [5] * 6 + [9] * 4 + [12] * 3
    assert next_goals(policy).tolist() == [1] * 2 + [2] + [5] * 3 + [9] * 4 + [12] * 3
    assert set(next_goals(policy, 0)) == {12}
    assert next_goals(demo, 1).tolist() == [4] * 5 + [9] * 5 + [12] * 3
    _, learned = demo_frames([demo, policy])
    np.testing.assert_array_equal(learned.to_go, to_go(rows, gripping, next_goals(policy, 2)))


def test_progress_by_distance_knows_no_clock_and_falls_when_the_arm_goes_back() -> None:
    rows = np.zeros((7, SPEC.proprio_size), np.float32)
    rows[:, 0] = [0.0, 0.01, 0.01, 0.03, 0.02, 0.04, 0.04]
    np.testing.assert_allclose(distance_progress(rows, SPEC), [0, 0.25, 0.25, 0.75, 0.5, 1, 1], atol=1e-5)
    rows[1, 0] = -0.02
    assert distance_progress(rows, SPEC)[1] == 0.0


def test_a_turn_counts_as_the_way_of_a_point_beside_the_tool() -> None:
    rows = np.zeros((3, SPEC.proprio_size), np.float32)
    rows[:, 0] = [0.0, 0.0, 0.03]
    rows[:, 5] = [0.0, 0.04 / LEVER_M, 0.04 / LEVER_M]
    np.testing.assert_allclose(distance_progress(rows, SPEC), [0, 1 - 0.03 / 0.05, 1], atol=1e-5)


def test_an_arm_that_never_moved_leaves_only_the_clock() -> None:
    rows = np.zeros((5, SPEC.proprio_size), np.float32)
    np.testing.assert_allclose(distance_progress(rows, SPEC), [0, 0.25, 0.5, 0.75, 1])


def test_missing_proprio_field_is_named() -> None:
    assert SPEC.part("force") == slice(6, 7)
    with pytest.raises(SpecError, match=r"\['tcp_pose', 'force'\], must include 'torque'"):
        SPEC.part("torque")


def test_reward_model_sees_features_and_proprio_side_by_side() -> None:
    inputs = reward_inputs(np.full((2, 3), 0.5, np.float16), np.ones((2, 4), np.float32))
    assert inputs.dtype == np.float32
    np.testing.assert_array_equal(inputs, [[0.5] * 3 + [1.0] * 4] * 2)


class FakeSource:
    """A `ParamsSource` that hands out what it is given, once."""

    def __init__(self) -> None:
        self.fresh: Params | None = None

    def latest(self) -> Params | None:
        params, self.fresh = self.fresh, None
        return params


class FakeClock:
    def __init__(self) -> None:
        self.ns = 0

    def now_ns(self) -> int:
        return self.ns

    def sleep_until_ns(self, when_ns: int) -> None:
        self.ns = max(self.ns, when_ns)


@pytest.fixture(scope="module")
def trunk() -> EmbeddedTrunk:
    return EmbeddedTrunk({"front": (8, 8, 3)}, 3).requires_grad_(False).eval()


def _params(trunk: EmbeddedTrunk, version: int, seed: int) -> Params:
    zeros = torch.zeros(SPEC.proprio_size)
    sizes = LearnerSpec(parts=trunk.parts, proprio_mean=zeros, proprio_std=zeros + 1, actions=SPEC.action_size)
    learner = find_algorithm("rlpd").builders().learner(sizes, CONFIG, seed=seed)
    return Params(
        version=version,
        tensors=pack_tensors(trunk, learner.actor_tensors()),
        sha256="",
        metadata=actor_metadata(trunk, algorithm="rlpd", config=CONFIG),
    )


def _live() -> tuple[LivePolicy, FakeSource, FakeClock]:
    source, clock = FakeSource(), FakeClock()
    return LivePolicy(SPEC, source, clock, seeds=np.random.default_rng(0)), source, clock


def test_without_parameters_the_action_is_nan() -> None:
    policy, _, _ = _live()
    assert not policy.refresh()
    assert policy.version == 0
    assert np.isnan(policy.act(observation_of(0), deterministic=True)).all()


def test_newer_parameters_act_from_the_next_tick_on(trunk: EmbeddedTrunk) -> None:
    policy, source, clock = _live()
    source.fresh = _params(trunk, 3, seed=1)
    assert policy.refresh()
    first = policy.act(observation_of(0), deterministic=True)
    SPEC.check_action(first)
    clock.ns = 2_000_000_000
    assert (policy.version, policy.age_s) == (3, 2.0)
    source.fresh = _params(trunk, 9, seed=2)
    second = policy.act(observation_of(0), deterministic=True)
    assert (policy.version, policy.age_s) == (9, 0.0)
    assert not np.array_equal(first, second)


def test_lower_version_is_refused_and_the_newer_one_stays(trunk: EmbeddedTrunk) -> None:
    policy, source, clock = _live()
    source.fresh = _params(trunk, 9, seed=2)
    assert policy.refresh()
    before = policy.act(observation_of(0), deterministic=True)
    for version in (8, 9):
        source.fresh = _params(trunk, version, seed=1)
        clock.ns += 1_000_000_000
        assert policy.refresh()
        assert f"params version is {version}, must be above 9" in policy.refusal
    assert policy.age_s == 2.0  # what is at hand grows old
    assert policy.version == 9
    np.testing.assert_array_equal(policy.act(observation_of(0), deterministic=True), before)


def test_encoder_is_built_between_episodes_and_never_in_a_tick(trunk: EmbeddedTrunk) -> None:
    policy, source, clock = _live()
    source.fresh = _params(trunk, 3, seed=1)
    assert np.isnan(policy.act(observation_of(0), deterministic=True)).all()
    assert policy.refresh()
    before = policy.act(observation_of(0), deterministic=True)
    other = EmbeddedTrunk({"front": (8, 8, 3)}, 3).requires_grad_(False).eval()
    assert other.identity != trunk.identity
    source.fresh = _params(other, 4, seed=2)
    clock.ns = 1_000_000_000
    np.testing.assert_array_equal(policy.act(observation_of(0), deterministic=True), before)
    assert (policy.version, policy.age_s) == (3, 1.0)
    assert "trunk of params 4 is another" in policy.refusal
    assert policy.refresh()
    assert (policy.version, policy.age_s, policy.refusal) == (4, 0.0, "")
    assert not np.array_equal(policy.act(observation_of(0), deterministic=True), before)


def test_policy_behind_another_encoder_draws_other_noise(trunk: EmbeddedTrunk, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = list[int]()

    def built(spec: Spec, params: Params, *, seed: int) -> ActingPolicy:
        seeds.append(seed)
        return ActingPolicy(spec, params, seed=seed)

    monkeypatch.setattr(live_policy, "ActingPolicy", built)
    policy, source, _ = _live()
    for version, seen in enumerate((trunk, EmbeddedTrunk({"front": (8, 8, 3)}, 3).eval()), start=1):
        source.fresh = _params(seen, version, seed=1)
        assert policy.refresh(), policy.refusal
    assert len(set(seeds)) == 2


@pytest.mark.long
def test_noise_only_where_it_is_asked_for(trunk: EmbeddedTrunk) -> None:
    policy, source, _ = _live()
    source.fresh = _params(trunk, 1, seed=1)
    assert policy.refresh()
    fixed = [policy.act(observation_of(0), deterministic=True) for _ in range(2)]
    drawn = [policy.act(observation_of(0), deterministic=False) for _ in range(2)]
    np.testing.assert_array_equal(*fixed)
    assert not np.array_equal(*drawn)


def test_what_a_base_says_is_hidden_from_encoder_and_reward_model() -> None:
    said = (
        ProprioField(name=BASE_NOISE, size=2),
        ProprioField(name=BASE_TICKS, size=1),
        ProprioField(name=BASE, size=3),
    )
    based = replace(SPEC, proprio=(*SPEC.proprio, *said))
    rows = np.random.default_rng(0).normal(size=(4, based.proprio_size)).astype(np.float32)
    hidden = sensed_only(rows, based)
    np.testing.assert_array_equal(hidden[:, : SPEC.proprio_size], rows[:, : SPEC.proprio_size])
    np.testing.assert_array_equal(hidden[:, SPEC.proprio_size :], 0)
    assert hidden.dtype == np.float32
    plain = rows[:, : SPEC.proprio_size]
    assert sensed_only(plain, SPEC) is plain
