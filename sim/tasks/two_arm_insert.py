"""The two-arm insertion: one arm brings a held block to the middle, the other puts a held peg into it.

Both parts are held by friction alone, and nothing ties them together but contact. Where the arms start, how they are
turned and how bright it is are random; how far the block is from the middle, and where its hole is, can be known only
through the cameras.
"""

from __future__ import annotations

from collections.abc import Mapping

import mujoco
import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from robot_stack.types.insertion import InsertionState
from sim.tasks.hole import HoleShape, add_hole

LEFT, RIGHT = "left", "right"
BLUE = (0.16, 0.30, 0.62, 1.0)
BEHIND_M = 0.012
"""How far a part reaches behind the TCP that holds it."""
GOAL_DEPTH_M = 0.004
"""An operator pushes the peg this much deeper than it must go."""
YAWS = {LEFT: -np.pi / 2, RIGHT: np.pi / 2}
"""Of the tools in the cell: their x axes point at each other, along y."""


class TwoArmInsertConfig(BaseModel):
    """The geometry and randomisation of the two-arm insertion, in metres and radians."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    peg_side_m: float = Field(0.024, gt=0.005, le=0.05)
    clearance_m: float = Field(0.003, gt=0.0, le=0.01, description="hole side minus peg side")
    peg_ahead_m: float = Field(0.095, gt=0.03, le=0.15, description="from the TCP to the tip")
    block_ahead_m: float = Field(0.095, gt=0.06, le=0.15, description="from the TCP to the rim of the hole")
    hole_depth_m: float = Field(0.035, gt=0.01, le=0.05)
    chamfer_m: float = Field(0.005, ge=0.0, le=0.01, description="45 degree lead-in at the rim")
    wall_m: float = Field(0.016, gt=0.004, le=0.04)
    insert_depth_m: float = Field(0.022, gt=0.005, le=0.04)
    meet_m: tuple[float, float, float] = Field((0.50, 0.0, 0.20), description="middle between the TCPs when it is done")
    start_back_m: float = Field(0.05, gt=0.0, le=0.1, description="how far back from there each arm starts, mean")
    start_range_m: tuple[float, float, float] = (0.05, 0.03, 0.04)
    start_yaw_rad: float = Field(0.12, ge=0.0, le=0.5)
    light_jitter: float = Field(0.25, ge=0.0, le=0.9, description="relative change of brightness and colour")

    @property
    def tcp_distance_m(self) -> float:
        """Return the distance between the TCPs when the task is done, in metres."""
        return self.peg_ahead_m + self.block_ahead_m - self.insert_depth_m - GOAL_DEPTH_M


class TwoArmInsert:
    """The two-arm insertion as a simulated task; see `sim.scene.Task`.

    The left arm holds the block, the right arm the peg.
    """

    name = "two_arm_insert"

    def __init__(self, config: TwoArmInsertConfig) -> None:
        self._config = config

    def add_to(self, spec: mujoco.MjSpec) -> None:
        """Add block, peg and two cameras that see across each other."""
        self._add_block(spec)
        self._add_peg(spec)
        x, y, z = self._config.meet_m
        spec.worldbody.add_camera(name="front", pos=[x + 0.55, y, z + 0.13], xyaxes=[0, 1, 0, -0.23, 0, 0.973], fovy=27)
        spec.worldbody.add_camera(name="above", pos=[x, y, z + 0.44], xyaxes=[0, 1, 0, -1, 0, 0], fovy=34)

    def _add_block(self, spec: mujoco.MjSpec) -> None:
        """Add the block, whose body frame is the TCP's: x towards the hole, y along the closing direction."""
        config = self._config
        half, bottom = config.peg_side_m / 2, config.block_ahead_m - config.hole_depth_m
        block = spec.worldbody.add_body(name="block", pos=[0.5, 0.3, 0.4])
        block.add_freejoint(name="block")
        block.add_geom(
            name="handle",
            type=mujoco.mjtGeom.mjGEOM_BOX,
            size=[(bottom + BEHIND_M) / 2, half, half],
            pos=[(bottom - BEHIND_M) / 2, 0, 0],
            mass=0.05,
            rgba=[0.30, 0.42, 0.70, 1.0],
            contype=3,
            conaffinity=3,
            condim=4,
            friction=[0.3, 0.005, 0.0001],
        )
        shape = HoleShape(
            side_m=config.peg_side_m + config.clearance_m,
            wall_m=config.wall_m,
            height_m=config.hole_depth_m,
            chamfer_m=config.chamfer_m,
        )
        ahead = block.add_frame(pos=[bottom, 0, 0], quat=[np.sqrt(0.5), 0, np.sqrt(0.5), 0])  # its z is the block's x
        add_hole(block, "hole", shape, BLUE, ahead)

    def _add_peg(self, spec: mujoco.MjSpec) -> None:
        """Add the peg, whose body frame is the TCP's: x towards the tip, y along the closing direction."""
        config = self._config
        half = config.peg_side_m / 2
        peg = spec.worldbody.add_body(name="peg", pos=[0.5, -0.3, 0.4])
        peg.add_freejoint(name="peg")
        peg.add_geom(
            name="peg",
            type=mujoco.mjtGeom.mjGEOM_BOX,
            size=[(config.peg_ahead_m + BEHIND_M) / 2, half, half],
            pos=[(config.peg_ahead_m - BEHIND_M) / 2, 0, 0],
            mass=0.06,
            rgba=[0.85, 0.45, 0.12, 1.0],
            contype=3,
            conaffinity=3,
            condim=4,
            friction=[0.3, 0.005, 0.0001],
        )
        peg.add_geom(  # a light edge at the tip
            type=mujoco.mjtGeom.mjGEOM_BOX,
            size=[0.002, half + 0.0002, half + 0.0002],
            pos=[config.peg_ahead_m - 0.0021, 0, 0],
            mass=0.0,
            rgba=[0.95, 0.85, 0.3, 1.0],
            contype=0,
            conaffinity=0,
        )

    def place(self, model: mujoco.MjModel, data: mujoco.MjData, rng: np.random.Generator) -> None:
        """Draw a random light; the parts are put into the hands once these stand."""
        jitter = self._config.light_jitter
        model.light_diffuse[0] = 0.5 * (1 + jitter * rng.uniform(-1, 1, 3))
        model.vis.headlight.diffuse[:] = 0.35 * (1 + jitter * rng.uniform(-1, 1))

    def start_poses(self, rng: np.random.Generator) -> np.ndarray:
        """Draw random start poses, the arms facing each other; see `sim.scene.Task`."""
        config = self._config
        away = config.tcp_distance_m / 2 + config.start_back_m
        poses = []
        for yaw, side in ((YAWS[LEFT], 1.0), (YAWS[RIGHT], -1.0)):
            xyz = np.array(config.meet_m) + [0.0, side * away, 0.0] + (rng.random(3) - 0.5) * config.start_range_m
            poses.append([*xyz, yaw + rng.uniform(-1, 1) * config.start_yaw_rad])
        return np.array(poses)

    def settle(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        """Put each part between the fingers, at rest."""
        for part, arm in (("block", LEFT), ("peg", RIGHT)):
            site, joint = data.site(f"{arm}/hand/tcp"), model.joint(part)
            quaternion = np.empty(4)
            mujoco.mju_mat2Quat(quaternion, site.xmat)
            address, dof = joint.qposadr[0], joint.dofadr[0]
            data.qpos[address : address + 3] = site.xpos
            data.qpos[address + 3 : address + 7] = quaternion
            data.qvel[dof : dof + 6] = 0.0

    def tip_in_hole(self, data: mujoco.MjData) -> np.ndarray:
        """Return the centre of the peg's tip [m], shape (3,).

        How deep it is behind the rim, and aside along y and z of the block.
        """
        peg, block = data.body("peg"), data.body("block")
        tip = peg.xpos + peg.xmat.reshape(3, 3) @ [self._config.peg_ahead_m, 0.0, 0.0]
        inside = block.xmat.reshape(3, 3).T @ (tip - block.xpos)
        return np.array([self._config.block_ahead_m - inside[0], inside[1], inside[2]])

    def succeeded(self, data: mujoco.MjData) -> bool:
        """Return True if the tip is `insert_depth_m` behind the rim, inside the hole, and no part has left its hand."""
        config = self._config
        depth, *aside = self.tip_in_hole(data)
        inside = np.abs(aside).max() < (config.peg_side_m + config.clearance_m) / 2
        return bool(inside and depth >= config.insert_depth_m and not self.failed(data))

    def failed(self, data: mujoco.MjData) -> bool:
        """Return True if a part has left its hand."""
        parts = (("block", LEFT), ("peg", RIGHT))
        return any(
            np.linalg.norm(data.body(part).xpos - data.site(f"{arm}/hand/tcp").xpos) > 0.03 for part, arm in parts
        )

    def goal_poses(self, data: mujoco.MjData) -> np.ndarray:
        """Return the goal of each arm: the block in the middle, and the peg all the way in the block where it is now.

        The block keeps its direction.
        """
        config = self._config
        x, y, z = config.meet_m
        axes = data.body("block").xmat.reshape(3, 3)
        outwards = axes[:, 0]  # out of the hole
        rim = data.body("block").xpos + config.block_ahead_m * outwards
        tcp = rim + (config.peg_ahead_m - config.insert_depth_m - GOAL_DEPTH_M) * outwards
        block_yaw = np.arctan2(outwards[1], outwards[0])
        peg_yaw = np.arctan2(-outwards[1], -outwards[0])
        return np.array([[x, y + config.tcp_distance_m / 2, z, block_yaw], [*tcp, peg_yaw]])

    def grasp_poses(self, data: mujoco.MjData) -> None:
        """Return None: block and peg are in the hands from the start; see `sim.scene.Task`."""

    def stage(self, data: mujoco.MjData) -> int:
        """Return 0: there is one stage; see `sim.scene.Task`."""
        return 0

    def milestones(self, data: mujoco.MjData) -> Mapping[str, bool]:
        """Return nothing: there is one stage; see `sim.scene.Task`."""
        return {}

    def insertion(self, data: mujoco.MjData) -> InsertionState | None:
        """Return None: there is no score of an insertion; see `sim.scene.Task`."""
        return None
