"""Many actors, one learner: a real server on a real store, several clients in threads, every wait bounded."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest

from robot_stack.learner import backend as backend_module
from robot_stack.transport import learner_pb2 as pb
from robot_stack.transport import link as link_module
from robot_stack.transport.access.bounds import MAX_OPEN_EPISODES
from robot_stack.transport.access.refusals import Refusal, refusal_of
from robot_stack.transport.access.security import open_channel
from robot_stack.transport.calls import send_label
from robot_stack.transport.client import LearnerClient
from robot_stack.transport.codec import encode_header, encode_label, encode_step
from robot_stack.transport.roster import ActorStatus
from robot_stack.transport.server import LearnerServer
from robot_stack.types.event import Label, LabelSource, Verdict
from robot_stack.types.transition import EpisodeHeader, Step
from tests.transport.fake_learner import SPEC, TOKEN, equal_steps, greeted, make_header, make_step, wait_until
from tests.transport.real_learner import RealLearner

TIMEOUT_S = 60.0
Serve = Callable[..., LearnerServer]
Connect = Callable[..., LearnerClient]


@pytest.fixture
def learner(tmp_path: Path) -> Iterator[RealLearner]:
    learner = RealLearner(tmp_path / "store")
    learner.backend.start()
    yield learner
    learner.backend.stop()
    learner.close()


def name_of(number: int, actor: str) -> str:
    return f"{number:06d}-online-{actor}"


def record(client: LearnerClient, actor: str, number: int, count: int, *, ended: bool = True) -> None:
    """An episode of `count` frames."""
    client.begin(make_header(name_of(number, actor), actor=actor))
    for index in range(count):
        client.push(make_step(name_of(number, actor), index, last=ended and index == count - 1))


def verdict_on(episode_id: str, said: Verdict) -> Label:
    return Label(episode_id=episode_id, verdict=said, source=LabelSource.OPERATOR, stamp_unix_s=1.5e9)


def stored_as_sent(learner: RealLearner, actor: str, number: int, count: int) -> bool:
    """Every bit of its steps, each once and in order."""
    found = list(learner.store.read(name_of(number, actor)).steps())
    wanted = [make_step(name_of(number, actor), i, last=i == count - 1) for i in range(count)]
    return len(found) == count and all(map(equal_steps, found, wanted))


def status_of(learner: RealLearner, actor: str) -> ActorStatus:
    """Once it has come."""
    assert wait_until(lambda: actor in [status.actor_id for status in learner.backend.status().actors])
    (status,) = [status for status in learner.backend.status().actors if status.actor_id == actor]
    return status


def test_actors_come_and_go_while_the_learner_restarts(serve: Serve, learner: RealLearner, tmp_path: Path) -> None:
    """Three actors of two lives; the first ends with most of its steps unsent, and then the learner restarts."""
    server = serve(learner.backend)
    lengths = {actor: [int(n) for n in np.random.default_rng(ord(actor)).integers(3, 15, 4)] for actor in "abc"}
    failures: list[BaseException] = []
    halfway = threading.Barrier(4)

    def live(actor: str) -> None:
        try:
            for life in range(2):
                client = LearnerClient(server.address, SPEC, "peg", actor, tmp_path / actor, TOKEN)
                client.connect()
                for number in (2 * life, 2 * life + 1):
                    record(client, actor, number, lengths[actor][number])
                client.close(timeout_s=0.0 if life == 0 else TIMEOUT_S)
                if life == 0:
                    halfway.wait(TIMEOUT_S)
        except BaseException as error:
            failures.append(error)
            halfway.abort()

    threads = [threading.Thread(target=live, args=(actor,)) for actor in "abc"]
    for thread in threads:
        thread.start()
    halfway.wait(TIMEOUT_S)
    server.stop(grace_s=0.0)
    server = serve(learner.backend, server.address)
    for thread in threads:
        thread.join(TIMEOUT_S)
    assert not failures
    wanted = {name_of(number, actor) for actor in "abc" for number in range(4)}
    assert set(learner.store.episodes) == wanted
    assert all(stored_as_sent(learner, a, n, count) for a in "abc" for n, count in enumerate(lengths[a]))
    arrived = [(s.episode_id, s.index) for s in learner.take() if isinstance(s, Step)]
    assert len(arrived) == len(set(arrived)) == sum(map(sum, lengths.values())), "each step reached the learner once"
    for episode_id in wanted:
        indices = [index for name, index in arrived if name == episode_id]
        assert indices == sorted(indices)


def test_actor_that_was_away_for_long_goes_on_in_its_episode(
    serve: Serve, connect: Connect, learner: RealLearner, tmp_path: Path
) -> None:
    server = serve(learner.backend)
    client = connect(server.address, actor_id="a", spool_dir=tmp_path / "a")
    record(client, "a", 0, 5, ended=False)
    assert client.wait_acked(TIMEOUT_S)
    server.stop(grace_s=0.0)
    for index in range(5, 8):  # its spool takes the rest
        client.push(make_step(name_of(0, "a"), index, last=index == 7))
    client.label(verdict_on(name_of(0, "a"), Verdict.SUCCESS))
    learner.clock_s += 24 * 3600.0
    assert not wait_until(lambda: learner.store.episodes, timeout_s=1.5), "the learner closes nothing by itself"
    serve(learner.backend, address=server.address)
    assert client.wait_acked(TIMEOUT_S)
    assert client.counters.refused == 0
    assert stored_as_sent(learner, "a", 0, 8)
    assert [label.verdict for label in learner.store.labels] == [Verdict.SUCCESS]


def test_actor_that_returns_after_its_episode_was_closed_is_told_and_goes_on(
    serve: Serve, connect: Connect, learner: RealLearner, tmp_path: Path
) -> None:
    address = serve(learner.backend).address
    client = connect(address, actor_id="a", spool_dir=tmp_path / "a")
    record(client, "a", 0, 5, ended=False)
    assert client.close(TIMEOUT_S)
    assert wait_until(lambda: not status_of(learner, "a").connected)
    learner.backend.cut(name_of(0, "a"))
    client = connect(address, actor_id="a", spool_dir=tmp_path / "a")
    client._expected = (name_of(0, "a"), 5)  # what it recorded while the link was away
    client.push(make_step(name_of(0, "a"), 5))
    client.push(make_step(name_of(0, "a"), 6, last=True))
    record(client, "a", 1, 3)
    assert client.wait_acked(TIMEOUT_S)
    assert client.counters.refused == 2
    assert f"step index of {name_of(0, 'a')} is 6, must be at most 4: the episode was closed there" in client.last_error
    assert client.refusal == ""
    assert stored_as_sent(learner, "a", 1, 3)
    assert status_of(learner, "a").refused == 2


@pytest.mark.parametrize("said", [Verdict.SUCCESS, Verdict.FAILURE])
def test_verdict_of_an_actor_on_an_episode_that_was_closed_before_its_end_is_refused(
    serve: Serve, connect: Connect, learner: RealLearner, tmp_path: Path, said: Verdict
) -> None:
    """It would count at the newest frame, at which nobody judged anything."""
    server = serve(learner.backend)
    client = connect(server.address, actor_id="a", spool_dir=tmp_path / "a")
    record(client, "a", 0, 5, ended=False)
    assert client.wait_acked(TIMEOUT_S)
    learner.backend.cut(name_of(0, "a"))
    client.push(make_step(name_of(0, "a"), 5, last=True))
    client.label(verdict_on(name_of(0, "a"), said))
    record(client, "a", 1, 3)
    client.label(verdict_on(name_of(1, "a"), said))
    assert client.wait_acked(TIMEOUT_S)
    assert (client.counters.refused, client.refusal) == (2, "")
    assert [label.episode_id for label in learner.store.labels] == [name_of(1, "a")]
    with open_channel(server.address, TOKEN) as channel:
        stub = greeted(channel, actor_id="b")
        with pytest.raises(grpc.RpcError) as refused:
            stub.Label(encode_label(verdict_on(name_of(0, "a"), said)), timeout=30)
        stub.Label(encode_label(verdict_on(name_of(0, "a"), Verdict.DISCARD)), timeout=30)
        assert stub.Status(pb.StatusRequest(), timeout=30).counters["refused_cut"] == 2
    assert refusal_of(refused.value) is Refusal.CUT
    assert "was closed at its frame 4, before its end" in str(refused.value.details())
    assert learner.store.labels[-1].verdict is Verdict.DISCARD, "which is true of any part of it"


def test_operator_may_judge_an_episode_as_it_is_on_disk(serve: Serve, connect: Connect, learner: RealLearner) -> None:
    address = serve(learner.backend).address
    client = connect(address, actor_id="a")
    record(client, "a", 0, 5, ended=False)
    assert client.wait_acked(TIMEOUT_S)
    learner.backend.cut(name_of(0, "a"))
    send_label(address, verdict_on(name_of(0, "a"), Verdict.FAILURE), security=TOKEN)
    assert [label.verdict for label in learner.store.labels] == [Verdict.FAILURE]


def test_second_process_of_a_name_waits_and_takes_over_when_the_first_leaves(
    serve: Serve, connect: Connect, learner: RealLearner, tmp_path: Path
) -> None:
    address = serve(learner.backend).address
    first = connect(address, actor_id="a", spool_dir=tmp_path / "one")
    record(first, "a", 0, 3)
    assert first.wait_acked(TIMEOUT_S)
    second = connect(address, actor_id="a", spool_dir=tmp_path / "two")
    record(second, "a", 1, 3)
    assert wait_until(lambda: second.last_error)
    assert "actor 'a' is connected already, from " in second.last_error
    assert "start this one with another --id" in second.last_error
    assert (second.refusal, second.link, second.counters.acked) == ("", False, 0)
    record(first, "a", 2, 3)
    assert first.wait_acked(TIMEOUT_S), "the first one notices nothing"
    first.close()
    assert second.wait_acked(TIMEOUT_S)
    assert set(learner.store.episodes) == {name_of(n, "a") for n in range(3)}


def test_second_process_of_a_name_gives_up_in_the_end(
    serve: Serve, connect: Connect, learner: RealLearner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_module, "TWIN_S", 0.5)
    address = serve(learner.backend).address
    first = connect(address, actor_id="a", spool_dir=tmp_path / "one")
    assert wait_until(lambda: learner.backend.status().actors)
    second = connect(address, actor_id="a", spool_dir=tmp_path / "two")
    assert wait_until(lambda: second.refusal)
    assert "must be one process; stop the other" in second.refusal
    assert first.link


def test_episode_under_a_taken_name_is_refused_whole_and_the_next_one_is_taken(
    serve: Serve, connect: Connect, learner: RealLearner, tmp_path: Path
) -> None:
    """What a second process of a name leaves behind: its own header under a name that is taken."""
    server = serve(learner.backend)
    first = connect(server.address, actor_id="a", spool_dir=tmp_path / "one")
    record(first, "a", 0, 3, ended=False)
    first.close(TIMEOUT_S)
    second = connect(server.address, actor_id="a", spool_dir=tmp_path / "two")
    second.begin(make_header(name_of(0, "a"), actor="a", started_unix_s=2.5e9))
    for index in range(6):
        second.push(make_step(name_of(0, "a"), index, last=index == 5))
    second.label(verdict_on(name_of(0, "a"), Verdict.FAILURE))
    assert second.wait_acked(TIMEOUT_S)
    assert second.counters.refused == 8
    assert learner.store.labels == ()
    assert f"header of {name_of(0, 'a')}" in second.last_error
    record(second, "a", 1, 3)
    assert second.wait_acked(TIMEOUT_S)
    assert learner.store.read(name_of(0, "a")).length == 2, "none of the other's steps are in it"
    assert stored_as_sent(learner, "a", 1, 3)


def step(step: Step) -> pb.PushRequest:
    return pb.PushRequest(run_id="run-1", step=encode_step(step, SPEC))


def test_actor_neither_begins_nor_adds_to_nor_ends_an_episode_of_another(
    serve: Serve, connect: Connect, learner: RealLearner, tmp_path: Path
) -> None:
    address = serve(learner.backend).address
    first = connect(address, actor_id="a", spool_dir=tmp_path / "a")
    record(first, "a", 1, 3, ended=False)
    assert first.wait_acked(TIMEOUT_S)
    name = name_of(1, "a")
    requests = [
        header(make_header(name_of(5, "b"), actor="a")),  # what would close those that "a" began before
        step(make_step(name, 3)),
        poisoned(3, "proprio", np.nan, episode_id=name),
        header(make_header(name, actor="a")),
        step(make_step(name, 4, last=True)),
    ]
    with open_channel(address, TOKEN) as channel:
        acks = list(greeted(channel, actor_id="b").PushSteps(iter(requests), timeout=30))
    refusals = [ack.refusal for ack in acks if ack.refusal]
    assert len(refusals) == len(requests)
    assert refusals[0].startswith(f"actor of {name_of(5, 'b')} is 'a', must be 'b', as whom this one is connected")
    assert refusals[1].startswith(f"episode of step {name}/3 is of actor 'a', must be one of 'b'")
    assert learner.store.unfinished == (name,)
    for index in range(3, 6):
        first.push(make_step(name, index, last=index == 5))
    assert first.wait_acked(TIMEOUT_S)
    assert stored_as_sent(learner, "a", 1, 6)


def test_actor_that_begins_ever_earlier_episodes_is_refused_at_some_number(serve: Serve, learner: RealLearner) -> None:
    names = [name_of(100 - number, "a") for number in range(MAX_OPEN_EPISODES + 2)]
    last = make_step(names[0], 0, last=True)
    requests = [*(header(make_header(name, actor="a")) for name in names), step(last)]
    with open_channel(serve(learner.backend).address, TOKEN) as channel:
        acks = list(greeted(channel, actor_id="a").PushSteps(iter(requests), timeout=30))
    refused = {ack.episode_id: ack.refusal for ack in acks if ack.refusal}
    assert list(refused) == names[MAX_OPEN_EPISODES:]
    assert f"is {MAX_OPEN_EPISODES}, must be below {MAX_OPEN_EPISODES}; end them" in refused[names[-1]]
    assert set(learner.store.unfinished) == set(names[1:MAX_OPEN_EPISODES])
    assert learner.store.episodes == (names[0],), "the stream goes on"


def test_full_learner_slows_the_link_and_neither_drops_nor_blocks(
    serve: Serve, connect: Connect, learner: RealLearner, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = sum(image.nbytes for image in make_step("e", 0).observation.images.values()) + 4 * SPEC.proprio_size
    monkeypatch.setattr(backend_module, "INBOX_BYTES", 10 * one + backend_module.PLAIN_BYTES)
    client = connect(serve(learner.backend).address, actor_id="a")
    record(client, "a", 0, 200)  # returns, whatever the learner does
    assert wait_until(lambda: status_of(learner, "a").held == 1)
    assert not client.wait_acked(1.0)
    assert told(learner) == (11, 0)
    assert status_of(learner, "a").steps == 10
    assert wait_until(lambda: client.counters.spooled - client.counters.acked == 200 - 10)
    assert client.link, "a learner that is busy is not one that is gone"

    def all_there() -> bool:
        return sum(isinstance(arrival, Step) for arrival in learner.take()) == 200

    assert wait_until(all_there, TIMEOUT_S)
    assert client.wait_acked(TIMEOUT_S)
    assert stored_as_sent(learner, "a", 0, 200)
    received, counted = told(learner)
    assert received == 201
    assert counted < 201, "taken is not yet counted"
    assert not learner.backend.take()
    assert told(learner) == (201, 201)
    assert (client.counters.not_spooled, client.counters.refused) == (0, 0)


def told(learner: RealLearner) -> tuple[float, float]:
    counters = learner.backend.status().counters
    return counters["received"], counters["counted"]


def test_status_tells_each_actor_apart_over_the_link(
    serve: Serve, connect: Connect, learner: RealLearner, tmp_path: Path
) -> None:
    server = serve(learner.backend)
    a = connect(server.address, actor_id="a", spool_dir=tmp_path / "a")
    b = connect(server.address, actor_id="b", spool_dir=tmp_path / "b")
    record(a, "a", 0, 10)
    record(b, "b", 0, 3)
    record(b, "b", 1, 4)
    assert a.wait_acked(TIMEOUT_S)
    assert b.close(TIMEOUT_S)
    assert wait_until(lambda: not status_of(learner, "b").connected)
    server.stop(grace_s=0.0)
    server = serve(learner.backend, server.address)
    assert wait_until(lambda: status_of(learner, "a").reconnects == 1)
    learner.clock_s += 5.0
    found = {actor.actor_id: actor for actor in a.status(timeout_s=10.0).actors}
    assert list(found) == ["a", "b"]
    assert (found["a"].episodes, found["a"].steps, found["a"].connected) == (1, 10, True)
    assert (found["b"].episodes, found["b"].steps, found["b"].connected, found["b"].last_seen_s) == (2, 7, False, 5.0)
    sent = sum(encode_step(make_step(name_of(0, "a"), i, last=i == 9), SPEC).ByteSize() for i in range(10))
    assert sent < found["a"].bytes < 1.1 * sent + 1000
    assert found["a"].params_version == 7, "behind the steps that it made"
    assert found["a"].ack_p50_ms <= found["a"].ack_p99_ms


def poisoned(index: int, field: str, value: float, episode_id: str = "e") -> pb.PushRequest:
    """A step with one bad number in one field, as no client of ours would send it."""
    message = encode_step(make_step(episode_id, index), SPEC)
    part = message.observation if field == "proprio" else message.action
    numbers = np.frombuffer(getattr(part, field), "<f4").copy()
    numbers[-1] = value
    setattr(part, field, numbers.tobytes())
    return pb.PushRequest(run_id="run-1", step=message)


def header(header: EpisodeHeader) -> pb.PushRequest:
    return pb.PushRequest(run_id="run-1", header=encode_header(header))


@pytest.mark.parametrize(
    ("field", "value"), [("proprio", np.nan), ("executed", np.nan), ("proposed", np.inf), ("human", -np.inf)]
)
def test_number_that_is_not_finite_is_refused_at_the_door(
    serve: Serve, learner: RealLearner, field: str, value: float
) -> None:
    good = [pb.PushRequest(run_id="run-1", step=encode_step(make_step("e", i), SPEC)) for i in range(4)]
    last = pb.PushRequest(run_id="run-1", step=encode_step(make_step("f", 0, last=True), SPEC))
    requests = [header(make_header("e")), *good[:2], poisoned(2, field, value), good[3], header(make_header("f")), last]
    with open_channel(serve(learner.backend).address, TOKEN) as channel:
        acks = list(greeted(channel).PushSteps(iter(requests), timeout=30))
    refusals = {(ack.episode_id, ack.index): ack.refusal for ack in acks if ack.refusal}
    assert refusals.keys() == {("e", 2), ("e", 3)}
    assert refusals["e", 2].startswith(f"{field} is ")
    assert "must be finite" in refusals["e", 2]
    assert status_of(learner, "actor-1").refused == 2
    assert learner.store.episodes == ("e", "f"), "cut before it, and the connection went on"
    assert learner.store.read("e").length == 1
    assert all(np.isfinite(step.observation.proprio).all() for step in learner.take() if isinstance(step, Step))


@pytest.mark.parametrize("name", ["_e", "-e", "e.", "../e"])
def test_name_that_the_store_would_not_take_is_refused_at_the_door(
    serve: Serve, learner: RealLearner, name: str
) -> None:
    wrong = header(make_header("e"))
    wrong.header.episode_id = name
    last = pb.PushRequest(run_id="run-1", step=encode_step(make_step("f", 0, last=True), SPEC))
    with open_channel(serve(learner.backend).address, TOKEN) as channel:
        requests = iter([wrong, header(make_header("f")), last])
        acks = list(greeted(channel).PushSteps(requests, timeout=30))
    (refused,) = [ack for ack in acks if ack.refusal]
    assert refused.episode_id == name
    assert refused.refusal.startswith(f"episode id is {name!r}, must be 1 to 128 letters")
    assert learner.store.episodes == ("f",), "and the connection went on"
