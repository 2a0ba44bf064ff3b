"""Online training: updates while the robot trains, arrivals taken in beside them, and the end of a run."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from functools import partial

from robot_stack.learner import fitting
from robot_stack.learner.backend import Backend
from robot_stack.learner.elsewhere import STOP_S
from robot_stack.learner.encoder.refit import TrunkRefitter
from robot_stack.learner.preparation import OnlineLearner
from robot_stack.learner.run_parts import RunParts
from robot_stack.runs.paths import RunPaths
from robot_stack.runs.rows import EndRow
from robot_stack.runs.statistics import EpisodeAccount, EpisodeStatistics
from robot_stack.types.errors import StoreError
from robot_stack.types.event import LabelSource
from robot_stack.types.transition import EpisodeKind

BEGUN_WITHIN_S = 1.0
"""An actor that has just asked for the phase, which it does once its cell is reset, has begun its episode by then."""
SILENT_S = 15.0
"""An actor from which no step comes for so long, in an episode, has died."""
LABELS_WITHIN_S = 3.0
"""After the last frame of a run, in which the verdict on it comes, if it comes."""


def train_online(parts: RunParts, backend: Backend, learner: OnlineLearner, stop: threading.Event) -> bool:
    """Update while the robot trains, until it is enough or `stop` is set; the last state is on disk on return.

    Returns:
        False, or True where training is to go on behind an encoder that lies ready.

    Raises:
        StoreError: If the disk refused the last checkpoint, or training has diverged, which is not saved.
        Exception: Whatever ended the ingest thread.
    """
    encoder = TrunkRefitter(parts)
    intake = IngestThread(parts, backend, learner, encoder)
    parts.status.enter("training")
    intake.start()
    with ExitStack() as ending:  # all of it, whatever a part of it raises; the last one first
        for stops in (encoder.stop, learner.reward.refitter.stop, intake.stop, partial(learner.loop.save, wait=True)):
            ending.callback(stops)
        pause = Pause(parts, encoder)
        learner.loop.run(lambda: stop.is_set() or intake.over.is_set() or enough(parts) or pause.begun(), intake.over)
        await_last_labels(parts.statistics, intake.over)
        again = pause.begun() and not (stop.is_set() or intake.over.is_set() or enough(parts))
    if intake.failure is not None:
        raise intake.failure
    if parts.checkpoints.failure:
        raise StoreError(parts.checkpoints.failure)
    if again and (intake.runs or learner.reward.refitter.runs or encoder.runs):
        raise RuntimeError(f"a thread of online training runs {STOP_S:g} s after its end, must have ended; start again")
    return again


class Pause:
    """The pause between two episodes in which the encoder is changed.

    Args:
        parts: Of the run.
        encoder: Says when one lies ready.
    """

    def __init__(self, parts: RunParts, encoder: TrunkRefitter) -> None:
        self._parts = parts
        self._encoder = encoder
        self._asked_s: float | None = None
        self._step_s, self._steps = 0.0, -1
        self._begun = False

    def begun(self) -> bool:
        """Return whether no episode runs any more; from the first call with an encoder ready, none begins.

        An episode of which nothing has come for long is not waited for: its actor has died.
        """
        if self._begun or not self._encoder.ready:
            return self._begun
        now_s = time.monotonic()
        if self._asked_s is None:
            self._asked_s = now_s
            self._parts.status.enter("fitting")
        if self._steps != (steps := self._parts.statistics.online_steps):
            self._step_s, self._steps = now_s, steps
        running = any(a.end is None and a.header.kind is EpisodeKind.ONLINE for a in self._parts.statistics.accounts)
        still = now_s - self._step_s > SILENT_S
        self._begun = still or (now_s - self._asked_s > BEGUN_WITHIN_S and not running)
        return self._begun


class IngestThread:
    """The thread that takes in whatever arrives, at once; what ends it must end the process.

    Attributes:
        over: Set once it is told to end, or has ended on an error.
        failure: That error.
    """

    def __init__(self, parts: RunParts, backend: Backend, learner: OnlineLearner, encoder: TrunkRefitter) -> None:
        self.over = threading.Event()
        self.failure: Exception | None = None
        self._parts = parts
        self._backend = backend
        self._learner = learner
        self._encoder = encoder
        self._thread = threading.Thread(target=self._work, name="ingest", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; what has not been taken in is on disk."""
        self.over.set()
        self._thread.join(STOP_S)

    @property
    def runs(self) -> bool:
        """Return whether the thread is there."""
        return self._thread.is_alive()

    def _work(self) -> None:
        try:
            while not self.over.is_set():
                self._backend.arrived.wait(0.05)
                arrivals = self._backend.take()
                if arrivals:
                    self._learner.recorded.ingest.take(arrivals)
                    self._parts.episode_log.log()
                self._learner.reward.refitter.maybe_start()
                self._encoder.maybe_start()
                self._learner.reward.shaping.rescore()
        except Exception as error:  # the top of this thread: `train_online` raises it where the process can end
            self.failure = error
            self.over.set()


def enough(parts: RunParts) -> bool:
    """Return whether the run has its episodes or minutes, or succeeds often enough."""
    training, statistics = parts.resolved.run.training, parts.statistics
    minutes = statistics.online_steps / parts.resolved.spec().rate_hz / 60
    if statistics.online_ended >= training.max_episodes or minutes >= training.max_robot_minutes:
        return True
    return statistics.recent_success(training.enough.episodes) >= training.enough.success


def await_last_labels(statistics: EpisodeStatistics, over: threading.Event) -> None:
    """Wait for what is said of the last episode, which follows its last frame; of a real cell it may be nothing.

    Where a simulator has told the truth about others, it comes behind an operator's verdict.
    """
    deadline_s = time.monotonic() + LABELS_WITHIN_S
    accounts = statistics.accounts
    simulated = any(LabelSource.TRUTH in account.verdicts for account in accounts)

    def incomplete(account: EpisodeAccount) -> bool:
        told = LabelSource.TRUTH in account.verdicts if simulated else bool(account.verdicts)
        return account.end is not None and not told

    while any(map(incomplete, accounts[-1:])) and time.monotonic() < deadline_s:
        if over.wait(0.05):
            return


def finish(parts: RunParts, learner: OnlineLearner) -> None:
    """Write the final parameters to disk; actors are told by the phase."""
    fitting.write_params(RunPaths(parts.folder).policy("policy"), learner.loop.publisher.finish())
    parts.episode_log.log(final=True)
    learner.loop.updater.held_out.finish()
    frames = learner.recorded.replay.frames
    parts.metrics.log(
        EndRow(
            updates=learner.loop.updates,
            env_steps=parts.statistics.online_steps,
            replay_bytes_per_transition=frames.bytes_per_transition,
            replay_transitions=sum(max(0, len(frames.episode(name).rows) - 1) for name in frames.episode_ids),
        )
    )
    parts.status.enter("done")
