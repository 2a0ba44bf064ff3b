"""Deploys a saved policy on a cell, without a learner: every episode is recorded, and nothing is trained on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count

from robot_stack.config.resolved import ResolvedRun
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.rollout.base.policy import policy_of
from robot_stack.rollout.control_loop import EpisodeOutcome
from robot_stack.rollout.episode_runner import EpisodeRunner
from robot_stack.rollout.evaluate import HELD_OUT, Evaluation
from robot_stack.rollout.judged import JudgedSink, Judgement
from robot_stack.rollout.store_sink import StoreSink, next_number
from robot_stack.runs.paths import DEPLOYED
from robot_stack.types.errors import RewardError
from robot_stack.types.event import Verdict
from robot_stack.types.interfaces import Cell, Clock, Judge
from robot_stack.types.params import Params
from robot_stack.types.transition import EndReason

SETTLE_S = 10.0


def succeeded(told: EpisodeOutcome) -> bool:
    """Judge an episode by the simulator's truth where there is one, else the operator's, else by how it ended."""
    if told.truth is not None:
        return told.truth
    return told.operator is Verdict.SUCCESS if told.operator is not None else told.end is EndReason.SUCCESS


def deploy(
    resolved: ResolvedRun,
    params: Params | None,
    cell: Cell,
    clock: Clock,
    store: EpisodeStore,
    *,
    episodes: int,
    stop: threading.Event,
    say: Callable[[str], None] = print,
    judge: Judge | None = None,
) -> Evaluation:
    """Run a policy without noise; an operator may take over, stop and judge at any time.

    Args:
        resolved: The run.
        params: Of the policy; None: the run's base policy acts.
        cell: What is sensed and moved.
        clock: Of the control loop.
        store: Open; gets every episode.
        episodes: How many.
        stop: Ends it early.
        say: Told how each episode went.
        judge: Declares when the task is done, which ends the episode unless the operator refuses; None: the operator
            says it, or in simulation the simulator.

    Raises:
        StoreError: If the disk refuses an episode.
    """
    policy = policy_of(resolved, params, seed=resolved.run.seed)
    successes: list[bool] = []
    task_ids: list[str] = []
    durations_s: list[float] = []
    ages_s: list[float] = []
    judged: list[Judgement] = []
    broken = False
    with StoreSink(store) as sink:
        numbers = count(next_number(store))
        watched = JudgedSink(sink, judge, cell.truth) if judge is not None else None
        runner = EpisodeRunner(
            resolved,
            cell,
            clock,
            watched or sink,
            actor=DEPLOYED,
            next_number=lambda: next(numbers),
            policy=policy,
            scores=judge,
        )
        while len(successes) < episodes and not stop.is_set():
            try:
                ran = runner.attempt(lambda: HELD_OUT, stop, lambda error: say(f"episode not run: {error}"))
            except RewardError as error:
                say(f"deployment ends here: {error}")
                broken = True
                break
            sink.settle(SETTLE_S)
            if ran is None or stop.is_set():
                continue  # if cut short by the operator who ends it all: no failure of the policy
            told = ran.outcome
            successes.append(succeeded(told))
            task_ids.append(told.header.task_id)
            durations_s.append(told.duration_s)
            ages_s += told.ticks.age_s
            if watched is not None:
                judged.append(watched.judgement(told))
            how = _how(told)
            helped = f", {told.human_steps} steps by hand" if told.human_steps else ""
            say(f"{told.header.episode_id}: {how}, {told.duration_s:.1f} s{helped}")
    return Evaluation(
        successes=successes,
        durations_s=durations_s,
        ages_s=ages_s,
        judged=judged,
        broken=broken,
        task_ids=task_ids,
    )


def _how(told: EpisodeOutcome) -> str:
    """Return how an episode ended, and who says so, in words."""
    if told.end is EndReason.FAULT and told.ticks.hold_reasons:
        return f"fault: {told.ticks.hold_reasons[-1]}"
    if told.declared:
        if told.truth is False:
            return "no success, though the success model said so"
        return "success by the success model's verdict" if succeeded(told) else "no success: the operator refused it"
    return "success" if succeeded(told) else told.end.value
