"""The actor's job: demonstrations while the learner collects them, then online training, until the learner says done.

Knows nothing of ROS: `cell` is a cell over DDS or one in this process.
"""

from __future__ import annotations

import json
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from robot_stack.config.resolved import ResolvedRun
from robot_stack.config.teleop import looks_on_request
from robot_stack.disk.durable import disk_errors, write_durable
from robot_stack.rollout.asking.asker import Asker
from robot_stack.rollout.control_loop import EpisodeOutcome
from robot_stack.rollout.curriculum import InterventionCurriculum
from robot_stack.rollout.episode_runner import EpisodeRunner, Plan, Ran
from robot_stack.rollout.live_policy import LivePolicy
from robot_stack.rollout.task_schedule import schedule_of
from robot_stack.runs.metrics import MetricsLog
from robot_stack.runs.rows import AskingRow, ControlRow, FaultRow, HelpRow
from robot_stack.transport.backend import LearnerStatus
from robot_stack.transport.client import LearnerClient
from robot_stack.types.errors import ConfigError, RobotError, SpecError, StackError, StoreError, TransportError
from robot_stack.types.interfaces import Cell, Clock
from robot_stack.types.transition import EndReason, EpisodeKind

RECENT_TICKS = 200
OLD_PARAMS_SHARE = 0.5
"""Of the age at which the policy stops acting: from here on somebody should look at the learner."""
COUNTED_S = 30.0
"""Time within which even a busy learner has counted a demonstration."""
ASK_EVERY_S = 0.1
TRANSIENT = (ConfigError, RobotError, SpecError, StoreError, TransportError)
"""Errors after which the next episode is tried again: somebody may free the disk, or bring the encoder."""
_DEMONSTRATION = Plan(kind=EpisodeKind.DEMO)
"""One that the learner waits for, while it collects them."""


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


def _asker_of(resolved: ResolvedRun, kept: Path) -> Asker | None:
    """Build what asks for help in a run, with what an earlier start of this actor had learnt; None: nobody is asked.

    Raises:
        ConfigError: If its file cannot be read, or is of other signals.
    """
    config = resolved.run.asking
    if config is None:
        return None
    asker = Asker(config, resolved.spec().period_s)
    if kept.exists():
        try:
            asker.load_state_dict(json.loads(kept.read_text()))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(
                f"{kept} is unreadable ({error!r}), must be what this actor wrote; remove it to begin without evidence"
            ) from error
    return asker


