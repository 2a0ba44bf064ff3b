"""One fit of a run's reward model as a value: what it needs, how it is done, and doing it in a process of its own.

    python -m robot_stack.learner.reward.fit_job < JOB > ANSWER

A job is a line of JSON and then arrays as safetensors, the answer a line of JSON.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from reward_models.live import find_live
from reward_models.model_per_task import ModelPerTask, TaskModel
from reward_models.progress.clips import ScoredEpisode
from reward_models.progress.config import LiveRewardConfig
from reward_models.progress.orders import Order
from robot_stack.learner import elsewhere, fitting
from robot_stack.learner.fitting import RewardNetwork
from robot_stack.runs.paths import RunPaths
from robot_stack.runs.rows import FitReport

OWN = "robot_stack.learner.reward.fit_job"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskToFit:
    """A task with the episodes that a model of it is fitted on.

    Attributes:
        text: What the robot is told.
        told: Values of the entries of a frame's inputs that say which task an episode is of.
        episodes: Those of the task, demonstrations first.
        preferences: What became of the preferences of the run, by what happened to them, for the report.
    """

    text: str
    told: tuple[float, ...]
    episodes: tuple[ScoredEpisode, ...]
    preferences: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FitJob:
    """Everything that a fit depends on.

    Attributes:
        folder: Of the run; the weights are written there.
        tasks: By id, in the order of the turns.
        column: The first entry of a frame's inputs that say which of several tasks an episode is of.
        settings: Of the reward model.
        seed: Of the fit.
    """

    folder: Path
    tasks: Mapping[str, TaskToFit]
    column: int
    settings: LiveRewardConfig
    seed: int

    def fit(self, on_step: fitting.OnStep = lambda step, steps, loss: None) -> Fit:
        """Fit a model of each task, and write them as one.

        Raises:
            RewardError: If there is nothing to learn from.
            StoreError: If the disk refuses.
        """
        models: dict[str, TaskModel] = {}
        told: dict[str, FitReport] = {}
        held_out: list[str] = []
        for task_id, task in self.tasks.items():
            models[task_id], report, judged = fitting.fit_reward(
                task.episodes, self.settings, text=task.text, seed=self.seed, on_step=on_step
            )
            names = [e.name for e in task.episodes]
            held_out += [e.name for e in task.episodes if e.success and e.name in report.held_out]
            told[task_id] = FitReport(
                version=report.version,
                voc_heldout=report.voc_heldout,
                voc_clock=report.voc_clock,
                false_done=report.false_done,
                calibration_error=report.calibration_error,
                episodes=len(task.episodes),
                failures=sum(not e.success for e in task.episodes),
                classifier=None if judged is None else asdict(judged.point),
                orders=report.orders,
                order_accuracy=None if math.isnan(report.order_accuracy) else report.order_accuracy,
                preferences=task.preferences,
                # a classifier has its own episodes held out
                trained_on=tuple(name for name in names if judged is not None or name not in report.held_out),
                held_out=tuple(name for name in names if judged is None and name in report.held_out),
            )
        model: RewardNetwork
        (model, *others) = models.values()
        if others:
            model = ModelPerTask(models, {name: task.told for name, task in self.tasks.items()}, self.column)
        fitting.save_reward(RunPaths(self.folder).reward(model.version), model)
        return Fit(version=model.version, told=told, held_out=tuple(held_out))

    def to_bytes(self) -> bytes:
        """Write the job as a line of JSON and then the arrays of its episodes."""
        tasks: dict[str, Any] = {}
        arrays: dict[str, np.ndarray] = {}
        for task_id, task in self.tasks.items():
            episodes = []
            for episode in task.episodes:
                known = {"frames": episode.frames, "progress": episode.progress}
                own = {f"{len(arrays)}.{name}": value for name, value in known.items() if value is not None}
                arrays |= {name: np.ascontiguousarray(value) for name, value in own.items()}
                plain = {
                    "success": episode.success,
                    "judged": episode.judged,
                    "done_frames": episode.done_frames,
                    "refused": episode.refused,
                }
                places = {
                    "stage_starts": episode.stage_starts,
                    "thumbnails": episode.thumbnails,
                    "parts": episode.parts,
                }
                orders = {"name": episode.name, "orders": episode.orders}
                episodes.append({**plain, **places, **orders, "arrays": list(own)})
            about = {"text": task.text, "told": task.told, "preferences": dict(task.preferences)}
            tasks[task_id] = {**about, "episodes": episodes}
        told = {
            "folder": str(self.folder),
            "tasks": tasks,
            "column": self.column,
            "part": self.settings.part,
            "settings": self.settings.model_dump(mode="json"),
            "seed": self.seed,
        }
        return json.dumps(told).encode() + b"\n" + save(arrays)

    @classmethod
    def from_bytes(cls, content: bytes) -> FitJob:
        """Read a job that `to_bytes` wrote."""
        line, _, rest = content.partition(b"\n")
        told, arrays = json.loads(line), load(rest)

        def episode(plain: dict[str, Any]) -> ScoredEpisode:
            own = {name.partition(".")[2]: arrays[name] for name in plain.pop("arrays")}
            thumbnails = tuple((start, stop) for start, stop in plain["thumbnails"])
            parts = tuple((name, start, stop) for name, start, stop in plain["parts"])
            places = {"stage_starts": tuple(plain["stage_starts"]), "thumbnails": thumbnails, "parts": parts}
            orders = tuple(Order(*order) for order in plain["orders"])
            return ScoredEpisode(**{**plain, **places, "orders": orders, **own})

        tasks = {
            task_id: TaskToFit(
                text=task["text"],
                told=tuple(task["told"]),
                episodes=tuple(map(episode, task["episodes"])),
                preferences=task["preferences"],
            )
            for task_id, task in told["tasks"].items()
        }
        settings = find_live(told["part"]).config.model_validate_json(json.dumps(told["settings"]))
        folder = Path(told["folder"])
        return cls(folder=folder, tasks=tasks, column=told["column"], settings=settings, seed=told["seed"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A model that was fitted and written.

    Attributes:
        version: Its name.
        told: What is known of it, by task id.
        held_out: Successes of all tasks that were held out.
    """

    version: str
    told: Mapping[str, FitReport]
    held_out: tuple[str, ...]


def fit_elsewhere(job: FitJob, stopping: threading.Event) -> Fit:
    """Do a fit in a process of its own, and wait for it.

    Raises:
        Stopped, FitError, StoreError: See `elsewhere.fit_elsewhere`.
    """
    answer = elsewhere.fit_elsewhere(OWN, job.to_bytes(), stopping, of="reward model")
    told = {
        name: FitReport(**said | {key: tuple(said[key]) for key in ("trained_on", "held_out")})
        for name, said in answer["told"].items()
    }
    return Fit(version=answer["version"], told=told, held_out=tuple(answer["held_out"]))


if __name__ == "__main__":
    elsewhere.answer(lambda content: asdict(FitJob.from_bytes(content).fit()))
