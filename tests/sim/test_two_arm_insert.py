"""Two arms, a block and a peg: each stays in its box, contact is real, and two hands can show how it is done."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun, RunArm
from robot_stack.types.errors import SpecError
from robot_stack.types.transition import EpisodeKind
from robot_stack.workcell.build import build_local_cell, build_operator, build_world
from robot_stack.workcell.local_cell import see
from sim.arms import find_arm
from sim.cell import make_world, scene_camera
from sim.operator import Role
from sim.simulated_arm import PlacedArm
from sim.tasks.peg_insert import PegInsertConfig
from sim.tasks.two_arm_insert import GOAL_DEPTH_M, TwoArmInsertConfig
from sim.world import World


@pytest.fixture(scope="module")
def two_arms() -> ResolvedRun:
    return load_run("two_arm_insert")


@pytest.fixture(scope="module")
def built(two_arms: ResolvedRun) -> World:
    return build_world(two_arms)


@pytest.fixture
def world(built: World) -> World:
    built.reset(3)
    return built


def config_of(resolved: ResolvedRun) -> TwoArmInsertConfig:
    return resolved.section("task.sim", TwoArmInsertConfig)


def test_the_arms_stand_where_the_cell_says_and_face_each_other(world: World, two_arms: ResolvedRun) -> None:
    ahead = {}
    for name, arm in two_arms.arms.items():
        pose = arm.T_cell_base @ world.state(name).T_base_tcp
        np.testing.assert_allclose(pose.position_m, world.data.site(f"{name}/hand/tcp").xpos, atol=1e-9)
        ahead[name] = pose.rotation.apply([1.0, 0.0, 0.0])
    assert ahead["left"] @ ahead["right"] < -0.9
    assert ahead["left"][1] < -0.9


def test_an_arm_follows_its_own_command_and_the_other_stands(world: World) -> None:
    before = {name: world.state(name).T_base_tcp for name in world.arms}
    world.command(np.array([0.0, 0.04, 0, 0, 0, 0]), arm="right")
    world.advance(0.5)
    world.command(np.zeros(6), arm="right")
    world.advance(0.5)
    moved = {name: world.state(name).T_base_tcp.relative_to(before[name]) for name in world.arms}
    np.testing.assert_allclose(moved["right"].position_m, [0.0, 0.02, 0.0], atol=1e-3)
    assert np.linalg.norm(moved["left"].position_m) < 1e-3


@pytest.mark.parametrize("name", ["", "middle"])
def test_an_arm_has_to_be_named_where_there_are_two(name: str, world: World) -> None:
    with pytest.raises(SpecError, match=r"must be one of \['left', 'right'\]"):
        world.state(name)


def assert_inside(pose: np.ndarray, arm: RunArm) -> None:
    assert (pose[:3] > np.array(arm.workspace.min_m) + 0.003).all(), (arm.name, pose)
    assert (pose[:3] < np.array(arm.workspace.max_m) - 0.003).all(), (arm.name, pose)


def test_starts_and_the_place_to_meet_lie_inside_the_boxes(two_arms: ResolvedRun, built: World) -> None:
    for seed in range(25):
        built.reset(seed)
        seen = see(built)
        for row, arm in enumerate(two_arms.arms.values()):
            assert_inside(seen.tcp[row], arm)
    put_before_the_hole(built, 0.0)
    for pose, arm in zip(see(built).goal, two_arms.arms.values()):
        assert_inside(pose, arm)


def test_the_boxes_leave_room_between_the_hands(two_arms: ResolvedRun) -> None:
    assert two_arms.cell.apart_m < config_of(two_arms).tcp_distance_m


def test_same_seed_is_the_same_start_and_another_is_another(built: World) -> None:
    built.reset(7)
    first = built.snapshot()
    built.advance(0.2)
    built.reset(8)
    assert not np.array_equal(built.snapshot(), first)
    built.reset(7)
    np.testing.assert_array_equal(built.snapshot(), first)


def test_only_contact_ties_the_parts_to_anything(world: World) -> None:
    model = world.model
    for part in ("peg", "block"):
        body = model.body(part).id
        assert model.body_parentid[body] == 0
        assert model.joint(part).type[0] == mujoco.mjtJoint.mjJNT_FREE
    fingers = [{model.joint(f"{arm}/hand/{side}_finger").id for side in ("left", "right")} for arm in world.arms]
    assert model.neq == 2
    for i in range(model.neq):
        assert {int(model.eq_obj1id[i]), int(model.eq_obj2id[i])} in fingers
    assert model.ntendon == 0
    assert model.nexclude == 0


def test_the_parts_stay_in_the_hands_under_motion_and_fall_out_of_open_ones(world: World) -> None:
    rng = np.random.default_rng(1)
    for _ in range(6):
        for arm in world.arms:
            world.command(rng.uniform(-1, 1, 6) * [0.05, 0.1, 0.05, 0, 0, 0.3], arm=arm)
        world.advance(0.2)
        assert not world.task.failed(world.data)
    world.command(np.zeros(6), gripper=1.0, arm="left")
    world.advance(0.6)
    assert world.task.failed(world.data)
    assert not world.task.succeeded(world.data)


def put_before_the_hole(world: World, aside_m: float) -> None:
    """The arms at rest, the peg's tip 1 cm before the rim and so far beside the hole's axis."""
    config = world.task._config
    x, y, z = config.meet_m
    apart = (config.tcp_distance_m + config.insert_depth_m + GOAL_DEPTH_M + 0.01) / 2
    poses = np.array([[x, y + apart, z, -np.pi / 2], [x + aside_m, y - apart, z, np.pi / 2]])
    world.task.start_poses = lambda rng: poses
    try:
        world.reset(0)
    finally:
        del world.task.start_poses


def push(world: World, seconds: float) -> list[tuple[float, bool]]:
    """The right arm forward; depth of the tip and success, every 10 ms."""
    world.command(np.array([0.05, 0, 0, 0, 0, 0]), arm="right")
    seen = []
    for _ in range(round(seconds / 0.01)):
        world.advance(0.01)
        seen.append((float(world.task.tip_in_hole(world.data)[0]), world.task.succeeded(world.data)))
    return seen


def test_an_aligned_peg_goes_in_and_only_deep_enough_it_is_a_success(built: World, two_arms: ResolvedRun) -> None:
    put_before_the_hole(built, 0.0)
    seen = push(built, 1.5)
    for depth, success in seen:
        assert success == (depth >= config_of(two_arms).insert_depth_m)
    assert seen[-1][1]


def test_a_peg_beside_the_hole_stops_at_the_rim_and_both_arms_feel_it(built: World) -> None:
    put_before_the_hole(built, 0.014)
    seen = push(built, 1.2)
    assert max(depth for depth, _ in seen) < 0.005
    assert not any(success for _, success in seen)
    for arm in built.arms:
        force = built.state(arm).wrench[:3]
        assert force[0] < -3.0, arm  # each is pushed back along its tool


def test_the_block_gives_way_as_far_as_its_arm_is_compliant(built: World) -> None:
    put_before_the_hole(built, 0.014)
    before = built.data.body("block").xpos.copy()
    push(built, 1.2)
    moved = built.data.body("block").xpos - before
    assert 0.001 < moved[1] < 0.02


def test_two_hands_show_it_from_most_starts_within_the_episode(two_arms: ResolvedRun) -> None:
    done = 0
    cell = build_local_cell(two_arms, seed=1)
    for seed in range(3):
        cell.reset(100 + seed)
        cell.start(f"{seed:06d}-demo-a", EpisodeKind.DEMO)
        for _ in range(two_arms.task.episode_steps):
            cell.sleep_until_ns(cell.now_ns() + 100_000_000)
            if cell.truth():
                done += 1
                break
        cell.finish()
    assert done >= 2


def test_both_hands_hold_their_deadmen_and_what_is_said_is_said_once(two_arms: ResolvedRun, world: World) -> None:
    operator = build_operator(two_arms, 0)
    operator.begin(Role.DEMO)
    for _ in range(60):
        operator.see(see(world))
        samples = operator.sample(world.time_ns)
        world.advance(0.02)
    assert list(samples) == ["left", "right"]
    assert all(sample.deadman and sample.twist.any() for sample in samples.values())
    assert not samples["left"].twist[3:].any()  # its task gives it no rotation
    said = operator.hold_still(world.time_ns, events=("success",))
    assert [sample.events for sample in said.values()] == [("success",), ()]


def test_the_cameras_see_a_block_that_is_moved_along_any_axis(two_arms: ResolvedRun) -> None:
    cell = build_local_cell(two_arms, seed=0)
    world = cell._world
    cell.reset(4)
    before = cell.observe()
    for axis in range(3):
        step = np.zeros(6)
        step[axis] = 0.05
        world.command(step, arm="left")
        world.advance(0.3)
        after = cell.observe()
        assert before is not None
        assert after is not None
        views = {"above": (0, 1), "front": (0, 2)}
        for name, axes in views.items():
            changed = np.abs(after.images[name].astype(int) - before.images[name]).max() > 40
            assert changed or axis not in axes, (axis, name)
        before = after


@pytest.mark.parametrize("arms", [("arm",), ("right", "left"), ("left", "right", "third")])
def test_a_task_for_two_arms_is_refused_other_arms(arms: tuple[str, ...]) -> None:
    placed = {name: PlacedArm(model=find_arm("fr3")) for name in arms}
    with pytest.raises(SpecError, match=r"must be left, right for the simulated task 'two_arm_insert'"):
        make_world(placed, task="two_arm_insert", scene="two_arm_insert", config=TwoArmInsertConfig())


def test_a_task_for_one_arm_is_refused_two() -> None:
    placed = {name: PlacedArm(model=find_arm("fr3")) for name in ("left", "right")}
    with pytest.raises(SpecError, match="must be one, of any name"):
        make_world(placed, task="peg_insert", scene="peg_insert", config=PegInsertConfig())


def test_cameras_on_the_hands_are_called_after_their_arm(world: World) -> None:
    assert scene_camera("left_wrist", world.model) == "left/hand/wrist"
    with pytest.raises(SpecError, match="simulated camera is 'middle_wrist', must be one of"):
        scene_camera("middle_wrist", world.model)


def test_a_base_that_is_turned_and_tilted_reports_in_its_own_frame(two_arms: ResolvedRun) -> None:
    turn = Rotation.from_euler("xyz", [0.0, 0.0, 0.4])
    base = two_arms.arms["right"].T_cell_base
    moved = type(base).from_rotation(base.position_m + np.array([0.02, -0.05, 0.03]), turn * base.rotation)
    placed = {
        "left": PlacedArm(model=find_arm("fr3"), T_cell_base=two_arms.arms["left"].T_cell_base),
        "right": PlacedArm(model=find_arm("fr3"), T_cell_base=moved),
    }
    world = make_world(placed, task="two_arm_insert", scene="two_arm_insert", config=config_of(two_arms))
    world.reset(1)
    pose = moved @ world.state("right").T_base_tcp
    np.testing.assert_allclose(pose.position_m, world.data.site("right/hand/tcp").xpos, atol=1e-9)
    np.testing.assert_allclose(world.arms["right"].in_base(np.array([0.5, 0.0, 0.2, 0.1]))[3], 0.1 - 0.4 - np.pi / 2)
