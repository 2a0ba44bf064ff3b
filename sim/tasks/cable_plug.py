"""The cable plug: put a held plug, whose cable hangs from a hook, into a socket that stands on a board.

The plug is held by friction alone, and its cable pulls it towards the hook and turns it: by how much depends on where
the hand is. Where board, socket and hook are can be known only through the cameras. Plug and fingers may touch the
socket and nothing else: the board and the table are forbidden.
"""

from __future__ import annotations

from typing import Self

import mujoco
import numpy as np
from pydantic import Field, model_validator

from robot_stack.types.insertion import InsertionState
from sim.tasks.cable import DARK, END, CableShape, add_cable, hanging_links, joint_turns
from sim.tasks.peg_insert import BLUE, PEG_ABOVE_M, PegInsert, PegInsertConfig

BOARD_M, BOARD_HALF_M = 0.008, 0.075
"""Thickness of the board, and half its sides."""
ON_BOARD = np.array([0.0, 0.0, BOARD_M, 0.0])
"""How much higher a pose is than in the peg insertion, shape (4,)."""
HOUSING_BELOW_M = 0.018
"""How far the housing of the plug reaches below the TCP; the connector comes out of it."""
EXIT_M = 0.014
"""How far below the TCP the cable leaves the housing, just under the pads."""
STOP_M = 0.001
"""Half the thickness of the plate at the bottom of the socket, which a plug may touch."""
GOAL_ABOVE_M = 0.003
"""The tip of an inserted plug above the bottom of the socket: an operator goes no deeper."""
MOVED_ON_FORBIDDEN = 1 + 2
"""Sum of the kinds of two geoms that must not touch."""
GREEN, GREY, ORANGE = (0.10, 0.36, 0.20, 1.0), (0.72, 0.72, 0.74, 1.0), (0.85, 0.45, 0.12, 1.0)
CABLE = CableShape(length_m=0.50, links=13, radius_m=0.0035, kg_m=0.1, bending_n_m2=0.006, damping_nms_rad=0.01)
MOVED, FORBIDDEN = ("peg", "housing", "hand/left_pad", "hand/right_pad"), ("board", "table")
"""Geoms of what moves with the hand, and of what these may not touch; the cable may."""


class CablePlugConfig(PegInsertConfig):
    """The geometry and randomisation of the cable plug, in metres and radians; the `peg` is the plug's connector."""

    peg_side_m: float = Field(0.018, gt=0.005, le=0.03, description="side of the square connector")
    housing_side_m: float = Field(0.024, gt=0.005, le=0.05, description="side of what the fingers hold")
    hook_m: tuple[float, float, float] = Field((0.37, 0.21, 0.33), description="where the cable hangs, mean")
    hook_range_m: tuple[float, float, float] = (0.06, 0.04, 0.04)

    @model_validator(mode="after")
    def _within_reach(self) -> Self:
        """Refuse a cable that is too short for some start or some place of the socket."""
        low = np.array([*self.centre_m, BOARD_M + HOUSING_BELOW_M])
        ends = np.array([*self.socket_range_m, 0.0]) / 2
        corners = low + ends * np.array([[x, y, 0] for x in (-1, 1) for y in (-1, 1)])
        furthest = np.array(self.hook_m) + np.sign(self.hook_m - low) * np.array(self.hook_range_m) / 2
        reach = float(np.linalg.norm(corners - furthest, axis=1).max()) + self.housing_side_m / 2
        if reach >= CABLE.length_m:
            raise ValueError(
                f"hook_m is {list(self.hook_m)}, must be nearer than {CABLE.length_m} m to every place of the socket "
                f"(now up to {reach:.3f} m), or the cable does not reach; move it, or make hook_range_m smaller"
            )
        return self


