"""Measures one condition with one seed: demonstrations, online training or imitation, and 100 held-out resets."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel

from benchmarks.evidence.advantage import STATES, rank_correlation
from benchmarks.evidence.conditions import CONDITIONS, DEMONSTRATIONS, EVAL_EPISODES, OPERATORS, Condition
from benchmarks.learning.comparison import Result
from benchmarks.learning.lockstep import LAST, human_share, keep_demonstrations, train_from_shared, train_online
from policies.registry import find_algorithm
from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.config.teleop import ScriptedTeleop
from robot_stack.learner.online_training import finish
from robot_stack.learner.settings import learning_settings
from robot_stack.learner.training import Training
from robot_stack.replay.replay import Replay
from robot_stack.replay.stored_episode import StoredEpisode, read_episode
from robot_stack.rollout.evaluate import Evaluation, evaluate
from robot_stack.rollout.insertion_score import summary_of
from robot_stack.rollout.milestones import counted
from robot_stack.rollout.params_file import load_params
from robot_stack.runs.paths import RunPaths
from robot_stack.runs.rows import EpisodeRow
from robot_stack.types.command import IN_HAND
from robot_stack.types.transition import EndReason, EpisodeKind

QUICK_REWARD = ("run.reward.settings.steps=5",)
"""For runs that never read the reward model."""


def resolve(condition: Condition, seed: int, minutes: float, more: Sequence[str] = ()) -> ResolvedRun:
    """The run of a condition, without any rule that ends it early."""
    device = OPERATORS[condition.operator]
    shipped = load_run(condition.run).run.algorithm
    settings = shipped.settings if shipped.name == condition.algorithm else {}
    return load_run(
        condition.run,
        [
            *(() if device is None else (f"cell.teleop={device}",)),
            f"run.seed={seed}",
            f"run.algorithm={json.dumps({'name': condition.algorithm, 'settings': dict(settings)})}",
            f"run.training.max_robot_minutes={minutes}",
            "run.training.max_episodes=100000",
            "run.training.enough.episodes=10000",
            *condition.overrides,
            *more,
        ],
    )


def settings_of(resolved: ResolvedRun) -> dict[str, Any]:
    """What decides a run's learning, as plain values; runs that differ in it are not pooled."""
    run, learning = resolved.run, learning_settings(resolved)
    reward = run.reward.model_dump(mode="json")
    if reward["discount"] == "fixed":
        reward["discount"] = None  # as in rows that were measured before there was a choice
    chosen = {key: getattr(run, key) for key in ("base", "start_from", "imitation", "hindsight", "asking")}
    chosen["protocol"] = run.training.protocol
    defaults = {**type(run).model_fields, "protocol": type(run.training).model_fields["protocol"]}
    aside = {key: value for key, value in chosen.items() if value != defaults[key].get_default()}
    return {
        **{
            key: value.model_dump(mode="json") if isinstance(value, BaseModel) else value
            for key, value in aside.items()
        },
        "algorithm": run.algorithm.name,
        "settings": learning.config.model_dump(mode="json"),  # type: ignore[attr-defined]
        "encoder": {"name": learning.encoder, "settings": learning.encoder_config.model_dump(mode="json")},
        "reward": reward,
        "demos": run.training.demos,
        "teleop": resolved.teleop.model_dump(mode="json"),
        "task": resolved.task.model_dump(mode="json"),
    }


def defaults_of(algorithm: str) -> dict[str, Any]:
    """The settings of an algorithm as it is shipped, as plain values."""
    shipped: dict[str, Any] = find_algorithm(algorithm).config().model_dump(mode="json")
    return shipped


def commit() -> str:
    """The commit of this checkout; with a plus if the code that runs has changes that are in none."""

    def git(*words: str) -> str:
        here = Path(__file__).parent
        return subprocess.run(("git", *words), cwd=here, check=True, capture_output=True, text=True).stdout.strip()

    changed = git(
        "status", "--porcelain", "--untracked-files=no", "--", ":/*.py", ":/hardware_configs", ":/docs/examples"
    )
    return git("rev-parse", "--short=12", "HEAD") + ("+" if changed else "")


