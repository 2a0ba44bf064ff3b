"""How much of a policy's success is left where the world is not as it was in training? A table, without training anew.

Run: python -m benchmarks.learning.robustness RUN [--episodes 100] [--only NAME ...], two minutes a row on a core.

Each variation changes one thing on the held-out resets of a run of peg insertion; nothing of it was in training. Where
a variation is random, it is drawn anew with each reset and is the same for every policy that is asked.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import mujoco
import numpy as np
import torch

from reward_models.metrics import wilson_interval
from robot_stack.config.resolve import load_resolved
from robot_stack.rollout.evaluate import Evaluation, evaluate_in, practised_age_s
from robot_stack.rollout.params_file import load_params
from robot_stack.runs.paths import RunPaths
from robot_stack.types.params import Params
from robot_stack.workcell.build import build_local_cell
from robot_stack.workcell.sim_camera import SimCamera
from sim.world import World

Change = Callable[[mujoco.MjModel, np.random.Generator], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variation:
    """One thing that is different from training.

    Attributes:
        words: What it is, in the table.
        change: Changes the scene after each reset, before anything is seen of it.
        noise: Standard deviation of noise on each colour of each pixel of the policy's images, of 255.
        late_s: By how much observations are older than in training.
        overrides: Of the run, `dotted.key=value`.
    """

    words: str
    change: Change | None = None
    noise: float = 0.0
    late_s: float = 0.0
    overrides: tuple[str, ...] = ()


def light(factor: float) -> Change:
    """All lights, by a factor."""

    def change(model: mujoco.MjModel, rng: np.random.Generator) -> None:
        model.light_diffuse[:] *= factor
        model.vis.headlight.diffuse[:] *= factor
        model.vis.headlight.ambient[:] *= factor

    return change


def tinted(spread: float) -> Change:
    """The colour of the light, each of its three parts by up to a share."""

    def change(model: mujoco.MjModel, rng: np.random.Generator) -> None:
        model.light_diffuse[:] *= 1 + spread * rng.uniform(-1, 1, 3)

    return change


def cameras(shift_m: float, tilt_rad: float) -> Change:
    """All cameras, moved and tilted by so much in a random direction."""

    def change(model: mujoco.MjModel, rng: np.random.Generator) -> None:
        for number in range(model.ncam):
            model.cam_pos[number] += shift_m * _direction(rng)
            turn, turned = np.empty(4), np.empty(4)
            mujoco.mju_axisAngle2Quat(turn, _direction(rng), tilt_rad)
            mujoco.mju_mulQuat(turned, model.cam_quat[number], turn)
            model.cam_quat[number] = turned

    return change


def friction(factor: float) -> Change:
    """The friction of all surfaces, by a factor."""

    def change(model: mujoco.MjModel, rng: np.random.Generator) -> None:
        model.geom_friction[:, 0] *= factor

    return change


def _changed(model: mujoco.MjModel) -> list[np.ndarray]:
    """What any change may touch."""
    headlight = model.vis.headlight
    lights = [model.light_diffuse, headlight.diffuse, headlight.ambient]
    return [*lights, model.cam_pos, model.cam_quat, model.geom_friction]


def _direction(rng: np.random.Generator) -> np.ndarray:
    vector = rng.normal(size=3)
    return vector / np.linalg.norm(vector)


def variations() -> Mapping[str, Variation]:
    """Every variation by its name, in the order of the table."""
    return {
        "none": Variation(words="as in training"),
        "dim": Variation(words="all lights at 70 %", change=light(0.7)),
        "bright": Variation(words="all lights at 130 %", change=light(1.3)),
        "tinted": Variation(words="each colour of the light by up to 40 %", change=tinted(0.4)),
        "noise": Variation(words="noise of 8 grey levels on each pixel", noise=8.0),
        "camera_small": Variation(
            words="cameras moved by 3 mm and tilted by 0.5 degrees", change=cameras(0.003, 0.0087)
        ),
        "camera": Variation(words="cameras moved by 1 cm and tilted by 2 degrees", change=cameras(0.01, 0.035)),
        "late": Variation(words="observations 40 ms later", late_s=0.04),
        "very_late": Variation(words="observations 200 ms later", late_s=0.2),
        "friction": Variation(words="friction of 60 %", change=friction(0.6)),
        "start": Variation(words="starts from twice the range", overrides=("task.sim.start_range_m=[0.12,0.12,0.04]",)),
        "fit": Variation(words="fit of 1 mm (2 mm in training)", overrides=("task.sim.clearance_m=0.001",)),
        "lead_in": Variation(words="lead-in of 1.5 mm (4 mm in training)", overrides=("task.sim.chamfer_m=0.0015",)),
    }


@contextmanager
def varied(world: World, variation: Variation) -> Iterator[None]:
    """A context in which each reset of a world, and each image, has the variation."""
    reset, see = world.reset, SimCamera.see
    drawn = np.random.default_rng(0)
    before = [part.copy() for part in _changed(world.model)]

    def restore() -> None:
        for part, value in zip(_changed(world.model), before, strict=True):
            part[...] = value

    def reset_varied(seed: int) -> None:
        nonlocal drawn
        restore()
        reset(seed)
        drawn = np.random.default_rng([seed, 1])
        if variation.change is not None:
            variation.change(world.model, drawn)
            mujoco.mj_forward(world.model, world.data)

    def see_noisy(camera: SimCamera, noise: np.random.Generator | None = None) -> np.ndarray:
        image = see(camera, noise)
        noisy = image + drawn.normal(0.0, variation.noise, image.shape)
        return np.clip(np.rint(noisy), 0, 255).astype(np.uint8)

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(world, "reset", reset_varied))
        if variation.noise:
            stack.enter_context(mock.patch.object(SimCamera, "see", see_noisy))
        stack.callback(restore)
        yield


def measure(folder: Path, params: Params, variation: Variation, episodes: int) -> Evaluation:
    """Evaluate the policy of a run under a variation."""
    resolved = load_resolved(RunPaths(folder).resolved, variation.overrides)
    age_s = practised_age_s(resolved, folder) + variation.late_s
    cell = build_local_cell(resolved, seed=0, observation_age_s=age_s)
    with varied(cell.world, variation):
        return evaluate_in(cell, resolved, params, episodes)


def row(variation: Variation, found: Evaluation) -> str:
    """A row of the table."""
    won, asked = sum(found.successes), len(found.successes)
    low, high = wilson_interval(won, asked)
    cycle_s = found.summary()["cycle_s"]
    told = "-" if cycle_s is None else f"{cycle_s:.1f} s"
    return f"| {variation.words} | {won} of {asked} ({100 * low:.0f} to {100 * high:.0f} %) | {told} |"


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="folder of a run of peg insertion that has come to its end")
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--only", nargs="+", choices=list(variations()), default=list(variations()))
    options = parser.parse_args()
    torch.set_num_threads(1)
    params = load_params(RunPaths(options.run).policy("policy"))
    print("| varied | success | cycle |\n| --- | --- | --- |", flush=True)
    for name, variation in variations().items():
        if name in options.only:
            print(row(variation, measure(options.run, params, variation, options.episodes)), flush=True)


if __name__ == "__main__":
    main()
