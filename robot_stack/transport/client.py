"""The actor's side of the link: steps out, parameters and scores in. No method of the control loop waits."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from pathlib import Path

from robot_stack.disk.durable import write_durable
from robot_stack.transport import learner_pb2 as pb
from robot_stack.transport.access.security import Credentials, Security, require_loopback
from robot_stack.transport.access.sessions import Role
from robot_stack.transport.backend import LearnerStatus
from robot_stack.transport.calls import learner_status
from robot_stack.transport.codec import encode_header, encode_label, encode_mark, encode_step
from robot_stack.transport.inbox import ParamsInbox, ScoreInbox
from robot_stack.transport.link import Link
from robot_stack.transport.spool import Spool
from robot_stack.transport.wire import PROTOCOL_VERSION
from robot_stack.types.errors import SpecError, TransportError
from robot_stack.types.event import Label
from robot_stack.types.params import Params
from robot_stack.types.reward import LiveScore
from robot_stack.types.spec import Spec
from robot_stack.types.stages import StageMark
from robot_stack.types.transition import EpisodeHeader, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkCounters:
    """Counts of what went over the link since `connect`.

    Attributes:
        spooled: Records (headers, steps, labels) to deliver, with those an earlier process left.
        acked: Of them, on the learner's disk, or refused.
        not_spooled: Records refused because memory or disk of this machine was full.
        reconnects: Connections after the first.
        params_version: Newest good version, 0 for none.
        params_refused: Bad bundles.
        refused: Records the learner will never take, e.g. of an episode that it has closed.
    """

    spooled: int
    acked: int
    not_spooled: int
    reconnects: int
    params_version: int
    params_refused: int
    refused: int


class LearnerClient:
    """The actor's client of the learner: a StepSink, ParamsSource and ScoreSource over gRPC.

    Args:
        address: Of the learner, host:port. It may come up later, restart or go away.
        spool_dir: Where steps wait until they are on the learner's disk; its own for each actor.
        security: Token of the run's folder, or, beyond this machine, certificates.
        run_id: Only this run will do; empty: the run the spool holds steps of, or any.
    """

    def __init__(
        self,
        address: str,
        spec: Spec,
        task: str,
        actor_id: str,
        spool_dir: Path,
        security: Credentials | None = None,
        run_id: str = "",
        spool: Spool | None = None,
    ) -> None:
        if not isinstance(security, Security):
            require_loopback(address)
        self._address, self._spec, self._task, self._actor_id = address, spec, task, actor_id
        self._security = security
        self._run_id = run_id
        self._spool = spool if spool is not None else Spool(spool_dir)
        self._binding = spool_dir / "binding.json"
        self._params = ParamsInbox(spec.digest)
        self._scores = ScoreInbox()
        self._link = Link(
            address, security, hello=self._hello, linked=self._linked,
            spool=self._spool, params=self._params, scores=self._scores,
        )  # fmt: skip
        self._lock = threading.Lock()
        self._expected: tuple[str, int] = ("", 0)
        self._not_spooled = 0
        self._first = 0
        self.accepted_steps = 0
        """Steps of the run on the learner's disk at the last connection."""
        self.next_number: int | None = None
        """One above the number of every episode of this actor that the run knew then, None before there was one."""

    def connect(self) -> None:
        """Open the spool and connect in the background; returns at once, also without a learner.

        Raises:
            TransportError: If the spool is in use or unreadable, or holds steps of another spec or run.
        """
        self._spool.open()
        self._first = self._spool.released
        try:
            self._bind()
            self._link.start()
        except BaseException:
            self._spool.close()
            raise

    def begin(self, header: EpisodeHeader) -> None:
        """Queue the header of a new episode for the learner.

        Raises:
            SpecError: If the header is not well-formed.
            TransportError: If there is no room to spool it.
        """
        with self._lock:
            self._put(pb.SpoolRecord(header=encode_header(header)), f"header of {header.episode_id}")
            self._expected = (header.episode_id, 0)

    def push(self, step: Step) -> None:
        """Copy and queue one step; never waits for network or disk.

        Raises:
            SpecError: If the step does not fit the spec, or is not the next one of the episode begun last.
            TransportError: If there is no room to spool it; the rest of the episode is then refused too.
        """
        with self._lock:
            if (step.episode_id, step.index) != self._expected:
                raise SpecError(
                    f"step is {step.episode_id}/{step.index}, must be {self._expected[0]}/{self._expected[1]}, "
                    "the next of the episode begun last"
                )
            record = pb.SpoolRecord(step=encode_step(step, self._spec))
            self._put(record, f"step {step.episode_id}/{step.index}")
            self._expected = (step.episode_id, step.index + 1)

    def label(self, label: Label) -> None:
        """Queue a verdict; it arrives after everything queued before it.

        Raises:
            SpecError: If the label is not well-formed.
            TransportError: If there is no room to spool it.
        """
        with self._lock:
            self._put(pb.SpoolRecord(label=encode_label(label)), f"label of {label.episode_id}")

    def mark(self, mark: StageMark) -> None:
        """Queue a stage mark; it arrives after everything queued before it.

        Raises:
            SpecError: If the mark is not well-formed.
            TransportError: If there is no room to spool it.
        """
        with self._lock:
            self._put(pb.SpoolRecord(mark=encode_mark(mark)), f"stage mark of {mark.episode_id}")

    def latest(self) -> Params | None:
        """Return the newest good parameters, each version once, or None."""
        return self._params.take()

    def newest(self, episode_id: str) -> LiveScore | None:
        """Return the newest score of that episode, or None."""
        return self._scores.newest(episode_id)

    @property
    def link(self) -> bool:
        """Return True while the actor is connected to the learner."""
        return self._link.up

    @property
    def refusal(self) -> str:
        """Return the reason for which the learner refuses this actor for good, or "".

        It is final: an operator must act; steps stay in the spool.
        """
        return self._link.refusal

    @property
    def last_error(self) -> str:
        """Return the newest error of the spool, of the parameters or of the connection, or ""."""
        return self._spool.error or self._params.refusal or self._link.last_error or self._spool.damage

    @property
    def refused_why(self) -> str:
        """Return why the learner will never take a part of the newest episode of which it refused one, or ""."""
        return self._link.refused_why

    @property
    def run_id(self) -> str:
        """Return the id of the learner's run, "" until known."""
        return self._run_id

    @property
    def counters(self) -> LinkCounters:
        """Return the present counts of the link."""
        return LinkCounters(
            spooled=self._spool.end - self._first,
            acked=self._spool.released - self._first,
            not_spooled=self._not_spooled,
            reconnects=max(self._link.connections - 1, 0),
            params_version=self._params.version,
            params_refused=self._params.refused,
            refused=self._link.refused,
        )

    def status(self, timeout_s: float = 2.0) -> LearnerStatus:
        """Ask the learner for its status. Waits: not for the control loop.

        Raises:
            TransportError: If it does not answer in time.
        """
        return learner_status(self._address, security=self._security, timeout_s=timeout_s, name=self._actor_id)

    def wait_acked(self, timeout_s: float) -> bool:
        """Wait until all that was handed over is acked: on the learner's disk, or refused by it and gone for good.

        `counters.refused` tells the two apart. False after `timeout_s`, or at once if the learner refuses this actor.
        """

        def settled() -> bool:
            return self._spool.released >= self._spool.end or bool(self.refusal)

        with self._link.acks:
            self._link.acks.wait_for(settled, timeout_s)
        return self._spool.released >= self._spool.end

    def close(self, timeout_s: float = 5.0) -> bool:
        """Deliver what is left for at most `timeout_s`, then stop; return True if nothing stays in the spool."""
        delivered = self.wait_acked(timeout_s)
        self._link.stop(timeout_s=5.0)
        self._spool.close()
        return delivered

    def _put(self, record: pb.SpoolRecord, what: str) -> None:
        if not self._spool.put(record.SerializeToString()):
            self._not_spooled += 1
            raise TransportError(
                f"{what} is not recorded: {self._spool.error or 'the spool is full'}; "
                "start the learner or free some space, and begin a new episode"
            )

    def _hello(self) -> pb.HelloRequest:
        return pb.HelloRequest(
            protocol=PROTOCOL_VERSION,
            role=Role.ACTOR.value,
            actor_id=self._actor_id,
            spec_digest=self._spec.digest,
            spec_json=self._spec.to_json(),
            task=self._task,
            run_id=self._run_id,
            life=self._link.life,
        )

    def _linked(self, reply: pb.HelloReply) -> None:
        self.accepted_steps = reply.accepted_steps
        self.next_number = reply.next_number
        if self._run_id != reply.run_id:
            self._run_id = reply.run_id
            self._write_binding()

    def _bind(self) -> None:
        """Bind the spool to one spec and one run; raise TransportError if it holds records of others."""
        pending = self._spool.end - self._spool.released
        if pending and self._binding.exists():
            bound = self._read_binding(pending)
            wanted = {"spec": self._spec.digest, "run": self._run_id or bound["run"]}
            for name, value in wanted.items():
                if bound[name] and bound[name] != value:
                    raise TransportError(
                        f"{name} is {value}, must be {bound[name]}, of which {pending} records are in "
                        f"{self._spool.folder}; deliver them first, or move the folder away"
                    )
            self._run_id = wanted["run"]
        self._write_binding()

    def _read_binding(self, pending: int) -> dict[str, str]:
        try:
            said = json.loads(self._binding.read_text())
            return {name: str(said[name]) for name in ("spec", "run")}
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise TransportError(
                f"{self._binding} is unreadable ({error!r}), must say of which spec and run the {pending} records "
                "beside it are; remove it if they are of this run, else move the folder away"
            ) from error

    def _write_binding(self) -> None:
        write_durable(self._binding, json.dumps({"spec": self._spec.digest, "run": self._run_id}))
