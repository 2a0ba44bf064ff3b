"""The peg insertion: put a held square peg into a socket that stands somewhere on the table.

The peg is held by friction alone, the socket is four walls, and where it stands can be known only through the
cameras: its position is random over `socket_range_m`, its yaw over `socket_yaw_rad`. The way back takes
the peg out and over the middle of the table, where an insertion starts.

A second, green socket is for episodes in which the robot goes to the wrong one. Unless it is wanted, it stands
under the table, where no camera sees it and nothing touches it: pictures and physics are then those of the dry run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import mujoco
import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from scipy.spatial.transform import Rotation

from robot_stack.types.insertion import InsertionState
from sim.tasks.hole import HoleShape, add_hole

PEG_ABOVE_M = 0.012
"""How far the peg's handle reaches above the TCP."""
BLUE = (0.16, 0.30, 0.62, 1.0)
IN_HOLE_WEIGHT = 3.0
"""A millimetre in the hole counts as three outside it: it takes about as long, and it is what the task is about."""
YAW_WEIGHT_M_RAD = 0.05
"""Metres that a radian of wrong yaw counts as, as for the scripted operator."""
OUT_OF_SIGHT_M = -0.5
"""Height of what is not to be seen, under the table."""
SLACK_M, SLACK_RAD = 0.002, 0.02
"""An arm at rest hangs this far off where it was put."""


