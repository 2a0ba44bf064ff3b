"""Hindsight on the tasks that it was published on: Gymnasium-Robotics' Fetch, sparse reward, with it and without.

Run: python -m benchmarks.suites.fetch [--task FetchReach-v4 FetchPush-v4] [--seeds 0 1] [--steps 10000]

Gymnasium-Robotics 1.4.2 does not run on MuJoCo 4; give it a folder of its own, which is looked into first:

    pip install --no-deps --target DIR gymnasium-robotics==1.4.2 pettingzoo mujoco==3.3.0
    PYTHONPATH=DIR python -m benchmarks.suites.fetch

Five episodes of an expert set the scale of the observations; no batch has a row of them and nothing is imitated, so all
that is learned is from what the policy tried (Andrychowicz et al., 2017, arXiv:1707.01495).
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

import gymnasium
import numpy as np
import torch

from policies.rlpd.config import RLPDConfig
from robot_stack.replay.hindsight import Hindsight
from robot_stack.suites.gymnasium_cell import GymnasiumCell
from robot_stack.suites.training import Budget, LockstepTraining

Seen = Mapping[str, np.ndarray]
WITHIN_M = 0.05
"""As the environments have it."""
SHARE = 0.8
"""Of rows with another goal: four for each one that keeps its own, as published."""
EPISODE_STEPS = 50
CONFIG = RLPDConfig(
    batch_size=256,
    utd=1.0,
    expert_fraction=0.0,
    discount=0.98,
    critic_actor_ratio=1,
    actor_tau=1.0,
    initial_temperature=0.1,
    target_entropy_per_action=-1.0,
    std_min=1e-3,
    std_max=1.0,
    head=256,
    bc_weight=0.0,
    learning_rate=1e-3,
)


def reach(seen: Seen) -> np.ndarray:
    """Move the hand straight to the goal."""
    return _towards(seen["desired_goal"] - seen["achieved_goal"])


def push(seen: Seen) -> np.ndarray:
    """Go over the block to its far side, down, and through it to the goal."""
    hand, block, goal = seen["observation"][:3], seen["achieved_goal"], seen["desired_goal"]
    way = (goal - block)[:2]
    way = way / max(1e-6, float(np.linalg.norm(way)))
    behind = np.append(block[:2] - 0.07 * way, block[2])
    along, across = (hand - block)[:2] @ way, abs((hand - block)[0] * way[1] - (hand - block)[1] * way[0])
    if along < 0.0 and across < 0.015 and hand[2] < block[2] + 0.02:
        return _towards(np.append(goal[:2] + 0.02 * way, block[2]) - hand)
    if np.linalg.norm((behind - hand)[:2]) > 0.015:
        behind[2] += 0.08
    return _towards(behind - hand)


def _towards(way_m: np.ndarray) -> np.ndarray:
    return np.append(np.clip(10.0 * way_m, -1.0, 1.0), 0.0)


EXPERTS = {"FetchReach-v4": reach, "FetchPush-v4": push}


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(prog="benchmarks.suites.fetch", description=__doc__)
    parser.add_argument("--task", nargs="+", choices=list(EXPERTS), default=list(EXPERTS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--steps", type=int, default=10_000, help="online steps of each run")
    options = parser.parse_args()
    import gymnasium_robotics

    gymnasium.register_envs(gymnasium_robotics)
    torch.set_num_threads(1)
    budget = Budget(
        demos=5,
        online_steps=options.steps,
        random_steps=1000,
        episode_steps=EPISODE_STEPS,
        eval_every=options.steps // 5,
        eval_episodes=50,
    )
    for task in options.task:
        for seed in options.seeds:
            for share in (0.0, SHARE):
                cell = GymnasiumCell(gymnasium.make(task), expert=EXPERTS[task])
                desired, achieved = cell.spec.part("desired_goal"), cell.spec.part("achieved_goal")
                hindsight = (
                    Hindsight(share=share, desired=desired, achieved=achieved, within=WITHIN_M) if share else None
                )
                LockstepTraining(cell, CONFIG, budget, seed=seed, hindsight=hindsight).run(
                    lambda told, task=task, seed=seed, share=share: print(
                        f"{task}, seed {seed}, share {share}: {told.successes} of {told.episodes} after "
                        f"{told.online_steps} steps, {told.seconds:.0f} s",
                        flush=True,
                    )
                )


if __name__ == "__main__":
    main()
