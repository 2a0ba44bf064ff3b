"""The sources of a base policy's proposals: a saved policy within the tick, or a served one beside the loop."""

from __future__ import annotations

import os
import threading
import time
import traceback
from typing import Protocol

import numpy as np

from robot_stack.rollout.base.connection import Connection
from robot_stack.rollout.base.mapping import BaseMapping
from robot_stack.rollout.base.timeline import EARLY, Timeline
from robot_stack.types.errors import RobotError, SpecError, StackError
from robot_stack.types.interfaces import Policy
from robot_stack.types.observation import Observation
from robot_stack.types.reason import Refusal, RefusalKind

AGAIN_S = 0.5
"""Time after a failure until the base is tried again."""
CLOSE_S = 2.0
"""Longest wait for the asking thread at the end; it is a daemon, so the process does not wait for it either."""
NOT_YET = Refusal(kind=RefusalKind.BASE_SILENT, text="the base policy has not answered yet; wait, or see its own log")


class BaseSource(Protocol):
    """A source of the proposal of each control tick."""

    def begin_episode(self) -> None:
        """Forget what was planned."""
        ...

    def prepare(self, observation: Observation) -> Refusal | None:
        """Show it the start of an episode; returns None once it has a proposal for it, or why it has none yet."""
        ...

    def propose(self, observation: Observation, *, interrupted: bool) -> np.ndarray | Refusal:
        """Return the entries of the base's fields at this tick, float32, or why there are none.

        The last A are the action, in [-1, 1]. Before it, where noise is chosen, stand that of the chunk and the ticks
        for which it has been playing.

        Args:
            observation: What is sensed, without the base's fields.
            interrupted: Somebody else moved the robot since.
        """
        ...

    def steer(self, noise: np.ndarray) -> None:
        """Take the noise that the next question is asked with, float32 (D,).

        Raises:
            SpecError: If it is none that this base can start from.
        """
        ...

    def close(self) -> None:
        """Let go of the base."""
        ...


class SavedSource:
    """A saved policy, without noise; implements `BaseSource`.

    Args:
        policy: Of the same arms, cameras and proprio.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def begin_episode(self) -> None:
        """Forget what was planned."""
        self._policy.begin_episode()

    def prepare(self, observation: Observation) -> None:
        """Return None: it answers within the tick."""

    def propose(self, observation: Observation, *, interrupted: bool) -> np.ndarray | Refusal:
        """Return the policy's action."""
        action = self._policy.act(observation, deterministic=True, interrupted=interrupted)
        if not np.isfinite(action).all():
            return Refusal(
                kind=RefusalKind.BASE_INVALID,
                text="the saved base proposes entries that are no finite numbers; take another file",
            )
        return action

    def steer(self, noise: np.ndarray) -> None:
        """Refuse: it acts without noise."""
        raise SpecError("a saved base acts without noise, must be behind a server to be steered; take lerobot or http")

    def close(self) -> None:
        """Do nothing: it holds nothing."""


