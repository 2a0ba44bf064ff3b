"""The fault matrix: the learner, its link, what it sends, and the disks on both ends. Run by `make faults`."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import grpc
import numpy as np
import pytest

from benchmarks.kills import run as kill_learners
from policies.acting import actor_metadata, pack_tensors
from policies.encoders.embedded import EmbeddedTrunk
from policies.registry import find_builders
from robot_stack.config.resolve import load_run
from robot_stack.learner.fitting import image_shapes, learner_spec
from robot_stack.learner.settings import learning_settings
from robot_stack.processes.prepared_run import prepared
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.rollout.actor import Actor
from robot_stack.rollout.control_loop import ControlLoop, LoopLimits
from robot_stack.rollout.live_policy import LivePolicy
from robot_stack.transport import bundle
from robot_stack.transport import learner_pb2 as pb
from robot_stack.transport.access import certificates
from robot_stack.transport.access.security import Security, open_channel
from robot_stack.transport.client import LearnerClient
from robot_stack.transport.server import LearnerServer
from robot_stack.transport.service import LearnerStub
from robot_stack.types.command import Source
from robot_stack.types.errors import ConfigError, StoreError
from robot_stack.types.params import Params
from robot_stack.types.transition import EpisodeHeader, EpisodeKind, Step
from tests.disk.full import full_after
from tests.faults.filtered_cell import FilteredCell, OncePublished
from tests.faults.matrix_rows import Measured
from tests.faults.tcp_proxy import HALF, HOLE, PASS, SLOW, TcpProxy
from tests.transport.fake_learner import (
    SPEC,
    TASK,
    TOKEN,
    FakeLearner,
    equal_steps,
    make_header,
    make_step,
    operator,
    wait_until,
)
from tests.transport.real_learner import RealLearner

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent


@pytest.mark.row(18)
@pytest.mark.timeout(240)
def test_row_18_a_learner_killed_in_a_checkpoint_goes_on_from_the_one_before(tmp_path: Path, row: Measured) -> None:
    kills = 100
    words = [sys.executable, str(HERE / "checkpoint_process.py"), str(tmp_path / "checkpoints"), str(kills)]
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1])}
    said = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120, check=True).stdout
    bad, interrupted, _ = map(int, said.split())
    assert bad == 0
    assert interrupted > kills // 10  # it was killed while it wrote, not between
    lost = kill_learners(tmp_path / "run", kills=2, seed=18)
    assert lost == {"kills": 2.0, "lost_acked_steps": 0.0}
    row.saw(f"0 of {kills} corrupt, {interrupted} killed in the middle; 2 whole learners lost nothing")


@contextmanager
def linked(tmp_path: Path) -> Iterator[tuple[RealLearner, TcpProxy, LearnerClient]]:
    """The real backend on a real store, a network that can be cut, the real client with its spool."""
    learner = RealLearner(tmp_path / "learner")
    learner.backend.start()
    server = LearnerServer(learner.backend, "127.0.0.1:0", TOKEN)
    proxy = TcpProxy(server.start())
    learner.backend.on_durable = server.durable_advanced
    client = LearnerClient(proxy.address, SPEC, TASK, "actor-1", tmp_path / "spool", TOKEN)
    client.connect()
    try:
        assert wait_until(lambda: client.link)
        yield learner, proxy, client
    finally:
        client.close(timeout_s=0.0)
        proxy.close()
        server.stop(0.0)
        learner.backend.stop()
        learner.close()


@pytest.mark.row(19)
@pytest.mark.timeout(180)
def test_row_19_a_cut_link_is_seen_and_every_step_arrives_once(tmp_path: Path, row: Measured) -> None:
    with linked(tmp_path) as (learner, proxy, client):
        pushes_s: list[float] = []
        recorded: dict[str, int] = {}

        def episode(name: str, count: int) -> None:
            client.begin(make_header(name))
            for index in range(count):
                step = make_step(name, index, last=index == count - 1)
                begun_s = time.perf_counter()
                client.push(step)
                client.latest()
                pushes_s.append(time.perf_counter() - begun_s)
                time.sleep(0.01)
            recorded[name] = count

        def seen_down(cut: Callable[[], None], name: str) -> None:
            begun_s = time.monotonic()
            cut()
            episode(f"{name}-a", 20)
            assert wait_until(lambda: not client.link, 5.0), name
            row.took(time.monotonic() - begun_s)
            episode(f"{name}-b", 20)
            proxy.mode = PASS
            assert wait_until(lambda: client.link, 20.0), name
            assert client.wait_acked(30.0), name

        episode("before", 20)
        assert client.wait_acked(20.0)
        seen_down(lambda: setattr(proxy, "mode", HOLE), "hole")
        seen_down(lambda: setattr(proxy, "mode", HALF), "half")
        connections = client.counters.reconnects
        proxy.reset()  # is seen and mended at once
        episode("reset", 20)
        assert wait_until(lambda: client.counters.reconnects > connections)
        assert client.wait_acked(30.0)
        proxy.mode = SLOW
        episode("slow", 100)
        proxy.mode = PASS
        assert client.wait_acked(60.0)
        learner.take()
        for name, count in recorded.items():
            found = list(learner.store.read(name).steps())
            assert len(found) == count
            assert all(equal_steps(step, make_step(name, i, last=i == count - 1)) for i, step in enumerate(found))
        steps = [item for item in learner.take() if isinstance(item, Step)]
        assert len(steps) == len({(step.episode_id, step.index) for step in steps}) == sum(recorded.values())
        slowest = float(np.quantile(pushes_s, 0.99))
        assert slowest < 0.02
        row.saw(f"{len(steps)} steps once each, a push took {slowest * 1e3:.1f} ms at p99")


RUN_SPEC = load_run("peg_insert").spec()


def published() -> Params:
    """What the shipped run would publish before its first update."""
    settings = learning_settings(load_run("peg_insert"))
    trunk = EmbeddedTrunk(image_shapes(RUN_SPEC), len(RUN_SPEC.arms[0].axes)).requires_grad_(False).eval()
    shown = SimpleNamespace(arrays={"proprio": np.ones((2, RUN_SPEC.proprio_size), np.float32)})
    sizes = learner_spec(trunk, [shown], RUN_SPEC, trained=False)  # type: ignore[list-item]
    learner = find_builders(settings.algorithm).learner(sizes, settings.config, seed=0)
    metadata = actor_metadata(trunk, algorithm=settings.algorithm, config=settings.config)
    tensors = pack_tensors(trunk, learner.actor_tensors())
    return bundle.seal(version=1, tensors=tensors, metadata={**metadata, bundle.SPEC_DIGEST: RUN_SPEC.digest})


def renewed(good: Params, version: int, **changes: np.ndarray) -> Params:
    return bundle.seal(version=version, tensors={**good.tensors, **changes}, metadata=good.metadata)


def unsealed(good: Params, version: int, name: str, value: np.ndarray) -> Params:
    """With a hash that is right for what nobody should send."""
    tensors = {**good.tensors, name: value}
    digest = hashlib.sha256(bundle.safetensors.save(dict(tensors))).hexdigest()
    return replace(good, version=version, tensors=tensors, sha256=digest)


@pytest.mark.row(20)
def test_row_20_bad_params_are_never_applied(tmp_path: Path, row: Measured) -> None:
    backend = FakeLearner(spec=RUN_SPEC, task="peg_insert")
    server = LearnerServer(backend, "127.0.0.1:0", TOKEN)
    proxy = TcpProxy(server.start())
    client = LearnerClient(proxy.address, RUN_SPEC, "peg_insert", "actor-1", tmp_path / "spool", TOKEN)
    client.connect()
    clock = SimpleNamespace(now_ns=time.monotonic_ns)
    policy = LivePolicy(RUN_SPEC, client, clock, seeds=np.random.default_rng(0))  # type: ignore[arg-type]
    good = published()
    name = next(each for each in good.tensors if each.startswith("actor.") and good.tensors[each].ndim == 2)
    weights = good.tensors[name]
    nans = weights.copy()
    nans[0, 0] = np.nan
    try:
        backend.publish(good)
        assert wait_until(lambda: client.counters.params_version == 1)
        assert policy.refresh()
        assert policy.version == 1

        for refused, (bad, words) in enumerate((
            (unsealed(good, 2, name, nans), "is not finite"),
            (replace(good, version=3, sha256="0" * 64), "sha256 of params version 3"),
            (replace(good, version=4, metadata={**good.metadata, bundle.SPEC_DIGEST: "0" * 64}), "spec_digest"),
        ), start=1):  # fmt: skip
            backend.publish(bad)
            assert wait_until(lambda count=refused: client.counters.params_refused == count), words  # type: ignore[misc]
            assert words in client.last_error
            policy._take()
            assert policy.version == 1
        backend.publish(renewed(good, 5, **{name: weights[:-1]}))  # good on the way, of another network
        assert wait_until(lambda: client.counters.params_version == 5)
        policy._take()
        assert policy.version == 1
        assert policy.refusal
        proxy.cut_after = 2000  # in the middle of the next bundle
        backend.publish(renewed(good, 6))
        assert wait_until(lambda: proxy.cut_after is None)
        assert wait_until(lambda: client.counters.params_version == 6)  # sent again, whole
        policy._take()
        assert policy.version == 6
        backend.params = good  # an older one, as of a learner that was set back
        with backend.changed:
            backend.changed.notify_all()
        policy._take()
        assert policy.version == 6
        row.saw("5 kinds refused, 0 applied; one cut off was sent again")
    finally:
        client.close(timeout_s=0.0)
        proxy.close()
        server.stop(0.0)


@pytest.mark.row(21)
def test_row_21_on_old_params_the_policy_does_not_act_and_a_person_may(
    tmp_path: Path, row: Measured, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = FilteredCell(monkeypatch)
    limit_s = 300.0
    loop = ControlLoop(cell, cell.spec, cell, LoopLimits(episode_steps=60, max_params_age_s=limit_s))
    policy = LivePolicy(cell.spec, OncePublished(), cell.ages, seeds=np.random.default_rng(0))
    assert policy.refresh()

    def grow_old(tick: int) -> None:
        if tick == 20:
            cell.ages.later_s = 3600.0
        cell.deadman = tick >= 40

    cell.at_tick = grow_old
    header = EpisodeHeader(
        episode_id="000001-online-a", kind=EpisodeKind.ONLINE, task="t", actor="a", started_unix_s=1.0
    )
    outcome = loop.run_episode(header, policy, cell)
    sources = [step.action.source for step in cell.steps if step.action is not None]
    assert set(sources[2:19]) == {Source.POLICY}
    assert set(sources[23:39]) == {Source.HOLD}
    assert Source.HUMAN in sources[41:]
    assert f"params are more than {limit_s:g} s old" in " ".join(outcome.ticks.hold_reasons)
    row.took((cell.first_hold_ns - cell.last_sent_ns) / 1e9)

    said: list[str] = []
    run = load_run("peg_insert")
    client = LearnerClient("127.0.0.1:1", run.spec(), run.task.name, "a", tmp_path / "spool")
    actor = Actor(run, tmp_path, cell, cell, client, "a")
    actor._warn_of_old_params(outcome, said.append)
    assert "at 300 s the policy stops acting; is the learner stalled?" in said[0]
    cell.steps.clear()
    cell.at_tick = lambda tick: setattr(cell, "deadman", tick >= 2)
    demo = replace(header, episode_id="000002-demo-a", kind=EpisodeKind.DEMO)
    loop.run_episode(demo, None, cell)
    assert Source.HUMAN in {step.action.source for step in cell.steps if step.action is not None}


@contextmanager
def small_disk(folder: Path) -> Iterator[bool]:
    """4 MB: a file system of its own where one may be mounted (True), else files that cannot grow (False)."""
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    if subprocess.run(words, capture_output=True, check=False).returncode == 0:
        try:
            yield True
        finally:
            subprocess.run(["umount", str(folder)], check=True)
        return
    with full_after(300_000):
        yield False


BIG = replace(SPEC, cameras=tuple(replace(camera, height_px=128, width_px=128) for camera in SPEC.cameras))


def spool_until_full(folder: Path) -> tuple[int, float]:
    """Steps recorded on an actor until its disk is full, and the longest that one of them took."""
    client = LearnerClient("127.0.0.1:1", BIG, TASK, "actor-1", folder)
    client.connect()
    client.begin(make_header("a"))
    slowest_s = 0.0
    try:
        for index in range(400):
            step = make_step("a", index, spec=BIG)
            begun_s = time.perf_counter()
            client.push(step)
            slowest_s = max(slowest_s, time.perf_counter() - begun_s)
            if "is not writable" in client.last_error:
                return index, slowest_s
            time.sleep(0.005)
        raise AssertionError(f"the disk was never full: {client.last_error}")
    finally:
        client.close(timeout_s=0.0)


def store_until_full(folder: Path) -> int:
    """The newest frame of an episode that the learner had called safe when its disk was full."""
    store = EpisodeStore(folder, BIG, TASK)
    store.open()
    store.begin(make_header("b"))
    said = ""
    for index in range(400):
        store.append(make_step("b", index, spec=BIG))
        try:
            store.flush()
        except StoreError as error:
            said = str(error)
            break
    assert "free space or fix permissions" in said
    kept = store.durable("b")
    with suppress(StoreError):  # still full
        store.close()
    return kept


@pytest.mark.row(22)
def test_row_22_a_full_disk_is_said_and_costs_no_control(tmp_path: Path, row: Measured) -> None:
    disk = tmp_path / "disk"
    with small_disk(disk) as mounted:
        if mounted:
            full = r"free space for .* MB, must be at least 500; free some space"
            with pytest.raises(ConfigError, match=full), prepared(load_run("peg_insert"), disk / "run"):
                pass
        steps, slowest_s = spool_until_full(disk / "spool")
        assert slowest_s < 0.05  # control goes on
        shutil.rmtree(disk / "spool")
        kept = store_until_full(disk / "store")
        shutil.copytree(disk / "store", tmp_path / "rescued")
        if mounted:
            subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
            store = EpisodeStore(disk / "another", BIG, TASK)
            with pytest.raises((StoreError, OSError), match="Read-only file system"):
                store.open()
    assert not list((tmp_path / "rescued" / "episodes").glob("*/manifest.json"))  # it was never called whole
    with EpisodeStore(tmp_path / "rescued", BIG, TASK) as again:
        assert again.unfinished == ("b",)
        assert again.durable("b") >= kept
    row.saw(f"said after {steps} steps, a push took at most {slowest_s * 1e3:.0f} ms; {kept + 1} frames kept")


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


@pytest.mark.row(23)
def test_row_23_broken_episodes_are_set_aside_by_name_and_the_rest_loads(tmp_path: Path, row: Measured) -> None:
    names = [f"{number:06d}-online-a" for number in range(6)]
    with EpisodeStore(tmp_path, SPEC, TASK) as store:
        for name in names:
            store.begin(make_header(name))
            for index in range(12):
                store.append(make_step(name, index, last=index == 11))
    episodes = {name: tmp_path / "episodes" / f"{name}.zarr" for name in names}
    flip(next(path for path in sorted(episodes[names[0]].glob("image_front/c*")) if path.is_file()))
    chunk = next(path for path in sorted(episodes[names[1]].glob("executed/c*")) if path.is_file())
    os.truncate(chunk, chunk.stat().st_size // 2)
    (episodes[names[2]] / "zarr.json").unlink()
    (episodes[names[3]] / "manifest.json").write_text("{")
    shutil.copytree(episodes[names[4]], tmp_path / "episodes" / ".new-000009")
    with EpisodeStore(tmp_path, SPEC, TASK) as store:
        assert set(store.quarantined) == set(names[:4])
        assert all(store.quarantined.values())
        assert store.episodes == tuple(names[4:])
        for name in names[4:]:
            found = list(store.read(name).steps())
            assert all(equal_steps(step, make_step(name, i, last=i == 11)) for i, step in enumerate(found))
            assert len(found) == 12
    for name in names[:4]:
        assert (tmp_path / "quarantine" / name / "reason.txt").read_text().strip()
    row.saw("4 of 6 set aside with their reasons, 2 whole")


def intruder(kind: str, address: str, sets: Path) -> grpc.Channel:
    def read(folder: Path) -> Security:
        parts = {name: (folder / f"{name}.pem").read_bytes() for name in ("ca", "cert", "key")}
        return Security(**parts, token=(folder / "token").read_text().strip())

    ours = read(sets / "ours" / "actor")
    bearer = grpc.access_token_call_credentials(ours.token)
    if kind == "no certificate":
        return grpc.secure_channel(
            address, grpc.composite_channel_credentials(grpc.ssl_channel_credentials(ours.ca), bearer)
        )
    if kind == "wrong token":
        return open_channel(address, replace(ours, token="x" * 64))
    return open_channel(address, replace(read(sets / kind / "actor"), ca=ours.ca, token=ours.token))


@pytest.mark.row(28)
def test_row_28_nobody_without_our_keys_changes_anything(tmp_path: Path, row: Measured) -> None:
    now = datetime.now(UTC)
    for name, made in (("ours", now), ("other authority", now), ("expired", now - timedelta(days=5 * 365))):
        certificates.make_set(tmp_path / name, [], made)
    learner = RealLearner(tmp_path / "learner")
    server = LearnerServer(learner.backend, "127.0.0.1:0", Security.from_folder(tmp_path / "ours" / "learner"))
    address = server.start()
    token = (tmp_path / "ours" / "actor" / "token").read_text().strip()
    label = pb.Label(episode_id="e", verdict="discard", source="operator", stamp_unix_s=1.0)
    before = learner.state()
    try:
        for kind in ("no certificate", "other authority", "expired", "wrong token"):
            with intruder(kind, address, tmp_path) as channel, pytest.raises(grpc.RpcError) as refused:
                LearnerStub(channel).Label(label, timeout=10)
            code = refused.value.code()
            assert code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNAUTHENTICATED), kind
        with grpc.insecure_channel(address) as channel, pytest.raises(grpc.RpcError) as refused:
            LearnerStub(channel).Label(label, timeout=10, metadata=(("authorization", f"Bearer {token}"),))
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        assert learner.state() == before
        with open_channel(address, Security.from_folder(tmp_path / "ours" / "actor")) as channel:
            operator(channel).Label(label, timeout=10)  # a good one, or the others prove nothing
        assert learner.state() != before
    finally:
        server.stop(0.0)
        learner.close()
    row.saw("5 of 5 refused, state unchanged")
