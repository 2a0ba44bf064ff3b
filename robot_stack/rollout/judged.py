"""Episodes that a success model judges, where no learner is: it is shown each step, and what it claims is counted."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from robot_stack.rollout.control_loop import EpisodeOutcome
from robot_stack.types.errors import RewardError
from robot_stack.types.event import Label
from robot_stack.types.interfaces import Judge, StepSink
from robot_stack.types.reward import LiveScore
from robot_stack.types.stages import StageMark
from robot_stack.types.transition import EpisodeHeader, Step

ENDS_WITHIN_S = 5.0
"""For which the end of a deployment waits for a judge that looks at its last frame."""


class BackgroundJudge:
    """A judge that looks in a thread of its own, so that the control loop never waits for it.

    Args:
        judge: Asked in the thread.
    """

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._waiting: queue.SimpleQueue[tuple[str, Step | None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="success model", daemon=True)
        self._failure: Exception | None = None

    def __enter__(self) -> BackgroundJudge:
        """Begin to look."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the thread, after the frame that it has at hand."""
        self._drop()
        self._waiting.put(None)
        self._thread.join(ENDS_WITHIN_S)

    def begin(self, episode_id: str) -> None:
        """Forget the episode before, and what of it was not looked at yet."""
        self._drop()
        self._waiting.put((episode_id, None))

    def see(self, step: Step) -> None:
        """Hand over a step and return at once."""
        self._waiting.put((step.episode_id, step))

    def newest(self, episode_id: str) -> LiveScore | None:
        """Return the newest score of that episode, or None.

        Raises:
            RewardError: If the model failed on a frame: nobody would say any more when the task is done.
        """
        if self._failure is not None:
            raise RewardError(f"the success model failed ({self._failure!r}), must score every frame; see the log")
        return self._judge.newest(episode_id)

    def _drop(self) -> None:
        with suppress(queue.Empty):
            while True:
                self._waiting.get_nowait()

    def _work(self) -> None:
        while (item := self._waiting.get()) is not None:
            episode_id, step = item
            try:
                if step is None:
                    self._judge.begin(episode_id)
                else:
                    self._judge.see(step)
            except Exception as error:  # the top of this thread: the next question raises it
                self._failure = error
                return


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What the success model made of one episode, beside what was true.

    Attributes:
        declared: Whether it declared success, which ended the episode.
        done_at: Step at which the task was done first, in truth; None: never, or nobody knows.
        false: Whether it declared a success that was none; None where nobody knows.
        delay_s: Time from when the task was done to its verdict; None without both.
    """

    declared: bool
    done_at: int | None
    false: bool | None
    delay_s: float | None


class JudgedSink:
    """A sink that passes on what it gets and shows it to a judge; implements `StepSink`.

    Args:
        sink: Gets everything.
        judge: Shown every step.
        truth: Returns whether the task is done now, None where nobody knows; for the record alone.
    """

    def __init__(self, sink: StepSink, judge: Judge, truth: Callable[[], bool | None]) -> None:
        self._sink, self._judge, self._truth = sink, judge, truth
        self._done_at: int | None = None

    def begin(self, header: EpisodeHeader) -> None:
        """Announce an episode to both."""
        self._done_at = None
        self._judge.begin(header.episode_id)
        self._sink.begin(header)

    def push(self, step: Step) -> None:
        """Hand a step to both; it comes when the next frame is there."""
        self._sink.push(step)
        self._judge.see(step)
        if self._done_at is None and self._truth():
            self._done_at = step.index if step.action is None else step.index + 1

    def label(self, label: Label) -> None:
        """Hand a verdict to the sink."""
        self._sink.label(label)

    def mark(self, mark: StageMark) -> None:
        """Hand a stage mark to the sink."""
        self._sink.mark(mark)

    def judgement(self, told: EpisodeOutcome) -> Judgement:
        """Return what was made of the episode that has just ended."""
        delay_s = None
        if told.declared and self._done_at is not None:
            delay_s = told.duration_s * (1 - self._done_at / max(1, told.steps))
        return Judgement(
            declared=told.declared,
            done_at=self._done_at,
            false=None if told.truth is None else told.declared and not told.truth,
            delay_s=delay_s,
        )