class EvidenceRuns:
    """Measures conditions; demonstrations and trunk of an operator and a seed are those of the first that asked.

    Args:
        work: What runs leave to each other; may be thrown away between two calls of the benchmark.
        minutes: Robot time of each online training; None for that of each condition.
        conditions: What can be measured, by name.
        overrides: Texts `dotted.key=value` of every run.
        resets: Held-out resets of an evaluation.
        states: In which a critic is asked to rank actions.
    """

    def __init__(
        self,
        work: Path,
        minutes: float | None = None,
        *,
        conditions: Mapping[str, Condition] = CONDITIONS,
        overrides: Sequence[str] = (),
        resets: int = EVAL_EPISODES,
        states: int = STATES,
    ) -> None:
        self._work = work
        self._minutes = minutes
        self._conditions = conditions
        self._overrides = tuple(overrides)
        self._resets, self._states = resets, states

    def _resolve(self, condition: Condition, seed: int, more: Sequence[str] = ()) -> ResolvedRun:
        return resolve(condition, seed, self._robot_minutes(condition), (*self._overrides, *more))

    def _robot_minutes(self, condition: Condition) -> float:
        return condition.minutes if self._minutes is None else self._minutes

    def identity(self, name: str, seed: int) -> Result:
        """What is known of a run before it is measured: which it is, and by what it may be pooled with others."""
        condition = self._conditions[name]
        resolved = self._resolve(condition, seed)
        return {
            "condition": name,
            "seed": seed,
            "minutes": self._robot_minutes(condition),
            "commit": commit(),
            "settings": {**settings_of(resolved), "imitates": condition.imitates},
            "defaults": defaults_of(resolved.run.algorithm.name),
        }

    def measure(self, name: str, seed: int) -> Result:
        """Train online or imitate, then evaluate on held-out resets without an operator."""
        condition, identity, started = self._conditions[name], self.identity(name, seed), time.monotonic()
        resolved = self._resolve(condition, seed)
        shared = self._demonstrations(condition, seed)
        folder, rows = self._work / f"{name}-{seed}", []
        if condition.imitates is None:
            rows = train_from_shared(resolved, folder, shared)
        else:
            recorded = shared if condition.imitates == DEMONSTRATIONS else self._corrected(condition, seed)
            imitate(self._offline(condition, seed), recorded, folder)
        result = evaluate(resolved, load_params(RunPaths(folder).policy("policy")), self._resets)
        ranks = condition.ranks_actions
        ranked = rank_correlation(resolved, folder, seed=seed, states=self._states) if ranks else None
        won = [t for t, success in zip(result.durations_s, result.successes, strict=True) if success]
        measured = {
            **identity,
            "success": sum(result.successes),
            "resets": len(result.successes),
            "cycles_s": [round(t, 3) for t in won],
            **training_figures(rows),
            **operator_figures(folder, resolved),
            **task_figures(result),
            "advantage_rank_correlation": ranked,
            "wall_s": round(time.monotonic() - started, 1),
        }
        if condition.algorithm != "hg_dagger" or condition.imitates is not None:
            shutil.rmtree(folder)  # HG-DAgger's corrections are imitated again
        return measured

    def _demonstrations(self, condition: Condition, seed: int) -> Path:
        """The folder with the demonstrations of a condition's operator and the trunk that is fitted on them.

        They are recorded anew where those that are there are of other settings.
        """
        whose = f"{Path(condition.run).stem}-{condition.operator}-{seed}"
        shared, said = self._work / f"demonstrations-{whose}", self._work / f"demonstrations-{whose}.yaml"
        recording = Condition(words="", run=condition.run, operator=condition.operator, algorithm="bc")
        more = ("run.algorithm.settings.pretrain_updates=1", "run.training.max_episodes=1", *QUICK_REWARD)
        resolved = self._resolve(recording, seed, more)
        if not shared.exists() or not said.exists() or said.read_text() != resolved.to_yaml():
            folder = self._work / f"recording-{whose}"
            for before in (folder, shared):
                shutil.rmtree(before, ignore_errors=True)
            train_online(resolved, folder)
            keep_demonstrations(folder, shared)
            said.write_text(resolved.to_yaml())
            shutil.rmtree(folder)
        return shared

    def _corrected(self, condition: Condition, seed: int) -> Path:
        """The folder of HG-DAgger's run with a condition's operator, made anew if it is gone or of other settings."""
        trained = (condition.run, condition.operator, "hg_dagger", None)
        name = next(
            name
            for name, one in self._conditions.items()
            if (one.run, one.operator, one.algorithm, one.imitates) == trained
        )
        folder, resolved = self._work / f"{name}-{seed}", self._resolve(self._conditions[name], seed)
        paths = RunPaths(folder)
        if not paths.policy("policy").exists() or paths.resolved.read_text() != resolved.to_yaml():
            train_from_shared(resolved, folder, self._demonstrations(condition, seed))
        return folder

    def _offline(self, condition: Condition, seed: int) -> ResolvedRun:
        """The run of a condition that makes all the updates of an online training before it."""
        resolved = self._resolve(condition, seed)
        config = learning_settings(resolved).config
        updates = config.pretrain_updates + round(
            config.utd * self._robot_minutes(condition) * 60 * resolved.run.rate_hz
        )
        return self._resolve(condition, seed, (f"run.algorithm.settings.pretrain_updates={updates}", *QUICK_REWARD))