class PegInsertConfig(BaseModel):
    """The geometry and randomisation of the peg insertion, in metres and radians."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    peg_side_m: float = Field(0.024, gt=0.005, le=0.05)
    clearance_m: float = Field(0.002, gt=0.0, le=0.01, description="hole side minus peg side")
    peg_below_tcp_m: float = Field(0.050, gt=0.02, le=0.10)
    socket_height_m: float = Field(0.030, gt=0.01, le=0.06)
    chamfer_m: float = Field(0.0015, ge=0.0, le=0.01, description="45 degree lead-in at the rim")
    socket_wall_m: float = Field(0.014, gt=0.004, le=0.04)
    insert_depth_m: float = Field(0.022, gt=0.005, le=0.05)
    centre_m: tuple[float, float] = (0.50, 0.0)
    socket_range_m: tuple[float, float] = (0.08, 0.08)
    socket_yaw_rad: float = Field(0.1745, ge=0.0, le=0.8)
    start_range_m: tuple[float, float, float] = (0.06, 0.06, 0.02)
    start_height_m: float = Field(0.05, gt=0.0, le=0.2, description="peg tip above the socket's rim, mean")
    start_yaw_rad: float = Field(0.1745, ge=0.0, le=0.8)
    light_jitter: float = Field(0.25, ge=0.0, le=0.9, description="relative change of brightness and colour")


class PegInsert:
    """The peg insertion as a simulated task; see `sim.scene.Task`."""

    name = "peg_insert"
    goal = "socket"
    """Body of the socket that the peg goes into."""

    def __init__(self, config: PegInsertConfig) -> None:
        self._config = config

    def add_to(self, spec: mujoco.MjSpec) -> None:
        """Add socket, peg and the front camera to the scene."""
        config = self._config
        self.add_socket(spec, "socket", BLUE)
        self._add_peg(spec)
        spec.worldbody.add_camera(  # from the side too: seen along x alone, peg and socket hide each other's depth
            name="front",
            pos=[config.centre_m[0] + 0.225, config.centre_m[1] + 0.39, 0.30],
            xyaxes=[-0.866, 0.5, 0, -0.2425, -0.42, 0.874],
            fovy=24,
        )

    def add_socket(self, spec: mujoco.MjSpec, name: str, rgba: tuple[float, float, float, float]) -> None:
        """Add a block with a hole, which `data.mocap_pos` moves; its walls are called NAME_<quarter>_<number>."""
        config = self._config
        socket = spec.worldbody.add_body(name=name, mocap=True, pos=[*config.centre_m, 0.0])
        shape = HoleShape(
            side_m=config.peg_side_m + config.clearance_m,
            wall_m=config.socket_wall_m,
            height_m=config.socket_height_m,
            chamfer_m=config.chamfer_m,
        )
        add_hole(socket, name, shape, rgba)

    def _add_peg(self, spec: mujoco.MjSpec) -> None:
        config = self._config
        half = config.peg_side_m / 2
        length = (config.peg_below_tcp_m + PEG_ABOVE_M) / 2
        peg = spec.worldbody.add_body(name="peg", pos=[0.5, 0.0, 0.4])
        peg.add_freejoint(name="peg")
        peg.add_geom(  # the body frame sits at the TCP, z towards the tip
            name="peg",
            type=mujoco.mjtGeom.mjGEOM_BOX,
            size=[half, half, length],
            pos=[0, 0, config.peg_below_tcp_m - length],
            mass=0.06,
            rgba=[0.85, 0.45, 0.12, 1.0],
            contype=3,
            conaffinity=3,
            condim=4,
            friction=[0.3, 0.005, 0.0001],
            priority=0,
        )
        peg.add_geom(  # a light edge at the tip
            type=mujoco.mjtGeom.mjGEOM_BOX,
            size=[half + 0.0002, half + 0.0002, 0.002],
            pos=[0, 0, config.peg_below_tcp_m - 0.0021],
            mass=0.0,
            rgba=[0.95, 0.85, 0.3, 1.0],
            contype=0,
            conaffinity=0,
        )

    def place(self, model: mujoco.MjModel, data: mujoco.MjData, rng: np.random.Generator) -> None:
        """Draw a random socket pose and light."""
        config = self._config
        xy = np.array(config.centre_m) + (rng.random(2) - 0.5) * config.socket_range_m
        yaw = rng.uniform(-1, 1) * config.socket_yaw_rad
        mocap = model.body("socket").mocapid[0]
        data.mocap_pos[mocap] = [*xy, 0.0]
        data.mocap_quat[mocap] = [np.cos(yaw / 2), 0, 0, np.sin(yaw / 2)]
        model.light_diffuse[0] = 0.5 * (1 + config.light_jitter * rng.uniform(-1, 1, 3))
        model.vis.headlight.diffuse[:] = 0.35 * (1 + config.light_jitter * rng.uniform(-1, 1))

    def start_poses(self, rng: np.random.Generator) -> np.ndarray:
        """Draw a random start pose above the table; see `sim.scene.Task`."""
        config = self._config
        centre = np.array([*config.centre_m, config.socket_height_m + config.start_height_m + config.peg_below_tcp_m])
        xyz = centre + (rng.random(3) - 0.5) * config.start_range_m
        return np.array([[*xyz, rng.uniform(-1, 1) * config.start_yaw_rad]])

    def settle(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        """Put the peg between the fingers, at rest."""
        site = data.site("hand/tcp")
        address = model.joint("peg").qposadr[0]
        quaternion = np.empty(4)
        mujoco.mju_mat2Quat(quaternion, site.xmat)
        data.qpos[address : address + 3] = site.xpos
        data.qpos[address + 3 : address + 7] = quaternion
        dof = model.joint("peg").dofadr[0]
        data.qvel[dof : dof + 6] = 0.0

    def take_away(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        """Take the peg out of the scene: it falls for ever under the table, where nothing is."""
        data.qpos[model.joint("peg").qposadr[0] + 2] = OUT_OF_SIGHT_M

    def show_peg(self, model: mujoco.MjModel, *, visible: bool) -> None:
        """Let cameras see the peg, or see through it."""
        body = model.body("peg")
        first = int(body.geomadr[0])
        model.geom_rgba[first : first + int(body.geomnum[0]), 3] = float(visible)

    def tip_in_socket(self, data: mujoco.MjData) -> np.ndarray:
        """Return the centre of the peg's tip in the socket's frame [m], shape (3,)."""
        peg, socket = data.body("peg"), data.body(self.goal)
        tip = peg.xpos + peg.xmat.reshape(3, 3) @ [0.0, 0.0, self._config.peg_below_tcp_m]
        return socket.xmat.reshape(3, 3).T @ (tip - socket.xpos)

    def succeeded(self, data: mujoco.MjData) -> bool:
        """Return True if the tip is `insert_depth_m` below the rim, inside the hole."""
        config = self._config
        tip = self.tip_in_socket(data)
        inside = np.abs(tip[:2]).max() < (config.peg_side_m + config.clearance_m) / 2
        return bool(inside and config.socket_height_m - tip[2] >= config.insert_depth_m)

    def failed(self, data: mujoco.MjData) -> bool:
        """Return True if the peg has left the hand."""
        return bool(np.linalg.norm(data.body("peg").xpos - data.site("hand/tcp").xpos) > 0.03)

    def left_m(self, data: mujoco.MjData) -> float:
        r"""Return the weighted way that is left for the peg [m], 0 only in the hole, aligned and deep enough.

        .. math:: r + w_\psi |\psi| + \max(0, z - h) + l + w_d \, (d - s)

        with r the tip's distance from the hole's axis, psi the peg's yaw against the hole's (a quarter turn is none: it
        is square), z - h its height above the rim, s how deep it is in the hole, d the depth that counts as inserted,
        and l the way up over the rim of a tip that is below it beside the hole. Each part falls on a straight way in.
        """
        config = self._config
        x, y, z = self.tip_in_socket(data)
        sunk = config.socket_height_m - z
        over_hole = max(abs(x), abs(y)) < (config.peg_side_m + config.clearance_m) / 2
        depth = min(max(0.0, sunk), config.insert_depth_m) if over_hole else 0.0
        lift = 0.0 if over_hole else max(0.0, sunk)
        axis = data.body(self.goal).xmat.reshape(3, 3).T @ data.body("peg").xmat.reshape(3, 3)[:, 0]
        quarter = np.pi / 2
        yaw = (np.arctan2(axis[1], axis[0]) + quarter / 2) % quarter - quarter / 2
        beside = float(np.hypot(x, y)) + YAW_WEIGHT_M_RAD * abs(float(yaw))
        return beside + max(0.0, -sunk) + lift + IN_HOLE_WEIGHT * (config.insert_depth_m - depth)

    def goal_poses(self, data: mujoco.MjData) -> np.ndarray:
        """Return the TCP's position and yaw with the peg fully inserted; see `sim.scene.Task`."""
        socket = data.body(self.goal)
        yaw = Rotation.from_matrix(socket.xmat.reshape(3, 3)).as_euler("xyz")[2]
        return np.array([[*socket.xpos[:2], self._config.peg_below_tcp_m + 0.003, yaw]])

    def grasp_poses(self, data: mujoco.MjData) -> np.ndarray | None:
        """Return None: the peg is in the hand from the start; see `sim.scene.Task`."""
        return None

    def stage(self, data: mujoco.MjData) -> int:
        """Return 0: there is one stage; see `sim.scene.Task`."""
        return 0

    def milestones(self, data: mujoco.MjData) -> Mapping[str, bool]:
        """Return nothing: there is one stage; see `sim.scene.Task`."""
        return {}

    def insertion(self, data: mujoco.MjData) -> InsertionState | None:
        """Return None: there is no score of an insertion; see `sim.scene.Task`."""
        return None


