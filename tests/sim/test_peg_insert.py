"""Peg and socket: random within bounds, contact is real, success is where it says, nothing is privileged."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from pydantic import ValidationError

from robot_stack.config.resolved import ResolvedRun
from robot_stack.types.errors import RobotError
from robot_stack.workcell.build import build_local_cell, build_world
from sim.scene import CameraRenderer
from sim.tasks.peg_insert import PegInsertConfig
from sim.world import World

CAMERAS = ("hand/wrist", "front")
DOWN = np.array([0, 0, 0.05, 0, 0, 0.0])


def _pose_above_socket(world: World, offset_m: tuple[float, float], above_m: float, yaw_rad: float = 0.0) -> None:
    """Reset with the peg `above_m` over the finished task's pose, `offset_m` beside it in the socket's frame."""

    def start(rng: np.random.Generator) -> np.ndarray:
        x, y, z, yaw = world.task.goal_poses(_placed(world))[0]
        c, s = np.cos(yaw), np.sin(yaw)
        dx, dy = offset_m
        return np.array([[x + c * dx - s * dy, y + s * dx + c * dy, z + above_m, yaw + yaw_rad]])

    world.task.start_poses = start  # type: ignore[method-assign]
    world.reset(0)


def _placed(world: World) -> mujoco.MjData:
    mujoco.mj_kinematics(world.model, world.data)
    return world.data


def _config(resolved: ResolvedRun) -> PegInsertConfig:
    return resolved.section("task.sim", PegInsertConfig)


def test_same_seed_is_the_same_start(world: World) -> None:
    world.reset(7)
    first = world.snapshot()
    world.advance(0.3)
    world.reset(8)
    assert not np.array_equal(world.snapshot(), first)
    world.reset(7)
    np.testing.assert_array_equal(world.snapshot(), first)


def test_socket_start_and_light_vary_over_their_whole_range(resolved: ResolvedRun, world: World) -> None:
    goals, starts, lights = [], [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        world.task.place(world.model, world.data, rng)
        goals.append(world.task.goal_poses(_placed(world))[0])
        starts.append(world.task.start_poses(rng)[0])
        lights.append(world.model.light_diffuse[0].copy())
    spread = np.ptp(goals, axis=0)
    config = _config(resolved)
    assert min(config.socket_range_m) >= 0.08
    assert (spread[:2] > 0.9 * np.array(config.socket_range_m)).all()
    assert (spread[:2] <= config.socket_range_m).all()
    assert 1.8 * config.socket_yaw_rad < spread[3] <= 2 * config.socket_yaw_rad
    assert np.ptp(starts, axis=0)[3] > 1.7 * config.start_yaw_rad
    assert (np.ptp(lights, axis=0) > 0).all()


def test_no_constraint_ties_the_peg_to_anything(world: World) -> None:
    model = world.model
    peg = model.body("peg").id
    assert model.body_parentid[peg] == 0
    assert model.joint("peg").type[0] == mujoco.mjtJoint.mjJNT_FREE
    fingers = {model.joint(f"hand/{side}_finger").id for side in ("left", "right")}
    for i in range(model.neq):
        assert model.eq_type[i] == mujoco.mjtEq.mjEQ_JOINT
        assert {int(model.eq_obj1id[i]), int(model.eq_obj2id[i])} == fingers
    assert model.ntendon == 0
    assert model.nexclude == 0


def test_peg_stays_in_the_hand_under_motion_and_falls_out_of_an_open_one(world: World) -> None:
    world.reset(3)
    rng = np.random.default_rng(1)
    for _ in range(12):
        world.command(rng.uniform(-1, 1, 6) * [0.1, 0.1, 0.05, 0, 0, 0.6])
        world.advance(0.2)
        assert not world.task.failed(world.data)
    world.command(np.zeros(6), gripper=1.0)
    world.advance(0.6)
    assert world.task.failed(world.data)


def test_peg_on_the_rim_does_not_go_through(resolved: ResolvedRun, world: World) -> None:
    config = _config(resolved)
    beside = config.clearance_m + 0.006  # the tip overlaps the wall by 6 mm, chamfer or not
    _pose_above_socket(world, (beside, 0.0), above_m=config.socket_height_m + 0.01)
    world.command(DOWN)
    lowest = np.inf
    for _ in range(150):
        world.advance(0.01)
        lowest = min(lowest, float(world.task.tip_in_socket(world.data)[2]))
    assert lowest > config.socket_height_m - 0.004
    assert np.linalg.norm(world.state().wrench[:3]) > 3.0
    assert not world.task.succeeded(world.data)


def test_aligned_peg_goes_in_and_only_then_it_is_a_success(resolved: ResolvedRun, world: World) -> None:
    config = _config(resolved)
    _pose_above_socket(world, (0.0, 0.0), above_m=config.socket_height_m + 0.01)
    world.command(DOWN)
    for _ in range(250):
        world.advance(0.01)
        depth = config.socket_height_m - world.task.tip_in_socket(world.data)[2]
        assert world.task.succeeded(world.data) == (depth >= config.insert_depth_m)
    assert world.task.succeeded(world.data)
    assert not world.task.failed(world.data)


def test_peg_beside_the_socket_is_no_success_however_deep(resolved: ResolvedRun, world: World) -> None:
    config = _config(resolved)
    _pose_above_socket(world, (0.07, 0.0), above_m=0.02)
    world.command(DOWN)
    world.advance(1.0)
    depth = config.socket_height_m - world.task.tip_in_socket(world.data)[2]
    assert depth >= config.insert_depth_m
    assert not world.task.succeeded(world.data)


def test_unknown_setting_of_the_scene_is_refused() -> None:
    with pytest.raises(ValidationError):
        PegInsertConfig(socket_rnage_m=(0.1, 0.1))  # type: ignore[call-arg]


def test_where_the_socket_is_shows_in_the_images_and_nowhere_else(resolved: ResolvedRun) -> None:
    seen = []
    for shift_m in (0.0, 0.03):
        cell = build_local_cell(resolved, seed=0)
        world = cell._world
        place = world.task.place

        def moved(
            model: mujoco.MjModel,
            data: mujoco.MjData,
            rng: np.random.Generator,
            place: object = place,
            shift_m: float = shift_m,
        ) -> None:
            place(model, data, rng)  # type: ignore[operator]
            data.mocap_pos[0, 0] += shift_m

        world.task.place = moved  # type: ignore[method-assign]
        cell.reset(4)
        seen.append(cell.observe())
    one, other = seen
    assert one is not None
    assert other is not None
    np.testing.assert_array_equal(one.proprio, other.proprio)
    for name in one.images:
        assert (one.images[name] != other.images[name]).any(), name


def test_snapshot_shows_the_same_image_in_another_world(resolved: ResolvedRun, world: World) -> None:
    other = build_world(resolved)
    renderers = [CameraRenderer(w.model, height_px=64, width_px=64) for w in (world, other)]
    world.reset(11)
    other.reset(12)
    world.command(np.array([0.05, 0.02, 0.03, 0, 0, 0.3]))
    world.advance(0.5)
    for camera in CAMERAS:
        wanted = renderers[0].render(world.data, camera)
        assert (renderers[1].render(other.data, camera) != wanted).any()
    snapshot = world.snapshot()
    for each in (world, other):  # the source too: physics leaves the poses one 2 ms step behind its joints
        each.show(snapshot)
    for camera in CAMERAS:
        np.testing.assert_array_equal(renderers[1].render(other.data, camera), renderers[0].render(world.data, camera))
    for renderer in renderers:
        renderer.close()


def test_snapshot_of_another_scene_is_refused(world: World) -> None:
    with pytest.raises(RobotError, match="start all processes alike"):
        world.show(world.snapshot()[:-1])
