"""The learner link on one machine: how fast parameters and steps arrive, and that no tick ever waits for either.

Run: python -m benchmarks.link [--quick]

The learner has a process of its own: the real gRPC server and backend on a real episode store. The actors are real
clients in this one, with a step of two 128x128 cameras each at 10 Hz. All of it twice: in clear, with the token of its
folder, and with mTLS.

publish   from sealing a new version (hash, finiteness) to an actor's policy having it loaded; a tick adds its own wait
ack       from pushing a step to knowing that it is on the learner's disk
tick      how late a tick of 10 Hz ends that takes params and scores and pushes a step, while new params keep coming;
          `alone`: the same without a link. Cut: no learner. Flapping: it is stopped and started every second.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from policies.acting import actor_metadata, pack_tensors
from policies.encoders.embedded import EmbeddedTrunk
from policies.registry import find_builders
from robot_stack.config.resolve import load_run
from robot_stack.learner.backend import Backend, ParamsBoard
from robot_stack.learner.fitting import image_shapes, learner_spec
from robot_stack.learner.reward.scoring import Scorer
from robot_stack.learner.reward.success import SuccessRule
from robot_stack.learner.settings import learning_settings
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.rollout.clock import SteadyClock
from robot_stack.rollout.live_policy import LivePolicy
from robot_stack.transport.access.certificates import make_set
from robot_stack.transport.access.security import actor_credentials, learner_credentials
from robot_stack.transport.backend import LearnerStatus
from robot_stack.transport.bundle import SPEC_DIGEST, encode_params, seal
from robot_stack.transport.client import LearnerClient
from robot_stack.transport.server import LearnerServer
from robot_stack.types.command import Source
from robot_stack.types.observation import Observation
from robot_stack.types.params import Params
from robot_stack.types.spec import ArmSpec, CameraSpec, GripperKind, ProprioField, Spec
from robot_stack.types.transition import ActionRow, EndReason, EpisodeHeader, EpisodeKind, Step

SPEC = Spec(
    arms=(ArmSpec(name="arm", translation_m=0.01, rotation_rad=0.06, gripper=GripperKind.DISCRETE),),
    cameras=tuple(CameraSpec(name=name, height_px=128, width_px=128) for name in ("front", "wrist")),
    proprio=(ProprioField(name="state", size=18),),
    rate_hz=10.0,
)
TASK = "bench"
LENGTH = 100
ACTORS = (1, 4, 16)
LINKS = ("up", "cut", "flapping")
FLAP_S = 1.0
PUBLISH_S = 0.5
KEYS = (
    "publish_bytes", "publish_p99_ms", *(f"ack_p99_ms_{n}" for n in ACTORS), *(f"max_tick_delay_ms_{k}" for k in LINKS),
)  # fmt: skip


def pictures(count: int = 16) -> list[np.ndarray]:
    """Smooth images with a moving edge and a little noise, as a camera sees them."""
    rng = np.random.default_rng(0)
    across = np.linspace(40, 200, 128)
    base = np.stack([np.add.outer(across, across[::-1]) / 2] * 3, axis=2)
    found = []
    for k in range(count):
        image = base + rng.normal(0.0, 1.5, base.shape)
        image[40:80, 4 * k : 4 * k + 40] += 50
        found.append(image.clip(0, 255).astype(np.uint8))
    return found


def steps(actor: str, first: int = 0) -> Iterator[EpisodeHeader | Step]:
    """Episodes of 100 actions without end, each header before its steps."""
    shown, rng = pictures(), np.random.default_rng(1)
    number = first
    while True:
        episode_id = f"{number:06d}-online-{actor}"
        yield EpisodeHeader(
            episode_id=episode_id, kind=EpisodeKind.ONLINE, task=TASK, actor=actor, started_unix_s=float(number)
        )
        for t in range(LENGTH + 1):
            action = rng.uniform(-1, 1, SPEC.action_size).astype(np.float32)
            row = ActionRow(executed=action, proposed=action, human=action, source=Source.POLICY)
            yield Step(
                episode_id=episode_id,
                index=t,
                observation=Observation(
                    images={camera.name: shown[(t + i) % len(shown)] for i, camera in enumerate(SPEC.cameras)},
                    proprio=rng.normal(size=SPEC.proprio_size).astype(np.float32),
                    stamp_ns=t,
                ),
                action=row if t < LENGTH else None,
                end=EndReason.TIMEOUT if t == LENGTH else None,
            )
        number += 1


def put(client: LearnerClient, stream: Iterator[EpisodeHeader | Step]) -> None:
    """The next step, after its header where an episode begins."""
    item = next(stream)
    if isinstance(item, EpisodeHeader):
        client.begin(item)
        item = next(stream)
        assert isinstance(item, Step)
    client.push(item)


def parameters() -> Params:
    """What the shipped run would publish for this cell."""
    settings = learning_settings(load_run("peg_insert", []))
    trunk = EmbeddedTrunk(image_shapes(SPEC), len(SPEC.arms[0].axes)).requires_grad_(False).eval()
    shown = SimpleNamespace(arrays={"proprio": np.ones((2, SPEC.proprio_size), np.float32)})
    sizes = learner_spec(trunk, [shown], SPEC, trained=False)  # type: ignore[list-item]
    config = settings.config
    learner = find_builders(settings.algorithm).learner(sizes, config, seed=0)
    metadata = actor_metadata(trunk, algorithm=settings.algorithm, config=config)
    tensors = pack_tensors(trunk, learner.actor_tensors())
    return seal(version=1, tensors=tensors, metadata={**metadata, SPEC_DIGEST: SPEC.digest})


class LearnerProcess:
    """The learner's side, in a process of its own; does what it is told through a pipe.

    Args:
        pipe: Words come in, one answer to each goes out.
        folder: Of the run: for the store, and for the token where there are no certificates.
        certs: Folder of a set of certificates, or None.
        params: Published again and again under new versions.
    """

    def __init__(self, pipe: Connection, folder: Path, certs: str | None, params: Params) -> None:
        self._pipe, self._certs, self._params = pipe, certs, params
        self._folder = folder
        self._store = EpisodeStore(folder / "store", SPEC, TASK)
        self._board = ParamsBoard()
        self._backend = Backend(
            spec=SPEC, task=TASK, run_id="bench", store=self._store, scorer=Scorer(_no_rule), board=self._board,
            status=lambda: LearnerStatus(phase="training"),
        )  # fmt: skip
        self._server: LearnerServer | None = None
        self._address = "127.0.0.1:0"
        self._version = 0
        self._every = {self.toggle: float("inf"), self.publish: float("inf")}

    def run(self) -> None:
        """Until told to leave."""
        self._store.open()
        self._backend.start()
        left = threading.Event()
        threading.Thread(target=self._drain, args=(left,), daemon=True).start()
        due_s = dict.fromkeys(self._every, 0.0)
        while not left.is_set():
            if self._pipe.poll(0.005):
                word, *more = self._pipe.recv()
                if word == "leave":
                    left.set()
                self._pipe.send(None if word == "leave" else getattr(self, word)(*more))
            for action, period_s in self._every.items():
                if time.monotonic() - due_s[action] >= period_s:
                    due_s[action] = time.monotonic()
                    action()
        self.stop()
        self._backend.stop()
        self._store.close()

    def start(self) -> str:
        """Listen, at the same address each time; returns it."""
        self._server = LearnerServer(self._backend, self._address, learner_credentials(self._certs, self._folder))
        self._address = self._server.start()
        self._backend.on_durable = self._server.durable_advanced
        return self._address

    def stop(self) -> None:
        """Cut all connections."""
        if self._server is not None:
            self._server.stop(0.0)
            self._server = None

    def toggle(self) -> None:
        """Stop if started, start if stopped."""
        if self._server is None:
            self.start()
        else:
            self.stop()

    def publish(self) -> tuple[int, float]:
        """A new version; returns it and when this began."""
        self._version += 1
        began_s = time.monotonic()
        self._board.publish(seal(version=self._version, tensors=self._params.tensors, metadata=self._params.metadata))
        return self._version, began_s

    def repeat(self, word: str, period_s: float) -> None:
        """Do that by itself from now on; infinite: no longer."""
        self._every[getattr(self, word)] = period_s

    def _drain(self, left: threading.Event) -> None:
        while not left.is_set():
            self._backend.arrived.wait(0.05)
            self._backend.take()


def _no_rule() -> SuccessRule:
    raise AssertionError("nothing is scored here")


def serve(pipe: Connection, folder: Path, certs: str | None, params: Params) -> None:
    """What the learner's process runs."""
    LearnerProcess(pipe, folder, certs, params).run()


