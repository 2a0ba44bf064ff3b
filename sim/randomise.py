"""What a simulated scene may vary from one reset to the next: the ranges of its file, and their draws.

Each factor has a range in which training draws, off unless a file says otherwise, and one that is held out: there the
table of `robot-stack eval RUN --robustness` draws. The draw of a factor depends on the seed of the reset and on nothing
else, so that it is the same for every policy, whatever other factors vary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Self

import mujoco
import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from robot_stack.types.errors import SpecError

KEY = "randomise"
"""The key of a task's `sim` section."""
Limits = tuple[float, float]
"""Lowest and highest value."""
FactorName = Literal[
    "light", "tint", "camera_shift_m", "camera_tilt_rad", "distractors", "friction", "mass", "delay_s", "noise",
    "tighter_m", "table", "shadow",
]  # fmt: skip
COLOURS = ((0.75, 0.2, 0.2), (0.2, 0.65, 0.3), (0.25, 0.35, 0.7), (0.85, 0.6, 0.2), (0.5, 0.3, 0.6), (0.3, 0.6, 0.65))
SIDES_M = (0.018, 0.022, 0.014, 0.02, 0.016, 0.024)
"""Half the sides of the distractors, in the order in which they come."""
AROUND_M = ((0.35, 0.68), (-0.25, 0.25))
"""Where on the table distractors stand, x and y."""
BESIDE_M = 0.08
"""At least so far from the middle of a part of the task; a socket is a block of 7 cm."""
TRIES = 50
AWAY_M = -0.5
"""Height of what is not to be seen, under the table."""
TABLE = "table"
"""The geom of the table, in every scene."""
PART = "peg"
"""The geom of the part that goes into a hole, in scenes that have one."""


class Ranges(BaseModel):
    """The range of one factor in training, and the one that is held out for the table of robustness."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    off: ClassVar[float]
    """The value that changes nothing."""
    legal: ClassVar[Limits]
    words: ClassVar[str]
    """What it is, for the table; {} is the range."""
    train: Limits
    held_out: Limits

    @model_validator(mode="after")
    def _ordered_and_legal(self) -> Self:
        for name in ("train", "held_out"):
            low, high = getattr(self, name)
            if not self.legal[0] <= low <= high <= self.legal[1]:
                raise ValueError(
                    f"{name} is [{low}, {high}], must rise within [{self.legal[0]}, {self.legal[1]}]; correct it"
                )
        (low, high), (least, most) = self.train, self.held_out
        if low < high and low <= least and most <= high:
            raise ValueError(
                f"held_out is [{least}, {most}], must reach beyond train [{low}, {high}]; what was trained on is not "
                "held out, give another"
            )
        return self


class Light(Ranges):
    """The brightness of all lights, by a factor."""

    off, legal, words = 1.0, (0.1, 3.0), "all lights at {} times"
    train: Limits = (1.0, 1.0)
    held_out: Limits = (0.7, 1.3)


class Tint(Ranges):
    """The share by which each of the three colours of the lights may be more or less."""

    off, legal, words = 0.0, (0.0, 0.9), "each colour of the light by up to a share of {}"
    train: Limits = (0.0, 0.0)
    held_out: Limits = (0.4, 0.4)


class CameraShift(Ranges):
    """The way that each camera is moved, in a random direction [m]."""

    off, legal, words = 0.0, (0.0, 0.05), "cameras moved by {} m"
    train: Limits = (0.0, 0.0)
    held_out: Limits = (0.01, 0.01)


class CameraTilt(Ranges):
    """The angle by which each camera is turned, about a random axis [rad]."""

    off, legal, words = 0.0, (0.0, 0.2), "cameras tilted by {} rad"
    train: Limits = (0.0, 0.0)
    held_out: Limits = (0.035, 0.035)


class Distractors(Ranges):
    """The number of coloured cubes that stand about on the table; nothing touches them."""

    off, legal, words = 0.0, (0.0, float(len(COLOURS))), "{} cubes on the table that do not belong there"
    train: Limits = (0.0, 0.0)
    held_out: Limits = (3.0, 3.0)


class Friction(Ranges):
    """The friction of all surfaces, by a factor."""

    off, legal, words = 1.0, (0.2, 2.0), "friction at {} times"
    train: Limits = (1.0, 1.0)
    held_out: Limits = (0.6, 0.6)


class Mass(Ranges):
    """The mass of all that lies loose, by a factor."""

    off, legal, words = 1.0, (0.2, 5.0), "parts of {} times the mass"
    train: Limits = (1.0, 1.0)
    held_out: Limits = (0.5, 2.0)


class Delay(Ranges):
    """The time after which an arm follows a command [s]."""

    off, legal, words = 0.0, (0.0, 0.3), "commands followed {} s later"
    train: Limits = (0.0, 0.0)
    held_out: Limits = (0.04, 0.04)


class Noise(Ranges):
    """The standard deviation of noise on each colour of each pixel of the policy's images, of 255."""

    off, legal, words = 0.0, (0.0, 64.0), "noise of {} grey levels on each pixel"
    train: Limits = (0.0, 0.0)
    held_out: Limits = (8.0, 8.0)


