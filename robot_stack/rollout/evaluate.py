"""Evaluates a saved policy on held-out resets: the same control loop, no operator, no noise, truth from the simulator.

python -m robot_stack.rollout.evaluate --run runs/NAME/run.yaml --policy runs/NAME/policy.safetensors --out eval.json
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch

from reward_models.metrics import wilson_interval
from robot_stack.config.resolve import load_resolved
from robot_stack.config.resolved import ResolvedRun
from robot_stack.disk.durable import write_durable
from robot_stack.rollout.base.cell import with_base
from robot_stack.rollout.base.policy import policy_of
from robot_stack.rollout.episode_runner import EpisodeRunner, Plan
from robot_stack.rollout.insertion_score import InsertionScore, score_insertion, summary_of
from robot_stack.rollout.judged import JudgedSink, Judgement
from robot_stack.rollout.milestones import MilestoneSink, counted
from robot_stack.rollout.params_file import load_params
from robot_stack.runs.metrics import read_rows
from robot_stack.runs.paths import RunPaths
from robot_stack.runs.rows import ControlRow, of_kind
from robot_stack.types.errors import StackError
from robot_stack.types.event import Label
from robot_stack.types.interfaces import Cell, Clock, Judge, SimulatedCell, StepSink
from robot_stack.types.params import Params
from robot_stack.types.stages import StageMark
from robot_stack.types.transition import EpisodeHeader, EpisodeKind, Step
from robot_stack.workcell.build import build_local_cell
from robot_stack.workcell.variations import tested_override

HELD_OUT = Plan(kind=EpisodeKind.EVAL)


class NullSink:
    """A sink of steps that records nothing."""

    def begin(self, header: EpisodeHeader) -> None:
        """Ignore that an episode begins."""

    def push(self, step: Step) -> None:
        """Ignore a step of an episode."""

    def label(self, label: Label) -> None:
        """Ignore a verdict on an episode."""

    def mark(self, mark: StageMark) -> None:
        """Ignore a stage mark of an episode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The result of evaluating one policy.

    Attributes:
        successes: True per episode, in the order of the seeds.
        durations_s: Robot time per episode; of a success, until it.
        ages_s: Age of each observation that the policy acted on.
        judged: What the success model made of each episode; empty where none judged.
        broken: Whether the success model failed, which ended it early.
        reached: Milestones of the task that held at some moment of each episode; empty in a task of one stage.
        scores: Of each episode, where the task is scored as an insertion; else empty.
        task_ids: Which of several tasks each episode was of; empty where nobody tells them apart.
        helped: Whether an operator had the arm in each episode; empty where there is none.
        discarded: Episodes that an operator discarded, which are not among the others.
    """

    successes: list[bool]
    durations_s: list[float]
    ages_s: list[float]
    judged: list[Judgement] = field(default_factory=list)
    broken: bool = False
    reached: list[dict[str, bool]] = field(default_factory=list)
    scores: list[InsertionScore] = field(default_factory=list)
    task_ids: list[str] = field(default_factory=list)
    helped: list[bool] = field(default_factory=list)
    discarded: int = 0

    def summary(self) -> dict[str, Any]:
        """Return the keys that summary.json wants; the cycle time is over the successes."""
        milestones = counted(self.reached)
        tasks = list(dict.fromkeys(self.task_ids))
        return {
            **self._counted(list(zip(self.successes, self.durations_s, strict=True))),
            "observation_age_ms": round(1e3 * float(np.median(self.ages_s)), 1) if self.ages_s else None,
            **({"tasks": {task_id: self._counted(self._of(task_id)) for task_id in tasks}} if len(tasks) > 1 else {}),
            **({"success_model": self._success_model()} if self.judged else {}),
            **(self._by_help() if self.helped or self.discarded else {}),
            **({"milestones": milestones} if milestones else {}),
            **({"score": summary_of(self.scores)} if self.scores else {}),
        }

    def write(self, path: Path, version: int | None) -> None:
        """Write the summary with success and time of each episode, as the report of a run reads it.

        Args:
            path: Of the file.
            version: Of the parameters that were evaluated; None for a policy without any.

        Raises:
            OSError: If the disk refuses.
        """
        each = {"successes": self.successes, "durations_s": self.durations_s}
        told = self.summary() | each | {"params_version": version}
        write_durable(path, json.dumps(told))

    def _of(self, task_id: str) -> list[tuple[bool, float]]:
        """Return success and time of each episode of a task."""
        each = zip(self.task_ids, self.successes, self.durations_s, strict=True)
        return [(success, duration_s) for own, success, duration_s in each if own == task_id]

    def _by_help(self) -> dict[str, Any]:
        """Return the figures of the policy alone, apart from those of episodes in which an operator helped."""
        each = list(zip(self.helped, self.successes, self.durations_s, strict=True))
        apart = {
            name: self._counted([(success, duration_s) for was, success, duration_s in each if was is helped])
            for name, helped in (("alone", False), ("helped", True))
        }
        return {**apart, "discarded": self.discarded}

    @staticmethod
    def _counted(own: Sequence[tuple[bool, float]]) -> dict[str, Any]:
        """Return how many of these episodes succeeded, with the interval, and the mean time of a success."""
        won = [duration_s for success, duration_s in own if success]
        low, high = wilson_interval(len(won), len(own))
        return {
            "episodes": len(own),
            "success": len(won),
            "wilson95": [round(low, 4), round(high, 4)],
            "cycle_s": round(float(np.mean(won)), 3) if won else None,
        }

    def _success_model(self) -> dict[str, Any]:
        """Return how often the success model spoke, and was wrong; intervals are of all episodes where truth is known.

        `missed` counts tasks that were done and ended without its verdict.
        """
        known = [one for one in self.judged if one.false is not None]
        false = sum(bool(one.false) for one in known)
        delays_s = [one.delay_s for one in known if one.delay_s is not None]
        return {
            "declared": sum(one.declared for one in self.judged),
            "false_done": false if known else None,
            "false_done_wilson95": [round(end, 4) for end in wilson_interval(false, len(known))] if known else None,
            "done": sum(one.done_at is not None for one in known) if known else None,
            "missed": sum(one.done_at is not None and not one.declared for one in known) if known else None,
            "delay_s": round(float(np.median(delays_s)), 3) if delays_s else None,
        }


def evaluation_runner(
    resolved: ResolvedRun,
    params: Params | None,
    cell: Cell,
    clock: Clock,
    *,
    sink: StepSink | None = None,
    judge: Judge | None = None,
) -> EpisodeRunner:
    """Build the runner of a policy on the held-out resets of a run, the first one first; by itself it records nothing.

    Args:
        resolved: The run.
        params: Of the policy; None: the run's base policy acts.
        cell: In this process.
        clock: Its own.
        sink: Gets every step.
        judge: Ends an episode by its verdict; without one the simulator's truth does.
    """
    numbers = count()
    policy = policy_of(resolved, params, seed=0)
    return EpisodeRunner(
        resolved,
        cell,
        clock,
        sink or NullSink(),
        actor="eval",
        next_number=lambda: next(numbers),
        policy=policy,
        scores=judge,
    )


def training_age_s(resolved: ResolvedRun, folder: Path) -> float:
    """Return the age of the observations that the policy of a run trained online with.

    It is the median over the ticks of the run's training episodes; where no actor measured it, the time between two
    images of the slowest camera, which is how old images of this cell can be at least at times. An environment waits.
    """
    if resolved.is_environment:
        return 0.0
    rows = [row for path in sorted(RunPaths(folder).actor.glob("*.jsonl")) for row in read_rows(path).rows]
    online = [row for row in of_kind(rows, ControlRow) if row.episode_kind is EpisodeKind.ONLINE]
    ages_ms = [age_ms for row in online for age_ms in row.age_ms if age_ms is not None]
    if ages_ms:
        return float(np.median(ages_ms)) / 1e3
    return 1.0 / min(camera.rate_hz for camera in resolved.cameras.values())


def evaluate(
    resolved: ResolvedRun,
    params: Params | None,
    episodes: int,
    on_episode: Callable[[int, bool], None] = lambda number, success: None,
    *,
    observation_age_s: float = 0.0,
    judge: Judge | None = None,
) -> Evaluation:
    """Evaluate a policy on `episodes` held-out resets in this process.

    Args:
        resolved: The run.
        params: Of the policy; None: the run's base policy acts.
        episodes: How many.
        on_episode: Told the number of each episode, from 1 on, and whether it succeeded.
        observation_age_s: Age of the observations; as in online training, see `training_age_s`. A cell in this process
            has none.
        judge: Ends episodes as on a real cell, where no simulator says when the task is done; success is the
            truth at that moment.
    """
    cell = build_local_cell(resolved, seed=0, observation_age_s=observation_age_s)
    return evaluate_in(cell, resolved, params, episodes, on_episode, judge=judge)


def evaluate_in(
    cell: SimulatedCell,
    resolved: ResolvedRun,
    params: Params | None,
    episodes: int,
    on_episode: Callable[[int, bool], None] = lambda number, success: None,
    *,
    judge: Judge | None = None,
) -> Evaluation:
    """Evaluate a policy on `episodes` held-out resets in a cell of this process; see `evaluate`."""
    noting = MilestoneSink(NullSink(), cell.milestones)
    watched = JudgedSink(noting, judge, cell.truth) if judge is not None else None
    judged: list[Judgement] = []
    scores: list[InsertionScore] = []
    successes: list[bool] = []
    task_ids: list[str] = []
    durations_s: list[float] = []
    ages_s: list[float] = []
    with with_base(resolved, cell, waits=True) as based:
        runner = evaluation_runner(resolved, params, based, cell, sink=watched or noting, judge=judge)
        for number in range(episodes):
            outcome = runner.run(HELD_OUT)
            successes.append(bool(outcome.truth))
            task_ids.append(outcome.header.task_id)
            durations_s.append(outcome.duration_s)
            ages_s += outcome.ticks.age_s
            record = cell.insertion()
            if record is not None:
                scores.append(score_insertion(record))
            if watched is not None:
                judged.append(watched.judgement(outcome))
            on_episode(number + 1, successes[-1])
    return Evaluation(
        successes=successes,
        task_ids=task_ids,
        durations_s=durations_s,
        ages_s=ages_s,
        judged=judged,
        reached=noting.reached,
        scores=scores,
    )


def evaluate_held_out(
    resolved: ResolvedRun, folder: Path, params: Params | None, tested: tuple[str, ...], episodes: int
) -> Evaluation:
    """Evaluate a policy on held-out resets whose scenes draw some factors from their held-out ranges.

    Args:
        resolved: The run.
        folder: Of the run.
        params: Of the policy; None: the run's base policy acts.
        tested: Names of these factors; all others are as in training.
        episodes: How many.
    """
    varied = load_resolved(RunPaths(folder).resolved, [tested_override(tested)])
    return evaluate(varied, params, episodes, observation_age_s=training_age_s(resolved, folder))


def main(arguments: list[str] | None = None) -> int:
    """Evaluate a saved policy and write the result as JSON; returns the exit code."""
    parser = argparse.ArgumentParser(prog="robot_stack.rollout.evaluate", description="Evaluate a saved policy.")
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--policy", type=Path, required=True)
    parser.add_argument("--episodes", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    try:
        resolved = load_resolved(options.run)

        def report(number: int, success: bool) -> None:
            print(f"{number} {int(success)}", flush=True)

        age_s = training_age_s(resolved, options.run.parent)
        params = load_params(options.policy)
        evaluate(resolved, params, options.episodes, report, observation_age_s=age_s).write(options.out, params.version)
    except StackError as error:
        print(f"evaluate: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