def imitate(resolved: ResolvedRun, recorded: Path, folder: Path) -> Replay:
    """Make the updates before online training on the expert steps that lie in `recorded`; writes the policy.

    Returns:
        What it was trained on.
    """
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(RunPaths(recorded).store.root, RunPaths(folder).store.root)
    shutil.copy(RunPaths(recorded).trunk, RunPaths(folder).trunk)
    training = Training(resolved, folder)
    training.serve("127.0.0.1:0")
    try:
        learner = training.prepare(threading.Event())
        finish(training.parts, learner)
        return learner.recorded.replay
    finally:
        training.close()


def training_figures(rows: Sequence[EpisodeRow]) -> dict[str, Any]:
    """The course of online training; None where there was none."""
    last = rows[-LAST:]
    return {
        "episodes": len(rows),
        "human_share_first20": human_share(rows[:LAST]) if rows else None,
        "human_share_last20": human_share(last) if rows else None,
        "alone": [row.success and row.alone for row in rows],
        "steps": [row.steps for row in rows],
    }


def task_figures(result: Evaluation) -> dict[str, Any]:
    """What only some tasks tell of an evaluation: how many resets reached each milestone, and the mean score."""
    reached = counted(result.reached)
    return {
        **({"reached": reached} if reached else {}),
        **({"score": summary_of(result.scores)} if result.scores else {}),
    }


def operator_figures(folder: Path, resolved: ResolvedRun) -> dict[str, Any]:
    """The seconds in which an operator had the arm, and how long demonstrations took until the task was done.

    A policy's success ends at the instant at which the task is done; a demonstration ends when its operator says so.
    """
    rate_hz, late_s = resolved.run.rate_hz, said_after_s(resolved)
    paths = sorted(RunPaths(folder).store.episodes.iterdir())
    episodes = [read_episode(path, images=False) for path in paths]
    demos = [episode for episode in episodes if episode.header.kind is EpisodeKind.DEMO]
    online = [episode for episode in episodes if episode.header.kind is EpisodeKind.ONLINE]
    cycles = [episode.length / rate_hz - late_s for episode in demos if episode.end is EndReason.SUCCESS]
    demonstrated = sum(episode.length for episode in demos) / rate_hz
    corrected = sum(_in_hand(episode) for episode in online) / rate_hz
    return {
        "operator_s": round(demonstrated + corrected, 1),
        "demonstrations_s": round(demonstrated, 1),
        "corrections_s": round(corrected, 1),
        "robot_s": round(sum(episode.length for episode in episodes) / rate_hz, 1),
        "demonstration_cycle_s": round(float(np.mean(cycles)), 3) if cycles else None,
    }


def said_after_s(resolved: ResolvedRun) -> float:
    """How long after a task is done the operator says so; the expert of an environment has no say, its task ends."""
    teleop = resolved.teleop
    return teleop.operator.reaction_s + teleop.operator.verdict_s if isinstance(teleop, ScriptedTeleop) else 0.0


def _in_hand(episode: StoredEpisode) -> int:
    return int(np.isin(episode.arrays["source"], IN_HAND).sum())