class ServedSource:
    """A base behind a connection; implements `BaseSource`.

    In real time a thread asks, and the loop takes what is there. With time that stands still meanwhile, as in a
    cell of one process, the loop itself asks, so that runs come out the same on any machine.

    Args:
        connection: Open.
        mapping: Names and units.
        waits: Whether the loop itself asks.
        seed: Of the noise that is drawn where some is wanted and nobody chooses it.
    """

    def __init__(self, connection: Connection, mapping: BaseMapping, *, waits: bool, seed: tuple[int, ...]) -> None:
        config = mapping.config
        self._period_ns = 1e9 * mapping.spec.period_s
        self._rng = np.random.default_rng(seed)
        self._wish: np.ndarray | None = None
        """Noise that was chosen for the next question; None: it is drawn."""
        self._steered = False
        """Whether the last question was asked with noise that was chosen."""
        self._connection, self._mapping, self._waits = connection, mapping, waits
        self._every_ns = 1e9 * config.every_s - EARLY * self._period_ns
        self._timeline = Timeline(
            rate_hz=config.rate_hz,
            join_s=config.join_s,
            period_s=mapping.spec.period_s,
            discrete=mapping.spec.discrete_gripper_indices,
            limit=mapping.limited,
        )
        self._refusal, self._failed = NOT_YET, False
        self._asked_ns: int | None = None
        self._changed = threading.Condition()
        self._newest: Observation | None = None
        self._episode = 0
        self._closed = False
        self._thread: threading.Thread | None = None
        if not waits:
            self._thread = threading.Thread(target=self._keep_asking, name="base", daemon=True)
            self._thread.start()

    def begin_episode(self) -> None:
        """Forget what was planned; an answer that is under way comes too late."""
        with self._changed:
            self._episode += 1
            self._newest, self._asked_ns = None, None
            self._wish, self._steered = None, False
            self._timeline.clear()

    def prepare(self, observation: Observation) -> Refusal | None:
        """Ask for the first chunk of an episode; returns why there is none yet."""
        found = self.propose(observation, interrupted=False)
        return found if isinstance(found, Refusal) else None

    def propose(self, observation: Observation, *, interrupted: bool) -> np.ndarray | Refusal:
        """Return what the newest chunk has for now.

        After a take-over the chunk at hand goes on until the next one answers what the operator has made of the scene.
        """
        if self._waits:
            if self._due(observation):
                self._ask(observation, self._episode)
        else:
            with self._changed:
                self._newest = observation
                self._changed.notify_all()
        found = self._timeline.at(observation.stamp_ns)
        if found is None:
            return self._refusal
        try:
            action = self._mapping.turned(found.action, observation.T_base_tcp)
        except SpecError as error:
            return Refusal(kind=RefusalKind.BASE_INVALID, text=str(error))
        if found.noise is None:
            return action
        played_ns = observation.stamp_ns - found.since_ns
        ticks = round((played_ns if played_ns > 0 else -found.before_ns) / self._period_ns)
        return np.concatenate([found.noise, np.array([ticks], np.float32), action])

    def steer(self, noise: np.ndarray) -> None:
        """Take the noise of the next question; the first one of an episode does not wait for its turn."""
        wanted = self._mapping.config.noise
        if wanted is None or noise.shape != (wanted,) or not np.isfinite(noise).all():
            raise SpecError(f"noise for the base is {noise}, must be {wanted or 0} finite numbers; see base.noise")
        with self._changed:
            self._wish = noise.astype(np.float32)
            if not self._steered:
                self._asked_ns = None

    def close(self) -> None:
        """End the thread and the connection."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._connection.close()
        if self._thread is not None:
            self._thread.join(CLOSE_S)

    def _due(self, observation: Observation) -> bool:
        return self._asked_ns is None or observation.stamp_ns - self._asked_ns >= self._every_ns

    def _keep_asking(self) -> None:
        if hasattr(os, "sched_setscheduler"):  # the loop's real-time priority is not for waiting on a server
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        try:
            self._ask_until_closed()
        except Exception as error:  # the top of a thread: the loop says so from here on
            self._refusal = Refusal(
                kind=RefusalKind.BASE_INVALID, text=f"asking the base broke ({error!r}), must not; start the run again"
            )
            self._timeline.clear()
            if not self._closed:
                traceback.print_exc()

    def _ask_until_closed(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or (self._newest is not None and self._due(self._newest)))
                if self._closed:
                    return
                observation, episode = self._newest, self._episode
                assert observation is not None
            if not self._ask(observation, episode):
                time.sleep(AGAIN_S)

    def _ask(self, observation: Observation, episode: int) -> bool:
        """Ask once; returns whether the answer could be used."""
        with self._changed:
            if episode != self._episode:
                return True
            self._asked_ns = observation.stamp_ns
            noise = self._noise()
        began_s = time.monotonic()
        try:
            if self._failed:
                self._mapping.check(self._connection.open())  # another one may stand there now
            chunk = self._mapping.chunk(self._connection.ask(self._mapping.question(observation, noise)))
        except StackError as error:
            kind = RefusalKind.BASE_SILENT if isinstance(error, RobotError) else RefusalKind.BASE_INVALID
            self._refusal, self._failed = Refusal(kind=kind, text=str(error)), True
            self._asked_ns = None
            return False
        covered_s, took_s = len(chunk) / self._mapping.config.rate_hz, time.monotonic() - began_s
        self._failed = False
        self._refusal = Refusal(
            kind=RefusalKind.BASE_SILENT,
            text=f"last chunk of the base is over: it covers {covered_s:.2g} s and took {took_s:.2g} s to come, must "
            "cover more than it takes; let the base plan further ahead, or make it quicker",
        )
        with self._changed:
            if episode == self._episode:
                self._timeline.add(observation.stamp_ns, chunk, noise)
        return True

    def _noise(self) -> np.ndarray | None:
        """Return what the next chunk is to be made of: as chosen, or drawn from the standard normal distribution."""
        size = self._mapping.config.noise
        if size is None:
            return None
        self._steered = self._wish is not None
        return self._rng.standard_normal(size, np.float32) if self._wish is None else self._wish
