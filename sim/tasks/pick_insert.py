"""The pick and insert: take a square peg that stands on a mat, and put it into a socket that stands beside it.

The peg stands upright, anywhere within `peg_range_m` and turned by up to `peg_yaw_rad`; the hand starts open above that
area. Friction alone holds the peg between the fingers. Under the peg is a smooth mat: a finger that touches first
pushes the peg towards the other one, where on bare wood it would tip it over. Where the peg stands can be known only
through the cameras, and so can the place of the socket.
"""

from __future__ import annotations

from typing import Annotated, Self

import mujoco
import numpy as np
from pydantic import Field, model_validator

from sim.tasks.peg_insert import BLUE, PegInsert, PegInsertConfig

GOAL_ABOVE_M = 0.003
"""The tip of an inserted peg above the table: an operator goes no deeper."""
HELD_M = 0.02
"""A peg that is nearer than this to its place between the fingers moves with them once they are closed."""
UPRIGHT = 0.7
"""Cosine of the lean at which a peg counts as fallen: about 45 degrees."""
REACH_M = (0.10, 0.07)
"""Beyond the middles of both areas, along x and y: further away the peg is out of reach."""
MAT_HALF_M, MAT_MARGIN_M = 0.0005, 0.03
"""Half the thickness of the mat, and how far it reaches beyond the area in which pegs stand."""
QUARTER = np.pi / 2
"""The peg is square: a quarter turn is none."""
Place = tuple[Annotated[float, Field(ge=-1.0, le=1.0)], Annotated[float, Field(ge=-1.0, le=1.0)]]
Range = tuple[Annotated[float, Field(ge=0.0, le=0.3)], Annotated[float, Field(ge=0.0, le=0.3)]]


class PickInsertConfig(PegInsertConfig):
    """The geometry and randomisation of the pick and insert, in metres and radians; the start is that of the hand."""

    centre_m: Place = Field((0.50, 0.065), description="middle of the places of the socket")
    socket_range_m: Range = (0.06, 0.04)
    peg_centre_m: Place = Field((0.50, -0.05), description="middle of the places of the peg, and of the starts")
    peg_range_m: Range = (0.06, 0.05)
    peg_yaw_rad: float = Field(0.5, ge=0.0, le=0.7854, description="a quarter turn later the square peg is the same")

    @model_validator(mode="after")
    def _apart(self) -> Self:
        """Refuse areas in which peg and socket could stand in the same place."""
        block = (self.peg_side_m + self.clearance_m) / 2 + self.socket_wall_m
        block *= np.cos(self.socket_yaw_rad) + np.sin(self.socket_yaw_rad)
        both = block + self.peg_side_m / np.sqrt(2)
        places = zip(self.centre_m, self.peg_centre_m, self.socket_range_m, self.peg_range_m, strict=True)
        gap = max(abs(socket - peg) - (of_socket + of_peg) / 2 - both for socket, peg, of_socket, of_peg in places)
        if gap < 0:
            raise ValueError(
                f"peg_centre_m is {list(self.peg_centre_m)}, must be at least {-gap:.3f} m further from centre_m "
                f"{list(self.centre_m)} along x or y, or the peg could stand in the socket; move them apart, or make "
                "peg_range_m or socket_range_m smaller"
            )
        return self


