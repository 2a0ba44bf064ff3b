"""Hostile and careless peers at the learner's door: each is bounded, and an honest actor's place stays free."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator

import grpc
import numpy as np
import pytest

from robot_stack.transport import bundle
from robot_stack.transport import learner_pb2 as pb
from robot_stack.transport.access import bounds, refusals, sessions
from robot_stack.transport.access.refusals import Refusal, Refusals, RefusedError, refusal_of
from robot_stack.transport.access.security import open_channel
from robot_stack.transport.access.sessions import Method, Role, Sessions
from robot_stack.transport.calls import ItemRefusedError, send_label
from robot_stack.transport.client import LearnerClient
from robot_stack.transport.codec import (
    decode_header,
    decode_label,
    decode_mark,
    decode_status,
    encode_header,
    encode_step,
)
from robot_stack.transport.roster import Roster
from robot_stack.transport.server import LearnerServer
from robot_stack.transport.service import LearnerStub
from robot_stack.types.errors import SpecError, TransportError
from robot_stack.types.reward import LiveScore
from tests.transport.fake_learner import (
    SPEC,
    TOKEN,
    FakeLearner,
    greeted,
    hello,
    make_header,
    make_step,
    operator,
    wait_until,
)

Serve = Callable[..., LearnerServer]
Connect = Callable[..., LearnerClient]
GOOD = {"episode_id": "e", "verdict": "success", "source": "operator", "stamp_unix_s": 1.0}
SERVICE = "/robot_stack.v1.Learner/"


@pytest.fixture
def backend() -> FakeLearner:
    return FakeLearner()


@pytest.fixture
def address(serve: Serve, backend: FakeLearner) -> str:
    return serve(backend).address


@pytest.fixture
def crowd(address: str) -> Iterator[Callable[..., grpc.Channel]]:
    """crowd() -> a further connection, with the token; crowd(None) -> without."""
    channels: list[grpc.Channel] = []

    def another(token: object = TOKEN) -> grpc.Channel:
        channels.append(open_channel(address, token))  # type: ignore[arg-type]
        return channels[-1]

    yield another
    for channel in channels:
        channel.close()


def kind(call: Callable[[], object]) -> tuple[Refusal | None, str]:
    """Why a call was refused, for programs and for people."""
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return refusal_of(caught.value), str(caught.value.details())


def silent() -> Iterator[bytes]:
    """Requests of somebody who says nothing."""
    threading.Event().wait(60.0)
    yield b""


def half_open(channel: grpc.Channel, method: str) -> grpc.Call:
    """A call without its message."""
    return channel.stream_stream(SERVICE + method)(silent(), timeout=60)


# ------------------------------------------------------------------------------------------- whose place it is
@pytest.mark.parametrize(("token", "expected"), [(None, Refusal.TOKEN_MISSING), (TOKEN, Refusal.HELLO_MISSING)])
@pytest.mark.parametrize("method", ["PushSteps", "WatchParams", "WatchScores", "Label", "Mark", "Status"])
def test_every_call_needs_the_token_and_a_hello(
    crowd: Callable[..., grpc.Channel], backend: FakeLearner, token: object, expected: Refusal, method: str
) -> None:
    call = crowd(token).stream_stream(SERVICE + method)
    said, words = kind(lambda: list(call(iter([b""]), timeout=10)))
    assert said is expected
    assert (str(TOKEN.path) if token is None else "say Hello first") in words
    assert (backend.label_calls, backend.memory, backend.roster.statuses()) == (0, {}, ())


@pytest.mark.parametrize("token", [None, TOKEN])
def test_watches_without_a_hello_hold_no_place(
    crowd: Callable[..., grpc.Channel], address: str, connect: Connect, token: object
) -> None:
    watches = []
    for _ in range(20):
        stub = LearnerStub(crowd(token))
        watches += [stub.WatchParams(pb.WatchParamsRequest(), timeout=60) for _ in range(32)]
    assert wait_until(lambda: all(watch.done() for watch in watches))
    client = connect(address)
    assert wait_until(lambda: client.link, 20.0), client.last_error


@pytest.mark.parametrize("method", ["Hello", "Label", "Mark", "Status", "WatchParams", "PushSteps"])
def test_strangers_who_send_nothing_hold_no_place(
    crowd: Callable[..., grpc.Channel], address: str, connect: Connect, method: str
) -> None:
    calls = [half_open(crowd(None), method) for _ in range(20) for _ in range(10)]
    assert wait_until(lambda: all(call.done() for call in calls))
    client = connect(address)
    assert wait_until(lambda: client.link, 20.0), client.last_error


def test_an_actor_has_its_streams_while_the_operators_hold_all_of_theirs(
    crowd: Callable[..., grpc.Channel], address: str, connect: Connect, backend: FakeLearner
) -> None:
    backend.score(LiveScore(episode_id="e", index=0, progress=0.5, success=0.5, declared=False, version="1"))
    watches = []
    for number in range(bounds.MAX_OPERATORS):
        stub = operator(crowd(), f"page-{number}")
        watches += [stub.WatchScores(pb.WatchScoresRequest(), timeout=60) for _ in range(bounds.STREAMS_EACH)]
    for watch in watches:
        next(watch)  # what it is sent tells that it is open; a page without an open stream would give way
    said, words = kind(lambda: operator(crowd(), "one-more"))
    assert said is Refusal.FULL
    assert words.startswith(f"number of operators is {bounds.MAX_OPERATORS} beside 'one-more', must be below")
    client = connect(address)
    client.begin(make_header("e"))
    client.push(make_step("e", 0, last=True))
    assert client.wait_acked(20.0), client.last_error
    assert not any(watch.done() for watch in watches), "and nobody was thrown out for it"


def test_a_peer_has_so_many_streams_and_no_more(
    crowd: Callable[..., grpc.Channel], address: str, connect: Connect
) -> None:
    greedy = greeted(crowd(), actor_id="greedy")
    watches = [greedy.WatchParams(pb.WatchParamsRequest(), timeout=60) for _ in range(40)]
    assert wait_until(lambda: sum(watch.done() for watch in watches) == 40 - bounds.STREAMS_EACH)
    said, words = kind(lambda: next(greedy.WatchParams(pb.WatchParamsRequest(), timeout=10)))
    assert said is Refusal.TOO_MANY_CALLS
    assert "number of open WatchParams calls of 'greedy' is 2, must be below 2" in words
    client = connect(address)
    assert wait_until(lambda: client.link, 20.0)


def test_slow_hellos_give_way_to_one_that_speaks(
    crowd: Callable[..., grpc.Channel], address: str, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "FIRST_MESSAGE_S", 600.0)  # their time alone frees no place here
    waiting = [half_open(crowd(), "Hello") for _ in range(6) for _ in range(10)]
    assert wait_until(lambda: sum(call.done() for call in waiting) >= 60 - bounds.MAX_HELLOS)
    client = connect(address)
    assert wait_until(lambda: client.link, 20.0), client.last_error


def test_a_call_whose_message_does_not_come_is_ended(
    crowd: Callable[..., grpc.Channel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "FIRST_MESSAGE_S", 0.3)
    stub = operator(channel := crowd())
    began_s = time.monotonic()
    assert kind(lambda: list(half_open(channel, "Hello")))[0] is None  # it does not read, and is not told
    assert time.monotonic() - began_s < 20.0
    assert stub.Status(pb.StatusRequest(), timeout=10).counters["refused_too_slow"] == 1


def test_an_operator_neither_records_nor_takes_parameters(crowd: Callable[..., grpc.Channel]) -> None:
    stub = operator(crowd())
    for call in (
        lambda: list(stub.PushSteps(iter([]), timeout=10)),
        lambda: next(stub.WatchParams(pb.WatchParamsRequest(), timeout=10)),
    ):
        said, words = kind(call)
        assert said is Refusal.ROLE
        assert "role of 'page' is operator, must be actor for" in words


def test_a_peer_that_says_hello_again_leaves_nothing_behind(crowd: Callable[..., grpc.Channel]) -> None:
    channel = crowd()
    watch = greeted(channel).WatchParams(pb.WatchParamsRequest(), timeout=60)
    stub = greeted(channel)
    assert wait_until(watch.done)
    assert stub.Status(pb.StatusRequest(), timeout=10).phase == "training"


def test_a_session_of_an_earlier_learner_is_over(serve: Serve, backend: FakeLearner) -> None:
    first = serve(backend)
    with open_channel(first.address, TOKEN) as channel:
        stub = greeted(channel)
        first.stop(grace_s=0.0)
        serve(backend, first.address)
        assert kind(lambda: stub.Status(pb.StatusRequest(), timeout=10, wait_for_ready=True))[0] is Refusal.SESSION_OVER


def test_silent_connections_are_closed_and_hold_nobody_up(
    serve: Serve, backend: FakeLearner, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("robot_stack.transport.wire._SERVER_OPTIONS", (("grpc.server_handshake_timeout_ms", 1000),))
    address = serve(backend).address
    host, _, port = address.rpartition(":")

    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    before = descriptors()
    silent_ones = [socket.create_connection((host, int(port)), timeout=5.0) for _ in range(100)]
    client = connect(address)
    assert wait_until(lambda: client.link, bounds.HANDSHAKE_S), "sooner than their time is over"
    assert wait_until(lambda: descriptors() < before + 100 + 50, 20.0), "the server's ends are closed"
    for each in silent_ones:
        each.close()


def test_the_oldest_idle_operator_gives_way_and_no_actor_does(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    found = Sessions(lambda: now[0])
    actor = found.open(Role.ACTOR, "a", "1")
    pages = []
    for number in range(bounds.MAX_OPERATORS + 1):
        now[0] += 0.5
        pages.append(found.open(Role.OPERATOR, "page", str(number)))
    assert found.find(actor.key, Method.STATUS) is actor
    assert found.find(pages[1].key, Method.STATUS) is pages[1]
    with pytest.raises(RefusedError) as caught:
        found.find(pages[0].key, Method.STATUS)
    assert caught.value.kind is Refusal.SESSION_OVER


def test_a_peer_that_is_gone_for_long_is_forgotten() -> None:
    now = [0.0]
    found = Sessions(lambda: now[0])
    gone = found.open(Role.ACTOR, "gone", "1")
    now[0] = bounds.SESSION_IDLE_S + 1.0
    found.open(Role.ACTOR, "a", "1")
    with pytest.raises(RefusedError):
        found.find(gone.key, Method.STATUS)


def test_places_of_all_peers_fit_into_the_calls_of_the_server() -> None:
    most = sum(sessions.PLACES[role] * sessions.CALLS[role] for role in Role) + bounds.MAX_HELLOS
    assert most + bounds.ROOM_TO_REFUSE == bounds.MAX_CALLS


def test_names_of_actors_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    roster = Roster()
    for number in range(bounds.MAX_KNOWN_ACTORS):
        with roster.stream(f"a{number}", "1", "here"):
            pass
    with pytest.raises(RefusedError, match="number of actor names is 256, must be at most 256"):
        roster.check("one-more", "1")
    roster.check("a7", "2")


def test_a_roster_is_deserted_once_the_last_of_those_that_came_has_left() -> None:
    now_s = [10.0]
    roster = Roster(lambda: now_s[0])
    now_s[0] = 50.0
    assert roster.deserted_s() == 0.0, "nobody has come yet"
    with roster.stream("a", "1", "here") as one:
        with roster.stream("b", "1", "here") as other:
            now_s[0] = 60.0
        other.left = True
        now_s[0] = 65.0
        assert roster.deserted_s() == 0.0
    now_s[0] = 70.0
    assert roster.deserted_s() == 0.0, "it was cut off and may come back"
    one.left = True
    assert roster.deserted_s() == 5.0
    with roster.stream("b", "2", "here"):
        assert roster.deserted_s() == 0.0, "it came back"
    assert roster.deserted_s() == 0.0, "and was cut off"


# ------------------------------------------------------------------------------------------- how long it may be
def test_a_long_note_is_refused_and_not_kept(crowd: Callable[..., grpc.Channel], backend: FakeLearner) -> None:
    stub = operator(crowd())
    stub.Label(pb.Label(**GOOD, note="x" * bounds.MAX_NOTE_CHARS), timeout=10)
    for length, expected in ((bounds.MAX_NOTE_CHARS + 1, Refusal.MALFORMED), (20_000, Refusal.TOO_LARGE)):
        said, words = kind(lambda length=length: stub.Label(pb.Label(**GOOD, note="x" * length), timeout=10))
        assert said is expected
        assert "must be at most" in words
    with pytest.raises(grpc.RpcError) as caught:
        stub.Label(pb.Label(**GOOD, note="x" * 50_000_000), timeout=30)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert [len(label.note) for label in backend.labels.values()] == [bounds.MAX_NOTE_CHARS]


def test_a_message_that_unpacks_to_more_is_refused(crowd: Callable[..., grpc.Channel], backend: FakeLearner) -> None:
    stub = operator(crowd())
    with pytest.raises(grpc.RpcError) as caught:
        stub.Label(pb.Label(**GOOD, note="x" * 30_000_000), timeout=30, compression=grpc.Compression.Gzip)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert backend.label_calls == 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"actor_id": "x" * 129}, "actor is 'x+', must be 1 to 128 letters"),
        ({"actor_id": "../a"}, "actor is '../a', must be 1 to 128 letters"),
        ({"life": "x" * 65}, "length of life is 65 characters, must be at most 64"),
        ({"task": "x" * 129}, "length of task is 129 characters"),
        ({"run_id": "x" * 129}, "length of run_id is 129 characters"),
        ({"spec_digest": "x" * 129}, "length of spec_digest is 129 characters"),
        ({"spec_json": "x" * (bounds.MAX_SPEC_CHARS + 1)}, "length of spec_json is 65537 characters"),
        ({"role": "root"}, "role is 'root', must be one of"),
        ({"role": ""}, "role is '', must be one of"),
        ({"spec_digest": "0", "spec_json": "[" * 60_000}, "must be JSON"),
    ],
)
def test_a_field_of_hello_that_is_too_long_or_no_name_is_refused(
    crowd: Callable[..., grpc.Channel], changes: dict[str, object], words: str
) -> None:
    stub = LearnerStub(crowd())
    said, found = kind(lambda: stub.Hello(hello(**changes), timeout=10))
    assert said in (Refusal.MALFORMED, Refusal.MISMATCH)
    assert re.search(words, found)


@pytest.mark.parametrize("raw", [b"\xff" * 40, b"\x0a\xff\xff\xff\xff\x0f"])
def test_bytes_that_are_no_message_are_refused(crowd: Callable[..., grpc.Channel], raw: bytes) -> None:
    call = crowd().stream_stream(SERVICE + "Hello")
    said, words = kind(lambda: list(call(iter([raw]), timeout=10)))
    assert said is Refusal.MALFORMED
    assert words.startswith("message of Hello is unreadable")


def spoilt_step(**changes: object) -> pb.PushRequest:
    message = encode_step(make_step("e", 0), SPEC)
    for name, value in changes.items():
        setattr(message.action if name.startswith("params") else message, name, value)
    return pb.PushRequest(run_id="run-1", step=message)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"params_version": 2**63}, "params_version is 9223372036854775808, must be 0 to"),
        ({"params_age_s": 1e300}, r"params_age_s is 1e\+300, must be finite, 0 or more, and at most"),
        ({"end": "x" * 10_000}, r"end is 'x{40}', must be one of"),
    ],
)
def test_a_number_that_the_store_has_no_room_for_is_refused_in_its_ack(
    crowd: Callable[..., grpc.Channel], backend: FakeLearner, changes: dict[str, object], words: str
) -> None:
    header = pb.PushRequest(run_id="run-1", header=encode_header(make_header("e")))
    acks = list(greeted(crowd()).PushSteps(iter([header, spoilt_step(**changes)]), timeout=20))
    (refused,) = [ack for ack in acks if ack.refusal]
    assert re.search(words, refused.refusal)
    assert backend.memory["e"] == []


@pytest.mark.parametrize("changes", [{"index": 2**63}, {"episode_id": "x" * 5000}])
def test_an_item_that_no_ack_can_name_ends_the_stream(
    crowd: Callable[..., grpc.Channel], backend: FakeLearner, changes: dict[str, object]
) -> None:
    said, words = kind(lambda: list(greeted(crowd()).PushSteps(iter([spoilt_step(**changes)]), timeout=20)))
    assert said is Refusal.MALFORMED
    assert "must be" in words
    assert backend.memory == {}


def test_images_beyond_the_cameras_are_counted_and_not_looked_at(
    crowd: Callable[..., grpc.Channel], backend: FakeLearner
) -> None:
    message = encode_step(make_step("e", 0), SPEC)
    message.observation.images.extend([pb.Image()] * 10_000)
    acks = list(greeted(crowd()).PushSteps(iter([pb.PushRequest(run_id="run-1", step=message)]), timeout=20))
    assert acks[0].refusal.startswith("number of images is 10002, must be at most the 2 cameras")


def test_refused_episodes_of_a_stream_are_bounded(
    crowd: Callable[..., grpc.Channel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "MAX_REFUSED_EPISODES", 5)

    def wrong() -> Iterator[pb.PushRequest]:
        for number in range(20):
            header = encode_header(make_header(f"e{number}", task="nut"))
            yield pb.PushRequest(run_id="run-1", header=header)

    said, words = kind(lambda: list(greeted(crowd()).PushSteps(wrong(), timeout=20)))
    assert said is Refusal.FULL
    assert "number of refused episodes of 'actor-1' is 5 on one stream, must be below 5" in words


@pytest.mark.parametrize(
    ("decode", "message", "words"),
    [
        (decode_label, pb.Label(**{**GOOD, "stamp_unix_s": 1e300}), "stamp_unix_s is"),
        (decode_label, pb.Label(**{**GOOD, "verdict": "x" * 9999}), "verdict is 'x{40}', must be one of"),
        (decode_mark, pb.StageMark(episode_id="e", stage=9999, source="operator"), "stage of a stage mark is 9999"),
        (decode_mark, pb.StageMark(episode_id="e", frame=2**40, source="operator"), "frame of a stage mark is"),
        (decode_mark, pb.StageMark(episode_id="e", source="me"), "source of the stage mark is 'me', must be one of"),
        (decode_mark, pb.StageMark(episode_id="../e", source="operator"), "episode id is '../e'"),
        (decode_header, pb.EpisodeHeader(episode_id="e", kind="demo", reset="nominal", actor="x" * 200), "actor"),
        (decode_header, pb.EpisodeHeader(episode_id="e", kind="demo", reset="nominal", task="x" * 200), "task"),
        (decode_status, pb.StatusReply(phase="x" * 300), "length of phase is 300"),
        (decode_status, pb.StatusReply(counters={str(i): 0.0 for i in range(300)}), "numbers of counters"),
        (
            decode_status,
            pb.StatusReply(actors=[pb.ActorStatus()] * 300),
            "numbers of counters and actors are 0 and 300",
        ),
    ],
)
def test_a_field_beyond_its_bound_is_refused_by_name(
    decode: Callable[[object], object], message: object, words: str
) -> None:
    with pytest.raises(SpecError, match=words):
        decode(message)


def test_labels_wait_while_the_learner_has_no_room(
    crowd: Callable[..., grpc.Channel], address: str, backend: FakeLearner
) -> None:
    backend.room.clear()
    said, words = kind(lambda: operator(crowd()).Label(pb.Label(**GOOD), timeout=10))
    assert said is Refusal.FULL
    assert words.startswith("room of the learner for a label of e is none, must be some")
    with pytest.raises(TransportError) as told:
        send_label(address, decode_label(pb.Label(**GOOD)), security=TOKEN)
    assert not isinstance(told.value, ItemRefusedError)
    backend.room.set()
    send_label(address, decode_label(pb.Label(**GOOD)), security=TOKEN)
    assert len(backend.labels) == 1


# ------------------------------------------------------------------------------------------- how loud it may be
def test_refusals_are_counted_and_logged_once_a_second(
    crowd: Callable[..., grpc.Channel], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, refusals.__name__)
    stub = operator(crowd())
    stranger = LearnerStub(crowd(None))
    began_s = time.monotonic()
    for _ in range(200):
        assert kind(lambda: stranger.Label(pb.Label(), timeout=10))[0] is Refusal.TOKEN_MISSING
    took_s = time.monotonic() - began_s
    assert 1 <= len(caplog.records) <= 2 + took_s
    assert stub.Status(pb.StatusRequest(), timeout=10).counters["refused_token_missing"] == 200


def test_the_next_line_says_how_many_there_were(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    found = Refusals(lambda: now[0])
    for _ in range(5):
        found.note(Refusal.TOKEN_WRONG, "there", "token is wrong")
    now[0] = 1.5
    found.note(Refusal.TOKEN_WRONG, "there", "token is wrong")
    assert [record.getMessage().partition("wrong (")[2] for record in caplog.records] == [
        "",
        "4 more since the last line)",
    ]
    assert found.counts == {Refusal.TOKEN_WRONG: 6}


def test_a_slow_reader_does_not_slow_the_others(crowd: Callable[..., grpc.Channel], backend: FakeLearner) -> None:
    """A watch that nobody reads, while new parameters keep coming, and one that is read."""
    stuck = greeted(crowd(), actor_id="stuck").WatchParams(pb.WatchParamsRequest(), timeout=60)
    reader = greeted(crowd(), actor_id="reader").WatchParams(pb.WatchParamsRequest(), timeout=60)
    seen: queue.SimpleQueue[int] = queue.SimpleQueue()

    def read() -> None:
        with contextlib.suppress(grpc.RpcError):  # cancelled at the end
            for each in reader:
                seen.put(each.version)

    threading.Thread(target=read, daemon=True).start()
    for version in range(1, 9):
        tensors = {"w": np.full((1 << 20,), version, np.float32)}
        backend.publish(bundle.seal(version=version, tensors=tensors, metadata={bundle.SPEC_DIGEST: SPEC.digest}))
        assert seen.get(timeout=10.0) == version
    assert not stuck.done()
    stuck.cancel()
    reader.cancel()
