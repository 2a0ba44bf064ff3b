"""What an actor sees of the link: restarts on both ends, refusals, parameters, scores, labels."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from robot_stack.transport import link
from robot_stack.transport.client import LearnerClient
from robot_stack.transport.server import LearnerServer
from robot_stack.transport.spool import Spool
from robot_stack.types.errors import SpecError, StoreError, TransportError
from robot_stack.types.event import Label, LabelSource, Verdict
from robot_stack.types.interfaces import ParamsSource, ScoreSource, StepSink
from robot_stack.types.reward import LiveScore
from robot_stack.types.spec import CameraSpec, Spec
from robot_stack.types.stages import StageMark
from tests.faults.tcp_proxy import SLOW, TcpProxy
from tests.transport.fake_learner import (
    SPEC,
    TASK,
    TOKEN,
    FakeLearner,
    equal_steps,
    fingerprint,
    make_header,
    make_step,
    wait_until,
)

Serve = Callable[..., LearnerServer]
Connect = Callable[..., LearnerClient]
TIMEOUT_S = 20.0
ROOT = Path(__file__).parents[2]


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def record(client: LearnerClient, episode_id: str, count: int, actor: str = "actor-1") -> None:
    client.begin(make_header(episode_id, actor=actor))
    for index in range(count):
        client.push(make_step(episode_id, index, last=index == count - 1))


def holds_exactly(backend: FakeLearner, episode_id: str, count: int, actor: str = "actor-1") -> bool:
    """On its disk: each step once, in order, bit for bit, and the header."""
    stored = backend.disk.get(episode_id, [])
    wanted = [make_step(episode_id, i, last=i == count - 1) for i in range(count)]
    return (
        backend.headers.get(episode_id) == make_header(episode_id, actor=actor)
        and len(stored) == count
        and all(map(equal_steps, stored, wanted))
    )


def make_label(episode_id: str, stamp_unix_s: float = 1.5e9) -> Label:
    return Label(episode_id=episode_id, verdict=Verdict.SUCCESS, source=LabelSource.OPERATOR, stamp_unix_s=stamp_unix_s)


def test_the_client_is_a_sink_and_both_sources(tmp_path: Path) -> None:
    client = LearnerClient("127.0.0.1:1", SPEC, TASK, "a", tmp_path)
    sink: StepSink = client
    params: ParamsSource = client
    scores: ScoreSource = client
    assert sink is params is scores
    assert not (tmp_path / "lock").exists(), "a constructor touches nothing"


def test_what_is_pushed_is_on_the_learners_disk_once_acked(serve: Serve, connect: Connect) -> None:
    backend = FakeLearner()
    client = connect(serve(backend).address)
    record(client, "e1", 30)
    record(client, "e2", 5)
    assert client.wait_acked(TIMEOUT_S)
    assert holds_exactly(backend, "e1", 30)
    assert holds_exactly(backend, "e2", 5)
    assert (client.counters.spooled, client.counters.acked, client.link) == (37, 37, True)
    assert client.run_id == "run-1"


def test_the_learner_may_come_later(serve: Serve, connect: Connect) -> None:
    address = free_address()
    client = connect(address)
    record(client, "e", 10)
    assert wait_until(lambda: client.last_error)
    assert not client.link
    assert not client.wait_acked(0.05)
    assert f"learner at {address} is UNAVAILABLE" in client.last_error
    backend = FakeLearner()
    serve(backend, address)
    assert client.wait_acked(TIMEOUT_S)
    assert holds_exactly(backend, "e", 10)
    assert client.refusal == ""


def test_a_learner_killed_mid_stream_loses_and_doubles_nothing(serve: Serve, connect: Connect) -> None:
    backend = FakeLearner(auto_flush=False)
    server = serve(backend)
    client = connect(server.address)
    client.begin(make_header("e"))
    for index in range(20):
        client.push(make_step("e", index))
    assert wait_until(lambda: len(backend.memory.get("e", ())) == 20)
    with backend.changed:
        backend.disk["e"] = backend.memory["e"][:12]  # flushed when the power went
    server.stop(grace_s=0.0)
    assert wait_until(lambda: not client.link)
    for index in range(20, 30):
        client.push(make_step("e", index, last=index == 29))
    again = backend.restarted()
    again.auto_flush = True
    serve(again, server.address)
    assert client.wait_acked(TIMEOUT_S)
    assert holds_exactly(again, "e", 30)
    assert client.counters.reconnects >= 1
    assert client.counters.acked == 31


def test_many_restarts_deliver_every_step_in_order(serve: Serve, connect: Connect) -> None:
    backend = FakeLearner()
    server = serve(backend)
    address = server.address
    client = connect(address)
    client.begin(make_header("e"))
    for index in range(60):
        client.push(make_step("e", index, last=index == 59))
        if index % 20 == 10:
            server.stop(grace_s=0.0)
            backend = backend.restarted()
            server = serve(backend, address)
    assert client.wait_acked(TIMEOUT_S)
    assert holds_exactly(backend, "e", 60)


def test_a_disk_that_refuses_once_is_tried_again(serve: Serve, connect: Connect) -> None:
    backend = FakeLearner()
    backend.fail_next = StoreError("disk is full")
    client = connect(serve(backend).address)
    record(client, "e", 5)
    assert client.wait_acked(TIMEOUT_S)
    assert holds_exactly(backend, "e", 5)
    assert client.counters.reconnects >= 1


def test_an_actor_killed_mid_episode_leaves_its_steps_to_the_next(
    serve: Serve, connect: Connect, tmp_path: Path
) -> None:
    """The first life records 12 steps, 5 of them delivered; SIGKILL; a new process of the actor delivers the rest."""
    backend = FakeLearner(auto_flush=False)
    address = serve(backend).address
    child_code = (
        "import time; from pathlib import Path\n"
        "from tests.transport.fake_learner import SPEC, TASK, TOKEN, make_header, make_step\n"
        "from robot_stack.transport.client import LearnerClient\n"
        f"c = LearnerClient({address!r}, SPEC, TASK, 'actor-1', Path({str(tmp_path / 'spool')!r}), TOKEN)\n"
        "c.connect(); c.begin(make_header('e'))\n"
        "for i in range(12): c.push(make_step('e', i))\n"
        "assert c._spool.read(c._spool.end - 1, 10) is not None; print('recorded', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", child_code], cwd=ROOT, stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == b"recorded\n"
            assert wait_until(lambda: len(backend.memory.get("e", ())) == 12)
        finally:
            child.send_signal(signal.SIGKILL)
    with backend.changed:
        backend.memory["e"] = backend.memory["e"][:5]
    backend.auto_flush = True
    client = connect(address)
    assert client.wait_acked(TIMEOUT_S)
    assert len(backend.disk["e"]) == 12
    assert all(equal_steps(step, make_step("e", i)) for i, step in enumerate(backend.disk["e"]))


LEARNER_PROCESS = """
import sys, time
from tests.transport.fake_learner import TOKEN, FakeLearner
from robot_stack.transport.server import LearnerServer
server = LearnerServer(FakeLearner(), "127.0.0.1:0", TOKEN)
print(server.start(), flush=True)
time.sleep(120)
"""


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSTOP"])
def test_a_killed_or_frozen_learner_is_noticed_and_replaced(serve: Serve, connect: Connect, name: str) -> None:
    command = [sys.executable, "-c", LEARNER_PROCESS]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as learner:
        try:
            assert learner.stdout is not None
            address = learner.stdout.readline().strip()
            client = connect(address)
            client.begin(make_header("e"))
            client.push(make_step("e", 0))
            assert client.wait_acked(TIMEOUT_S)
            learner.send_signal(signal.Signals[name])
            assert wait_until(lambda: not client.link)
        finally:
            learner.kill()
    client.push(make_step("e", 1, last=True))
    backend = FakeLearner()
    backend.begin(make_header("e"))
    backend.append(make_step("e", 0))  # what the first life has on its disk
    serve(backend, address)
    assert client.wait_acked(TIMEOUT_S)
    assert holds_exactly(backend, "e", 2)


def test_a_backlog_over_a_slow_relay_breaks_no_link(
    serve: Serve, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relay such as `ssh -L` takes megabytes at once, and the answer to a ping waits behind them."""
    monkeypatch.setattr("tests.faults.tcp_proxy.SLOW_BYTES_S", 1_000_000)
    cameras = tuple(CameraSpec(name=name, height_px=128, width_px=128) for name in ("front", "wrist"))
    spec = replace(SPEC, cameras=cameras)
    proxy = TcpProxy(serve(FakeLearner(spec=spec)).address)
    proxy.mode = SLOW
    try:
        client = connect(proxy.address, spec=spec)
        client.begin(make_header("e"))
        for index in range(60):
            client.push(make_step("e", index, last=index == 59, spec=spec))
        assert client.wait_acked(60.0)
        assert client.counters.reconnects == 0
    finally:
        proxy.close()


