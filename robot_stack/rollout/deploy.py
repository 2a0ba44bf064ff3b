"""Deploys a saved policy on a cell, without a learner: every episode is recorded, and nothing is trained on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count

from robot_stack.config.resolved import ResolvedRun
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.replay.outcome import verdict
from robot_stack.rollout.base.policy import policy_of
from robot_stack.rollout.control_loop import EpisodeOutcome
from robot_stack.rollout.episode_runner import EpisodeRunner
from robot_stack.rollout.evaluate import HELD_OUT, Evaluation
from robot_stack.rollout.judged import JudgedSink, Judgement
from robot_stack.rollout.store_sink import Said, StoreSink, next_number
from robot_stack.runs.paths import DEPLOYED
from robot_stack.types.errors import RewardError
from robot_stack.types.event import Label, LabelSource, Verdict
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
    said: Said = lambda final: (),
) -> Evaluation:
    """Run a policy without noise; an operator may take over, stop and judge at any time.

    Args:
        resolved: The run.
        params: Of the policy; None: the run's base policy acts.
        cell: What is sensed and moved.
        clock: Of the control loop.
        store: Open; gets every episode.
        episodes: How many; one that is discarded is run anew.
        stop: Ends it early.
        say: Told how each episode went.
        judge: Declares when the task is done, which ends the episode unless the operator refuses; None: the operator
            says it, or in simulation the simulator.
        said: Verdicts on episodes that have ended; the newest one counts.

    Raises:
        StoreError: If the disk refuses an episode.
    """
    policy = policy_of(resolved, params, seed=resolved.run.seed)
    ran: list[EpisodeOutcome] = []
    judged: dict[str, Judgement] = {}
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
        while len(_kept(store, ran)) < episodes and not stop.is_set():
            try:
                attempted = runner.attempt(lambda: HELD_OUT, stop, lambda error: say(f"episode not run: {error}"))
            except RewardError as error:
                say(f"deployment ends here: {error}")
                broken = True
                break
            sink.settle(SETTLE_S)
            sink.hear(said(False), SETTLE_S)
            if attempted is None or stop.is_set():
                continue  # if cut short by the operator who ends it all: no failure of the policy
            told = attempted.outcome
            ran.append(told)
            if watched is not None:
                judged[told.header.episode_id] = watched.judgement(told)
            how = _how(told)
            helped = f", {told.human_steps} steps by hand" if told.human_steps else ""
            say(f"{told.header.episode_id}: {how}, {told.duration_s:.1f} s{helped}")
        sink.hear(said(True), SETTLE_S)
    kept = _kept(store, ran)
    return Evaluation(
        successes=[succeeded(told) for told in kept],
        durations_s=[told.duration_s for told in kept],
        ages_s=[age_s for told in kept for age_s in told.ticks.age_s],
        judged=[judged[told.header.episode_id] for told in kept if judged],
        broken=broken,
        task_ids=[told.header.task_id for told in kept],
        helped=[told.human_steps > 0 for told in kept],
        discarded=len(ran) - len(kept),
    )


def _kept(store: EpisodeStore, ran: Sequence[EpisodeOutcome]) -> list[EpisodeOutcome]:
    """Return the episodes that were not discarded, each with what an operator said of it last."""
    words: dict[str, list[Label]] = {}
    for label in store.labels:
        if label.source is LabelSource.OPERATOR:
            words.setdefault(label.episode_id, []).append(label)
    told = [replace(each, operator=verdict(words.get(each.header.episode_id, ())) or each.operator) for each in ran]
    return [each for each in told if each.operator is not Verdict.DISCARD]


def in_words(result: Evaluation) -> str:
    """Return how often the policy succeeded alone, and what operators did besides."""
    figures = result.summary()
    alone = figures.get("alone", figures)
    low, high = alone["wilson95"]
    parts = [
        f"{alone['success']} of {alone['episodes']} succeeded (95 % interval {100 * low:.0f} to {100 * high:.0f} %)"
    ]
    if any(result.helped):
        parts[0] = f"by itself {parts[0]}"
        parts.append(f"with an operator's help {figures['helped']['success']} of {figures['helped']['episodes']}")
    if result.discarded:
        parts.append(f"{result.discarded} discarded")
    return "; ".join(parts)


def _how(told: EpisodeOutcome) -> str:
    """Return how an episode ended, and who says so, in words."""
    if told.operator is Verdict.DISCARD:
        return "discarded"
    if told.end is EndReason.FAULT and told.ticks.hold_reasons:
        return f"fault: {told.ticks.hold_reasons[-1]}"
    if told.declared:
        if told.truth is False:
            return "no success, though the success model said so"
        return "success by the success model's verdict" if succeeded(told) else "no success: the operator refused it"
    return "success" if succeeded(told) else told.end.value
