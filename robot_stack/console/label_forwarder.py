"""Link between console and learner: asks for the learner's status, hears scores, and brings it the page's verdicts."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from robot_stack.console.session import ConsoleSession
from robot_stack.transport.access.security import Credentials
from robot_stack.transport.calls import ItemRefusedError, learner_status, send_label
from robot_stack.transport.score_watch import ScoreWatch
from robot_stack.types.errors import StoreError, TransportError
from robot_stack.types.reward import LiveScore

ASK_S = 1.0
NAME = "page"
"""Of this peer, for the learner."""

log = logging.getLogger(__name__)


class LabelForwarder:
    """Forwarder of verdicts to the learner, in a thread of its own; a learner that is away is asked again.

    Args:
        session: Told and asked under its lock.
        address: Of the learner, host:port.
        changed: Called after something that pages should show.
        security: Token or certificates of the run.
    """

    def __init__(
        self, session: ConsoleSession, address: str, changed: Callable[[], None], security: Credentials | None = None
    ) -> None:
        self._session = session
        self._address = address
        self._changed = changed
        self._security = security
        self._over = threading.Event()
        self._scores = ScoreWatch(address, self._hear, NAME, security)
        self._thread = threading.Thread(target=self._work, name="label-forwarder", daemon=True)

    def start(self) -> None:
        """Start to ask the learner, to hear its scores and to bring it verdicts."""
        self._scores.start()
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread; verdicts that were not sent are in the journal, for the next start."""
        self._over.set()
        self._scores.stop()
        self._thread.join(2.0)

    def _work(self) -> None:
        while not self._over.is_set():
            self._ask()
            self._bring()
            self._changed()
            self._over.wait(ASK_S)

    def _ask(self) -> None:
        try:
            status, error = learner_status(self._address, security=self._security, timeout_s=1.0, name=NAME), ""
        except TransportError as away:
            status, error = None, str(away)
        with self._session.locked():
            self._session.heard.facts.learner, self._session.heard.facts.learner_error = status, error

    def _bring(self) -> None:
        """Send the waiting verdicts in their order; one that the learner will never take is not sent again."""
        labels = self._session.to_send(time.monotonic_ns())
        for label in labels:
            refused = ""
            try:
                send_label(self._address, label, security=self._security, name=NAME)
            except ItemRefusedError as error:
                refused = str(error)
            except TransportError as error:
                with self._session.locked():
                    self._session.waits(str(error))
                return
            try:
                self._session.sent(label, refused)
            except StoreError as error:
                log.error("%s", error)  # it is sent once more after a restart, which is harmless
        with self._session.locked():
            self._session.waits("")

    def _hear(self, score: LiveScore) -> None:
        with self._session.locked():
            self._session.heard.score(score, time.monotonic_ns())
        self._changed()