class PegWithdraw(PegInsert):
    """The way back in the same scene, whose goal is the middle of the starts of an insertion; see `sim.scene.Task`."""

    def succeeded(self, data: mujoco.MjData) -> bool:
        """Return True where an insertion may start: within the range of its starts, in place and yaw."""
        config, peg = self._config, data.body("peg")
        goal = self.goal_poses(data)[0]
        away_m = np.abs(peg.xpos - goal[:3])
        axis = peg.xmat.reshape(3, 3)[:, 0]
        quarter = np.pi / 2  # the peg is square
        yaw = (np.arctan2(axis[1], axis[0]) - goal[3] + quarter / 2) % quarter - quarter / 2
        near = away_m <= np.array(config.start_range_m) / 2 + SLACK_M
        return bool(near.all() and abs(float(yaw)) <= config.start_yaw_rad + SLACK_RAD and not self.failed(data))

    def goal_poses(self, data: mujoco.MjData) -> np.ndarray:
        """Return the TCP's position and yaw in the middle of the starts; see `sim.scene.Task`."""
        config = self._config
        height_m = config.socket_height_m + config.start_height_m + config.peg_below_tcp_m
        return np.array([[*config.centre_m, height_m, 0.0]])


GREEN = (0.18, 0.46, 0.22, 1.0)
APART_M = (0.085, 0.10)
"""Between the two holes: the blocks do not touch, and one view shows both."""
REACH_M = (0.085, 0.10)
"""How far from the middle of the task the second socket may stand, along x and y: within the cell's workspace."""


