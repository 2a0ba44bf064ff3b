"""Play data of OGBench's manipulation domains, made by OGBench's own oracles.

OGBench publishes such data as files; these are made anew, in the same way (Park et al., 2025, arXiv:2410.20092,
appendix; `data_gen_scripts/generate_manipspace.py` of seohongpark/ogbench): an oracle with a plan and correlated noise
drives to a random target, then to the next, and no task is in its mind. Shards are written one by one, so that a
process that is killed loses one shard at most.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import ogbench.manipspace  # noqa: F401 - registers the environments
from ogbench.manipspace.oracles.plan.button_plan import ButtonPlanOracle
from ogbench.manipspace.oracles.plan.cube_plan import CubePlanOracle
from ogbench.manipspace.oracles.plan.drawer_plan import DrawerPlanOracle
from ogbench.manipspace.oracles.plan.window_plan import WindowPlanOracle

from robot_stack.disk.durable import write_durable

EPISODE_STEPS = 1001
NOISE = {"noise": 0.1, "noise_smoothing": 0.5}
STACKED = {"cube-double": (0.0, 0.25)}
"""Bounds of the chance that a cube's next target is on another cube; .5 in the domains that stack nothing."""
ORACLES: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    "cube-double": {"cube": CubePlanOracle},
    "puzzle-3x3": {"button": lambda **kwargs: ButtonPlanOracle(gripper_always_closed=True, **kwargs)},
    "scene": {
        "cube": CubePlanOracle,
        "button": ButtonPlanOracle,
        "drawer": DrawerPlanOracle,
        "window": WindowPlanOracle,
    },
}
"""Domain -> kind of target -> its oracle."""
_CUBE = slice(14, 17)
"""Position of the cube in the state of the scene."""


def make_shards(domain: str, folder: Path, *, shards: int, episodes: int) -> None:
    """Write what is missing of the shards `play_000.npz`, ... of a domain; shard k has seed k."""
    folder.mkdir(parents=True, exist_ok=True)
    for shard in range(shards):
        path = folder / f"play_{shard:03d}.npz"
        if not path.exists():
            arrays = play(domain, seed=shard, episodes=episodes)
            content = io.BytesIO()
            np.savez_compressed(content, **arrays)  # type: ignore[arg-type]
            write_durable(path, content.getbuffer())
            print(f"{path}: {len(arrays['actions'])} steps", flush=True)


def read_shards(folder: Path, count: int) -> dict[str, np.ndarray]:
    """Read the first `count` shards of a domain as one set of arrays, float32 where they are floats."""
    shards = [np.load(folder / f"play_{shard:03d}.npz") for shard in range(count)]
    return {name: np.concatenate([shard[name] for shard in shards]) for name in shards[0].files}


def play(domain: str, *, seed: int, episodes: int) -> dict[str, np.ndarray]:
    """Return whole episodes of play, one after the other; names and types are those of OGBench's files."""
    np.random.seed(seed)  # noqa: NPY002 - the oracles draw from it
    rng = np.random.default_rng(seed)
    environment = gymnasium.make(
        f"{domain}-v0", terminate_at_goal=False, mode="data_collection", max_episode_steps=EPISODE_STEPS
    )
    oracles = {kind: make(env=environment, **NOISE) for kind, make in ORACLES[domain].items()}
    environment.reset(seed=seed)
    kept: list[dict[str, np.ndarray]] = []
    while len(kept) < episodes:
        rows = list(_episode(environment, oracles, rng.uniform(*STACKED.get(domain, (0.5, 0.5)))))
        episode = {name: np.array([row[name] for row in rows]) for name in rows[0]}
        if domain != "scene" or _in_reach(episode["qpos"]):
            kept.append(episode)
    environment.close()
    return {name: np.concatenate([episode[name] for episode in kept]) for name in kept[0]}


def _episode(
    environment: gymnasium.Env[Any, Any], oracles: Mapping[str, Any], p_stack: float
) -> Iterator[dict[str, np.ndarray]]:
    """Yield the steps of one episode: what was seen, what was done, and the state in which it was done."""
    seen, info = environment.reset()
    oracle, over = oracles[info["privileged/target_task"]], False
    oracle.reset(seen, info)
    while not over:
        action = np.clip(oracle.select_action(seen, info), -1.0, 1.0).astype(np.float32)
        following, _, terminated, truncated, info = environment.step(action)
        over = terminated or truncated
        if oracle.done:
            target, about = environment.unwrapped.set_new_target(p_stack=p_stack)  # type: ignore[attr-defined]
            oracle = oracles[about["privileged/target_task"]]
            oracle.reset(target, about)
        row = {
            "observations": seen.astype(np.float32),
            "actions": action,
            "terminals": np.array(over),
            "qpos": info["prev_qpos"].astype(np.float32),
        }
        if "prev_button_states" in info:
            row["button_states"] = np.array(info["prev_button_states"])
        yield row
        seen = following


def _in_reach(qpos: np.ndarray) -> bool:
    """Return whether the cube of the scene stayed where an arm can see it: not too far right, left only in the drawer.

    The bounds are those of OGBench's script.
    """
    cube = qpos[:, _CUBE]
    left = cube[:, 1] <= -0.3
    in_drawer = (cube[:, 2] >= 0.06) & (cube[:, 2] <= 0.08)
    return not bool((cube[:, 1] >= 0.29).any() or (left & ~in_drawer).any())
