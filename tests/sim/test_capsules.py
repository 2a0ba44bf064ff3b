"""Capsules of the dry run's arm cover MuJoCo's own shapes, and distances are those that MuJoCo measures."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from robot_stack.config.files.library import config_root
from robot_stack.config.files.loader import load
from robot_stack.config.kinds import ROBOTS
from robot_stack.control.kinematics.body import ArmBody, Capsule, HalfSpace, KeepOut
from robot_stack.control.kinematics.posed_arm import PosedArm
from robot_stack.control.safety.clearance import Clearance
from robot_stack.control.safety.limits import SafetyLimits
from robot_stack.types.pose import Pose
from robot_stack.types.robot import RobotState
from robot_stack.workcell.build_arm import build_chain, joint_names
from robot_stack.workcell.build_safety import body_of
from sim.arms import find_arm
from sim.capsules import capsules_of_mjcf

FAR_M = 5.0
TABLE = HalfSpace(name="table", normal=(0.0, 0.0, 1.0), offset_m=0.0)
BOX = KeepOut(name="box", min_m=(0.3, -0.4, 0.1), max_m=(0.5, -0.2, 0.3))


def fr3_body() -> ArmBody:
    robot = load(config_root() / "robots" / "fr3.yaml", ROBOTS)
    chain = build_chain(robot)
    capsules = [Capsule(**capsule.model_dump()) for capsule in robot.collision.capsules]
    body = body_of(chain, capsules, margin_m=robot.collision.margin_m)
    return ArmBody(
        base_in_cell=body.base_in_cell,
        origins=body.origins,
        axes=body.axes,
        capsules=body.capsules,
        margin_m=body.margin_m,
        half_spaces=(TABLE,),
        keep_outs=(BOX,),
    )


def as_model(body: ArmBody, posed: PosedArm) -> mujoco.MjModel:
    """The capsules where they are, a plane and a box, for MuJoCo to measure."""
    spec = mujoco.MjSpec()
    spec.worldbody.add_geom(name="table", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[5, 5, 1])
    low, high = np.array(BOX.min_m), np.array(BOX.max_m)
    spec.worldbody.add_geom(name="box", type=mujoco.mjtGeom.mjGEOM_BOX, size=(high - low) / 2, pos=(low + high) / 2)
    for index, capsule in enumerate(body.capsules):
        ends = np.concatenate([posed.ends[0, :, index], posed.ends[1, :, index]])
        kind = mujoco.mjtGeom.mjGEOM_CAPSULE
        spec.worldbody.add_geom(name=capsule.name, type=kind, size=[capsule.radius_m, 0, 0], fromto=ends)
    return spec.compile()


@pytest.mark.parametrize("seed", range(12))
def test_distances_are_those_that_mujoco_measures(seed: int) -> None:
    body = fr3_body()
    posed = PosedArm("fr3", body)
    limits = SafetyLimits(box_min_m=(-1, -1, -1), box_max_m=(1, 1, 1), body=body)
    clearance = Clearance(posed, limits)
    angles = np.array([0, -0.785, 0, -2.356, 0, 1.571, 0.785]) + np.random.default_rng(seed).uniform(-0.7, 0.7, 7)
    still = np.zeros(6)
    clearance.hear(
        RobotState(
            arm="fr3",
            stamp_ns=0,
            T_base_tcp=Pose.identity(),
            twist=still,
            wrench=still,
            joints_rad=angles,
            joint_speeds_rad_s=np.zeros(7),
            gripper=0.0,
        )
    )
    measured = clearance.distances()
    model = as_model(body, posed)
    world = mujoco.MjData(model)
    mujoco.mj_kinematics(model, world)
    ours: dict[tuple[str, str], float] = {}
    for left, (part, partner) in zip(measured.left_m, measured.pairs):
        key = (clearance.parts[part], clearance.parts[partner])
        ours[key] = min(float(left), ours.get(key, np.inf))
    compared = 0
    for (part, partner), left in ours.items():
        theirs = mujoco.mj_geomDistance(model, world, model.geom(part).id, model.geom(partner).id, FAR_M, None)
        if left > 1e-3:  # MuJoCo's depths of penetration are of another kind
            assert left == pytest.approx(theirs, abs=1e-5), (part, partner)
            compared += 1
    assert compared > 50


def test_the_shipped_capsules_cover_every_shape_of_the_simulated_arm() -> None:
    """Points on MuJoCo's geoms, at poses between the joints' ends, are inside some capsule."""
    robot = load(config_root() / "robots" / "fr3.yaml", ROBOTS)
    spec = mujoco.MjSpec()
    find_arm("fr3").attach_to(spec, "", Pose.identity())
    model = spec.compile()
    posed, world, rng = PosedArm("fr3", fr3_body()), mujoco.MjData(model), np.random.default_rng(0)
    for opening in (0.0, 0.04):
        angles = np.array([rng.uniform(joint.min_rad, joint.max_rad) for joint in robot.joints])
        world.qpos[:7], world.qpos[7:9] = angles, opening
        mujoco.mj_kinematics(model, world)
        posed.place(angles)
        for geom in range(model.ngeom):
            for point in surface(model, world, geom, rng):
                assert depth_m(posed, point) > -1e-3, model.body(model.geom_bodyid[geom]).name


def test_capsules_made_from_the_model_are_the_same_in_every_pose() -> None:
    robot = load(config_root() / "robots" / "fr3.yaml", ROBOTS)
    chain = build_chain(robot)
    spec = mujoco.MjSpec()
    find_arm("fr3").attach_to(spec, "", Pose.identity())
    model = spec.compile()
    seen = []
    for angles in (np.array(robot.home_rad), np.array([0.4, 0.2, -0.3, -1.5, 0.6, 2.0, -0.5])):
        frames = np.concatenate([np.eye(4)[None], chain.frames(angles)])
        placed = list(capsules_of_mjcf(model, joint_names(robot), angles))
        seen.append([hull.moved(np.linalg.inv(frames[link])) for _, link, hull in placed])
    assert len(seen[0]) >= 14
    for one, other in zip(*seen, strict=True):
        np.testing.assert_allclose(one.start_m, other.start_m, atol=1e-6)
        assert one.radius_m == pytest.approx(other.radius_m)


def surface(model: mujoco.MjModel, world: mujoco.MjData, geom: int, rng: np.random.Generator) -> np.ndarray:
    """Points on a geom, in the world, shape (N, 3)."""
    size, kind = model.geom_size[geom], model.geom_type[geom]
    directions = rng.normal(size=(40, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    if kind == mujoco.mjtGeom.mjGEOM_BOX:
        local = directions / np.abs(directions).max(axis=1, keepdims=True) * size
    elif kind == mujoco.mjtGeom.mjGEOM_CYLINDER:
        flat = directions[:, :2] / np.linalg.norm(directions[:, :2], axis=1, keepdims=True) * size[0]
        local = np.concatenate([flat, rng.uniform(-size[1], size[1], (40, 1))], axis=1)
    else:
        assert kind == mujoco.mjtGeom.mjGEOM_CAPSULE
        local = directions * size[0] + np.outer(np.sign(directions[:, 2]), [0.0, 0.0, size[1]])
    return local @ world.geom_xmat[geom].reshape(3, 3).T + world.geom_xpos[geom]


def depth_m(posed: PosedArm, point: np.ndarray) -> float:
    """How deep a point is in the capsule that it is deepest in."""
    start, end = posed.ends[0].T, posed.ends[1].T
    along = end - start
    share = np.clip(np.sum((point - start) * along, axis=1) / np.maximum(np.sum(along**2, axis=1), 1e-12), 0.0, 1.0)
    return float((posed.radii_m - np.linalg.norm(point - start - share[:, None] * along, axis=1)).max())
