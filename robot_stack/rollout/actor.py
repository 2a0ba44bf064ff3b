"""The actor's job: demonstrations while the learner collects them, then online training, until the learner says done.

Knows nothing of ROS: `cell` is a cell over DDS or one in this process.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch

from robot_stack.config.resolved import ResolvedRun
from robot_stack.replay.durable import disk_errors, write_durable
from robot_stack.rollout.control_loop import ControlLoop, EpisodeOutcome, LoopLimits, episode_id
from robot_stack.rollout.curriculum import InterventionCurriculum, Plan
from robot_stack.rollout.live_policy import LivePolicy
from robot_stack.rollout.seeds import reset_seed
from robot_stack.rollout.task_schedule import TaskSchedule, run_in_turn
from robot_stack.runs.metrics import MetricsLog
from robot_stack.transport.client import LearnerClient
from robot_stack.types.command import Mode
from robot_stack.types.errors import ConfigError, RobotError, SpecError, StoreError, TransportError
from robot_stack.types.interfaces import Cell, Clock
from robot_stack.types.transition import EndReason, EpisodeHeader, EpisodeKind, ResetType

RETRY_S = 1.0
VERDICT_S, VERDICT_IN_TURN_S = 0.8, 3.0
"""How long a success that the model declares may be refused before the next episode: in turn, all the time that the
page gives for it, since what follows begins with what was declared."""
RECENT_TICKS = 200
OLD_PARAMS_SHARE = 0.5
"""Of the age at which the policy stops acting: from here on somebody should look at the learner."""
_DEMONSTRATE = Plan(kind=EpisodeKind.DEMO, seed=None, level=0)


def _help_of(resolved: ResolvedRun, plans: Path) -> InterventionCurriculum:
    """Build the intervention curriculum of a run, where an earlier start of this actor left it.

    Raises:
        ConfigError: If its file cannot be read.
    """
    protocol = InterventionCurriculum(resolved.run.training.protocol, np.random.default_rng((resolved.run.seed, 7)))
    if plans.exists():
        try:
            protocol.load_state_dict(json.loads(plans.read_text()))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(
                f"{plans} is unreadable ({error!r}), must be what this actor wrote; remove it to begin at level 0"
            ) from error
    return protocol


class Actor:
    """An actor that runs episodes on one cell.

    Args:
        resolved: The run.
        folder: Where its counter and metrics are kept.
        cell: What is sensed and moved.
        clock: Of the control loop.
        client: Link to the learner, connected.
        actor_id: Unique among the actors of a run.
    """

    def __init__(
        self, resolved: ResolvedRun, folder: Path, cell: Cell, clock: Clock, client: LearnerClient, actor_id: str
    ) -> None:
        self._resolved = resolved
        self._spec = resolved.spec()
        self._cell = cell
        self._client = client
        self._id = actor_id
        self._counter = folder / f"{actor_id}.next"
        self._plans = folder / f"{actor_id}.protocol.json"
        self._help = _help_of(resolved, self._plans)
        self._turns = TaskSchedule(resolved.task.backward)
        self._metrics = MetricsLog(folder / f"{actor_id}.jsonl")
        self._policy = LivePolicy(self._spec, client, clock, seed=resolved.run.seed)
        limits = LoopLimits(
            episode_steps=resolved.task.episode_steps,
            max_params_age_s=resolved.run.training.max_params_age_s,
            verdict_s=VERDICT_S if resolved.task.backward is None else VERDICT_IN_TURN_S,
        )
        self._loop = ControlLoop(cell, self._spec, clock, limits)

    def run(self, stop: threading.Event, say: Callable[[str], None] = print) -> str:
        """Run episodes until the learner is done or `stop`; returns why it left."""
        torch.set_num_threads(1)
        while not stop.is_set():
            if self._client.refusal:
                return self._client.refusal
            phase = self._phase()
            if phase == "done":
                return ""
            if self._cell.mode() is Mode.STOP or phase not in ("collecting_demos", "training"):
                stop.wait(0.3)
                continue
            kind = EpisodeKind.DEMO if phase == "collecting_demos" else EpisodeKind.ONLINE
            try:
                if kind is EpisodeKind.ONLINE and not self._policy.refresh():
                    stop.wait(0.3)
                    continue
                outcome = self._episode(kind, stop)
            except (ConfigError, RobotError, SpecError, TransportError) as error:
                say(f"episode not run: {error}")
                self._metrics.log("fault", reason=str(error))
                stop.wait(RETRY_S)
                continue
            self._log(outcome)
            self._warn_of_old_params(outcome, say)
            if kind is EpisodeKind.DEMO:
                self._client.wait_acked(1.0)  # so that the count of demonstrations is current
        return "stopped"

    def figures(self) -> dict[str, object]:
        """Return how the actor is doing now, for the console; callable from any thread."""
        jitter_s, act_s = (list(each[-RECENT_TICKS:]) for each in (self._loop.ticks.jitter_s, self._loop.ticks.act_s))
        counters, version = self._client.counters, self._policy.version
        return {
            "jitter_p99_ms": round(1e3 * float(np.percentile(jitter_s, 99)), 2) if jitter_s else "",
            "act_ms": round(1e3 * float(np.median(act_s)), 2) if act_s else "",
            "params_version": version,
            "params_age_s": round(self._policy.age_s, 1) if version else "",
            "link": "up" if self._client.link else "down",
            "spooled": counters.spooled - counters.acked,
        }

    def _warn_of_old_params(self, outcome: EpisodeOutcome, say: Callable[[str], None]) -> None:
        limit_s = self._resolved.run.training.max_params_age_s
        age_s = max(outcome.ticks.params_age_s, default=0.0)
        if age_s > OLD_PARAMS_SHARE * limit_s:
            say(f"params are {age_s:.0f} s old, at {limit_s:g} s the policy stops acting; is the learner stalled?")

    def _phase(self) -> str:
        """Ask for the learner's phase; out of reach, online training goes on with the parameters at hand."""
        try:
            return self._client.status(timeout_s=1.0).phase
        except TransportError:
            return "training" if self._policy.version else "away"

    def _episode(self, kind: EpisodeKind, stop: threading.Event) -> EpisodeOutcome:
        """Run a demonstration that is waited for, an online episode, or what the curriculum puts in its place."""
        number = self._next_number()
        plan = _DEMONSTRATE if kind is EpisodeKind.DEMO else self._help.next()
        start = self._turns.next()
        header = EpisodeHeader(
            episode_id=episode_id(number, plan.kind, self._id),
            kind=plan.kind,
            task=self._resolved.task.name,
            actor=self._id,
            started_unix_s=time.time(),
            seed=reset_seed(self._resolved.run.seed, kind, number) if plan.seed is None else plan.seed,
            level=plan.level,
            reset=plan.reset if start is ResetType.NOMINAL else start,
        )
        policy = None if plan.kind is EpisodeKind.DEMO else self._policy
        episode = partial(
            self._loop.run_episode, header, policy, self._client, scores=self._client, stopping=stop.is_set
        )
        outcome = run_in_turn(self._turns, start, episode)
        if plan is not _DEMONSTRATE and outcome.end is not EndReason.FAULT:
            helped = outcome.human_steps > 0 and plan.kind is not EpisodeKind.DEMO
            self._help.ended(plan, header.seed, alone=outcome.end is EndReason.SUCCESS and not helped)
            self._keep_plans()
        return outcome

    def _keep_plans(self) -> None:
        """Save the curriculum, if the disk lets it.

        Without it a restart of this actor begins at level 0, and no episode is worth less.
        """
        try:
            with disk_errors(f"writing {self._plans.name}"):
                write_durable(self._plans, json.dumps(self._help.state_dict()).encode())
        except StoreError as error:
            self._metrics.log("fault", reason=str(error))

    def _next_number(self) -> int:
        """Return the next episode's number, counted up across restarts, whether or not the learner can be reached."""
        number = int(self._counter.read_text()) if self._counter.exists() else 0
        draft = self._counter.with_suffix(".tmp")
        with draft.open("w") as file:
            file.write(str(number + 1))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._counter)
        return number

    def _log(self, outcome: EpisodeOutcome) -> None:
        ticks = outcome.ticks
        counters = self._client.counters
        self._metrics.log(
            "control",
            episode_id=outcome.header.episode_id,
            episode_kind=outcome.header.kind.value,
            end=outcome.end.value,
            steps=outcome.steps,
            jitter_ms=np.round(1e3 * np.array(ticks.jitter_s), 2),
            age_ms=np.round(1e3 * np.array(ticks.age_s), 2),
            skew_ms_max=1e3 * max(ticks.skew_s, default=0.0),
            act_ms=np.round(1e3 * np.array(ticks.act_s), 2),
            params_age_s=np.round(np.array(ticks.params_age_s), 2),
            blind_ticks=ticks.blind_ticks,
            holds=ticks.holds,
            holds_by_operator=ticks.holds_by_operator,
            hold_reasons=ticks.hold_reasons,
            link=self._client.link,
            params_refused=self._policy.refusal,
            spooled=counters.spooled - counters.acked,
        )
