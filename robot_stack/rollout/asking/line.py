"""The line between an asker and the operator of a cell, in one episode: what the control loop calls at each tick."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from robot_stack.rollout.asking.account import HelpAccount
from robot_stack.rollout.asking.asker import Asker
from robot_stack.rollout.asking.moment import Moment
from robot_stack.types.command import IN_HAND, Mode, Source
from robot_stack.types.interfaces import Cell, KnowsItself, Policy, ScoreSource
from robot_stack.types.transition import EndReason


class HelpLine:
    """A line on which one episode's policy asks for help.

    Args:
        asker: Decides; goes on from episode to episode.
        cell: Whose operator is asked.
        policy: Who asks.
        scores: The reward model's live score, or None.
        episode_id: Of the episode.
        now_ns: Of the loop's clock.
    """

    def __init__(
        self, asker: Asker, cell: Cell, policy: Policy, scores: ScoreSource | None, *, episode_id: str, now_ns: int
    ) -> None:
        self._asker, self._cell, self._policy, self._scores = asker, cell, policy, scores
        self._episode_id = episode_id
        self._source: Source | None = None
        asker.begin(now_ns)

    @property
    def account(self) -> HelpAccount:
        """Return the account of the episode."""
        return self._asker.account

    @property
    def keeps_still(self) -> bool:
        """Return whether the policy is to keep the arm still until somebody comes."""
        return self._asker.holding

    @property
    def led_by_base(self) -> bool:
        """Return whether the base policy is to lead the arm in the policy's place."""
        return self._asker.led_by_base

    def hear(self, source: Source | None, events: Collection[str], now_ns: int) -> None:
        """Take in who moved the arm since the last tick, None at the first, and what an operator pressed."""
        self._source = source

        def heard() -> None:
            if source is not None:
                self._asker.driven(source, now_ns)
            self._asker.hear(events, now_ns)

        self._tell(heard)

    def look(self, index: int, now_ns: int) -> None:
        """Ask the policy how sure it is of what it has just sent, and tell the operator what comes of it."""
        if self._source in IN_HAND or self._cell.mode() is not Mode.POLICY:
            return
        started_s = time.perf_counter()
        insight = self._policy.insight() if isinstance(self._policy, KnowsItself) else None
        score = None if self._scores is None else self._scores.newest(self._episode_id)
        self._tell(lambda: self._asker.look(Moment(now_ns=now_ns, index=index, insight=insight, score=score)))
        self.account.evaluate_s.append(time.perf_counter() - started_s)

    def leave(self) -> None:
        """Tell the operator that nobody asks any more: the episode is over."""
        if self._asker.request is not None:
            self._cell.ask(None)

    def end(self, end: EndReason, now_ns: int) -> None:
        """Take in how the episode ended, by the last verdict on it."""
        self._asker.end(end, now_ns)

    def _tell(self, news: Callable[[], None]) -> None:
        before = self._asker.request
        news()
        if self._asker.request != before:
            self._cell.ask(self._asker.request)
