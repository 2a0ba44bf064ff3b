"""What a learner says of itself: its status for actors and the console, and a metrics row per finished episode."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Protocol

import numpy as np

from robot_stack.learner import fitting
from robot_stack.learner.data.replay_restorer import ReplayRestorer
from robot_stack.learner.reward.scoring import Scorer
from robot_stack.learner.update_loop import UpdateLoop
from robot_stack.runs.critic import CriticFigures
from robot_stack.runs.metrics import MetricsLog, read_rows
from robot_stack.runs.rows import EpisodeRow, of_kind
from robot_stack.runs.statistics import EpisodeStatistics, awaited
from robot_stack.transport.backend import LearnerStatus
from robot_stack.types.transition import EpisodeKind

NEWEST = 20
"""Online episodes over which the status gives shares."""


class MayFail(Protocol):
    """A part of the learner that goes on after a failure and says so."""

    @property
    def failure(self) -> str:
        """Return what the operator should know of it, or ""."""
        ...


class StatusBoard:
    """A board with the phase of a run and how far it is, which actors and the console read from other threads.

    Args:
        statistics: Of all episodes.
        restorer: Counts the damaged features.

    Attributes:
        phase: starting, collecting_demos, fitting, training or done.
        loop: The update loop, None before it exists.
        watched: Parts whose failure the operator hears of before anything else, the first of them first.
    """

    def __init__(self, statistics: EpisodeStatistics, restorer: ReplayRestorer) -> None:
        self._statistics = statistics
        self._restorer = restorer
        self._message = ""
        self.phase = "starting"
        self.loop: UpdateLoop | None = None
        self.watched: list[MayFail] = []

    def enter(self, phase: str) -> None:
        """Enter a phase, of which nothing has been said yet."""
        self.phase, self._message = phase, ""

    def say(self, message: str) -> None:
        """Say how far the phase is."""
        self._message = message

    def says(self, what: str, stop: threading.Event) -> fitting.OnStep:
        """Return a listener that says how far a fit of `what` is, and ends it once `stop` is set."""
        started_s = time.monotonic()

        def say(step: int, steps: int, loss: float) -> None:
            self.say(fitting.step_words(what, step, steps, time.monotonic() - started_s, loss))

        return fitting.unless(stop, say)

    def status(self) -> LearnerStatus:
        """Return the learner's status, for actors and the console."""
        failures = (part.failure for part in self.watched if part.failure)
        return LearnerStatus(
            phase=self.phase,
            message=next(failures, self._message),
            counters=self._episode_counters() | self._loop_counters(),
        )

    def _episode_counters(self) -> dict[str, float]:
        online = self._statistics.ended(EpisodeKind.ONLINE)
        last = [a for a in online if not a.header.goes_back and not a.discarded][-NEWEST:]
        return {
            "demos": float(len(self._statistics.demos())),
            "episodes": float(len(online)),
            "env_steps": float(self._statistics.online_steps),
            "success_last20": float(np.mean([a.success for a in last])) if last else 0.0,
            "autonomous_last20": float(np.mean([a.success and a.alone for a in last])) if last else 0.0,
            "human_share_last20": self._statistics.human_share(last),
            "progress": float(np.nan_to_num(online[-1].max_progress)) if online else 0.0,
        }

    def _loop_counters(self) -> dict[str, float]:
        loop, cache = self.loop, self._restorer.cache
        return {
            "updates": float(loop.updates) if loop is not None else 0.0,
            "updates_per_s": loop.rate_per_s if loop is not None else 0.0,
            "params_version": float(loop.publisher.version) if loop is not None else 0.0,
            "frames": float(loop.frames) if loop is not None else 0.0,
            "damaged_features": float(cache.damaged) if cache is not None else 0.0,
            **({} if loop is None else _critic_counters(loop.updater.held_out.figures)),
        }


def _critic_counters(figures: CriticFigures) -> dict[str, float]:
    """Return what the critic knows of actions; a counter is left out while nothing can be said."""
    shares = {"q_correction_share": figures.corrections.share, "q_own_share": figures.own.share}
    return {name: share for name, share in shares.items() if share is not None}


class EpisodeLog:
    """A log with one row per finished episode of a run, in its metrics.

    Args:
        path: Of the metrics, with the rows that an earlier learner wrote.
        metrics: Takes the rows.
        statistics: Of all episodes.
        scorer: Its version stands in each row.
        rate_hz: Of the control loop.
    """

    def __init__(
        self, path: Path, metrics: MetricsLog, statistics: EpisodeStatistics, scorer: Scorer, rate_hz: float
    ) -> None:
        self._metrics = metrics
        self._statistics = statistics
        self._scorer = scorer
        self._rate_hz = rate_hz
        self._logged = {row.episode_id for row in of_kind(read_rows(path).rows, EpisodeRow)}

    def log(self, *, final: bool = False) -> None:
        """Log a row per finished episode once its labels are here, see `awaited`: they come after its steps."""
        accounts = self._statistics.accounts
        waiting = set() if final else awaited(accounts)
        for account in accounts:
            episode_id = account.header.episode_id
            if account.end is not None and episode_id not in self._logged and episode_id not in waiting:
                self._logged.add(episode_id)
                self._metrics.log(account.row(self._rate_hz, self._scorer.version))