def test_a_close_in_time_delivers_what_is_left(serve: Serve, connect: Connect) -> None:
    backend = FakeLearner()
    client = connect(serve(backend).address)
    record(client, "e", 10)
    assert client.close(timeout_s=TIMEOUT_S)
    assert holds_exactly(backend, "e", 10)


def test_a_close_without_learner_is_bounded_and_keeps_the_steps(serve: Serve, connect: Connect) -> None:
    address = free_address()
    client = connect(address)
    record(client, "e", 10)
    start = time.monotonic()
    assert not client.close(timeout_s=0.2)
    assert time.monotonic() - start < 8.0
    backend = FakeLearner()
    serve(backend, address)
    again = connect(address)
    assert again.wait_acked(TIMEOUT_S)
    assert holds_exactly(backend, "e", 10)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"task": "nut"}, "task is 'nut' on the actor, must be 'peg'"),
        ({"run_id": "run-0"}, "run is 'run-0' on the actor, must be 'run-1'"),
        (
            {"spec": Spec(arms=SPEC.arms, cameras=SPEC.cameras, proprio=SPEC.proprio, rate_hz=20.0)},
            "spec.rate_hz is 20.0 on the actor, must be 10.0",
        ),
    ],
)
def test_a_mismatch_is_said_and_not_retried(
    serve: Serve, connect: Connect, changes: dict[str, object], words: str
) -> None:
    backend = FakeLearner()
    client = connect(serve(backend).address, **changes)
    assert wait_until(lambda: client.refusal)
    assert words in client.refusal
    assert not client.link
    assert wait_until(lambda: not client._link._thread.is_alive()), "it gave up"  # type: ignore[union-attr]
    assert backend.hellos == 0