class Bench:
    """A learner in its process, and clients here."""

    def __init__(self, folder: Path, params: Params, *, tls: bool) -> None:
        self._folder = folder
        self._certs = str(folder / "certs") if tls else None
        if tls:
            make_set(folder / "certs", [], datetime.now(UTC))
        self._pipe, theirs = multiprocessing.Pipe()
        context = multiprocessing.get_context("spawn")
        self._process = context.Process(target=serve, args=(theirs, folder, self._certs, params))
        self._process.start()
        self._address = self.tell("start")

    def tell(self, *words: Any) -> Any:
        """An order to the learner; waits until it is done."""
        self._pipe.send(words)
        if not self._pipe.poll(60.0):
            raise SystemExit(f"learner has not obeyed {words} for 60 s; its own messages are above")
        return self._pipe.recv()

    @contextmanager
    def client(self, name: str) -> Iterator[LearnerClient]:
        """Connected, with a spool of its own."""
        security = actor_credentials(self._certs, self._folder)
        client = LearnerClient(self._address, SPEC, TASK, name, self._folder / f"{name}.spool", security)
        client.connect()
        try:
            wait(lambda: client.link)
            yield client
        finally:
            client.close(timeout_s=5.0)

    def close(self) -> None:
        """End the process."""
        self.tell("leave")
        self._process.join(30.0)