class PegTwoSocketsConfig(PegInsertConfig):
    """The geometry and randomisation of the peg insertion with two sockets, and which of them is meant."""

    socket: Literal["blue", "green"] = Field("blue", description="the one that the peg goes into")


class PegTwoSockets(PegInsert):
    """The peg insertion with two sockets on the table, either of which is a task; see `sim.scene.Task`."""

    name = "peg_two_sockets"

    def __init__(self, config: PegTwoSocketsConfig) -> None:
        super().__init__(config)
        self.goal = {"blue": "socket", "green": "decoy"}[config.socket]

    def add_to(self, spec: mujoco.MjSpec) -> None:
        """Add what the peg insertion has, then the green socket."""
        super().add_to(spec)
        self.add_socket(spec, "decoy", GREEN)

    def place(self, model: mujoco.MjModel, data: mujoco.MjData, rng: np.random.Generator) -> None:
        """Draw the pose of both sockets, and the light."""
        super().place(model, data, rng)
        place_beside(model, data, rng, self._config)


def place_beside(model: mujoco.MjModel, data: mujoco.MjData, rng: np.random.Generator, config: PegInsertConfig) -> None:
    """Place the green socket within reach, at a random side of the blue one; towards the middle there always is one."""
    blue = data.mocap_pos[model.body("socket").mocapid[0], :2]
    away = np.array(config.centre_m) - blue
    for spread in np.linspace(np.pi, 0.0, 20):
        angle = np.arctan2(away[1], away[0]) + rng.uniform(-1, 1) * spread
        place = blue + rng.uniform(*APART_M) * np.array([np.cos(angle), np.sin(angle)])
        if (np.abs(place - config.centre_m) <= REACH_M).all():
            break
    mocap = model.body("decoy").mocapid[0]
    data.mocap_pos[mocap] = [*place, 0.0]
    yaw = rng.uniform(-1, 1) * config.socket_yaw_rad
    data.mocap_quat[mocap] = [np.cos(yaw / 2), 0, 0, np.sin(yaw / 2)]


class TwoSockets:
    """The peg insertion with a second socket as a simulated task; see `sim.scene.Task`.

    Attributes:
        decoy_wanted: Whether the next `place` puts the second socket on the table.
    """

    name = "peg_insert"

    def __init__(self, config: PegInsertConfig) -> None:
        self._config = config
        self._one = PegInsert(config)
        self.decoy_wanted = False
        self.start_poses = self._one.start_poses
        self.settle = self._one.settle
        self.take_away = self._one.take_away
        self.show_peg = self._one.show_peg
        self.tip_in_socket = self._one.tip_in_socket
        self.succeeded = self._one.succeeded
        self.failed = self._one.failed
        self.left_m = self._one.left_m
        self.goal_poses = self._one.goal_poses
        self.grasp_poses = self._one.grasp_poses
        self.stage = self._one.stage
        self.milestones = self._one.milestones
        self.insertion = self._one.insertion

    def add_to(self, spec: mujoco.MjSpec) -> None:
        """Add what the dry run's scene has, then the second socket."""
        self._one.add_to(spec)
        self._one.add_socket(spec, "decoy", GREEN)

    def place(self, model: mujoco.MjModel, data: mujoco.MjData, rng: np.random.Generator) -> None:
        """Draw socket pose and light as in the dry run, from the same draws; then place the second socket."""
        self._one.place(model, data, rng)
        own = rng.spawn(1)[0]  # leaves `rng` as it is: start poses stay those of the dry run
        place_beside(model, data, own, self._config)
        if not self.decoy_wanted:
            blue = data.mocap_pos[model.body("socket").mocapid[0]]
            data.mocap_pos[model.body("decoy").mocapid[0]] = [*blue[:2], OUT_OF_SIGHT_M]

    def decoy_in_base(self, data: mujoco.MjData) -> np.ndarray:
        """Return the TCP's x, y, z [m] and yaw [rad] with the peg in the second socket, shape (4,)."""
        decoy = data.body("decoy")
        rotation = decoy.xmat.reshape(3, 3)
        return np.array([*decoy.xpos[:2], self.goal_poses(data)[0, 2], np.arctan2(rotation[1, 0], rotation[0, 0])])
