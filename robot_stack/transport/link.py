"""The actor's connection to its learner: threads that connect, send, listen, and start over.

One connection is a Hello, a recording stream that begins at the first record not acked, two watches and the
labels. Whatever breaks, all of it is dropped and built again after a pause; a refusal ends it for good.
"""

from __future__ import annotations

import json
import logging
import queue
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import grpc

from robot_stack.disk.durable import write_durable
from robot_stack.transport import learner_pb2 as pb
from robot_stack.transport.access.refusals import Refusal, refusal_of
from robot_stack.transport.access.security import Credentials, open_channel
from robot_stack.transport.ack_window import LABEL, AckWindow
from robot_stack.transport.calls import error_words, greet
from robot_stack.transport.inbox import ParamsInbox, ScoreInbox
from robot_stack.transport.service import LearnerStub
from robot_stack.transport.spool import Spool
from robot_stack.types.errors import StoreError, TransportError

END_S = 2.0
"""For the learner to end a stream that was ended here."""
MIN_BACKOFF_S, MAX_BACKOFF_S = 0.2, 2.0
CALL_TIMEOUT_S = 5.0
POLL_S = 0.1
TWIN_S = 10.0
"""How long another process of this name may be connected before this one gives up; a dead one is gone by then."""

_FATAL = (
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNIMPLEMENTED,
)

log = logging.getLogger(__name__)


class _Connection:
    """The state of one connection to the learner."""

    def __init__(self, stub: LearnerStub, run_id: str, window: AckWindow) -> None:
        self.stub = stub
        self.run_id = run_id
        self.window = window
        self.annotations: queue.SimpleQueue[tuple[int, pb.Label | pb.StageMark]] = queue.SimpleQueue()
        self.over = threading.Event()