def wait(condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
    """Bounded."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline_s:
            raise SystemExit(f"link is not there after {timeout_s:g} s; is the machine busy?")
        time.sleep(0.0005)


def measure_publish(bench: Bench, rounds: int) -> dict[str, float]:
    """New versions one after the other, each as soon as the last one is loaded."""
    with bench.client("publish") as client:
        policy = LivePolicy(SPEC, client, SteadyClock(), seeds=np.random.default_rng(0))
        took_s = []
        for _ in range(rounds + 1):
            version, began_s = bench.tell("publish")
            wait(lambda: policy.refresh() and policy.version >= version)  # noqa: B023
            took_s.append(time.monotonic() - began_s)
    p50, p99 = 1e3 * np.percentile(took_s[1:], (50, 99))  # the first one builds the networks
    return {"publish_p50_ms": float(p50), "publish_p99_ms": float(p99)}


def measure_acks(bench: Bench, actors: int, seconds: float) -> dict[str, float]:
    """All actors at 10 Hz, their ticks spread over the period."""
    took_s: list[float] = []
    unacked: list[str] = []
    clock = SteadyClock()

    def act(client: LearnerClient, name: str, first_ns: int) -> None:
        pushed_s: deque[float] = deque()
        over = threading.Event()

        def collect() -> None:
            seen = 0
            while not (over.is_set() and not pushed_s):
                with client._link.acks:
                    client._link.acks.wait_for(lambda: client.counters.acked > seen, 0.2)  # noqa: B023
                now_s, acked = time.monotonic(), client.counters.acked
                took_s.extend(now_s - pushed_s.popleft() for _ in range(acked - seen))
                seen = acked

        collector = threading.Thread(target=collect, daemon=True)
        collector.start()
        stream = steps(name)
        for tick in range(int(seconds * SPEC.rate_hz)):
            clock.sleep_until_ns(first_ns + tick * 100_000_000)
            before = client.counters.spooled
            pushed_s.append(time.monotonic())
            put(client, stream)
            pushed_s.extend([pushed_s[-1]] * (client.counters.spooled - before - 1))
        over.set()
        collector.join(30.0)
        if collector.is_alive() or pushed_s:
            unacked.append(name)

    with ExitStack() as stack:
        names = [f"ack-{actors}-{number}" for number in range(actors)]
        clients = [stack.enter_context(bench.client(name)) for name in names]
        start_ns = clock.now_ns() + 200_000_000
        threads = [
            threading.Thread(target=act, args=(client, name, start_ns + number * 100_000_000 // actors))
            for number, (client, name) in enumerate(zip(clients, names))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if unacked:
        raise SystemExit(f"steps of {sorted(unacked)} are not acknowledged, must be within 30 s: the link lost them")
    p50, p99 = 1e3 * np.percentile(took_s, (50, 99))
    return {f"ack_p50_ms_{actors}": float(p50), f"ack_p99_ms_{actors}": float(p99)}


def worst_tick_ms(client: LearnerClient | None, name: str, seconds: float) -> float:
    """The latest end of a tick, after its due time."""
    clock, stream = SteadyClock(), steps(name)
    start_ns, worst_ns = clock.now_ns() + 200_000_000, 0
    for tick in range(int(seconds * SPEC.rate_hz)):
        due_ns = start_ns + tick * 100_000_000
        clock.sleep_until_ns(due_ns)
        if client is None:
            next(stream)
        else:
            client.latest()
            client.newest(name)
            put(client, stream)
        worst_ns = max(worst_ns, clock.now_ns() - due_ns)
    return worst_ns / 1e6


def measure_ticks(bench: Bench, seconds: float) -> dict[str, float]:
    """The same ticks without a link, and with one in each of its states."""
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(0.001)  # as the actor does
    try:
        found = {"max_tick_delay_ms_alone": worst_tick_ms(None, "alone", seconds)}
        bench.tell("repeat", "publish", PUBLISH_S)
        for link in LINKS:
            with bench.client(f"tick-{link}") as client:
                if link == "cut":
                    bench.tell("stop")
                    wait(lambda: not client.link)
                if link == "flapping":
                    bench.tell("repeat", "toggle", FLAP_S)
                found[f"max_tick_delay_ms_{link}"] = worst_tick_ms(client, f"tick-{link}", seconds)
                bench.tell("repeat", "toggle", float("inf"))
                bench.tell("stop")
                bench.tell("start")
        bench.tell("repeat", "publish", float("inf"))
    finally:
        sys.setswitchinterval(interval_s)
    return found


def measure_link(params: Params, *, tls: bool, quick: bool) -> dict[str, float]:
    """All figures over one kind of link."""
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), params, tls=tls)
        try:
            found = measure_publish(bench, 30 if quick else 300)
            for actors in ACTORS:
                found |= measure_acks(bench, actors, 3.0 if quick else 30.0)
            return found | measure_ticks(bench, 4.0 if quick else 30.0)
        finally:
            bench.close()


def measure_both(quick: bool) -> tuple[int, dict[str, float], dict[str, float]]:
    """Bytes of a version, the figures in clear, and those with mTLS."""
    torch.set_num_threads(1)
    logging.getLogger("robot_stack.transport").setLevel(logging.ERROR)  # that links are lost here is no news
    params = parameters()
    size = encode_params(params, created_unix_s=0.0).ByteSize()
    clear, tls = (measure_link(params, tls=tls, quick=quick) for tls in (False, True))
    return size, clear, tls


def measure(quick: bool) -> dict[str, float]:
    """`KEYS`, of clear and mTLS the worse."""
    size, clear, tls = measure_both(quick)
    return {key: float(size) if key == "publish_bytes" else max(clear[key], tls[key]) for key in KEYS}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the time")
    size, clear, tls = measure_both(parser.parse_args().quick)
    print(f"{os.cpu_count()} cores; two cameras of 128x128; publish_bytes {size}")
    print(f"{'ms':28}{'in clear':>10}{'mTLS':>10}")
    for key in clear:
        print(f"{key:28}{clear[key]:10.1f}{tls[key]:10.1f}")


if __name__ == "__main__":
    main()
