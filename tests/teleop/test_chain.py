"""Forward kinematics of a leader arm, against an arm whose kinematics are known from elsewhere."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from robot_stack.config.files.library import config_root
from robot_stack.config.files.loader import load
from robot_stack.config.kinds import TELEOPS
from robot_stack.config.teleop import LeaderTeleop
from robot_stack.teleop.messages import Chain, Link
from sim.arms import MODELS


@pytest.fixture(scope="module")
def shipped() -> LeaderTeleop:
    config = load(config_root() / "teleop" / "leader.yaml", TELEOPS)
    assert isinstance(config, LeaderTeleop)
    return config


def test_the_shipped_chain_has_its_flange_where_the_simulated_arm_has_it(shipped: LeaderTeleop):
    model = mujoco.MjModel.from_xml_path(str(MODELS / "fr3.xml"))
    state = mujoco.MjData(model)
    chain = Chain([Link(**joint.model_dump()) for joint in shipped.joints], tip_m=0.107)
    rng = np.random.default_rng(0)
    for _ in range(10):
        joints = rng.uniform(-1.5, 1.5, 7)
        state.qpos[:7] = joints
        mujoco.mj_forward(model, state)
        pose = chain.pose(joints)
        np.testing.assert_allclose(pose.position_m, state.site("flange").xpos, atol=1e-6)
        turned = state.site("flange").xmat.reshape(3, 3)
        np.testing.assert_allclose(pose.rotation.as_matrix(), turned, atol=1e-6)


def test_signs_and_offsets_turn_what_the_joint_reports():
    plain = Chain([Link(name="a"), Link(name="b", a_m=0.3)])
    turned = Chain([Link(name="a", sign=-1, offset_rad=0.2), Link(name="b", a_m=0.3)])
    np.testing.assert_allclose(turned.pose([0.5, 0.0]).position_m, plain.pose([-0.3, 0.0]).position_m)


def test_a_missing_angle_is_an_error():
    with pytest.raises(ValueError, match="zip"):
        Chain([Link(name="a")]).pose([])