def test_a_refused_actor_keeps_its_steps_and_does_not_hang(serve: Serve, connect: Connect) -> None:
    client = connect(serve(FakeLearner()).address, run_id="run-0")
    record(client, "e", 3)
    assert wait_until(lambda: client.refusal)
    assert not client.wait_acked(TIMEOUT_S)
    assert (client.counters.spooled, client.counters.acked) == (4, 0)


def test_steps_of_one_run_never_reach_another(serve: Serve, connect: Connect) -> None:
    server = serve(FakeLearner(run_id="run-1"))
    client = connect(server.address)
    assert wait_until(lambda: client.link)
    server.stop(grace_s=0.0)
    record(client, "e", 3)
    client.close(timeout_s=0.0)
    other = FakeLearner(run_id="run-2")
    serve(other, server.address)
    again = connect(server.address)
    assert wait_until(lambda: again.refusal)
    assert "run is 'run-1' on the actor, must be 'run-2' as on the learner" in again.refusal
    assert "move its spool away" in again.refusal
    assert other.memory == {}


def test_a_delivered_spool_may_join_another_run(serve: Serve, connect: Connect) -> None:
    server = serve(FakeLearner(run_id="run-1"))
    client = connect(server.address)
    record(client, "e", 3)
    assert client.close(timeout_s=TIMEOUT_S)
    server.stop(grace_s=0.0)
    serve(FakeLearner(run_id="run-2"), server.address)
    again = connect(server.address)
    assert wait_until(lambda: again.link)
    assert again.run_id == "run-2"