class EpisodeCounter:
    """A counter of episodes that goes on across restarts, above all numbers that the learner knows of this actor.

    Attributes:
        next: Number of the next episode, unless the learner knows higher ones.

    Raises:
        ConfigError: If its file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        content = path.read_text() if path.exists() else "0"
        if not content.isdecimal():
            raise ConfigError(
                f"{path} is {content!r}, must be the number of the next episode; "
                "write one above that of the newest episode there"
            )
        self.next = int(content)

    def take(self, at_least: int) -> int:
        """Return the next episode's number, once it is certain that no other episode will get it.

        Args:
            at_least: One above those that the learner knows: the file may be gone, or be of another machine's actor.

        Raises:
            StoreError: If the disk refuses it; the number is not taken then.
        """
        with disk_errors(f"writing {self._path.name}"):
            number = max(self.next, at_least)
            write_durable(self._path, str(number + 1))
        self.next = number + 1
        return number


class Actor:
    """An actor that runs episodes on one cell.

    Args:
        resolved: The run.
        folder: Where its counter and metrics are kept.
        cell: What is sensed and moved.
        clock: Of the control loop.
        client: Link to the learner, connected.
        actor_id: Unique among the actors of a run.

    Attributes:
        asker: Asks for help, or None where the run's policy never does.
    """

    def __init__(
        self, resolved: ResolvedRun, folder: Path, cell: Cell, clock: Clock, client: LearnerClient, actor_id: str
    ) -> None:
        self._max_params_age_s = resolved.run.training.max_params_age_s
        self._client = client
        self._plans = folder / f"{actor_id}.protocol.json"
        self._help = _help_of(resolved, self._plans)
        self._evidence = folder / f"{actor_id}.asking.json"
        self.asker = _asker_of(resolved, self._evidence)
        self._on_request = all(map(looks_on_request, resolved.teleops.values()))
        self._metrics = MetricsLog(folder / f"{actor_id}.jsonl")
        self._counter = _counter_of(folder, actor_id)
        of_this_start = np.random.default_rng(seed_of_start(resolved, folder, actor_id))
        self._policy = LivePolicy(resolved.spec(), client, clock, seeds=of_this_start)
        self._runner = EpisodeRunner(
            resolved,
            cell,
            clock,
            client,
            actor=actor_id,
            next_number=lambda: self._counter.take(client.next_number or 0),
            policy=self._policy,
            scores=client,
            schedule=schedule_of(resolved.task),
            transient=TRANSIENT,
            asker=self.asker,
        )
        self._refused = 0
        """Records of which it was said that the learner refused them."""

    def run(self, stop: threading.Event, say: Callable[[str], None] = print) -> str:
        """Run episodes until the learner is done or `stop`; returns why it left."""
        torch.set_num_threads(1)

        def refused(error: StackError) -> None:
            say(f"episode not run: {error}")
            self._metrics.log(FaultRow(reason=str(error)))

        while not stop.is_set():
            if self._client.refusal:
                return self._client.refusal
            phase = self._phase()
            if phase == "done":
                return ""
            ran = self._runner.attempt(partial(self._plan, phase), stop, refused, partial(self._is_still, phase))
            if ran is None:
                continue
            self._keep_plans(ran)
            self._log(ran.outcome)
            self.log_help(ran.outcome)
            self._warn_of_old_params(ran.outcome, say)
            self._warn_of_refusals(say)
            if phase == "collecting_demos":
                self._wait_counted(stop)
        return "stopped"

    def _wait_counted(self, stop: threading.Event) -> None:
        """Wait until the learner has counted the demonstration, so that it asks for no more than it needs.

        Ends too where the learner needs no more or refuses this actor, and after `COUNTED_S`, whatever it says.
        """
        deadline_s, received = time.monotonic() + COUNTED_S, -1.0
        while not stop.is_set() and not self._client.refusal and time.monotonic() < deadline_s:
            status = self._status() if self._client.wait_acked(ASK_EVERY_S) else None
            if status is not None:
                has = status.counters.get("received", 0.0)
                if received < 0.0 or has < received:  # all of the demonstration is among these; it may start anew
                    received = has
                if status.phase != "collecting_demos" or status.counters.get("counted", 0.0) >= received:
                    return
            stop.wait(ASK_EVERY_S)

    def figures(self) -> dict[str, object]:
        """Return how the actor is doing now, for the console; callable from any thread."""
        ticks = self._runner.ticks
        jitter_s, act_s = (list(each[-RECENT_TICKS:]) for each in (ticks.jitter_s, ticks.act_s))
        counters, version = self._client.counters, self._policy.version
        return {
            "jitter_p99_ms": round(1e3 * float(np.percentile(jitter_s, 99)), 2) if jitter_s else "",
            "act_ms": round(1e3 * float(np.median(act_s)), 2) if act_s else "",
            "params_version": version,
            "params_age_s": round(self._policy.age_s, 1) if version else "",
            "link": "up" if self._client.link else "down",
            "spooled": counters.spooled - counters.acked,
            "refused": counters.refused,
            "refused_why": self._client.refused_why,
        }

    def _warn_of_old_params(self, outcome: EpisodeOutcome, say: Callable[[str], None]) -> None:
        limit_s = self._max_params_age_s
        age_s = max(outcome.ticks.params_age_s, default=0.0)
        if age_s > OLD_PARAMS_SHARE * limit_s:
            say(f"params are {age_s:.0f} s old, at {limit_s:g} s the policy stops acting; is the learner stalled?")

    def _warn_of_refusals(self, say: Callable[[str], None]) -> None:
        refused = self._client.counters.refused
        if refused > self._refused:
            say(f"learner refused {refused - self._refused} records, they are lost: {self._client.refused_why}")
            self._refused = refused

    def _status(self) -> LearnerStatus | None:
        """Ask for the learner's status; None if it is out of reach, or too busy to answer within a second."""
        try:
            return self._client.status(timeout_s=1.0)
        except TransportError:
            return None

    def _phase(self) -> str:
        """Ask for the learner's phase; out of reach, online training goes on with the parameters at hand."""
        status = self._status()
        if status is None:
            return "training" if self._policy.version else "away"
        return status.phase

    def _is_still(self, phase: str) -> bool:
        """Ask whether the learner is in that phase; out of reach, nothing speaks against it."""
        status = self._status()
        return status is None or status.phase == phase

    def _plan(self, phase: str) -> Plan | None:
        """Plan the next episode: a demonstration that the learner waits for, or what the curriculum wants.

        Returns:
            None while the learner asks for nothing, has not said yet which numbers are taken, or there is no policy to
            act with.

        Raises:
            ConfigError, SpecError: If the policy's encoder cannot be had here.
        """
        if self._client.next_number is None:
            return None
        if phase == "collecting_demos":
            return _DEMONSTRATION
        if phase != "training" or not self._policy.refresh():
            return None
        return self._help.next()

    def _keep_plans(self, ran: Ran) -> None:
        """Tell the curriculum how its episode ended, and save it, if the disk lets it.

        One that was discarded, or ended by a fault or with the actor, says nothing of the policy. Without the file a
        restart of this actor begins at level 0, and no episode is worth less.
        """
        plan, outcome = ran
        if plan == _DEMONSTRATION or outcome.judged_end in (EndReason.FAULT, EndReason.OPERATOR):
            return
        helped = (outcome.human_steps > 0 or outcome.base_steps > 0) and plan.kind is not EpisodeKind.DEMO
        self._help.ended(plan, outcome.header.seed, alone=outcome.judged_end is EndReason.SUCCESS and not helped)
        self._keep(self._plans, self._help.state_dict())

    def _keep(self, path: Path, state: Mapping[str, Any]) -> None:
        try:
            with disk_errors(f"writing {path.name}"):
                write_durable(path, json.dumps(state))
        except StoreError as error:
            self._metrics.log(FaultRow(reason=str(error)))

    def log_help(self, outcome: EpisodeOutcome) -> None:
        """Keep what the asker has learnt, and write a row for each request and one for the episode."""
        if self.asker is None or outcome.help is None:
            return
        self._keep(self._evidence, self.asker.state_dict())
        episode_id, account = outcome.header.episode_id, outcome.help
        for request in account.requests:
            self._metrics.log(
                HelpRow(
                    episode_id=episode_id,
                    reason=request.kind,
                    text=request.text,
                    calibrated=request.calibrated,
                    hold=request.hold,
                    asked_s=round(request.asked_s, 3),
                    open_s=round(request.open_s, 3),
                    end=request.end,
                    needed=request.needed,
                    base_s=round(request.base_s, 3),
                )
            )
        self._metrics.log(
            AskingRow(
                episode_id=episode_id,
                on_request=self._on_request,
                requests=len(account.requests),
                missed=account.missed,
                duration_s=outcome.duration_s,
                asked_s=round(account.asked_s, 3),
                in_hand_s=round(account.in_hand_s, 3),
                evaluate_ms_p99=1e3 * float(np.percentile(account.evaluate_s, 99)) if account.evaluate_s else None,
                evidence=self.asker.figures(),
            )
        )

    def _log(self, outcome: EpisodeOutcome) -> None:
        ticks = outcome.ticks
        counters = self._client.counters
        self._metrics.log(
            ControlRow(
                episode_id=outcome.header.episode_id,
                episode_kind=outcome.header.kind,
                end=outcome.end,
                steps=outcome.steps,
                jitter_ms=np.round(1e3 * np.array(ticks.jitter_s), 2).tolist(),
                age_ms=np.round(1e3 * np.array(ticks.age_s), 2).tolist(),
                skew_ms_max=1e3 * max(ticks.skew_s, default=0.0),
                act_ms=np.round(1e3 * np.array(ticks.act_s), 2).tolist(),
                params_age_s=np.round(np.array(ticks.params_age_s), 2).tolist(),
                blind_ticks=ticks.blind_ticks,
                holds=ticks.holds,
                holds_by_operator=ticks.holds_by_operator,
                hold_reasons=ticks.hold_reasons,
                link=self._client.link,
                params_refused=self._policy.refusal,
                spooled=counters.spooled - counters.acked,
            )
        )


def seed_of_start(resolved: ResolvedRun, folder: Path, actor_id: str) -> tuple[int, ...]:
    """Return the seed of what an actor draws: no other actor of the run has it, nor a later start of this one.

    Raises:
        ConfigError: If the file of its next episode cannot be read.
    """
    return resolved.run.seed, zlib.crc32(actor_id.encode()), _counter_of(folder, actor_id).next


def _counter_of(folder: Path, actor_id: str) -> EpisodeCounter:
    return EpisodeCounter(folder / f"{actor_id}.next")
