"""What passing a camera's images through costs: CPU of the camera process, images lost, age at the actor.

Run: python -m benchmarks.cameras [--quick]

A driver in this process publishes 640x480 images at 30 Hz, raw or as JPEG; a camera process passes them on as the
policy's 128x128; this process receives them as the actor does. Everything over DDS with shared memory, on a domain of
its own. `naive` does the same the way it is usually written: the default executor and depth, every pixel copied and
converted, then resized, then cropped, and the message given an ndarray. `capture` is the camera process that reads a
640x480 Motion JPEG video itself, through the thread that reads a USB camera.

cpu     of the process, share of one core
lost    images sent that never reached the actor, share
age     from the stamp of the capture to the actor's callback, ms
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import rclpy
from rclpy.clock import Clock, ClockType
from rclpy.executors import ExternalShutdownException
from rclpy.experimental.events_executor import EventsExecutor
from rclpy.signals import SignalHandlerOptions
from rclpy.task import Future
from sensor_msgs.msg import CompressedImage, Image
from std_msgs.msg import Header

from robot_stack.config.camera import CameraConfig, FileCameraConfig, TopicCameraConfig
from robot_stack.config.resolve import load_run
from robot_stack.nodes.base import FOREVER_S
from robot_stack.nodes.conversion import stamp_ns_of, time_of
from robot_stack.nodes.qos import NEWEST, SAMPLED
from robot_stack.processes.prepared_run import prepared
from robot_stack.runs.paths import RunPaths

ROOT = Path(__file__).parents[1]
WIDTH, HEIGHT, POLICY, RATE_HZ = 640, 480, 128, 30.0
ROI = {"top": 0, "left": 80, "height": 480, "width": 480}
RAW, COMPRESSED, OBSERVATION = "/bench/image_raw", "/bench/image_raw/compressed", "/sim/wrist/obs"
WINDOW_S, QUICK_S = 12.0, 2.0
WAYS = ("raw", "raw_naive", "compressed", "compressed_naive", "capture")
KEYS = tuple(f"camera_{what}_{way}" for way in WAYS for what in ("cpu", "lost", "age_p50_ms", "age_p99_ms"))


def pictures(count: int = 30) -> list[np.ndarray]:
    """A smooth scene with something that moves and a sensor's noise, RGB uint8."""
    rng = np.random.default_rng(0)
    across, down = np.meshgrid(np.linspace(40, 200, WIDTH), np.linspace(30, 120, HEIGHT))
    base = np.stack([across, down, (across + down) / 2], axis=2)
    found = []
    for k in range(count):
        image = base + rng.normal(0.0, 2.0, base.shape)
        image[200:280, 15 * k : 15 * k + 120] += 60
        found.append(image.clip(0, 255).astype(np.uint8))
    return found


class Driver:
    """Publishes at 30 Hz and remembers when; receives the policy's images and remembers their ages."""

    def __init__(self, way: str) -> None:
        self.sent, self.got, self.ages_ms = 0, 0, []  # type: ignore[var-annotated]
        self.counting = False
        self._node = rclpy.create_node("driver")
        self._messages = list(_messages(way))
        topic = COMPRESSED if way.startswith("compressed") else RAW
        kind = CompressedImage if way.startswith("compressed") else Image
        self._publisher = None if way == "capture" else self._node.create_publisher(kind, topic, NEWEST)
        self._node.create_subscription(Image, OBSERVATION, self._receive, SAMPLED)
        self._node.create_timer(1 / RATE_HZ, self._send, clock=Clock(clock_type=ClockType.STEADY_TIME))
        self._stop = Future()
        executor = EventsExecutor()
        executor.add_node(self._node)
        self._thread = threading.Thread(target=lambda: executor.spin_until_future_complete(self._stop, FOREVER_S))
        self._thread.start()

    def close(self) -> None:
        """Stop and forget the node."""
        self._stop.set_result(True)
        self._thread.join(5.0)
        self._node.destroy_node()

    def _send(self) -> None:
        self.sent += self.counting
        if self._publisher is not None:
            message = self._messages[self.sent % len(self._messages)]
            message.header = Header(stamp=time_of(time.time_ns()), frame_id="bench")
            self._publisher.publish(message)

    def _receive(self, msg: Image) -> None:
        now_ns = time.monotonic_ns()
        if self.counting:
            self.got += 1
            self.ages_ms.append((now_ns - stamp_ns_of(msg.header)) / 1e6)


def _messages(way: str) -> Iterator[Any]:
    for picture in pictures() if way != "capture" else ():
        if way.startswith("compressed"):
            file = cv2.imencode(".jpg", picture[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 90])[1]
            yield CompressedImage(format="jpeg", data=array("B", file.tobytes()))
        else:
            data = array("B", picture[..., ::-1].tobytes())
            yield Image(height=HEIGHT, width=WIDTH, encoding="bgr8", step=3 * WIDTH, data=data)