def test_a_spool_of_another_spec_is_named(connect: Connect, tmp_path: Path) -> None:
    address = free_address()
    client = connect(address)
    record(client, "e", 3)
    client.close(timeout_s=0.0)
    other = Spec(arms=SPEC.arms, cameras=SPEC.cameras, proprio=SPEC.proprio, rate_hz=20.0)
    with pytest.raises(TransportError, match=f"spec is {other.digest}, must be {SPEC.digest}, of which 4 records"):
        connect(address, spec=other)


def test_a_gap_and_a_bad_step_are_refused_where_they_are_made(connect: Connect) -> None:
    client = connect(free_address())
    with pytest.raises(SpecError, match="step is e/0, must be"):
        client.push(make_step("e", 0))
    client.begin(make_header("e"))
    client.push(make_step("e", 0))
    with pytest.raises(SpecError, match="step is e/2, must be e/1"):
        client.push(make_step("e", 2))
    client.push(make_step("e", 1))
    assert client.counters.spooled == 3


def test_a_full_spool_refuses_counts_and_leaves_no_gap(serve: Serve, connect: Connect, tmp_path: Path) -> None:
    address = free_address()
    client = connect(address, spool=Spool(tmp_path / "spool", disk_bytes=4000))
    client.begin(make_header("e"))

    def fill() -> None:
        for index in range(20):
            client.push(make_step("e", index))
            client._spool.read(client._spool.end - 1, 5.0)

    with pytest.raises(TransportError, match="is not recorded: the spool is full"):
        fill()
    assert client.counters.not_spooled == 1
    kept = client.counters.spooled - 1
    assert kept > 1
    with pytest.raises(SpecError, match=f"must be e/{kept}, the next"):
        client.push(make_step("e", kept + 1))
    backend = FakeLearner()
    serve(backend, address)
    assert client.wait_acked(TIMEOUT_S)
    assert [step.index for step in backend.disk["e"]] == list(range(kept))


def test_a_label_arrives_after_the_steps_before_it_and_once(serve: Serve, connect: Connect) -> None:
    backend = FakeLearner(auto_flush=False)
    client = connect(serve(backend).address)
    record(client, "e", 5)
    client.label(make_label("e"))
    client.label(make_label("e"))
    assert wait_until(lambda: len(backend.memory.get("e", ())) == 5)
    assert backend.label_calls == 0
    backend.flush()
    assert client.wait_acked(TIMEOUT_S)
    assert list(backend.labels.values()) == [make_label("e")]
    assert backend.label_calls == 2


def test_a_stage_mark_waits_for_the_steps_before_it_and_for_a_learner_that_is_away(
    serve: Serve, connect: Connect
) -> None:
    address = free_address()
    client = connect(address)
    record(client, "e", 3)
    mark = StageMark(episode_id="e", stage=1, frame=2, source=LabelSource.OPERATOR, stamp_unix_s=1.5e9, name="fill")
    client.mark(mark)
    client.mark(replace(mark, removed=True))
    client.close(timeout_s=0.0)
    backend = FakeLearner(auto_flush=False)
    serve(backend, address)
    again = connect(address)
    assert wait_until(lambda: len(backend.memory.get("e", ())) == 3)
    assert not backend.marks
    backend.flush()
    assert again.wait_acked(TIMEOUT_S)
    assert list(backend.marks) == [mark, replace(mark, removed=True)]


