"""The drawer: pull it open by its handle, put a block in that lies on a mat beside it, and push it closed.

The drawer slides in a cabinet with friction, and nothing but contact moves it. Where the cabinet stands and how it is
turned, how far the drawer is open at the start, and where the block lies can be known only through the cameras. Success
is at the very end: the block lies in the drawer, the drawer is closed, and the gripper is open.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Annotated, Self

import mujoco
import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from robot_stack.types.insertion import InsertionState
from sim.tasks.cabinet import (
    FLOOR_M,
    FRONT_HALF_WIDTH_M,
    FRONT_M,
    HALF_LENGTH_M,
    HALF_WIDTH_M,
    HANDLE_M,
    HANDLE_Z_M,
    add_cabinet,
)

GRASP_ABOVE_M = 0.006
"""The TCP above the middle of a block that it holds well: the pads stay above the rim of the drawer."""
DROP_M = 0.010
"""From how far above the drawer's floor the block is dropped."""
RESTING_M = 0.006
"""A block whose middle is at most this much higher than one that lies on the drawer's floor lies there."""
OPEN_ENOUGH = 0.8
"""Share of its travel from which the drawer is open: the block fits in with room to spare."""
BEYOND_STOP_M = 0.008
"""An operator pulls the drawer as if it went so much further than to its stop."""
PAD_M = 0.010
"""From the TCP to the face of the pads that push the drawer."""
HELD_M = 0.02
"""A block whose middle is nearer than this to the middle of the hand is held, once the fingers are closed."""
LIFTED_M = 0.02
"""A held block that is this much above the table has been lifted."""
GRIPPER_OPEN_M, GRIPPER_CLOSED_M = 0.036, 0.025
"""Of each finger: from here on it is open, and below it is closed."""
REACH_M = (0.10, 0.08)
"""Beyond the middles of block and open drawer, along x and y: further away the block is out of reach."""
MAT_HALF_M, MAT_MARGIN_M = 0.0005, 0.03
"""Half the thickness of the mat, and how far it reaches beyond the area in which blocks lie."""
FINGER_M = 0.012
"""Room for a finger between the block and the drawer."""
QUARTER = np.pi / 2
"""The block is a cube: a quarter turn is none."""
Place = tuple[Annotated[float, Field(ge=-1.0, le=1.0)], Annotated[float, Field(ge=-1.0, le=1.0)]]
Range = tuple[Annotated[float, Field(ge=0.0, le=0.3)], Annotated[float, Field(ge=0.0, le=0.3)]]


class DrawerConfig(BaseModel):
    """The geometry and randomisation of the drawer, in metres, radians and newton."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    block_side_m: float = Field(0.032, ge=0.024, le=0.034)
    block_centre_m: Place = Field((0.50, -0.093), description="middle of the places of the block")
    block_range_m: Range = (0.06, 0.05)
    block_yaw_rad: float = Field(0.5, ge=0.0, le=0.7854, description="a quarter turn later the cube is the same")
    cabinet_centre_m: Place = Field((0.46, 0.053), description="middle of the places of the cabinet's face")
    cabinet_range_m: Range = (0.03, 0.03)
    cabinet_yaw_rad: float = Field(0.12, ge=0.0, le=0.4)
    travel_m: float = Field(0.062, ge=0.058, le=0.08, description="of the drawer, to its stop")
    friction_n: float = Field(1.5, gt=0.0, le=6.0, description="force that moves the drawer")
    start_open_m: float = Field(0.012, ge=0.0, le=0.05, description="of the drawer at the start, at most")
    closed_within_m: float = Field(0.005, gt=0.0, le=0.02, description="of a drawer that counts as closed")
    start_centre_m: tuple[float, float, float] = Field((0.50, 0.01, 0.125), description="of the hand")
    start_range_m: tuple[float, float, float] = (0.06, 0.06, 0.02)
    start_yaw_rad: float = Field(0.1745, ge=0.0, le=0.8)
    light_jitter: float = Field(0.25, ge=0.0, le=0.9, description="relative change of brightness and colour")

    @model_validator(mode="after")
    def _apart(self) -> Self:
        """Refuse areas in which the block, or open fingers around it, could stand in the drawer's way."""
        turned = np.sin(self.cabinet_yaw_rad) * (self.travel_m + HANDLE_M + FRONT_M)
        both = FRONT_HALF_WIDTH_M + turned + self.block_side_m / np.sqrt(2) + FINGER_M
        both += (self.block_range_m[1] + self.cabinet_range_m[1]) / 2
        gap = abs(self.block_centre_m[1] - self.cabinet_centre_m[1]) - both
        if gap < 0:
            raise ValueError(
                f"block_centre_m is {list(self.block_centre_m)}, must be at least {-gap:.3f} m further from "
                f"cabinet_centre_m {list(self.cabinet_centre_m)} along y, or the block could lie in the drawer's way; "
                "move them apart, or make block_range_m or cabinet_range_m smaller"
            )
        return self


