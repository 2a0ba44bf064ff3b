"""One camera node over DDS, what it reads, and who listens: two participants, as two processes would be."""

from __future__ import annotations

import os
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robot_stack.config.camera import (
    CameraConfig,
    FileCameraConfig,
    SimCameraConfig,
    TopicCameraConfig,
    V4l2CameraConfig,
)
from robot_stack.config.cell import CameraLens
from robot_stack.config.resolve import load_run
from robot_stack.processes.prepared_run import prepared
from robot_stack.sensing.crop import Roi, crop_and_resize

pytest.importorskip("rclpy", reason="no ROS on this machine")

import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rclpy.experimental.events_executor import EventsExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from rclpy.task import Future
from sensor_msgs.msg import Image
from std_msgs.msg import Header

from robot_stack.nodes import topics
from robot_stack.nodes.base import FOREVER_S, NodeSettings, make_executor
from robot_stack.nodes.camera.node import build
from robot_stack.nodes.conversion import image_from_msg, stamp_ns_of
from robot_stack.nodes.qos import SAMPLED, STATE

RUN = load_run("peg_insert", ["cell.dds_domain=66"])
CELL = RUN.run.cell
RATE_HZ, MAX_AGE_S = 30.0, 0.2
SIZES = {"width_px": 160, "height_px": 120, "policy_width_px": 32, "policy_height_px": 32}
ROI = {"top": 10, "left": 30, "height": 96, "width": 100}
ERROR, WARN, OK = DiagnosticStatus.ERROR, DiagnosticStatus.WARN, DiagnosticStatus.OK
KINDS = {"sim": SimCameraConfig, "v4l2": V4l2CameraConfig, "topic": TopicCameraConfig, "file": FileCameraConfig}


def configured(backend: str, **more: Any) -> CameraConfig:
    """A camera of 160x120 at 30 Hz, of which a part is kept."""
    live = {} if backend == "sim" else {"freeze_s": 0.5}
    common = {"backend": backend, "roi_px": ROI, "rate_hz": RATE_HZ, "max_age_s": MAX_AGE_S, **SIZES, **live}
    return KINDS[backend](**{**common, **more})


def pictures(count: int = 8) -> list[np.ndarray]:
    """Different RGB images, 120x160, coarse enough to be told apart after any codec."""
    rng = np.random.default_rng(0)
    return [np.kron(rng.integers(20, 236, (6, 8, 3)), np.ones((20, 20, 1))).astype(np.uint8) for _ in range(count)]


def reference(rgb: np.ndarray) -> np.ndarray:
    """What the policy must get of it."""
    return crop_and_resize(np.ascontiguousarray(rgb), Roi(**ROI), 32, 32)


def wait_for(condition: Callable[[], object], timeout_s: float, what: str) -> None:
    """Returns as soon as the condition holds; fails if it never does."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, f"{what} not within {timeout_s} s"
        time.sleep(0.005)


class Bench:
    """The other participant: hears what the camera says, and may play a driver or the simulator."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int, np.ndarray]] = []
        """(stamp_ns, arrival_ns, image) of each image of the policy."""
        self.said: list[tuple[int, DiagnosticStatus]] = []
        """(arrival_ns, status) of each diagnosis."""
        self.beats = 0
        """Heartbeats of the camera's process: it lives, whatever it shows."""
        self._context = rclpy.Context()
        rclpy.init(context=self._context, signal_handler_options=SignalHandlerOptions.NO)
        self.node = rclpy.create_node("bench", context=self._context, namespace=CELL)
        self.node.create_subscription(Image, topics.observation("wrist"), self._on_image, SAMPLED)
        self.node.create_subscription(Header, "camera_wrist/heartbeat", self._on_beat, SAMPLED)
        self.node.create_subscription(DiagnosticArray, "/diagnostics", self._on_diagnostics, STATE)
        self._stop = Future()
        self._executor = EventsExecutor(context=self._context)
        self._executor.add_node(self.node)
        self._thread = threading.Thread(target=lambda: self._executor.spin_until_future_complete(self._stop, FOREVER_S))
        self._thread.start()

    def close(self) -> None:
        self._stop.set_result(True)
        self._thread.join(5.0)
        self.node.destroy_node()
        rclpy.try_shutdown(context=self._context)

    def forget(self) -> None:
        self.seen.clear()
        self.said.clear()

    def status(self, task: str = "frames") -> DiagnosticStatus | None:
        """The newest diagnosis of a task."""
        return next((s for _, s in reversed(self.said) if s.name == f"camera_wrist: {task}"), None)

    def says(self, level: bytes, *words: str, task: str = "frames") -> bool:
        """Whether the newest diagnosis of a task is of that level and has these words."""
        status = self.status(task)
        return status is not None and status.level == level and all(word in status.message for word in words)

    def _on_image(self, msg: Image) -> None:
        self.seen.append((stamp_ns_of(msg.header), time.monotonic_ns(), image_from_msg(msg)))

    def _on_beat(self, _: Header) -> None:
        self.beats += 1

    def _on_diagnostics(self, msg: DiagnosticArray) -> None:
        now_ns = time.monotonic_ns()
        self.said += [(now_ns, status) for status in msg.status]


@contextmanager
def domain(folder: Path) -> Iterator[Bench]:
    """A domain of the tests' own, shared memory only, with somebody who listens."""
    with prepared(RUN, folder) as ready:
        before = dict(os.environ)
        os.environ.update(ready.environment)
        try:
            rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
            bench = Bench()
            try:
                yield bench
            finally:
                bench.close()
                rclpy.try_shutdown()
        finally:
            os.environ.clear()
            os.environ.update(before)


@contextmanager
def camera(config: CameraConfig, lens: CameraLens | None = None, **others: CameraConfig) -> Iterator[Node]:
    """The node of camera `wrist`, made and run by a thread of its own, as GL wants it."""
    mounted = {name: mounted.model_copy(update={"lens": lens}) for name, mounted in RUN.cell.cameras.items()}
    cell = RUN.cell.model_copy(update={"cameras": mounted})
    run = replace(RUN, cameras={"wrist": config, **others}, cell=cell)
    options = Namespace(camera="wrist", pictures=None)
    stop, made = Future(), []
    ready = threading.Event()

    def live() -> None:
        node = build(NodeSettings(run=run, namespace=CELL, options=options))
        made.append(node)
        executor = make_executor(node)
        ready.set()
        executor.spin_until_future_complete(stop, FOREVER_S)
        node.safe_stop("the test is over")
        node.destroy_node()

    thread = threading.Thread(target=live)
    thread.start()
    try:
        assert ready.wait(20.0), "the camera node did not start"
        yield made[0]
    finally:
        stop.set_result(True)
        thread.join(10.0)
