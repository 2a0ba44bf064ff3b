"""The real control loop on a cell over DDS, with a policy that pushes slowly along x, and images from the test."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from rclpy.publisher import Publisher
from sensor_msgs.msg import Image

from robot_stack.control.safety.seal import WireKey
from robot_stack.nodes import topics
from robot_stack.nodes.actor.cell import RosCell
from robot_stack.nodes.conversion import image_to_msg
from robot_stack.nodes.qos import NEWEST
from robot_stack.processes.table import namespace_of
from robot_stack.rollout.clock import SteadyClock
from robot_stack.rollout.control_loop import ControlLoop, EpisodeOutcome, LoopLimits
from robot_stack.types.errors import RobotError
from robot_stack.types.event import Label
from robot_stack.types.observation import Observation
from robot_stack.types.transition import EpisodeHeader, EpisodeKind, Step
from tests.faults.fault_bench import Bench


class SlowPolicy:
    """5 mm/s along x of the tool."""

    version = 1
    age_s = 0.0

    def __init__(self, actions: int) -> None:
        self._action = np.zeros(actions, np.float32)
        self._action[0] = 0.05

    def begin_episode(self) -> None:
        """Nothing to forget."""

    def act(self, observation: Observation, *, deterministic: bool, interrupted: bool = False) -> np.ndarray:
        return self._action


class Steps:
    """Keeps what is recorded."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def begin(self, header: EpisodeHeader) -> None:
        """Nothing to announce."""

    def push(self, step: Step) -> None:
        self.steps.append(step)

    def label(self, label: Label) -> None:
        """Nobody is asked."""


class Episode:
    """One that runs in a thread of its own."""

    def __init__(self, bench: Bench, cell: RosCell) -> None:
        run = bench.run
        self.sink = Steps()
        self.outcome: EpisodeOutcome | None = None
        self._stop = threading.Event()
        self._cell = cell
        loop = ControlLoop(cell, run.spec(), SteadyClock(), LoopLimits(episode_steps=10_000))
        header = EpisodeHeader(
            episode_id="000001-online-a", kind=EpisodeKind.ONLINE, task=run.task.name, actor="a", started_unix_s=1.0,
            seed=7,
        )  # fmt: skip
        policy = SlowPolicy(run.spec().action_size)
        self.refusal = ""

        def work() -> None:
            try:
                self.outcome = loop.run_episode(header, policy, self.sink, stopping=self._stop.is_set)
            except RobotError as error:
                self.refusal = str(error)

        self._thread = threading.Thread(target=work, daemon=True)
        self._thread.start()

    def end(self, timeout_s: float = 5.0) -> EpisodeOutcome:
        """Stop it, if it has not ended by itself; what it came to."""
        self._stop.set()
        self._thread.join(timeout_s)
        assert self.outcome is not None, f"the episode did not run: {self.refusal}"
        return self.outcome

    def ended(self) -> bool:
        return not self._thread.is_alive()


@contextmanager
def joined(bench: Bench, timeout_s: float = 20.0) -> Iterator[RosCell]:
    """The cell as an actor has it."""
    cell = RosCell(bench.run, namespace=namespace_of(bench.run), key=WireKey.of_folder(bench.folder))
    try:
        cell.connect(timeout_s)
        yield cell
    finally:
        cell.close()


class Cameras:
    """Publishes images of every camera at 30 Hz; `frozen` repeats one, `offset_ns` lies about when."""

    def __init__(self, bench: Bench) -> None:
        self._node, self._spec = bench.sink.node, bench.run.spec()
        self._rng = np.random.default_rng(0)
        self._out: dict[str, Publisher] = {
            camera.name: self._node.create_publisher(Image, topics.observation(camera.name), NEWEST)
            for camera in self._spec.cameras
        }
        self._last: dict[str, np.ndarray] = {}
        self.frozen, self.silent = False, False
        self.offset_ns: int | None = 0
        self._node.steady_timer(30.0, self._publish)

    def _publish(self) -> None:
        if self.silent:
            return
        stamp_ns = 0 if self.offset_ns is None else time.monotonic_ns() + self.offset_ns
        for camera in self._spec.cameras:
            if not self.frozen or camera.name not in self._last:
                self._last[camera.name] = self._rng.integers(0, 256, camera.shape, dtype=np.uint8)
            self._out[camera.name].publish(image_to_msg(self._last[camera.name], stamp_ns, camera.name))