class CablePlug(PegInsert):
    """The cable plug as a simulated task; see `sim.scene.Task`. Success is that of the peg insertion."""

    name = "cable_plug"

    def __init__(self, config: CablePlugConfig) -> None:
        super().__init__(config)
        self._plug = config
        self._kinds: np.ndarray | None = None
        """By the number of a geom: 1 if it moves with the hand, 2 if it is forbidden, else 0."""

    def add_to(self, spec: mujoco.MjSpec) -> None:
        """Add board and socket, plug and cable, the hook, and a front camera that sees plug, socket and cable."""
        config = self._plug
        self.add_socket(spec, "socket", BLUE)
        socket = spec.body("socket")
        socket.add_geom(
            name="board",
            type=mujoco.mjtGeom.mjGEOM_BOX,
            size=[BOARD_HALF_M, BOARD_HALF_M, BOARD_M / 2],
            pos=[0, 0, -BOARD_M / 2],
            rgba=list(GREEN),
            contype=3,
            conaffinity=3,
        )
        hole = (config.peg_side_m + config.clearance_m) / 2
        socket.add_geom(
            name="socket_bottom",
            type=mujoco.mjtGeom.mjGEOM_BOX,
            size=[hole, hole, STOP_M],
            pos=[0, 0, STOP_M],
            rgba=[0.05, 0.05, 0.06, 1.0],
            contype=1,
            conaffinity=1,
        )
        self._add_plug(spec)
        self._add_hook(spec)
        x, y = config.centre_m
        spec.worldbody.add_camera(  # from the side too, as in peg_insert, and wide enough to see where the cable goes
            name="front",
            pos=[x + 0.225, y + 0.39, 0.32],
            xyaxes=[-0.866, 0.5, 0, -0.2425, -0.42, 0.874],
            fovy=28,
        )

    def _add_plug(self, spec: mujoco.MjSpec) -> None:
        """Add the plug, whose body frame sits at the TCP with z towards the tip, and its cable."""
        config = self._plug
        plug = spec.worldbody.add_body(name="peg", pos=[0.5, 0.0, 0.4])
        plug.add_freejoint(name="peg")
        half, tip = config.peg_side_m / 2, config.peg_below_tcp_m
        for name, side, top, bottom, mass, rgba in (
            ("housing", config.housing_side_m / 2, -PEG_ABOVE_M, HOUSING_BELOW_M, 0.045, ORANGE),
            ("peg", half, 0.0, tip, 0.015, GREY),
        ):
            plug.add_geom(
                name=name,
                type=mujoco.mjtGeom.mjGEOM_BOX,
                size=[side, side, (bottom - top) / 2],
                pos=[0, 0, (bottom + top) / 2],
                mass=mass,
                rgba=list(rgba),
                contype=3,
                conaffinity=3,
                condim=4,
                friction=[0.3, 0.005, 0.0001],
            )
        plug.add_geom(  # a light edge at the tip
            type=mujoco.mjtGeom.mjGEOM_BOX,
            size=[half + 0.0002, half + 0.0002, 0.002],
            pos=[0, 0, tip - 0.0021],
            mass=0.0,
            rgba=[0.95, 0.85, 0.3, 1.0],
            contype=0,
            conaffinity=0,
        )
        add_cable(plug, (-config.housing_side_m / 2, 0.0, EXIT_M), CABLE)
        spec.add_exclude(bodyname1="peg", bodyname2="cable1")  # a sharp bend at the housing

    def _add_hook(self, spec: mujoco.MjSpec) -> None:
        """Add the hook from which the cable hangs, which `data.mocap_pos` moves."""
        hook = spec.worldbody.add_body(name="hook", mocap=True, pos=list(self._plug.hook_m))
        hook.add_geom(type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[0.009, 0, 0], rgba=list(DARK), contype=0, conaffinity=0)
        hook.add_site(name="hook", size=[CABLE.radius_m] * 3)
        spec.add_equality(
            name="hook",
            type=mujoco.mjtEq.mjEQ_CONNECT,
            objtype=mujoco.mjtObj.mjOBJ_SITE,
            name1="hook",
            name2=END,
            solref=[0.01, 1.0],
        )

    def place(self, model: mujoco.MjModel, data: mujoco.MjData, rng: np.random.Generator) -> None:
        """Draw a random pose of the board with its socket, the light, and the place of the hook."""
        if self._kinds is None:
            names = [model.geom(number).name for number in range(model.ngeom)]
            self._kinds = np.array([(name in MOVED) + 2 * (name in FORBIDDEN) for name in names])
        super().place(model, data, rng)
        data.mocap_pos[model.body("socket").mocapid[0], 2] = BOARD_M
        place = np.array(self._plug.hook_m) + (rng.random(3) - 0.5) * self._plug.hook_range_m
        data.mocap_pos[model.body("hook").mocapid[0]] = place

    def start_poses(self, rng: np.random.Generator) -> np.ndarray:
        """Draw a random start pose above the board; see `sim.scene.Task`."""
        return super().start_poses(rng) + ON_BOARD

    def settle(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        """Put the plug between the fingers and let its cable hang to the hook, at rest."""
        super().settle(model, data)
        mujoco.mj_kinematics(model, data)
        plug, hook = data.body("peg"), data.body("hook")
        rotation = plug.xmat.reshape(3, 3)
        root = plug.xpos + rotation @ [-self._plug.housing_side_m / 2, 0.0, EXIT_M]
        turns = joint_turns(rotation, hanging_links(hook.xpos - root, CABLE))
        for number, turn in enumerate(turns):
            data.joint(f"cable{number}").qpos[:] = turn
        for side in ("left", "right"):  # closed around it: between open fingers the cable would turn it
            data.joint(f"hand/{side}_finger").qpos[0] = self._plug.housing_side_m / 2

    def goal_poses(self, data: mujoco.MjData) -> np.ndarray:
        """Return the TCP's position and yaw with the plug fully inserted; see `sim.scene.Task`."""
        return super().goal_poses(data) + ON_BOARD

    def touches_forbidden(self, data: mujoco.MjData) -> bool:
        """Return True if plug or fingers touch the board or the table now."""
        if self._kinds is None or data.ncon == 0:
            return False
        return bool((self._kinds[data.contact.geom].sum(axis=1) == MOVED_ON_FORBIDDEN).any())

    def insertion(self, data: mujoco.MjData) -> InsertionState:
        """Return what the score of an insertion reads of this state; see `sim.scene.Task`."""
        config = self._plug
        tip = self.tip_in_socket(data)
        rim = config.socket_height_m
        return InsertionState(
            plug_m=tip - [0.0, 0.0, rim - config.insert_depth_m],
            depth_m=config.insert_depth_m,
            forbidden=self.touches_forbidden(data),
        )
