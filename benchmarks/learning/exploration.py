"""How much does the arm jerk while a policy explores: with white noise, and with smooth noise of the same size?

Run: python -m benchmarks.learning.exploration RUN [--episodes 40] [--std 0.2] [--ticks 8 32], a minute a row on a core.

The policy of a finished run of RLPD, whose standard deviation is set to one value at every state, acts on held-out
resets. Jerk is the third difference of the tool's position as it was sensed at the control ticks, root mean square over
all ticks before the first contact: what a filter, an inner loop and the arm have made of the commands. Prints a table
in Markdown.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch

from policies.acting import ACTOR, ActingPolicy
from reward_models.metrics import wilson_interval
from robot_stack.config.resolve import load_resolved
from robot_stack.config.resolved import ResolvedRun
from robot_stack.rollout.episode_runner import reset_seed
from robot_stack.rollout.params_file import load_params
from robot_stack.runs.paths import RunPaths
from robot_stack.transport.bundle import seal
from robot_stack.types.params import Params
from robot_stack.types.transition import EpisodeKind
from robot_stack.workcell.build import build_local_cell

FORCE_N = 2.0
"""From this force on the tool touches something, and what it does is not the noise's doing."""


def exploring(params: Params, std: float, ticks: int) -> Params:
    """Return the same policy with one standard deviation everywhere, and noise that holds for so many ticks."""
    settings = json.loads(params.metadata["settings"]) | {"smooth_ticks": ticks, "std_min": std, "std_max": std}
    bounds = np.log(np.array([std, std], np.float32))
    tensors = {**params.tensors, ACTOR + "actor.log_std_range": bounds}
    metadata = {**params.metadata, "settings": json.dumps(settings)}
    return seal(version=params.version, tensors=tensors, metadata=metadata)


def jerk_of(positions: np.ndarray, period_s: float) -> np.ndarray:
    """Return the jerk of positions (T, 3) that are a control period apart, m/s³, (T - 3,)."""
    return np.asarray(np.linalg.norm(np.diff(positions, n=3, axis=0), axis=1) / period_s**3)


def play(resolved: ResolvedRun, params: Params, episodes: int) -> tuple[int, np.ndarray]:
    """Let a policy explore on held-out resets; returns its successes, and the jerk at all ticks of free motion."""
    spec, cell = resolved.spec(), build_local_cell(resolved, seed=0)
    policy = ActingPolicy(spec, params, seed=0)
    pose, force = spec.part("tcp_pose"), spec.part("wrench")
    successes, jerks = 0, []
    for number in range(episodes):
        cell.reset(reset_seed(resolved.run.seed, EpisodeKind.EVAL, number))
        cell.start(f"{number:06d}-eval-exploration", EpisodeKind.EVAL)
        policy.begin_episode()
        path, free = [], True
        for _ in range(resolved.task.episode_steps):
            seen = cell.observe()
            assert seen is not None
            free = free and bool(np.linalg.norm(seen.proprio[force][:3]) < FORCE_N)
            if free:
                path.append(seen.proprio[pose][:3])
            cell.send(policy.act(seen, deterministic=False))
            cell.sleep_until_ns(cell.now_ns() + round(spec.period_s * 1e9))
            if cell.truth():
                successes += 1
                break
        cell.finish()
        jerks.append(jerk_of(np.array(path, np.float64).reshape(-1, 3), spec.period_s))
    return successes, np.concatenate(jerks)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(prog="benchmarks.learning.exploration", description=__doc__)
    parser.add_argument("run", type=Path, help="folder of a run of RLPD that has come to its end")
    parser.add_argument("--episodes", type=int, default=40)
    parser.add_argument("--std", type=float, default=0.2, help="of the noise, before the squash")
    parser.add_argument("--ticks", type=int, nargs="+", default=[8, 32], help="rows with smooth noise")
    options = parser.parse_args()
    torch.set_num_threads(1)
    resolved = load_resolved(RunPaths(options.run).resolved)
    params = load_params(RunPaths(options.run).policy("policy"))
    print("| noise | jerk, rms, m/s³ | against white | success |\n| --- | --- | --- | --- |")
    white = float("nan")
    for ticks in (1, *options.ticks):
        successes, jerk = play(resolved, exploring(params, options.std, ticks), options.episodes)
        rms = float(np.sqrt(np.square(jerk).mean()))
        white = rms if ticks == 1 else white
        low, high = wilson_interval(successes, options.episodes)
        name = "white" if ticks == 1 else f"smooth over {ticks} ticks"
        share = f"{successes} of {options.episodes} ({100 * low:.0f} to {100 * high:.0f} %)"
        print(f"| {name} | {rms:.2f} | {rms / white:.2f} | {share} |", flush=True)


if __name__ == "__main__":
    main()