class PickInsert(PegInsert):
    """The pick and insert as a simulated task; see `sim.scene.Task`. Success is that of the peg insertion."""

    name = "pick_insert"

    def __init__(self, config: PickInsertConfig) -> None:
        super().__init__(config)
        self._areas = config

    def add_to(self, spec: mujoco.MjSpec) -> None:
        """Add socket, mat, peg and a front camera that sees both areas."""
        config = self._areas
        self.add_socket(spec, "socket", BLUE)
        spec.worldbody.add_geom(
            name="mat",
            type=mujoco.mjtGeom.mjGEOM_BOX,
            size=[config.peg_range_m[0] / 2 + MAT_MARGIN_M, config.peg_range_m[1] / 2 + MAT_MARGIN_M, MAT_HALF_M],
            pos=[*config.peg_centre_m, MAT_HALF_M],
            rgba=[0.78, 0.80, 0.80, 1.0],
            contype=1,
            conaffinity=1,
            condim=4,
            friction=[0.2, 0.005, 0.0001],
            priority=1,
        )
        self._add_peg(spec)
        x, y = (np.array(config.centre_m) + config.peg_centre_m) / 2
        spec.worldbody.add_camera(  # from the side of the socket, so that the depth of neither hides that of the other
            name="front",
            pos=[x + 0.24, y + 0.416, 0.327],
            xyaxes=[-0.866, 0.5, 0, -0.2425, -0.42, 0.874],
            fovy=29,
        )

    def place(self, model: mujoco.MjModel, data: mujoco.MjData, rng: np.random.Generator) -> None:
        """Draw a random socket pose and light, and stand the peg anywhere in its area."""
        super().place(model, data, rng)
        config = self._areas
        xy = np.array(config.peg_centre_m) + (rng.random(2) - 0.5) * config.peg_range_m
        yaw = rng.uniform(-1, 1) * config.peg_yaw_rad
        address = model.joint("peg").qposadr[0]
        data.qpos[address : address + 3] = [*xy, 2 * MAT_HALF_M + config.peg_below_tcp_m]
        data.qpos[address + 3 : address + 7] = [0.0, np.cos(yaw / 2), np.sin(yaw / 2), 0.0]  # z points down

    def start_poses(self, rng: np.random.Generator) -> np.ndarray:
        """Draw a random start pose above the area of the peg; see `sim.scene.Task`."""
        config = self._areas
        height_m = config.socket_height_m + config.start_height_m + config.peg_below_tcp_m
        xyz = np.array([*config.peg_centre_m, height_m]) + (rng.random(3) - 0.5) * config.start_range_m
        return np.array([[*xyz, rng.uniform(-1, 1) * config.start_yaw_rad]])

    def settle(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        """Leave the peg where it stands: the hand is empty."""

    def failed(self, data: mujoco.MjData) -> bool:
        """Return True if the peg has fallen over, or is out of reach."""
        peg, config = data.body("peg"), self._areas
        middles = np.array([config.centre_m, config.peg_centre_m])
        low, high = middles.min(axis=0) - REACH_M, middles.max(axis=0) + REACH_M
        away = (peg.xpos[:2] < low).any() or (peg.xpos[:2] > high).any()
        return bool(away or peg.xmat.reshape(3, 3)[2, 2] > -UPRIGHT)

    def grasp_poses(self, data: mujoco.MjData) -> np.ndarray:
        """Return the TCP that would have the peg in its middle, turned as little as it can be; shape (1, 4)."""
        yaw = _yaw(data.site("hand/tcp").xmat)
        return np.array([[*data.body("peg").xpos, yaw + _turn(_yaw(data.body("peg").xmat) - yaw)]])

    def goal_poses(self, data: mujoco.MjData) -> np.ndarray:
        """Return the TCP's position and yaw with the peg fully inserted as it is held, or will be; shape (1, 4)."""
        peg, socket, tcp = data.body("peg"), data.body("socket"), data.site("hand/tcp")
        tip = np.array([0.0, 0.0, self._areas.peg_below_tcp_m])
        held = np.linalg.norm(peg.xpos - tcp.xpos) < HELD_M
        yaw = _yaw(tcp.xmat) if held else self.grasp_poses(data)[0, 3]
        beside = tcp.xpos - (peg.xpos + peg.xmat.reshape(3, 3) @ tip) if held else tip
        turn = _turn(_yaw(socket.xmat) - _yaw(peg.xmat))
        cos, sin = np.cos(turn), np.sin(turn)
        x, y = np.array([[cos, -sin], [sin, cos]]) @ beside[:2]
        return np.array([[socket.xpos[0] + x, socket.xpos[1] + y, beside[2] + GOAL_ABOVE_M, yaw + turn]])


def _yaw(matrix: np.ndarray) -> float:
    """Return the yaw of the x axis of a rotation matrix, shape (9,), in rad."""
    return float(np.arctan2(matrix[3], matrix[0]))


def _turn(angle_rad: float) -> float:
    """Return the smallest turn that brings a square peg by this angle further, in [-pi/4, pi/4)."""
    return float((angle_rad + QUARTER / 2) % QUARTER - QUARTER / 2)
