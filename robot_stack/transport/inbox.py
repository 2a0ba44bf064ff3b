"""Inboxes of an actor, which keep what the learner sent until the control loop takes it.

Everything is checked before it is kept. Nothing here waits.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict

from robot_stack.transport import learner_pb2 as pb
from robot_stack.transport.bundle import decode_params
from robot_stack.transport.codec import decode_score
from robot_stack.types.errors import SpecError, TransportError
from robot_stack.types.params import Params
from robot_stack.types.reward import LiveScore

log = logging.getLogger(__name__)


class ParamsInbox:
    """An inbox with the newest good parameters, handed out once. A bad bundle is counted and the old one stays."""

    def __init__(self, spec_digest: str) -> None:
        self.version = 0
        self.refused = 0
        self.refusal = ""
        """Why the last bad bundle was bad."""
        self._spec_digest = spec_digest
        self._fresh: Params | None = None
        self._lock = threading.Lock()

    def offer(self, message: pb.Params) -> None:
        """Check a bundle and keep it if it is good."""
        try:
            params = decode_params(message, above_version=self.version, spec_digest=self._spec_digest)
        except TransportError as error:
            self.refuse(str(error))
            return
        with self._lock:
            self._fresh = params
            self.version = params.version

    def refuse(self, reason: str) -> None:
        """Count a bundle that was bad or never arrived, and log the reason."""
        self.refused += 1
        self.refusal = reason
        log.error("params refused, version %d stays: %s", self.version, reason)

    def take(self) -> Params | None:
        """Take the newest parameters, once; None until there are newer ones."""
        with self._lock:
            params, self._fresh = self._fresh, None
            return params


class ScoreInbox:
    """An inbox with the newest score of each of the last few episodes."""

    def __init__(self, episodes: int = 64) -> None:
        self._limit = episodes
        self._newest: OrderedDict[str, LiveScore] = OrderedDict()
        self._lock = threading.Lock()

    def offer(self, message: pb.LiveScore) -> None:
        """Keep a score unless a later frame of its episode has one."""
        try:
            score = decode_score(message)
        except SpecError as error:
            log.error("score refused: %s", error)
            return
        with self._lock:
            held = self._newest.get(score.episode_id)
            if held is not None and held.index > score.index:
                return
            self._newest[score.episode_id] = score
            self._newest.move_to_end(score.episode_id)
            while len(self._newest) > self._limit:
                self._newest.popitem(last=False)

    def newest(self, episode_id: str) -> LiveScore | None:
        """Return the newest score of that episode, or None."""
        with self._lock:
            return self._newest.get(episode_id)