class Tighter(Ranges):
    """The width that is added to the part that goes into a hole, and so taken off its clearance [m]."""

    off, legal, words = 0.0, (0.0, 0.003), "a fit that is {} m tighter"
    train: Limits = (0.0, 0.0)
    held_out: Limits = (0.001, 0.001)


class TableBrightness(Ranges):
    """The brightness of the table's colour, by a factor; white is the brightest."""

    off, legal, words = 1.0, (0.1, 2.5), "a table of {} times the brightness"
    train: Limits = (1.0, 1.0)
    held_out: Limits = (0.3, 0.3)


class Shadow(Ranges):
    """The share of the light that is missing in a half of each of the policy's images, in a random direction."""

    off, legal, words = 0.0, (0.0, 0.9), "a shadow that takes {} of the light of half the image"
    train: Limits = (0.0, 0.0)
    held_out: Limits = (0.5, 0.5)


class RandomiseConfig(BaseModel):
    """The ranges of all factors, and which of them are tested."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    light: Light = Light()
    tint: Tint = Tint()
    camera_shift_m: CameraShift = CameraShift()
    camera_tilt_rad: CameraTilt = CameraTilt()
    distractors: Distractors = Distractors()
    friction: Friction = Friction()
    mass: Mass = Mass()
    delay_s: Delay = Delay()
    noise: Noise = Noise()
    tighter_m: Tighter = Tighter()
    table: TableBrightness = TableBrightness()
    shadow: Shadow = Shadow()
    tested: Annotated[tuple[FactorName, ...], Field(max_length=12)] = ()
    """Factors that draw from their held-out range; the table of robustness sets this, and no file."""

    def limits(self, name: str) -> Limits:
        """Return the range that a factor draws from."""
        ranges: Ranges = getattr(self, name)
        return ranges.held_out if name in self.tested else ranges.train

    @property
    def varying(self) -> tuple[str, ...]:
        """Return the factors that change something."""
        return tuple(name for name, ranges in self.factors.items() if self.limits(name) != (ranges.off, ranges.off))

    @property
    def factors(self) -> Mapping[str, Ranges]:
        """Return the ranges of each factor by name, in their order."""
        return {name: getattr(self, name) for name in type(self).model_fields if name != "tested"}


@dataclass(slots=True, kw_only=True)
class Conditions:
    """What was drawn for the running episode that is not part of the model.

    Attributes:
        delay_s: After which an arm follows a command.
        noise: Of the policy's images, of 255.
        shadow: Share of the light that is missing in half of them.
        shadow_rad: Direction of that half, from the middle of the image: 0 is right, a quarter turn is down.
        pixels: Draws that noise.
    """

    delay_s: float = 0.0
    noise: float = 0.0
    shadow: float = 0.0
    shadow_rad: float = 0.0
    pixels: np.random.Generator

    def seen(self) -> np.ndarray:
        """Return what another process must know to make the same images of the scene, float64, shape (3,)."""
        return np.array([self.noise, self.shadow, self.shadow_rad])

    def show(self, seen: np.ndarray) -> None:
        """Take over what `seen` returned in another process."""
        self.noise, self.shadow, self.shadow_rad = map(float, seen)

    def spoil(self, image: np.ndarray) -> np.ndarray:
        """Return an image uint8 (H, W, 3) with shadow and noise on it; the image itself where there are none."""
        if not self.noise and not self.shadow:
            return image
        lit = image.astype(np.float64)
        if self.shadow:
            rows, columns = (np.arange(size) - (size - 1) / 2 for size in image.shape[:2])
            towards = columns * np.cos(self.shadow_rad) + rows[:, None] * np.sin(self.shadow_rad)
            lit[towards > 0] *= 1 - self.shadow
        if self.noise:
            lit += self.pixels.normal(0.0, self.noise, image.shape)
        return np.clip(np.rint(lit), 0, 255).astype(np.uint8)


class Randomiser:
    """The varying factors of one compiled scene; `draw` changes its model, and first puts back what it was.

    Args:
        config: At least one factor varies.
        model: The scene, with the cubes that `add_distractors` added.

    Raises:
        SpecError: If a tighter fit is asked for in a scene without a part that goes into a hole.
    """

    def __init__(self, config: RandomiseConfig, model: mujoco.MjModel) -> None:
        self._config, self._model = config, model
        self._names = list(config.factors)
        geoms = [model.geom(number).name for number in range(model.ngeom)]
        if "tighter_m" in config.varying and PART not in geoms:
            raise SpecError(f"scene has no {PART!r}, must have one for a tighter fit; leave randomise.tighter_m out")
        if "tighter_m" in config.varying:  # its boxes are those of the part as it was compiled, and hide contacts
            model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_MIDPHASE
        self._part = geoms.index(PART) if PART in geoms else None
        self._table = geoms.index(TABLE)
        self._scratch = mujoco.MjData(model)
        free = model.jnt_type == mujoco.mjtJoint.mjJNT_FREE
        self._loose = np.flatnonzero(np.isin(model.body_rootid, model.jnt_bodyid[free]))
        self._loose_at = model.jnt_qposadr[free]
        self._before = [part.copy() for part in self._fixed()]

    def restore(self) -> None:
        """Put back what the draw before changed; what a task draws itself comes after it."""
        for part, value in zip(self._fixed(), self._before, strict=True):
            part[...] = value

    def draw(self, data: mujoco.MjData, seed: int) -> Conditions:
        """Draw all factors of an episode, and change the scene, which has been put back and placed by its task."""
        model, headlight = self._model, self._model.vis.headlight
        light, _ = self._drawn("light", seed)
        tint, rng = self._drawn("tint", seed)
        for part in (model.light_diffuse, headlight.diffuse, headlight.ambient):
            part[:] *= light
        model.light_diffuse[:] *= 1 + tint * rng.uniform(-1, 1, 3)
        self._move_cameras(seed)
        self._place_distractors(data, seed)
        model.geom_friction[:, 0] *= self._drawn("friction", seed)[0]
        mass, _ = self._drawn("mass", seed)
        model.body_mass[self._loose] *= mass
        model.body_inertia[self._loose] *= mass
        if "mass" in self._config.varying:  # what MuJoCo had computed of the masses; stale, contacts blow up
            mujoco.mj_setConst(model, self._scratch)
        if self._part is not None:
            size = model.geom_size[self._part]
            size[size < size.max()] += self._drawn("tighter_m", seed)[0] / 2
        colour = model.geom_rgba[self._table, :3]
        model.geom_rgba[self._table, :3] = np.clip(colour * self._drawn("table", seed)[0], 0.0, 1.0)
        noise, pixels = self._drawn("noise", seed)
        shadow, turning = self._drawn("shadow", seed)
        return Conditions(
            delay_s=self._drawn("delay_s", seed)[0],
            noise=noise,
            shadow=shadow,
            shadow_rad=float(turning.uniform(0.0, 2 * np.pi)),
            pixels=pixels,
        )

    def shown(self) -> list[np.ndarray]:
        """Return what another process must know to render the scene, beside what a task moves."""
        model = self._model
        return [model.vis.headlight.ambient, model.cam_pos, model.cam_quat, model.geom_rgba[self._table]]

    def _fixed(self) -> list[np.ndarray]:
        """Return every array that a draw changes; views of the model."""
        model, headlight = self._model, self._model.vis.headlight
        lights = [model.light_diffuse, headlight.diffuse, headlight.ambient]
        bodies = [model.body_mass, model.body_inertia, model.geom_friction, model.geom_size]
        return [*lights, model.cam_pos, model.cam_quat, model.geom_rgba[self._table], *bodies]

    def _drawn(self, name: str, seed: int) -> tuple[float, np.random.Generator]:
        """Return the value of a factor in the episode of a seed, and what else is drawn for it."""
        rng = np.random.default_rng([seed, 1, self._names.index(name)])
        return float(rng.uniform(*self._config.limits(name))), rng

    def _move_cameras(self, seed: int) -> None:
        model = self._model
        (shift_m, shifting), (tilt_rad, tilting) = (
            self._drawn("camera_shift_m", seed),
            self._drawn("camera_tilt_rad", seed),
        )
        for number in range(model.ncam):
            model.cam_pos[number] += shift_m * _direction(shifting)
            turn, turned = np.empty(4), np.empty(4)
            mujoco.mju_axisAngle2Quat(turn, _direction(tilting), tilt_rad)
            mujoco.mju_mulQuat(turned, model.cam_quat[number], turn)
            model.cam_quat[number] = turned

    def _place_distractors(self, data: mujoco.MjData, seed: int) -> None:
        count, rng = self._drawn("distractors", seed)
        most = distractors(self._config)
        own = [self._model.body(f"distractor{number}").mocapid[0] for number in range(most)]
        parts = [*np.delete(data.mocap_pos, own, axis=0)[:, :2], *(data.qpos[at : at + 2] for at in self._loose_at)]
        for number, mocap in enumerate(own):
            there = number < round(count)
            data.mocap_pos[mocap] = [*_place_beside(parts, rng), SIDES_M[number] if there else AWAY_M]
            yaw = rng.uniform(0, np.pi)
            data.mocap_quat[mocap] = [np.cos(yaw / 2), 0, 0, np.sin(yaw / 2)]


def _place_beside(parts: Sequence[np.ndarray], rng: np.random.Generator) -> np.ndarray:
    """Draw a place on the table, x and y [m], beside the parts of the task; anywhere if none is found."""
    for _ in range(TRIES):
        place = np.array([rng.uniform(*ends) for ends in AROUND_M])
        if all(np.linalg.norm(place - part) >= BESIDE_M for part in parts):
            break
    return place


def distractors(config: RandomiseConfig) -> int:
    """Return how many distractors there may be at once."""
    return round(config.limits("distractors")[1])


def add_distractors(spec: mujoco.MjSpec, config: RandomiseConfig) -> None:
    """Add the cubes that may stand about, out of sight; nothing touches them."""
    for number in range(distractors(config)):
        body = spec.worldbody.add_body(name=f"distractor{number}", mocap=True, pos=[0.0, 0.0, AWAY_M])
        side_m = SIDES_M[number]
        body.add_geom(
            type=mujoco.mjtGeom.mjGEOM_BOX,
            size=[side_m, side_m, side_m],
            rgba=[*COLOURS[number], 1.0],
            contype=0,
            conaffinity=0,
        )


def _direction(rng: np.random.Generator) -> np.ndarray:
    vector = rng.normal(size=3)
    return np.asarray(vector / np.linalg.norm(vector))
