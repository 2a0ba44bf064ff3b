"""Nobody in: whoever does not belong is refused in words by the real server, and nothing of the learner changes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest

from robot_stack.transport import learner_pb2 as pb
from robot_stack.transport.access import bounds, certificates
from robot_stack.transport.access.security import Security, open_channel
from robot_stack.transport.calls import error_words
from robot_stack.transport.codec import encode_header, encode_step
from robot_stack.transport.server import LearnerServer
from robot_stack.transport.service import LearnerStub
from robot_stack.transport.wire import PROTOCOL_VERSION
from robot_stack.types.errors import TransportError
from robot_stack.types.spec import Spec
from tests.transport.fake_learner import SPEC, TOKEN, greeted, make_header, make_step, wait_until
from tests.transport.fake_learner import hello as hello_of
from tests.transport.real_learner import RealLearner

Serve = Callable[..., LearnerServer]
MOST = bounds.request_bytes(SPEC)
NOW = datetime.now(UTC)
OTHER = Spec(arms=SPEC.arms, cameras=SPEC.cameras, proprio=SPEC.proprio, rate_hz=20.0)


def read(folder: Path) -> Security:
    """As `Security.from_folder`, but without looking: what an intruder would do."""
    ca, cert, key, token = ((folder / name).read_bytes() for name in ("ca.pem", "cert.pem", "key.pem", "token"))
    return Security(ca=ca, cert=cert, key=key, token=token.decode().strip())


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sets of certificates: ours, theirs, one that has expired, one for another host."""
    folder = tmp_path_factory.mktemp("certs")
    certificates.make_set(folder / "ours", [], NOW)
    certificates.make_set(folder / "theirs", [], NOW)
    certificates.make_set(folder / "expired", [], NOW - timedelta(days=certificates.VALID_DAYS + 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certificates, "LOOPBACK", ())
        certificates.make_set(folder / "elsewhere", ["learner.lan"], NOW)
    return folder


@pytest.fixture(scope="module")
def learner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealLearner]:
    """With an episode on disk and another one open, of actor-1."""
    learner = RealLearner(tmp_path_factory.mktemp("learner") / "store")
    for episode_id, count in (("000000-online-actor-1", 3), ("000001-online-actor-1", 2)):
        learner.backend.begin(make_header(episode_id))
        for index in range(count):
            learner.backend.append(make_step(episode_id, index, last=index == 2))
    yield learner
    learner.close()


def hello(**changes: object) -> pb.HelloRequest:
    """Of actor-2."""
    return hello_of(**{"actor_id": "actor-2", "life": "2", **changes})


def items(run_id: str = "run-1") -> Iterator[pb.PushRequest]:
    """A good episode of actor-2."""
    episode_id = "000002-online-actor-2"
    yield pb.PushRequest(run_id=run_id, header=encode_header(make_header(episode_id, actor="actor-2")))
    for index in range(3):
        yield pb.PushRequest(run_id=run_id, step=encode_step(make_step(episode_id, index, last=index == 2), SPEC))


def label() -> pb.Label:
    return pb.Label(episode_id="000000-online-actor-1", verdict="discard", source="operator", stamp_unix_s=1.0)


def mark() -> pb.StageMark:
    return pb.StageMark(episode_id="000000-online-actor-1", stage=1, frame=3, source="operator", stamp_unix_s=1.0)


CALLS: dict[str, Callable[[LearnerStub], object]] = {
    "Hello": lambda stub: stub.Hello(hello(), timeout=10),
    "PushSteps": lambda stub: list(stub.PushSteps(items(), timeout=10)),
    "WatchParams": lambda stub: next(stub.WatchParams(pb.WatchParamsRequest(), timeout=10)),
    "WatchScores": lambda stub: next(stub.WatchScores(pb.WatchScoresRequest(), timeout=10)),
    "Label": lambda stub: stub.Label(label(), timeout=10),
    "Mark": lambda stub: stub.Mark(mark(), timeout=10),
    "Status": lambda stub: stub.Status(pb.StatusRequest(), timeout=10),
}


def said(ask: Callable[[LearnerStub], object], channel: grpc.Channel, address: str) -> str:
    """What an operator would read of the refusal of a call."""
    with pytest.raises(grpc.RpcError) as caught:
        ask(LearnerStub(channel))
    return error_words(caught.value, address)


def channel_of(kind: str, address: str, sets: Path) -> grpc.Channel:
    ours = read(sets / "ours" / "actor")
    match kind:
        case "without certificate":
            bearer = grpc.access_token_call_credentials(ours.token)
            return grpc.secure_channel(
                address, grpc.composite_channel_credentials(grpc.ssl_channel_credentials(ours.ca), bearer)
            )
        case "without token":
            return grpc.secure_channel(address, grpc.ssl_channel_credentials(ours.ca, ours.key, ours.cert))
        case "in clear":
            return open_channel(address, None)
        case "wrong token":
            return open_channel(address, replace(ours, token="x" * 64))
        case _:  # a certificate of that set, by somebody who trusts our learner and has our token
            return open_channel(address, replace(read(sets / kind / "actor"), ca=ours.ca, token=ours.token))


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("without certificate", "closed the connection before a word: it wants a certificate"),
        ("in clear", "closed the connection before a word: it wants a certificate"),
        ("theirs", "closed the connection before a word: .* or does not take this one"),
        ("expired", "closed the connection before a word: .* or does not take this one"),
        ("wrong token", "token is missing or wrong, must be the learner's"),
        ("without token", "token is missing or wrong, must be the learner's"),
    ],
)
def test_actor_that_does_not_belong_is_refused_on_every_call(
    serve: Serve, learner: RealLearner, sets: Path, kind: str, words: str
) -> None:
    before = learner.state()
    address = serve(learner.backend, security=read(sets / "ours" / "learner")).address
    with channel_of(kind, address, sets) as channel:
        for name, call in CALLS.items():
            assert re.search(words, said(call, channel, address)), name
    assert learner.state() == before


