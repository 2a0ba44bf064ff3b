"""The drawer: contact alone opens, fills and closes it, and what it asks for next depends on its state alone."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import mujoco
import numpy as np
import pytest
from pydantic import ValidationError

from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.workcell.build import build_world
from robot_stack.workcell.local_cell import see
from robot_stack.workcell.sim_camera import SimCamera
from sim.hands import in_tool
from sim.tasks.cabinet import FLOOR_M, HALF_LENGTH_M
from sim.tasks.drawer import Drawer, DrawerConfig, Stage
from sim.world import World


@pytest.fixture(scope="module")
def drawer() -> ResolvedRun:
    return load_run("drawer")


@pytest.fixture
def world(drawer: ResolvedRun) -> World:
    return build_world(drawer)


def config_of(drawer: ResolvedRun) -> DrawerConfig:
    return drawer.section("task.sim", DrawerConfig)


def task_of(world: World) -> Drawer:
    assert isinstance(world.task, Drawer)
    return world.task


def set_scene(
    world: World, *, open_m: float | None = None, block_m: tuple[float, float, float] | None = None,
    block_in_drawer: bool = False, gripper_m: float | None = None,
) -> None:  # fmt: skip
    """Put the drawer, the block and the fingers somewhere, at rest."""
    model, data = world.model, world.data
    data.qvel[:] = 0.0
    if open_m is not None:
        data.joint("drawer").qpos[0] = open_m
    mujoco.mj_kinematics(model, data)
    if block_in_drawer:
        inside = [0.0, 0.0, FLOOR_M + 0.0162]
        block_m = tuple(data.body("drawer").xpos + data.body("drawer").xmat.reshape(3, 3) @ inside)
    if block_m is not None:
        data.joint("block").qpos[:] = [*block_m, 1, 0, 0, 0]
    if gripper_m is not None:
        for side in ("left", "right"):
            data.joint(f"hand/{side}_finger").qpos[0] = gripper_m
    mujoco.mj_forward(model, data)


def start_at(world: World, pose: np.ndarray) -> None:
    """Reset with the open hand at a pose, shape (4,), which belongs to the scene of seed 3."""
    world.task.start_poses = lambda rng: pose[None]  # type: ignore[method-assign]
    world.reset(3)


def slide(world: World, speed_m_s: float, duration_s: float) -> None:
    """Move the hand along the way of the drawer, with the gripper as it is."""
    yaw = float(task_of(world).grasp_poses(world.data)[0, 3])
    for _ in range(round(duration_s / 0.02)):
        along = np.array([np.cos(yaw), np.sin(yaw), 0.0, 0.0, 0.0, 0.0])
        world.command(speed_m_s * in_tool(along, float(see(world).tcp[0, 3])))
        world.advance(0.02)
    world.command(np.zeros(6))
    world.advance(0.2)


def test_same_seed_is_the_same_start(world: World) -> None:
    world.reset(7)
    first = world.snapshot()
    world.command(np.zeros(6), gripper=0.0)
    world.advance(0.5)
    world.reset(8)
    assert not np.array_equal(world.snapshot(), first)
    world.reset(7)
    np.testing.assert_array_equal(world.snapshot(), first)


def test_cabinet_drawer_block_and_hand_vary_over_their_whole_range(drawer: ResolvedRun, world: World) -> None:
    cabinets, openings, blocks, starts = [], [], [], []
    for seed in range(80):
        rng = np.random.default_rng(seed)
        world.task.place(world.model, world.data, rng)
        mujoco.mj_kinematics(world.model, world.data)
        for body, kept in (("cabinet", cabinets), ("block", blocks)):
            placed = world.data.body(body)
            kept.append([*placed.xpos[:2], np.arctan2(placed.xmat[3], placed.xmat[0])])
        openings.append([task_of(world).opening_m(world.data)])
        starts.append(world.task.start_poses(rng)[0])
    config = config_of(drawer)
    for values, ranges in (
        (cabinets, [*config.cabinet_range_m, 2 * config.cabinet_yaw_rad]),
        (openings, [config.start_open_m]),
        (blocks, [*config.block_range_m, 2 * config.block_yaw_rad]),
        (starts, [*config.start_range_m, 2 * config.start_yaw_rad]),
    ):
        spread = np.ptp(values, axis=0)
        assert (spread > 0.9 * np.array(ranges)).all()
        assert (spread <= np.array(ranges)).all()


def test_a_reset_ends_with_an_open_hand_over_a_drawer_that_is_nearly_closed(drawer: ResolvedRun, world: World) -> None:
    config = config_of(drawer)
    for seed in range(6):
        world.reset(seed)
        task, data = task_of(world), world.data
        assert world.state().gripper == pytest.approx(1.0, abs=0.02)
        assert -0.001 < task.opening_m(data) <= config.start_open_m + 0.001
        assert data.body("block").xpos[2] == pytest.approx(0.001 + config.block_side_m / 2, abs=0.0005)
        assert task.stage(data) == Stage.OPEN
        assert not any(task.milestones(data).values())
        assert not task.failed(data)
        assert not task.succeeded(data)


def test_proprio_tells_nothing_of_block_and_drawer(drawer: ResolvedRun) -> None:
    assert [field.name for field in drawer.spec().proprio] == ["tcp_pose", "tcp_twist", "wrench", "gripper"]


def test_nothing_but_contact_moves_drawer_and_block(world: World) -> None:
    model = world.model
    assert model.joint("block").type[0] == mujoco.mjtJoint.mjJNT_FREE
    assert model.neq == 1  # the two fingers
    assert model.ntendon == 0
    assert model.nu == 8  # seven joints and the gripper


@pytest.mark.parametrize(("push_n", "moves"), [(1.0, False), (3.0, True)])
def test_the_drawer_moves_only_against_its_friction(world: World, push_n: float, moves: bool) -> None:
    world.reset(3)
    world.data.qfrc_applied[world.model.joint("drawer").dofadr[0]] = push_n
    before = task_of(world).opening_m(world.data)
    world.advance(0.5)
    assert (task_of(world).opening_m(world.data) - before > 0.02) is moves


def test_a_hand_that_closes_around_the_handle_pulls_the_drawer_to_its_stop(drawer: ResolvedRun, world: World) -> None:
    world.reset(3)
    start_at(world, task_of(world).grasp_poses(world.data)[0])
    world.command(np.zeros(6), gripper=0.0)
    world.advance(0.7)
    assert 0.12 < world.state().gripper < 0.28
    assert task_of(world).milestones(world.data)["took the handle"]
    slide(world, 0.08, 1.2)
    assert task_of(world).opening_m(world.data) == pytest.approx(config_of(drawer).travel_m, abs=0.003)
    assert task_of(world).stage(world.data) == Stage.FILL


def test_open_fingers_push_a_filled_drawer_closed(drawer: ResolvedRun, world: World) -> None:
    config = config_of(drawer)
    world.reset(3)
    set_scene(world, open_m=config.travel_m, block_in_drawer=True)
    front = task_of(world).grasp_poses(world.data)[0]
    start_at(world, front + 0.005 * np.array([np.cos(front[3]), np.sin(front[3]), 0.0, 0.0]))
    set_scene(world, open_m=config.travel_m, block_in_drawer=True)
    assert task_of(world).stage(world.data) == Stage.CLOSE
    assert not task_of(world).succeeded(world.data)
    slide(world, -0.08, 1.4)
    assert task_of(world).opening_m(world.data) < config.closed_within_m
    assert task_of(world).succeeded(world.data)


def test_success_needs_the_block_inside_the_drawer_closed_and_the_gripper_open(world: World) -> None:
    world.reset(3)
    task, data = task_of(world), world.data
    set_scene(world, open_m=0.0, block_in_drawer=True)
    assert task.succeeded(data)
    set_scene(world, gripper_m=0.02)
    assert not task.succeeded(data)
    set_scene(world, gripper_m=0.04, open_m=0.01, block_in_drawer=True)
    assert not task.succeeded(data)
    set_scene(world, open_m=0.0, block_m=(0.5, -0.09, 0.017))
    assert not task.succeeded(data)


@pytest.mark.parametrize(
    ("ahead_m", "up_m", "lost"),
    [(-0.03, 0.017, True), (-0.03, 0.062, False), (0.20, 0.017, True), (0.10, 0.017, False)],
)
def test_a_block_behind_the_drawer_or_out_of_reach_is_lost(
    world: World, ahead_m: float, up_m: float, lost: bool
) -> None:
    world.reset(3)
    cabinet = world.data.body("cabinet")
    set_scene(world, open_m=0.06)
    x, y, _ = cabinet.xpos + cabinet.xmat.reshape(3, 3) @ [ahead_m, 0.0, 0.0]
    set_scene(world, block_m=(x, y, up_m))
    assert task_of(world).failed(world.data) is lost


def test_what_comes_next_depends_on_the_state_alone(drawer: ResolvedRun, world: World) -> None:
    travel_m = config_of(drawer).travel_m
    world.reset(3)
    task, data = task_of(world), world.data
    seen = []
    for open_m, inside in ((0.0, False), (0.7 * travel_m, False), (travel_m, False), (travel_m, True), (0.02, True)):
        set_scene(world, open_m=open_m, block_m=(0.5, -0.09, 0.017), block_in_drawer=inside)
        seen.append(task.stage(data))
    assert seen == [Stage.OPEN, Stage.OPEN, Stage.FILL, Stage.CLOSE, Stage.CLOSE]


def test_the_operator_is_shown_where_the_part_of_each_stage_is_and_shall_go(drawer: ResolvedRun, world: World) -> None:
    travel_m = config_of(drawer).travel_m
    world.reset(3)
    task, data = task_of(world), world.data
    ahead = data.body("cabinet").xmat.reshape(3, 3)[:, 0]
    grasp, goal = task.grasp_poses(data)[0], task.goal_poses(data)[0]
    np.testing.assert_allclose(grasp[:3], data.geom("handle").xpos, atol=1e-6)
    assert (goal - grasp)[:3] @ ahead > travel_m - task.opening_m(data)
    set_scene(world, open_m=travel_m)
    grasp, goal = task.grasp_poses(data)[0], task.goal_poses(data)[0]
    np.testing.assert_allclose(grasp[:2], data.body("block").xpos[:2], atol=1e-6)
    assert abs(data.body("drawer").xmat.reshape(3, 3).T @ (goal[:3] - data.body("drawer").xpos))[0] < HALF_LENGTH_M / 2
    set_scene(world, block_in_drawer=True)
    grasp, goal = task.grasp_poses(data)[0], task.goal_poses(data)[0]
    assert (grasp - goal)[:3] @ ahead == pytest.approx(travel_m, abs=1e-6)
    assert see(world).stage == Stage.CLOSE


def images(world: World, drawer: ResolvedRun) -> Mapping[str, np.ndarray]:
    shown = {}
    for name, config in drawer.cameras.items():
        camera = SimCamera(world, name, config)
        shown[name] = camera.see().astype(int)
        camera.close()
    return shown


@pytest.mark.long
def test_each_stage_is_seen_by_a_camera_of_the_policy(drawer: ResolvedRun, world: World) -> None:
    """Of 64x64 pixels, at least ten change by a third of the range, in one camera at least."""
    world.reset(3)
    stages = [images(world, drawer)]
    for changes in ({"open_m": 0.06}, {"block_in_drawer": True}, {"open_m": 0.0, "block_in_drawer": True}):
        set_scene(world, **changes)  # type: ignore[arg-type]
        stages.append(images(world, drawer))
    assert {name: image.shape for name, image in stages[0].items()} == {"wrist": (64, 64, 3), "front": (64, 64, 3)}
    for before, after in pairwise(stages):
        changed = [(np.abs(after[name] - before[name]).max(axis=2) > 80).sum() for name in before]
        assert max(changed) >= 10


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"block_centre_m": (0.5, -0.05)}, "must be at least .* m further from cabinet_centre_m"),
        ({"block_range_m": (0.06, -0.01)}, "greater than or equal to 0"),
        ({"block_side_m": 0.05}, "less than or equal to 0.034"),
        ({"friction_n": 0.0}, "greater than 0"),
        ({"travel_m": 0.2}, "less than or equal to 0.08"),
        ({"block_yaw": 0.2}, "Extra inputs"),
    ],
)
def test_a_scene_that_cannot_be_is_refused(settings: dict[str, object], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        DrawerConfig(**settings)  # type: ignore[arg-type]
