"""Somebody else's model of an arm, driven by our controller: servos gone, hand on, meshes found, mistakes named."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest

from robot_stack.config.resolve import load_run
from robot_stack.types.errors import SpecError
from robot_stack.types.pose import Pose
from robot_stack.workcell.build import build_world
from sim.arms import HAND, HAND_OPEN_M, MODELS, ArmModel, Twin, find_arm
from sim.cell import find_task, make_world
from sim.simulated_arm import PlacedArm
from sim.world import World

JOINTS = tuple(f"axis{i}" for i in range(1, 8))
TETRAHEDRON = "v 0 0 0\nv 0.02 0 0\nv 0 0.02 0\nv 0 0 0.02\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"


def published(folder: Path) -> Path:
    """The built-in arm as others publish arms: position servos, damping for them, meshes in a folder, a keyframe."""
    text = (MODELS / "fr3.xml").read_text()
    text = re.sub(r'"joint(\d)"', r'"axis\1"', text)
    text = re.sub(r'<motor name="(\w+)" joint="\w+" ctrlrange="[^"]+"/>', r'<position joint="\1" kp="3000"/>', text)
    text = re.sub(r'<site name="flange"[^>]*/>', '<camera name="eye"/>', text).replace('damping="1.0"', 'damping="200"')
    text = text.replace("<compiler ", '<compiler meshdir="assets" ')
    text = text.replace("<worldbody>", '<asset><mesh name="part" file="part.obj"/></asset><worldbody><light name="l"/>')
    text = text.replace('<body name="link1"', '<geom type="mesh" mesh="part"/><body name="link1"')
    key = '<keyframe><key name="home" qpos="0 0 0 -1.5 0 1.5 0"/></keyframe>'
    (folder / "assets").mkdir(parents=True)
    (folder / "assets" / "part.obj").write_text(TETRAHEDRON)
    path = folder / "arm.xml"
    path.write_text(text.replace("</mujoco>", key + "</mujoco>"))
    return path


@pytest.fixture
def twin(tmp_path: Path) -> ArmModel:
    flange = Pose(position_m=np.array([0, 0, 0.107]), quaternion_xyzw=np.array([0.0, 0, 0, 1]))
    return ArmModel(
        arm_file=published(tmp_path / "published"),
        hand_file=HAND,
        joints=JOINTS,
        home_rad=find_arm("fr3").home_rad,
        gripper_open_m=HAND_OPEN_M,
        twin=Twin(body="link7", T_body_flange=flange, torques_nm=(87.0,) * 4 + (12.0,) * 3),
    )


def world_of(model: ArmModel) -> World:
    return make_world(
        {"arm": PlacedArm(model=model)}, task="peg_insert", scene="peg_insert", config=find_task("peg_insert").config()
    )


def moved(world: World) -> np.ndarray:
    """Where the TCP is after a reset and half a second of motion, and how it got there."""
    world.reset(3)
    world.command(np.array([0.04, -0.03, -0.02, 0.0, 0.0, 0.2]))
    world.advance(0.5)
    state = world.state()
    return np.concatenate([state.T_base_tcp.position_m, state.T_base_tcp.quaternion_xyzw, state.twist])


def test_a_published_arm_moves_like_the_same_arm_built_in(twin: ArmModel) -> None:
    np.testing.assert_allclose(moved(world_of(twin)), moved(world_of(find_arm("fr3"))), atol=5e-3)


def test_nothing_of_its_own_servos_light_and_camera_is_left(twin: ArmModel) -> None:
    model = world_of(twin).model
    assert sorted(model.actuator(i).name for i in range(model.nu)) == sorted(
        [*(f"arm/{joint}" for joint in JOINTS), "hand/gripper"]
    )
    np.testing.assert_allclose(model.actuator("arm/axis7").ctrlrange, [-12, 12])
    np.testing.assert_allclose([model.dof_damping[model.joint(f"arm/{joint}").dofadr[0]] for joint in JOINTS], 1.0)
    assert "arm/eye" not in [model.camera(i).name for i in range(model.ncam)]
    assert model.nkey == 0
    assert model.nmesh == 1


def test_a_twin_of_the_configuration_is_the_arm_of_the_world(tmp_path: Path) -> None:
    """Through the files: those of a cell, with the place of the model set as an operator would."""
    path = published(tmp_path / "published")
    robot = (Path(__file__).parents[2] / "hardware_configs/robots/panda_twin.yaml").read_text()
    folder = tmp_path / "hardware_configs" / "robots"
    folder.mkdir(parents=True)
    (folder / "other.yaml").write_text(robot.replace("name: joint", "name: axis"))
    run = load_run("peg_insert", ["cell.robot=other", f"robot.twin.mjcf={path}"], root=tmp_path / "hardware_configs")
    world = build_world(run)
    world.reset(0)
    assert world.state().joints_rad.shape == (7,)


def test_a_missing_file_or_mesh_says_what_to_do(twin: ArmModel) -> None:
    nowhere = dataclasses.replace(twin, arm_file=twin.arm_file.with_name("none.xml"))
    with pytest.raises(SpecError, match=r"none\.xml cannot be loaded .*robot\.twin\.mjcf=FILE"):
        world_of(nowhere)
    (twin.arm_file.parent / "assets" / "part.obj").unlink()
    with pytest.raises(SpecError, match=r"part\.obj.*must be an MJCF file with its meshes"):
        world_of(twin)


def test_an_arm_with_other_joints_or_no_such_body_is_named(twin: ArmModel) -> None:
    with pytest.raises(SpecError, match=r"joints of twin arm\.xml are \['axis1', .*must be \['axis1', 'axis2'\]"):
        world_of(dataclasses.replace(twin, joints=JOINTS[:2], home_rad=(0.0, 0.0)))
    assert twin.twin is not None
    lost = dataclasses.replace(twin.twin, body="link9")
    with pytest.raises(SpecError, match=r"flange_body of twin arm\.xml is 'link9', must be one of \['world', 'link0'"):
        world_of(dataclasses.replace(twin, twin=lost))