def naive(compressed: bool) -> None:
    """A camera process as it is usually written, until it is killed."""
    rclpy.init()
    node = rclpy.create_node("naive", namespace="sim")
    out = node.create_publisher(Image, OBSERVATION, 10)

    def pass_on(msg: Any) -> None:
        data = np.array(msg.data, dtype=np.uint8)
        bgr = cv2.imdecode(data, cv2.IMREAD_COLOR) if compressed else data.reshape(HEIGHT, WIDTH, 3).copy()
        small = cv2.resize(
            cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB), (POLICY * 4 // 3, POLICY), interpolation=cv2.INTER_AREA
        )
        image = small[:, (small.shape[1] - POLICY) // 2 :][:, :POLICY]
        answer = Image(height=POLICY, width=POLICY, encoding="rgb8", step=3 * POLICY)
        answer.header = Header(stamp=msg.header.stamp, frame_id="naive")
        answer.data = image.ravel()
        out.publish(answer)

    node.create_subscription(CompressedImage if compressed else Image, COMPRESSED if compressed else RAW, pass_on, 10)
    with suppress(KeyboardInterrupt, ExternalShutdownException):
        rclpy.spin(node)


def config_of(way: str, folder: Path) -> CameraConfig:
    """The camera under test."""
    common: dict[str, Any] = dict(
        width_px=WIDTH, height_px=HEIGHT, roi_px=ROI, policy_width_px=POLICY, policy_height_px=POLICY, rate_hz=RATE_HZ,
        max_age_s=0.2, freeze_s=0.5,
    )  # fmt: skip
    if way == "capture":
        path = folder / "video.avi"
        writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), RATE_HZ, (WIDTH, HEIGHT))
        for picture in pictures():
            writer.write(picture[..., ::-1])
        writer.release()
        return FileCameraConfig(backend="file", path=str(path), **common)
    compressed = way.startswith("compressed")
    topic = COMPRESSED if compressed else RAW
    return TopicCameraConfig(backend="topic", source_topic=topic, compressed=compressed, **common)


@contextmanager
def camera_process(way: str, folder: Path, environment: dict[str, str]) -> Iterator[int]:
    """Its process id."""
    if way.endswith("_naive"):
        words = [sys.executable, "-m", "benchmarks.cameras", "--naive", way.removesuffix("_naive")]
    else:
        where = ["--run", str(RunPaths(folder).resolved), "--camera", "wrist"]
        words = [sys.executable, "-m", "robot_stack.nodes.camera.node", *where]
    settings = {**environment, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(words, env=settings, cwd=ROOT, stderr=subprocess.DEVNULL) as process:
        try:
            yield process.pid
        finally:
            process.terminate()


def cpu_s(pid: int) -> float:
    """Seconds that a process has computed."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def one_way(way: str, folder: Path, environment: dict[str, str], window_s: float) -> dict[str, float]:
    """Figures of one way."""
    driver = Driver(way)
    try:
        with camera_process(way, folder, environment) as pid:
            driver.counting = True
            deadline_s = time.monotonic() + 30.0
            while driver.got < RATE_HZ and time.monotonic() < deadline_s:
                time.sleep(0.05)
            driver.sent, driver.got = 0, 0
            driver.ages_ms.clear()
            began_s, before_s = time.monotonic(), cpu_s(pid)
            time.sleep(window_s)
            share = (cpu_s(pid) - before_s) / (time.monotonic() - began_s)
            driver.counting = False
            sent, got, ages = driver.sent, driver.got, np.array(driver.ages_ms or [np.nan])
    finally:
        driver.close()
    return {
        f"camera_cpu_{way}": share,
        f"camera_lost_{way}": max(0.0, 1.0 - got / sent),
        f"camera_age_p50_ms_{way}": float(np.percentile(ages, 50)),
        f"camera_age_p99_ms_{way}": float(np.percentile(ages, 99)),
    }


def measure(quick: bool = False) -> dict[str, float]:
    """All ways, one after the other."""
    figures: dict[str, float] = {}
    base = load_run("peg_insert", ["cell.dds_domain=68"])
    for way in WAYS:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            run = replace(base, cameras={"wrist": config_of(way, folder)})
            with prepared(run, folder) as ready:
                os.environ.update(ready.environment)
                rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
                try:
                    figures |= one_way(way, folder, ready.environment, QUICK_S if quick else WINDOW_S)
                finally:
                    rclpy.try_shutdown()
        print(way, *(f"{key} {figures[key]:.4g}" for key in KEYS if key.endswith(f"_{way}")), flush=True)
    return figures


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="seconds instead of a minute")
    parser.add_argument("--naive", choices=["raw", "compressed"], help="be the other camera process")
    options = parser.parse_args()
    if options.naive is not None:
        naive(options.naive == "compressed")
    else:
        measure(options.quick)


if __name__ == "__main__":
    main()
