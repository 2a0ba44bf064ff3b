"""How often does the scripted operator do a task: from its resets, and from wherever a policy has left the scene?

Run: python -m benchmarks.operator [--run drawer] [--episodes 100] [--only reset random disturbed]; no cameras, some 5 s
an episode on a core.

reset      a demonstration from a held-out reset
random     a policy acts at random from a held-out reset; the operator takes over at a random moment of its episode
disturbed  the operator demonstrates; at a random moment a policy acts at random for 3 s; then the operator takes over
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reward_models.metrics import wilson_interval
from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.rollout.episode_runner import reset_seed
from robot_stack.types.command import Mode
from robot_stack.types.transition import EpisodeKind
from robot_stack.workcell.build import build_local_cell, build_operator
from robot_stack.workcell.build_safety import build_safety
from sim.operator import Role

BEGINNINGS = ("reset", "random", "disturbed")
DISTURBED_S = 3.0
KEPT_S = 0.5
"""How long the random policy keeps an action."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What came of one attempt of the operator.

    Attributes:
        success: The operator said so, and it was true.
        duration_s: Of the attempt itself, from when the operator had the arm.
        stage: Of the task when it began, see `sim.scene.Task.stage`.
        lost: The task could not be done any more when it began.
        milestones: Those that held at some moment of the attempt, by name.
    """

    success: bool
    duration_s: float
    stage: int
    lost: bool
    milestones: dict[str, bool]


class OperatorTrial:
    """Tries the scripted operator of a run in a cell of this process, which is never looked at through its cameras.

    Args:
        resolved: The run.

    Attributes:
        cell: In this process.
    """

    def __init__(self, resolved: ResolvedRun) -> None:
        self._resolved = resolved
        self.cell = build_local_cell(resolved, seed=0)
        self._period_ns = round(resolved.spec().period_s * 1e9)
        self._actions = resolved.spec().action_size
        self._grippers = list(resolved.spec().discrete_gripper_indices)

    def attempt(self, beginning: str, number: int) -> Attempt:
        """Bring the scene to one of `BEGINNINGS`, then let the operator do the task in the time of an episode."""
        self.begin(beginning, number)
        return self.finish()

    def begin(self, beginning: str, number: int) -> None:
        """Bring the scene to one of `BEGINNINGS`, after which the operator has the arm."""
        rng, cell, limit_s = np.random.default_rng((7, number)), self.cell, self._limit_s()
        self._operator = build_operator(self._resolved, seed=number)
        self._safety = build_safety(self._resolved)
        cell.anew(self._safety, self._operator)
        cell.reset(reset_seed(0, EpisodeKind.EVAL, number))
        cell.start("trial", EpisodeKind.DEMO if beginning != "random" else EpisodeKind.EVAL)
        if beginning == "random":
            self._act_at_random(rng, rng.uniform(0.0, limit_s))
        elif beginning == "disturbed":
            self._operate(rng.uniform(0.0, limit_s))
            self._operator.begin(Role.WATCH)
            self._act_at_random(rng, DISTURBED_S)
        if beginning != "reset":
            if self._safety.mode is Mode.HOLD:
                self._safety.resume(cell.now_ns())  # as operators do before they take the arm
            self._operator.begin(Role.DEMO)

    def finish(self) -> Attempt:
        """Let the operator do the task from here, in the time of an episode."""
        cell = self.cell
        task, data = cell.world.task, cell.world.data
        stage, lost, began_ns = task.stage(data), task.failed(data), cell.now_ns()
        told, milestones = self._operate(self._limit_s())
        success = told and bool(cell.truth())
        cell.finish()
        duration_s = (cell.now_ns() - began_ns) / 1e9
        return Attempt(success=success, duration_s=duration_s, stage=stage, lost=lost, milestones=milestones)

    def _limit_s(self) -> float:
        return self._resolved.task.episode_steps * self._period_ns / 1e9

    def _act_at_random(self, rng: np.random.Generator, duration_s: float) -> None:
        """Let a policy act at random for so long; what has hold of the arm loses it."""
        action = np.zeros(self._actions, np.float32)
        for tick in range(round(duration_s * 1e9 / self._period_ns)):
            if tick % round(KEPT_S * 1e9 / self._period_ns) == 0:
                action = rng.uniform(-1, 1, self._actions).astype(np.float32)
                action[self._grippers] = rng.integers(-1, 2, len(self._grippers))
            self.cell.send(action)
            self.cell.sleep_until_ns(self.cell.now_ns() + self._period_ns)

    def _operate(self, limit_s: float) -> tuple[bool, dict[str, bool]]:
        """Let the operator go on; return whether they called it a success, and the milestones that held meanwhile."""
        cell, reached = self.cell, dict[str, bool]()
        cell.events()
        for _ in range(round(limit_s * 1e9 / self._period_ns)):
            cell.sleep_until_ns(cell.now_ns() + self._period_ns)
            for name, holds in cell.world.task.milestones(cell.world.data).items():
                reached[name] = reached.get(name, False) or holds
            events = cell.events()
            if "success" in events or "failure" in events:
                return "success" in events, reached
        return False, reached


def describe(beginning: str, attempts: Sequence[Attempt]) -> str:
    """One line: how many succeeded, with Wilson's 95 % interval, and how long that took."""
    won = [one.duration_s for one in attempts if one.success]
    low, high = wilson_interval(len(won), len(attempts))
    lost = sum(one.lost for one in attempts)
    stages = np.bincount([one.stage for one in attempts])
    took = f"{np.mean(won):.1f} s ({min(won):.1f} to {max(won):.1f})" if won else "-"
    return (
        f"{beginning}: {len(won)} of {len(attempts)} [{low:.3f}, {high:.3f}], {took}; "
        f"begun in stage {stages.tolist()}, lost before {lost}"
    )


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(prog="benchmarks.operator", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--run", default="drawer")
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--only", nargs="+", choices=BEGINNINGS, default=BEGINNINGS)
    options = parser.parse_args()
    trial = OperatorTrial(load_run(options.run))
    for beginning in options.only:
        attempts = []
        for number in range(options.episodes):
            attempts.append(trial.attempt(beginning, number))
            if not attempts[-1].success:
                print(f"  {beginning} {number}: {attempts[-1]}", flush=True)
            if len(attempts) % 10 == 0 or len(attempts) == options.episodes:
                print(describe(beginning, attempts), flush=True)


if __name__ == "__main__":
    main()
