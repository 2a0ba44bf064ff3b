"""Deploys a saved policy on a cell, without a learner: every episode is recorded, and nothing is trained on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from policies.acting import ActingPolicy
from robot_stack.config.resolved import ResolvedRun
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.rollout.control_loop import ControlLoop, EpisodeOutcome, LoopLimits, episode_id
from robot_stack.rollout.evaluate import Evaluation
from robot_stack.rollout.seeds import reset_seed
from robot_stack.rollout.store_sink import StoreSink, next_number
from robot_stack.types.command import Mode
from robot_stack.types.errors import RobotError
from robot_stack.types.event import Verdict
from robot_stack.types.interfaces import Cell, Clock
from robot_stack.types.params import Params
from robot_stack.types.transition import EndReason, EpisodeHeader, EpisodeKind

DEPLOYED = "deployed"
"""Actor id of these episodes, and the folder of their store inside the run's."""
RETRY_S = 1.0
SETTLE_S = 10.0


def succeeded(told: EpisodeOutcome) -> bool:
    """Judge an episode by the simulator's word where there is one, else the operator's, else by how it ended."""
    if told.truth is not None:
        return told.truth
    return told.operator is Verdict.SUCCESS if told.operator is not None else told.end is EndReason.SUCCESS


def deploy(
    resolved: ResolvedRun,
    params: Params,
    cell: Cell,
    clock: Clock,
    store: EpisodeStore,
    *,
    episodes: int,
    stop: threading.Event,
    say: Callable[[str], None] = print,
) -> Evaluation:
    """Run a policy without noise; an operator may take over, stop and judge at any time.

    Args:
        resolved: The run.
        params: Of the policy.
        cell: What is sensed and moved.
        clock: Of the control loop.
        store: Open; gets every episode.
        episodes: How many.
        stop: Ends it early.
        say: Told how each episode went.

    Raises:
        StoreError: If the disk refuses an episode.
    """
    spec = resolved.spec()
    policy = ActingPolicy(spec, params, seed=resolved.run.seed)
    loop = ControlLoop(cell, spec, clock, LoopLimits(episode_steps=resolved.task.episode_steps))
    successes: list[bool] = []
    durations_s: list[float] = []
    number = next_number(store) - 1
    with StoreSink(store) as sink:
        while len(successes) < episodes and not stop.is_set():
            if cell.mode() is Mode.STOP:
                stop.wait(RETRY_S)
                continue
            number += 1
            header = EpisodeHeader(
                episode_id=episode_id(number, EpisodeKind.EVAL, DEPLOYED),
                kind=EpisodeKind.EVAL,
                task=resolved.task.name,
                actor=DEPLOYED,
                started_unix_s=time.time(),
                seed=reset_seed(resolved.run.seed, EpisodeKind.EVAL, number),
            )
            try:
                told = loop.run_episode(header, policy, sink, deterministic=True, stopping=stop.is_set)
            except RobotError as error:
                say(f"episode not run: {error}")
                stop.wait(RETRY_S)
                continue
            sink.settle(SETTLE_S)
            if stop.is_set():
                break  # cut short by the operator who ends it all: no failure of the policy
            successes.append(succeeded(told))
            durations_s.append(told.duration_s)
            how = "success" if successes[-1] else told.end.value
            helped = f", {told.human_steps} steps by hand" if told.human_steps else ""
            say(f"{header.episode_id}: {how}, {told.duration_s:.1f} s{helped}")
    return Evaluation(successes=successes, durations_s=durations_s)