@pytest.mark.parametrize(
    ("served", "words"),
    [
        ("theirs", "has a certificate of another authority"),
        ("expired", "has a certificate that has expired"),
        ("elsewhere", "has a certificate for another host"),
    ],
)
def test_learner_that_does_not_belong_gets_nothing(
    serve: Serve, learner: RealLearner, sets: Path, served: str, words: str
) -> None:
    before = learner.state()
    address = serve(learner.backend, security=read(sets / served / "learner")).address
    trusted = "ours" if served == "theirs" else served
    with open_channel(address, read(sets / trusted / "actor")) as channel:
        found = said(CALLS["PushSteps"], channel, address)
    assert words in found
    assert "make a new set with `robot-stack certs`" in found
    assert learner.state() == before


def test_actor_cannot_pose_as_the_learner(serve: Serve, learner: RealLearner, sets: Path) -> None:
    actor = read(sets / "ours" / "actor")
    address = serve(learner.backend, security=actor).address
    with open_channel(address, actor) as channel:
        assert "certificate" in said(CALLS["Hello"], channel, address)


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "192.168.1.5:50051", "learner.lan:50051"])
def test_server_beyond_loopback_needs_certificates(learner: RealLearner, address: str) -> None:
    before = learner.state()
    with pytest.raises(TransportError, match=r"without TLS, must be on loopback .*; .*`robot-stack certs`"):
        LearnerServer(learner.backend, address, TOKEN).start()
    assert learner.state() == before


PEERS: dict[str, tuple[Callable[[LearnerStub], object], str]] = {
    "protocol": (
        lambda stub: stub.Hello(hello(protocol=PROTOCOL_VERSION + 1), timeout=10),
        f"protocol is {PROTOCOL_VERSION + 1} on the actor, must be {PROTOCOL_VERSION} as on the learner",
    ),
    "spec": (
        lambda stub: stub.Hello(hello(spec_digest=OTHER.digest, spec_json=OTHER.to_json()), timeout=10),
        "spec.rate_hz is 20.0 on the actor, must be 10.0 as on the learner",
    ),
    "run": (
        lambda stub: stub.Hello(hello(run_id="run-0"), timeout=10),
        "run is 'run-0' on the actor, must be 'run-1' as on the learner",
    ),
    "run of a step": (
        lambda stub: list(stub.PushSteps(items("run-0"), timeout=10)),
        "run is 'run-0' on the actor, must be 'run-1' as on the learner",
    ),
    "name": (
        lambda stub: stub.Hello(hello(actor_id="", life=""), timeout=10),
        "actor is '', life '', must both be given",
    ),
    "oversize label": (
        lambda stub: stub.Label(pb.Label(note="x" * (MOST + 1)), timeout=30),
        f"larger than max ({MOST + 5} vs. {MOST})",
    ),
    "oversize step": (
        lambda stub: list(stub.PushSteps(oversize(), timeout=30)),
        f"vs. {MOST})",
    ),
}


def oversize() -> Iterator[pb.PushRequest]:
    image = pb.Image(camera="front", rgb=bytes(MOST + 1))
    yield pb.PushRequest(run_id="run-1", step=pb.Step(episode_id="e", observation=pb.Observation(images=[image])))


@pytest.mark.parametrize("kind", PEERS)
def test_peer_that_does_not_fit_is_refused(serve: Serve, learner: RealLearner, kind: str) -> None:
    before = learner.state()
    ask, words = PEERS[kind]
    address = serve(learner.backend).address
    with open_channel(address, TOKEN) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            ask(greeted(channel, actor_id="actor-2", life="2"))
        assert words in error_words(caught.value, address)
        wait_until(lambda: not any(actor.connected for actor in learner.state()[2].actors))  # type: ignore[attr-defined]
    files, waiting, status = learner.state()
    assert (files, waiting) == before[:2]
    assert [(actor.steps, actor.episodes, actor.connected) for actor in status.actors] in ([], [(0, 0, False)])  # type: ignore[attr-defined]


def test_those_calls_are_good_ones(serve: Serve, learner: RealLearner, sets: Path) -> None:
    """With the right keys: else the tests above would prove nothing."""
    learner.backend.start()
    address = serve(learner.backend, security=Security.from_folder(sets / "ours" / "learner")).address
    with open_channel(address, Security.from_folder(sets / "ours" / "actor")) as channel:
        stub = greeted(channel, actor_id="actor-2", life="2")
        for call in ("PushSteps", "Label", "Status"):
            CALLS[call](stub)
    learner.backend.stop()
    assert "000002-online-actor-2" in learner.store.episodes
    assert len(learner.store.labels) == 1