class Link:
    """The actor's connection to the learner, kept up from `start` until `stop` or a refusal.

    Args:
        hello: What to introduce this actor with; asked anew for each connection.
        params, scores: Where to put what comes.
    """

    def __init__(
        self,
        address: str,
        security: Credentials | None,
        *,
        hello: Callable[[], pb.HelloRequest],
        linked: Callable[[pb.HelloReply], None],
        spool: Spool,
        params: ParamsInbox,
        scores: ScoreInbox,
    ) -> None:
        self.up = False
        self.refusal = ""
        self.last_error = ""
        self.connections = 0
        self.refused = 0
        self.refused_why = ""
        self.life = uuid.uuid4().hex
        self.acks = threading.Condition()
        """Notified when the spool was released further."""
        self._address, self._security = address, security
        self._hello, self._linked = hello, linked
        self._spool, self._params, self._scores = spool, params, scores
        self._shut: set[str] = set()
        """Episodes whose header was refused; on disk, since what follows it may still be in the spool at a restart."""
        self._refused_file = spool.folder / "refused.json"
        self._refused_last = ""
        self._twin_since_s: float | None = None
        self._stop = threading.Event()
        self._push: grpc.Call | None = None
        self._rng = random.Random(address)
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Connect to the learner in the background, as often as it takes.

        Raises:
            TransportError: If it cannot be read which episodes of the spool were refused before.
        """
        self._shut = self._read_refused()
        self._thread = threading.Thread(target=self._run, name="learner-link", daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """End the connection, by force if the learner does not end it too; wait at most `timeout_s` for its thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(min(END_S, timeout_s))
        push = self._push
        if push is not None:
            push.cancel()
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        pause_s = MIN_BACKOFF_S
        while not self._stop.is_set():
            before = self.connections
            try:
                self._connect()
            except grpc.RpcError as error:
                self._note(error)
            except OSError as error:
                self.last_error = f"spool {self._spool.folder} is not writable ({error}), must be; free some space"
            if self.refusal:
                with self.acks:
                    self.acks.notify_all()
                return
            pause_s = MIN_BACKOFF_S if self.connections > before else min(2 * pause_s, MAX_BACKOFF_S)
            self._stop.wait(pause_s * self._rng.uniform(0.5, 1.0))

    def _note(self, error: grpc.RpcError) -> None:
        if self._stop.is_set():
            return
        self.last_error = error_words(error, self._address)
        if error.code() is not grpc.StatusCode.ALREADY_EXISTS:
            self._twin_since_s = None
        elif self._twin_since_s is None:
            self._twin_since_s = time.monotonic()
        twin = self._twin_since_s is not None and time.monotonic() - self._twin_since_s > TWIN_S
        if twin or error.code() in _FATAL:
            self.refusal = self.last_error
            log.error("learner refused: %s", self.refusal)
        else:
            log.warning("learner link lost: %s", self.last_error)

    def _connect(self) -> None:
        """Hold one connection from Hello to its end, which is always an RpcError or `stop`."""
        with open_channel(self._address, self._security) as channel:
            stub, reply = greet(channel, self._hello(), CALL_TIMEOUT_S)
            self._linked(reply)
            connection = _Connection(stub, reply.run_id, AckWindow(self._spool.released))
            push = stub.PushSteps(self._outgoing(connection))
            self._push = push
            jobs = (self._watch_params, self._watch_scores, self._send_annotations)
            threads = [threading.Thread(target=job, args=(connection,), daemon=True) for job in jobs]
            for thread in threads:
                thread.start()
            self.connections += 1
            self.up = True
            try:
                if not self._stop.is_set():
                    self._take_acks(push, connection.window)
            finally:
                self.up = False
                self._push = None
                connection.over.set()
                channel.close()  # ends the watches, so that their threads can be joined
                for thread in threads:
                    thread.join(CALL_TIMEOUT_S)

    def _take_acks(self, push: Any, window: AckWindow) -> None:
        for ack in push:
            if ack.refusal:
                self._take_refusal(ack)
                window.refused(ack.episode_id, ack.index)
            else:
                window.acked(ack.episode_id, ack.index)
            self._release(window)

    def _take_refusal(self, ack: pb.Ack) -> None:
        self.refused += 1
        self.last_error = ack.refusal
        if ack.episode_id != self._refused_last:  # once an episode: what follows a refused step is refused too
            log.error("learner refused %s/%d: %s", ack.episode_id, ack.index, ack.refusal)
            self._refused_last, self.refused_why = ack.episode_id, ack.refusal
        if ack.index < 0:
            self._shut.add(ack.episode_id)
            write_durable(self._refused_file, json.dumps(sorted(self._shut)))

    def _read_refused(self) -> set[str]:
        """Return the refused episodes of an earlier process, of which there may be records in the spool."""
        if self._spool.released >= self._spool.end or not self._refused_file.exists():
            return set()
        try:
            said = json.loads(self._refused_file.read_text())
        except (OSError, ValueError) as error:
            said = error
        if not isinstance(said, list) or not all(isinstance(name, str) for name in said):
            raise TransportError(
                f"{self._refused_file} is unreadable ({said!r}), must be a list of the episodes whose records in the "
                "spool beside it were refused; move the folder away"
            )
        return set(said)

    def _release(self, window: AckWindow) -> None:
        self._spool.release(window.released)
        with self.acks:
            self.acks.notify_all()

    def _outgoing(self, connection: _Connection) -> Iterator[pb.PushRequest]:
        """Yield the records of the spool in order, from the first one not acked. Runs on a thread of gRPC."""
        position = connection.window.released
        while not (
            connection.over.is_set() or self._stop.is_set()
        ):  # once it returns, the learner knows that it is all
            if not connection.window.wait_room(POLL_S):
                continue
            try:
                raw = self._spool.read(position, POLL_S)
            except (StoreError, OSError) as error:
                self.refusal = str(error)
                return
            if raw is None:
                continue
            record = pb.SpoolRecord.FromString(raw)
            kind = record.WhichOneof("item")
            if kind in ("label", "mark"):
                annotation = record.label if kind == "label" else record.mark
                connection.window.sent(position, annotation.episode_id, LABEL)
                connection.annotations.put((position, annotation))
            elif kind == "header":
                connection.window.sent(position, record.header.episode_id, -1)
                yield pb.PushRequest(run_id=connection.run_id, header=record.header)
            elif record.step.episode_id in self._shut:  # without its header it could end up in one of the same name
                self.refused += 1
                connection.window.confirmed(position)
                self._release(connection.window)
            else:
                connection.window.sent(position, record.step.episode_id, record.step.index)
                yield pb.PushRequest(run_id=connection.run_id, step=record.step)
            position += 1

    def _send_annotations(self, connection: _Connection) -> None:
        """Send each label and stage mark once everything spooled before it is on the learner's disk."""
        while not connection.over.is_set():
            try:
                position, annotation = connection.annotations.get(timeout=POLL_S)
            except queue.Empty:
                continue
            while not connection.over.is_set() and not connection.window.wait_released(position, POLL_S):
                pass
            while not connection.over.is_set() and not self._delivered(connection, annotation):
                connection.over.wait(MIN_BACKOFF_S)
            if not connection.over.is_set():
                connection.window.confirmed(position)
                self._release(connection.window)

    def _delivered(self, connection: _Connection, annotation: pb.Label | pb.StageMark) -> bool:
        if annotation.episode_id in self._shut:  # it would be of another episode of that name
            self.refused += 1
            return True
        try:
            call = connection.stub.Label if isinstance(annotation, pb.Label) else connection.stub.Mark
            call(annotation, timeout=CALL_TIMEOUT_S)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.INVALID_ARGUMENT:
                return False
            self.refused += 1
            self.refused_why = self.last_error = error_words(error, self._address)
            log.error("%s of %s refused: %s", type(annotation).__name__, annotation.episode_id, self.last_error)
        except ValueError:  # what gRPC raises on a channel closed meanwhile
            return False
        return True

    def _watch_params(self, connection: _Connection) -> None:
        def failed(error: grpc.RpcError) -> None:
            bundle_is_bad = refusal_of(error) in (None, Refusal.MISMATCH)  # too large for one of the ends
            if bundle_is_bad and error.code() in (
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                grpc.StatusCode.FAILED_PRECONDITION,
            ):
                self._params.refuse(error_words(error, self._address))

        def watch() -> Any:
            return connection.stub.WatchParams(pb.WatchParamsRequest(version=self._params.version))

        _listen(connection, watch, self._params.offer, failed)

    def _watch_scores(self, connection: _Connection) -> None:
        def failed(error: grpc.RpcError) -> None:
            log.debug("scores: %s", error_words(error, self._address))

        def watch() -> Any:
            return connection.stub.WatchScores(pb.WatchScoresRequest())

        _listen(connection, watch, self._scores.offer, failed)


def _listen(
    connection: _Connection,
    watch: Callable[[], Any],
    offer: Callable[[Any], None],
    failed: Callable[[grpc.RpcError], None],
) -> None:
    """Feed a server stream to `offer`; one that fails alone is opened again and leaves the recording be."""
    while not connection.over.is_set():
        try:
            for message in watch():
                offer(message)
        except grpc.RpcError as error:
            failed(error)
        except ValueError:  # what gRPC raises on a channel closed meanwhile
            return
        connection.over.wait(MAX_BACKOFF_S)