def test_a_label_survives_a_learner_that_is_away(serve: Serve, connect: Connect) -> None:
    address = free_address()
    client = connect(address)
    record(client, "e", 3)
    client.label(make_label("e"))
    client.close(timeout_s=0.0)
    backend = FakeLearner()
    serve(backend, address)
    assert connect(address).wait_acked(TIMEOUT_S)
    assert list(backend.labels.values()) == [make_label("e")]


def test_a_label_the_learner_cannot_take_does_not_block_the_rest(
    serve: Serve, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = FakeLearner()

    def unknown(label: Label, *, by_actor: bool) -> None:
        raise SpecError(f"episode is {label.episode_id}, must be one of ours")

    monkeypatch.setattr(backend, "label", unknown)
    client = connect(serve(backend).address)
    client.label(make_label("ghost"))
    record(client, "e", 3)
    assert client.wait_acked(TIMEOUT_S)
    assert client.counters.refused == 1
    assert "episode is ghost" in client.refused_why
    assert holds_exactly(backend, "e", 3)


def test_why_an_episode_was_refused_is_known_after_the_link_is_lost(serve: Serve, connect: Connect) -> None:
    server = serve(FakeLearner())
    client = connect(server.address)
    record(client, "e", 3, actor="actor-2")
    assert client.wait_acked(TIMEOUT_S)
    server.stop(grace_s=0.0)
    assert wait_until(lambda: "UNAVAILABLE" in client.last_error)
    assert client.counters.refused == 4
    assert "actor of e is 'actor-2', must be 'actor-1'" in client.refused_why


def test_a_learner_knows_an_actor_that_left_from_one_that_was_cut_off(
    serve: Serve, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "END_S", 60.0)  # a busy machine can take the shipped 2 s, too
    backend = FakeLearner()
    address = serve(backend).address
    client = connect(address)
    record(client, "e", 3)
    assert client.wait_acked(TIMEOUT_S)
    push = client._link._push
    assert push is not None
    push.cancel()  # as where a connection breaks
    assert wait_until(lambda: client.counters.reconnects > 0)
    assert backend.roster.deserted_s() == 0.0
    began_s = time.monotonic()
    assert client.close(timeout_s=TIMEOUT_S)
    assert time.monotonic() - began_s < 4.0, "the learner ended the stream too"
    assert wait_until(lambda: backend.roster.deserted_s() > 0.0)


def test_a_client_knows_the_number_of_its_next_episode_once_the_learner_has_said_it(
    serve: Serve, connect: Connect
) -> None:
    backend = FakeLearner()
    for name, actor in (("e", "actor-1"), ("f", "actor-1"), ("g", "actor-2")):
        backend.begin(make_header(name, actor=actor))
    address = free_address()
    client = connect(address)
    assert client.next_number is None
    serve(backend, address)
    assert wait_until(lambda: client.next_number is not None)
    assert client.next_number == 2


def test_what_follows_a_refused_header_is_in_no_episode_of_its_name_after_a_restart(
    serve: Serve, connect: Connect
) -> None:
    backend = FakeLearner()
    held = [make_step("e", index) for index in range(2)]
    backend.begin(replace(make_header("e"), started_unix_s=1.0))
    for step in held:
        backend.append(step)
    client = connect(serve(backend).address)
    client.begin(make_header("e"))
    assert client.wait_acked(TIMEOUT_S)
    assert client.counters.refused == 1
    client._link.stop(timeout_s=5.0)  # what it records from here on is left to the next process
    for index in range(4):
        client.push(make_step("e", index, last=index == 3))
    client.label(make_label("e"))
    client.close(timeout_s=0.1)
    after = backend.restarted()
    again = connect(serve(after).address)
    record(again, "f", 2)
    assert again.wait_acked(TIMEOUT_S)
    assert list(map(fingerprint, after.memory["e"])) == list(map(fingerprint, held))
    assert after.labels == {}
    assert again.counters.refused == 5
    assert holds_exactly(after, "f", 2)


@pytest.mark.parametrize("said", [b"", b'["e"', b"{}", b"[1]", b"\xff"])
def test_refused_episodes_that_cannot_be_read_are_named_and_the_spool_let_go(
    connect: Connect, tmp_path: Path, said: bytes
) -> None:
    client = connect("127.0.0.1:1")
    record(client, "e", 3)
    client.close(timeout_s=0.1)
    file = tmp_path / "spool" / "refused.json"
    file.write_bytes(said)
    for _ in range(2):  # in one process: the lock is not kept
        with pytest.raises(TransportError, match=r"refused\.json is unreadable .*, must be .*; move the folder away"):
            connect("127.0.0.1:1")
    file.unlink()
    assert connect("127.0.0.1:1").counters.spooled == 4


def test_an_empty_spool_forgets_what_was_refused(serve: Serve, connect: Connect) -> None:
    backend = FakeLearner()
    backend.begin(replace(make_header("e"), started_unix_s=1.0))
    client = connect(serve(backend).address)
    record(client, "e", 2)
    assert client.wait_acked(TIMEOUT_S)
    client.close()
    another = FakeLearner(run_id="run-2")
    again = connect(serve(another).address)
    record(again, "e", 2)
    assert again.wait_acked(TIMEOUT_S)
    assert holds_exactly(another, "e", 2)


@pytest.mark.parametrize("said", [b"", b'{"spec": "', b"[]", b"{}", b"\xff"])
def test_binding_that_cannot_be_read_is_refused_and_the_spool_let_go(tmp_path: Path, said: bytes) -> None:
    first = LearnerClient("127.0.0.1:1", SPEC, TASK, "actor-1", tmp_path, TOKEN)
    first.connect()
    record(first, "e", 3)
    first.close(timeout_s=0.1)
    (tmp_path / "binding.json").write_bytes(said)
    for _ in range(2):  # in one process: the lock is not kept
        with pytest.raises(
            TransportError, match=r"binding\.json is unreadable .* the 4 records beside it .*; remove it"
        ):
            LearnerClient("127.0.0.1:1", SPEC, TASK, "actor-1", tmp_path, TOKEN).connect()
    (tmp_path / "binding.json").unlink()
    again = LearnerClient("127.0.0.1:1", SPEC, TASK, "actor-1", tmp_path, TOKEN)
    again.connect()
    assert again.counters.spooled == 4
    again.close(timeout_s=0.1)


def test_two_actors_share_a_learner(serve: Serve, connect: Connect, tmp_path: Path) -> None:
    backend = FakeLearner()
    address = serve(backend).address
    clients = [connect(address, actor_id=name, spool_dir=tmp_path / name) for name in ("a", "b")]
    for client, name in zip(clients, "ab"):
        record(client, name, 20, actor=name)
    assert all(client.wait_acked(TIMEOUT_S) for client in clients)
    assert holds_exactly(backend, "a", 20, actor="a")
    assert holds_exactly(backend, "b", 20, actor="b")


def test_status_is_answered_or_refused_in_time(serve: Serve, connect: Connect) -> None:
    backend = FakeLearner()
    server = serve(backend)
    client = connect(server.address)
    heard, said = client.status(timeout_s=10.0), backend.status()
    assert (heard.phase, heard.message, heard.counters) == (said.phase, said.message, said.counters)
    server.stop(grace_s=0.0)
    with pytest.raises(TransportError, match=f"learner at {server.address} is"):
        client.status(timeout_s=1.0)


def test_the_newest_score_of_an_episode_is_kept(serve: Serve, connect: Connect) -> None:
    backend = FakeLearner()
    client = connect(serve(backend).address)
    for episode_id, index in (("e", 1), ("e", 4), ("e", 3), ("f", 0)):
        backend.score(
            LiveScore(episode_id=episode_id, index=index, progress=0.5, success=0.1, declared=False, version="m")
        )
    assert wait_until(lambda: client.newest("f"))
    newest = client.newest("e")
    assert newest is not None
    assert newest.index == 4
    assert client.newest("g") is None
