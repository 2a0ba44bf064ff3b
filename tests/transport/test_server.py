"""The server as a raw stub sees it: what is refused, in which words, and what an ack means."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator

import grpc
import pytest

from robot_stack.transport import bundle, push_stream
from robot_stack.transport import learner_pb2 as pb
from robot_stack.transport.access import bounds
from robot_stack.transport.access.security import open_channel
from robot_stack.transport.codec import encode_header, encode_step
from robot_stack.transport.server import LearnerServer
from robot_stack.transport.service import LearnerStub
from robot_stack.transport.wire import PROTOCOL_VERSION
from robot_stack.types.errors import StoreError, TransportError
from robot_stack.types.spec import CameraSpec, Spec
from tests.transport.fake_learner import SPEC, TOKEN, FakeLearner, greeted, hello, make_header, make_step, wait_until

Serve = Callable[..., LearnerServer]


@pytest.fixture
def backend() -> FakeLearner:
    return FakeLearner()


@pytest.fixture
def stub(backend: FakeLearner, serve: Serve) -> Iterator[LearnerStub]:
    with open_channel(serve(backend).address, TOKEN) as channel:
        yield greeted(channel)


def items(episode_id: str, count: int, run_id: str = "run-1") -> list[pb.PushRequest]:
    """Header and `count` steps; the last one ends the episode."""
    steps = [encode_step(make_step(episode_id, i, last=i == count - 1), SPEC) for i in range(count)]
    header = pb.PushRequest(run_id=run_id, header=encode_header(make_header(episode_id)))
    return [header, *(pb.PushRequest(run_id=run_id, step=step) for step in steps)]


def push(stub: LearnerStub, requests: list[pb.PushRequest]) -> list[pb.Ack]:
    return list(stub.PushSteps(iter(requests), timeout=30))


def refused(call: Callable[[], object], code: grpc.StatusCode) -> str:
    with pytest.raises(grpc.RpcError) as caught:
        call()
    assert caught.value.code() is code, caught.value.details()
    return str(caught.value.details())


def test_hello_answers_with_run_and_steps(stub: LearnerStub, backend: FakeLearner) -> None:
    before = backend.hellos
    reply = stub.Hello(hello(actor_id="b"), timeout=10)
    assert (reply.protocol, reply.run_id, reply.accepted_steps) == (PROTOCOL_VERSION, "run-1", 0)
    assert backend.hellos == before + 1


def test_another_spec_is_refused_by_field_and_both_values(stub: LearnerStub, backend: FakeLearner) -> None:
    other = Spec(
        arms=SPEC.arms,
        cameras=(CameraSpec(name="front", height_px=8, width_px=96), SPEC.cameras[1]),
        proprio=SPEC.proprio,
        rate_hz=20.0,
    )
    before = backend.hellos
    words = refused(
        lambda: stub.Hello(hello(spec_digest=other.digest, spec_json=other.to_json()), timeout=10),
        grpc.StatusCode.FAILED_PRECONDITION,
    )
    assert "spec.cameras[0].width_px is 96 on the actor, must be 12 as on the learner" in words
    assert "spec.rate_hz is 20.0 on the actor, must be 10.0 as on the learner" in words
    assert "height" not in words
    assert backend.hellos == before


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"protocol": 99}, f"protocol is 99 on the actor, must be {PROTOCOL_VERSION} as on the learner"),
        ({"task": "nut"}, "task is 'nut' on the actor, must be 'peg' as on the learner"),
        ({"run_id": "run-0"}, "run is 'run-0' on the actor, must be 'run-1' as on the learner"),
        ({"spec_digest": "0" * 64}, f"spec digest is '{'0' * 64}' on the actor"),
        ({"spec_digest": "0" * 64, "spec_json": "{"}, "spec is '{' on the actor, must be JSON"),
    ],
)
def test_a_mismatch_is_refused_in_words(stub: LearnerStub, changes: dict[str, object], words: str) -> None:
    said = refused(lambda: stub.Hello(hello(**changes), timeout=10), grpc.StatusCode.FAILED_PRECONDITION)
    assert words in said


class Stream:
    """A recording stream one item at a time; acks are collected on a thread."""

    def __init__(self, stub: LearnerStub) -> None:
        self._requests: queue.SimpleQueue[pb.PushRequest | None] = queue.SimpleQueue()
        self._acks: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._call = stub.PushSteps(iter(self._requests.get, None), timeout=30)
        self._collector = threading.Thread(target=self._collect, daemon=True)
        self._collector.start()

    def send(self, *requests: pb.PushRequest) -> None:
        for request in requests:
            self._requests.put(request)

    def ack(self, timeout_s: float = 10.0) -> int | None:
        """Index of the next ack, None if there is none in time."""
        try:
            return self._acks.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def close(self) -> None:
        self._requests.put(None)
        self._collector.join(10.0)

    def _collect(self) -> None:
        with contextlib.suppress(grpc.RpcError):  # the server of a test may stop first
            for ack in self._call:
                self._acks.put(ack.index)


def test_an_ack_waits_for_the_disk(stub: LearnerStub, backend: FakeLearner) -> None:
    backend.auto_flush = False
    stream = Stream(stub)
    stream.send(*items("e", 5))
    assert stream.ack() == -1
    assert wait_until(lambda: backend.appends == 5)
    assert stream.ack(timeout_s=0.3) is None
    backend.flush()
    assert stream.ack() == 4
    stream.close()


def test_the_server_may_be_told_that_the_disk_got_further(
    serve: Serve, backend: FakeLearner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(push_stream, "POLL_S", 60.0)
    backend.auto_flush = False
    server = serve(backend)
    with open_channel(server.address, TOKEN) as channel:
        stream = Stream(greeted(channel))
        stream.send(*items("e", 2)[:2])
        assert wait_until(lambda: backend.appends == 1)
        backend.flush()

        def told() -> bool:
            server.durable_advanced()
            return stream.ack(timeout_s=0.1) == 0

        assert wait_until(told)
        server.stop(grace_s=0.0)


def test_steps_sent_again_one_by_one_are_each_acked(stub: LearnerStub, backend: FakeLearner) -> None:
    push(stub, items("e", 5))
    stream = Stream(stub)
    for expected, item in enumerate(items("e", 5), start=-1):
        stream.send(item)
        assert stream.ack() == expected
    stream.close()
    assert backend.durable("e") == 4


def test_the_same_items_twice_are_stored_once_and_acked_again(stub: LearnerStub, backend: FakeLearner) -> None:
    for _ in range(2):
        acks = push(stub, items("e", 5))
        assert (acks[0].index, acks[-1].index) == (-1, 4)
    assert [step.index for step in backend.disk["e"]] == [0, 1, 2, 3, 4]
    assert len(backend.headers) == 1


def test_a_wrong_step_is_refused_in_words_and_the_stream_goes_on(stub: LearnerStub, backend: FakeLearner) -> None:
    requests = items("e", 5)
    requests[4].step.observation.proprio = b"\x00" * 12
    acks = push(stub, [*requests, *items("f", 2)])
    refusals = {(ack.episode_id, ack.index): ack.refusal for ack in acks if ack.refusal}
    assert refusals.keys() == {("e", 3), ("e", 4)}
    assert "proprio is float32 (3,), must be float32 (8,)" in refusals["e", 3]
    assert [step.index for step in backend.memory["e"]] == [0, 1, 2]
    assert [step.index for step in backend.memory["f"]] == [0, 1]


def test_a_step_of_another_run_is_refused(stub: LearnerStub, backend: FakeLearner) -> None:
    requests = items("e", 2, run_id="run-0")
    words = refused(lambda: push(stub, requests), grpc.StatusCode.FAILED_PRECONDITION)
    assert "run is 'run-0' on the actor, must be 'run-1'" in words
    assert backend.memory == {}


def test_an_episode_of_another_task_is_refused_with_its_steps(stub: LearnerStub, backend: FakeLearner) -> None:
    requests = [pb.PushRequest(run_id="run-1", header=encode_header(make_header("e", task="nut"))), *items("e", 2)[1:]]
    acks = push(stub, requests)
    assert [ack.index for ack in acks] == [-1, 0, 1]
    assert "task of e is 'nut', must be 'peg'" in acks[0].refusal
    assert "header of e is refused" in acks[1].refusal
    assert backend.memory == {}


def test_an_empty_item_is_refused(stub: LearnerStub) -> None:
    requests = [pb.PushRequest(run_id="run-1")]
    words = refused(lambda: push(stub, requests), grpc.StatusCode.INVALID_ARGUMENT)
    assert "item is missing" in words


def test_a_disk_that_refuses_is_worth_another_try(stub: LearnerStub, backend: FakeLearner) -> None:
    backend.fail_next = StoreError("disk is full")
    words = refused(lambda: push(stub, items("e", 2)), grpc.StatusCode.UNAVAILABLE)
    assert words == "disk is full"


def test_an_oversize_message_is_refused_with_the_limit(stub: LearnerStub, backend: FakeLearner) -> None:
    most = bounds.request_bytes(SPEC)
    big = pb.Label(episode_id="e", verdict="success", source="model", note="x" * (most + 1))
    words = refused(lambda: stub.Label(big, timeout=30), grpc.StatusCode.RESOURCE_EXHAUSTED)
    assert str(most) in words
    assert backend.label_calls == 0


def test_a_port_in_use_is_named(serve: Serve, backend: FakeLearner) -> None:
    address = serve(backend).address
    with pytest.raises(TransportError, match=f"port {address.rpartition(':')[2]} of .* is in use"):
        LearnerServer(backend, address, TOKEN).start()


def test_port_0_becomes_a_real_one(serve: Serve, backend: FakeLearner) -> None:
    first, second = serve(backend), serve(backend)
    assert 0 not in {int(s.address.rpartition(":")[2]) for s in (first, second)}
    assert first.address != second.address


def test_stop_does_not_wait_for_open_watches(serve: Serve, backend: FakeLearner) -> None:
    server = serve(backend)
    backend.publish(bundle.seal(version=1, tensors={}, metadata={bundle.SPEC_DIGEST: SPEC.digest}))
    with open_channel(server.address, TOKEN) as channel:
        watch = greeted(channel).WatchParams(pb.WatchParamsRequest(), timeout=60)
        assert next(watch).version == 1
        start = time.monotonic()
        server.stop(grace_s=8.0)
        assert time.monotonic() - start < 6.0
        assert list(watch) == []