class Stage(IntEnum):
    """What is to be done next."""

    OPEN = 0
    FILL = 1
    CLOSE = 2


class Drawer:
    """The drawer as a simulated task; see `sim.scene.Task`."""

    name = "drawer"

    def __init__(self, config: DrawerConfig) -> None:
        self._config = config

    def add_to(self, spec: mujoco.MjSpec) -> None:
        """Add cabinet and drawer, mat, block, and a front camera that looks into the drawer."""
        config = self._config
        add_cabinet(spec, config.cabinet_centre_m, travel_m=config.travel_m, friction_n=config.friction_n)
        spec.worldbody.add_geom(
            name="mat",
            type=mujoco.mjtGeom.mjGEOM_BOX,
            size=[config.block_range_m[0] / 2 + MAT_MARGIN_M, config.block_range_m[1] / 2 + MAT_MARGIN_M, MAT_HALF_M],
            pos=[*config.block_centre_m, MAT_HALF_M],
            rgba=[0.78, 0.80, 0.80, 1.0],
            contype=1,
            conaffinity=1,
        )
        block = spec.worldbody.add_body(name="block", pos=[*config.block_centre_m, 0.1])
        block.add_freejoint(name="block")
        block.add_geom(
            name="block",
            type=mujoco.mjtGeom.mjGEOM_BOX,
            size=[config.block_side_m / 2] * 3,
            mass=0.04,
            rgba=[0.85, 0.25, 0.10, 1.0],
            contype=3,
            conaffinity=3,
            condim=4,
            friction=[0.4, 0.005, 0.0001],
        )
        x = (config.cabinet_centre_m[0] + config.block_centre_m[0]) / 2 + 0.01
        y = (config.cabinet_centre_m[1] + config.block_centre_m[1]) / 2 + 0.012
        spec.worldbody.add_camera(  # steep enough to see the floor of the drawer over its front
            name="front", pos=[x + 0.38, y, 0.44], xyaxes=[0, 1, 0, -0.757, 0, 0.653], fovy=30
        )

    def place(self, model: mujoco.MjModel, data: mujoco.MjData, rng: np.random.Generator) -> None:
        """Draw the pose of the cabinet, how far the drawer is open, the pose of the block, and the light."""
        config = self._config
        mocap = model.body("cabinet").mocapid[0]
        xy = np.array(config.cabinet_centre_m) + (rng.random(2) - 0.5) * config.cabinet_range_m
        yaw = rng.uniform(-1, 1) * config.cabinet_yaw_rad
        data.mocap_pos[mocap] = [*xy, 0.0]
        data.mocap_quat[mocap] = [np.cos(yaw / 2), 0, 0, np.sin(yaw / 2)]
        data.qpos[model.joint("drawer").qposadr[0]] = rng.random() * config.start_open_m
        xy = np.array(config.block_centre_m) + (rng.random(2) - 0.5) * config.block_range_m
        yaw = rng.uniform(-1, 1) * config.block_yaw_rad
        address = model.joint("block").qposadr[0]
        data.qpos[address : address + 3] = [*xy, 2 * MAT_HALF_M + config.block_side_m / 2]
        data.qpos[address + 3 : address + 7] = [np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2)]
        model.light_diffuse[0] = 0.5 * (1 + config.light_jitter * rng.uniform(-1, 1, 3))
        model.vis.headlight.diffuse[:] = 0.35 * (1 + config.light_jitter * rng.uniform(-1, 1))

    def start_poses(self, rng: np.random.Generator) -> np.ndarray:
        """Draw a random start pose above the table; see `sim.scene.Task`."""
        config = self._config
        xyz = np.array(config.start_centre_m) + (rng.random(3) - 0.5) * config.start_range_m
        return np.array([[*xyz, rng.uniform(-1, 1) * config.start_yaw_rad]])

    def settle(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        """Leave everything where it is: the hand is empty."""

    # The truth ---------------------------------------------------------------------------------------------------
    def opening_m(self, data: mujoco.MjData) -> float:
        """Return how far the drawer is open, in metres."""
        return float(data.joint("drawer").qpos[0])

    def block_inside(self, data: mujoco.MjData) -> bool:
        """Return True if the block lies on the floor of the drawer."""
        x, y, z = self._in_drawer(data, data.body("block").xpos)
        half = self._config.block_side_m / 2
        resting = z - FLOOR_M - half < RESTING_M
        return bool(abs(x) < HALF_LENGTH_M - half / 2 and abs(y) < HALF_WIDTH_M - half / 2 and z > 0.0 and resting)

    def succeeded(self, data: mujoco.MjData) -> bool:
        """Return True if the block lies in the closed drawer and the gripper is open."""
        closed = self.opening_m(data) < self._config.closed_within_m
        return closed and self.block_inside(data) and _finger_m(data) > GRIPPER_OPEN_M

    def failed(self, data: mujoco.MjData) -> bool:
        """Return True if the block is out of reach: off the table, far away, or in the cabinet beside the drawer."""
        block, config = data.body("block").xpos, self._config
        middles = np.array([config.block_centre_m, config.cabinet_centre_m])
        low, high = middles.min(axis=0) - REACH_M, middles.max(axis=0) + REACH_M + [config.travel_m / 2, 0.0]
        away = (block[:2] < low).any() or (block[:2] > high).any() or block[2] < 0.0
        return bool(away or (self._under_cover(data) and not self.block_inside(data)))

    def stage(self, data: mujoco.MjData) -> int:
        """Return what is to be done next, of `Stage`, whatever was done before; see `sim.scene.Task`."""
        if self.block_inside(data):
            return Stage.CLOSE
        wide = self.opening_m(data) >= OPEN_ENOUGH * self._config.travel_m
        return Stage.FILL if wide else Stage.OPEN

    def milestones(self, data: mujoco.MjData) -> Mapping[str, bool]:
        """Return what the stages lead to, and whether each is so now; see `sim.scene.Task`."""
        config, tcp = self._config, data.site("hand/tcp").xpos
        inside, opening = self.block_inside(data), self.opening_m(data)
        closed_hand, block = _finger_m(data) < GRIPPER_CLOSED_M, data.body("block").xpos
        at_handle = np.linalg.norm(self._handle(data)[:3] - tcp) < HELD_M
        lifted = block[2] > config.block_side_m / 2 + LIFTED_M and np.linalg.norm(block - tcp) < HELD_M
        return {
            "took the handle": bool(closed_hand and at_handle),
            "opened the drawer": opening >= OPEN_ENOUGH * config.travel_m,
            "lifted the block": bool(closed_hand and lifted),
            "put it in": inside,
            "closed the drawer on it": inside and opening < config.closed_within_m,
        }

    def insertion(self, data: mujoco.MjData) -> InsertionState | None:
        """Return None: there is no score of an insertion; see `sim.scene.Task`."""
        return None

    # What an operator sees ---------------------------------------------------------------------------------------
    def grasp_poses(self, data: mujoco.MjData) -> np.ndarray:
        """Return the TCP that would have the part of this stage between its fingers, shape (1, 4).

        The parts are the handle, then the block, then the front of the drawer, which open fingers touch. The hand is
        turned as little as it can be: half a turn of it changes nothing.
        """
        stage = self.stage(data)
        if stage == Stage.FILL:
            block, yaw = data.body("block"), _yaw(data.site("hand/tcp").xmat)
            x, y, z = block.xpos
            return np.array([[x, y, z + GRASP_ABOVE_M, yaw + _turn(_block_yaw(block.xmat) - yaw, QUARTER)]])
        return np.array([self._handle(data) if stage == Stage.OPEN else self._front(data, self.opening_m(data))])

    def goal_poses(self, data: mujoco.MjData) -> np.ndarray:
        """Return the TCP that would have that part where it shall be, shape (1, 4).

        That is the handle of the open drawer, the block above the middle of the drawer's open part, and the front of
        the closed drawer; the last with the yaw of the cabinet, which tells where the drawer comes out.
        """
        stage = self.stage(data)
        if stage == Stage.OPEN:
            return np.array([self._handle(data, self._config.travel_m + BEYOND_STOP_M)])
        if stage == Stage.FILL:
            return np.array([self._over_drawer(data)])
        return np.array([[*self._front(data, 0.0)[:3], _yaw(data.body("cabinet").xmat)]])

    def _handle(self, data: mujoco.MjData, opening_m: float | None = None) -> np.ndarray:
        """Return the middle of the handle, with the drawer open so far or as it is, shape (4,)."""
        slid = self.opening_m(data) if opening_m is None else opening_m
        return self._on_cabinet(data, slid + FRONT_M + HANDLE_M / 2)

    def _front(self, data: mujoco.MjData, opening_m: float) -> np.ndarray:
        """Return the TCP whose pads touch the front of a drawer that is open so far, shape (4,)."""
        return self._on_cabinet(data, opening_m + FRONT_M + PAD_M)

    def _on_cabinet(self, data: mujoco.MjData, ahead_m: float) -> np.ndarray:
        """Return a pose at the height of the handle so far ahead of the cabinet's face, turned like it, shape (4,)."""
        cabinet = data.body("cabinet")
        turned = cabinet.xmat.reshape(3, 3)
        return np.array([*(cabinet.xpos + turned @ [ahead_m, 0.0, HANDLE_Z_M]), _nearest_yaw(data)])

    def _over_drawer(self, data: mujoco.MjData) -> np.ndarray:
        """Return the TCP from which the block drops into the middle of the open part of the drawer, shape (4,)."""
        config, tcp, block = self._config, data.site("hand/tcp").xpos, data.body("block").xpos
        cabinet = data.body("cabinet")
        opening = self.opening_m(data)
        inner = max(0.0, opening - 2 * HALF_LENGTH_M)
        height = FLOOR_M + DROP_M + config.block_side_m / 2
        dropped = cabinet.xpos + cabinet.xmat.reshape(3, 3) @ [(inner + opening) / 2, 0.0, height]
        held = np.linalg.norm(block - tcp) < HELD_M and _finger_m(data) < GRIPPER_CLOSED_M
        beside = tcp - block if held else np.array([0.0, 0.0, GRASP_ABOVE_M])
        return np.array([*(dropped + beside), _nearest_yaw(data)])

    def _in_drawer(self, data: mujoco.MjData, point: np.ndarray) -> np.ndarray:
        """Return a point in the frame of the drawer, whose origin is in the middle under its floor [m], shape (3,)."""
        drawer = data.body("drawer")
        return np.asarray(drawer.xmat.reshape(3, 3).T @ (point - drawer.xpos))

    def _under_cover(self, data: mujoco.MjData) -> bool:
        """Return True if the block is behind the face of the cabinet, and not on top of it."""
        cabinet, block = data.body("cabinet"), data.body("block").xpos
        x, y, z = cabinet.xmat.reshape(3, 3).T @ (block - cabinet.xpos)
        return bool(x < 0.0 and abs(y) < HALF_WIDTH_M and z < HANDLE_Z_M)


def _finger_m(data: mujoco.MjData) -> float:
    """Return how far each finger is from the middle, in metres."""
    return float(data.joint("hand/left_finger").qpos[0])


def _yaw(matrix: np.ndarray) -> float:
    """Return the yaw of the x axis of a rotation matrix, shape (9,), in rad."""
    return float(np.arctan2(matrix[3], matrix[0]))


def _block_yaw(matrix: np.ndarray) -> float:
    """Return the yaw of a cube, on whichever face it lies, from its rotation matrix, shape (9,), in rad."""
    axes = matrix.reshape(3, 3)
    level = (int(np.abs(axes[2]).argmax()) + 1) % 3
    return float(np.arctan2(axes[1, level], axes[0, level]))


def _nearest_yaw(data: mujoco.MjData) -> float:
    """Return the yaw of a hand that stands along the drawer, turned as little as it can be, in rad."""
    yaw = _yaw(data.site("hand/tcp").xmat)
    return yaw + _turn(_yaw(data.body("cabinet").xmat) - yaw, 2 * QUARTER)


def _turn(angle_rad: float, again_rad: float) -> float:
    """Return the smallest turn to what is turned by this angle, and looks the same every `again_rad`."""
    return float((angle_rad + again_rad / 2) % again_rad - again_rad / 2)
