"""Records demonstrations by hand, one episode after the other, into the store that a learner will read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from robot_stack.config.resolved import ResolvedRun
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.replay.outcome import Outcome, outcome
from robot_stack.rollout.control_loop import EpisodeOutcome
from robot_stack.rollout.episode_runner import EpisodeRunner, Plan
from robot_stack.rollout.store_sink import Said, StoreSink, next_number
from robot_stack.rollout.task_schedule import schedule_of
from robot_stack.runs.statistics import EpisodeAccount, balanced
from robot_stack.types.event import Verdict
from robot_stack.types.interfaces import Cell, Clock
from robot_stack.types.transition import EndReason, EpisodeKind

HAND = "hand"
"""Actor id of what is recorded by hand."""
SETTLE_S = 10.0


def count_valid_demos(store: EpisodeStore, task_ids: Sequence[str] = ()) -> int:
    """Count a store's demonstrations that ended well, were not discarded, and count as `balanced` says."""
    found = []
    for name in sorted(store.episodes):
        if store.header(name).kind is EpisodeKind.DEMO:
            labels = [label for label in store.labels if label.episode_id == name]
            if outcome(labels, store.read(name, images=False).end) is Outcome.SUCCESS:
                found.append(EpisodeAccount(header=store.header(name)))
    return len(balanced(found, task_ids))


class Recorder:
    """A recorder of demonstrations on one cell.

    Args:
        resolved: The run.
        cell: What is sensed and moved.
        clock: Of the control loop.
        store: Open; gets the episodes.
        say: Told how each episode went.
        said: Verdicts on episodes that have ended.
    """

    def __init__(
        self,
        resolved: ResolvedRun,
        cell: Cell,
        clock: Clock,
        store: EpisodeStore,
        say: Callable[[str], None] = print,
        said: Said = lambda final: (),
    ) -> None:
        self._resolved = resolved
        self._cell = cell
        self._clock = clock
        self._store = store
        self._say = say
        self._said = said

    def run(self, wanted: int, stop: threading.Event) -> int:
        """Record until the store holds `wanted` demonstrations that ended well, or `stop`; returns how many it holds.

        Raises:
            StoreError: If the disk refuses an episode.
        """
        with StoreSink(self._store) as sink:
            runner = EpisodeRunner(
                self._resolved,
                self._cell,
                self._clock,
                sink,
                actor=HAND,
                next_number=lambda: next_number(self._store),
                schedule=schedule_of(self._resolved.task),
            )
            sink.hear(self._said(False), SETTLE_S)
            have = self._have()
            while have < wanted and not stop.is_set():
                ran = runner.attempt(
                    lambda: Plan(kind=EpisodeKind.DEMO), stop, lambda error: self._say(f"episode not run: {error}")
                )
                sink.settle(SETTLE_S)
                if sink.hear(self._said(False), SETTLE_S) or ran is not None:
                    have = self._have()
                if ran is not None:
                    self._say(f"{_in_words(ran.outcome)}; {have} of {wanted} demonstrations")
            return self._have() if sink.hear(self._said(True), SETTLE_S) else have

    def _have(self) -> int:
        return count_valid_demos(self._store, [turn.id for turn in self._resolved.task.turns])


def _in_words(told: EpisodeOutcome) -> str:
    if told.operator is Verdict.DISCARD:
        how = "discarded"
    elif told.end is EndReason.FAULT:
        how = f"cut short: {told.ticks.hold_reasons[-1] if told.ticks.hold_reasons else 'the cell stopped'}"
    else:
        how = told.end.value
    return f"{told.header.episode_id}: {how}, {told.duration_s:.1f} s"
