"""What a camera node can read, each with a switch: lost, and there again."""

from __future__ import annotations

import threading
import time
from array import array
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from rclpy.clock import Clock, ClockType
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import CompressedImage, Image, JointState
from std_msgs.msg import Header

from robot_stack.config.camera import CameraConfig
from robot_stack.nodes import topics
from robot_stack.nodes.camera import node as camera_node
from robot_stack.nodes.conversion import time_of, vector_to_msg
from robot_stack.nodes.qos import NEWEST
from robot_stack.sensing.v4l2_source import V4l2Source
from robot_stack.workcell.build import build_world
from robot_stack.workcell.sim_camera import SimCamera
from tests.conformance.camera_rig import CELL, RATE_HZ, RUN, Bench, configured, pictures, reference

STEADY = Clock(clock_type=ClockType.STEADY_TIME)
TOPIC = "/wrist/image_raw"


def write_video(path: Path) -> list[np.ndarray]:
    """A video of the pictures; the RGB images that a decoder gives back."""
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"mp4v"), 10, (160, 120))
    for picture in pictures():
        writer.write(picture[..., ::-1])
    writer.release()
    video, found = cv2.VideoCapture(str(path), cv2.CAP_FFMPEG), []
    while (frame := video.read())[0]:
        found.append(frame[1][..., ::-1])
    return found


class Player:
    """Base of what is played at 30 Hz by a timer of the bench."""

    tolerance = 0
    named = ""

    def __init__(self, bench: Bench, rate_hz: float = RATE_HZ) -> None:
        self.lost = False
        self.played = 0
        self._lock = threading.Lock()
        self._timer = bench.node.create_timer(1 / rate_hz, self._on_timer, clock=STEADY)
        self._node = bench.node

    def _on_timer(self) -> None:
        with self._lock:
            if not self.lost:
                self.played += 1
                self.play(self.played)

    def play(self, k: int) -> None:
        raise NotImplementedError

    def close(self) -> None:
        with self._lock:
            self.lost = True
        self._node.destroy_timer(self._timer)


class Driver(Player):
    """A foreign driver: any image, stamp, encoding and QoS."""

    def __init__(
        self,
        bench: Bench,
        topic: str = TOPIC,
        *,
        compressed: bool = False,
        reliability: ReliabilityPolicy = ReliabilityPolicy.RELIABLE,
        rate_hz: float = RATE_HZ,
    ) -> None:
        kind = CompressedImage if compressed else Image
        self.topic, self.named = topic, f"topic {topic}"
        self.publisher = bench.node.create_publisher(kind, topic, QoSProfile(depth=1, reliability=reliability))
        self.compressed = compressed
        self.encoding, self.stamp_shift_ns, self.frame_id, self.stamped = "bgra8", 0, "wrist_optical", True
        self.pictures = pictures()
        self.step_padding = 24
        super().__init__(bench, rate_hz)

    @property
    def config(self) -> CameraConfig:
        return configured("topic", source_topic=self.topic, compressed=self.compressed)

    @property
    def expected(self) -> list[np.ndarray]:
        if not self.compressed:
            return [reference(picture) for picture in self.pictures]
        return [reference(cv2.imdecode(self._file(p), cv2.IMREAD_COLOR)[..., ::-1]) for p in self.pictures]

    def play(self, k: int) -> None:
        picture = self.pictures[k % len(self.pictures)]
        stamp_ns = time.time_ns() + self.stamp_shift_ns if self.stamped else 0
        header = Header(stamp=time_of(stamp_ns), frame_id=self.frame_id)
        self.publisher.publish(self._compressed(picture, header) if self.compressed else self._raw(picture, header))

    def close(self) -> None:
        super().close()
        self._node.destroy_publisher(self.publisher)

    def _raw(self, picture: np.ndarray, header: Header) -> Image:
        pixels = cv2.cvtColor(picture, cv2.COLOR_RGB2BGRA) if self.encoding == "bgra8" else picture
        height, width, channels = pixels.shape
        rows = np.zeros((height, width * channels + self.step_padding), np.uint8)
        rows[:, : width * channels] = pixels.reshape(height, -1)
        return Image(
            header=header, height=height, width=width, encoding=self.encoding, step=rows.shape[1],
            data=array("B", rows.tobytes()),
        )  # fmt: skip

    def _compressed(self, picture: np.ndarray, header: Header) -> CompressedImage:
        data = array("B", self._file(picture).tobytes())
        return CompressedImage(header=header, format="rgb8; jpeg compressed bgr8", data=data)

    @staticmethod
    def _file(picture: np.ndarray) -> np.ndarray:
        return cv2.imencode(".jpg", picture[..., ::-1])[1].reshape(-1)


class Simulator(Player):
    """The robot process: says what the world looks like."""

    tolerance = 1
    """The sensor's noise is in the last bit."""
    named = "simulator"

    def __init__(self, bench: Bench) -> None:
        world = build_world(RUN)
        world.reset(0)
        self.config = configured("sim", freeze_frames=90)
        eye = SimCamera(world, "wrist", self.config)
        self.expected = [eye.see()]
        eye.close()
        self._snapshot = world.snapshot()
        self._publisher = bench.node.create_publisher(JointState, topics.SNAPSHOT, NEWEST)
        super().__init__(bench)

    def play(self, k: int) -> None:
        self._publisher.publish(vector_to_msg(self._snapshot, time.monotonic_ns()))

    def close(self) -> None:
        super().close()
        self._node.destroy_publisher(self._publisher)


class VideoDevice:
    """A real encoded video behind the calls of a Video4Linux device; `switch.lost` unplugs it."""

    def __init__(self, path: Path, switch: UsbCamera) -> None:
        self._path, self._switch = path, switch
        self._video = cv2.VideoCapture(str(path), cv2.CAP_FFMPEG)
        self._due_s = time.monotonic()

    def isOpened(self) -> bool:
        return not self._switch.lost

    def set(self, key: int, value: float) -> bool:
        return True

    def get(self, key: int) -> float:
        return float(cv2.VideoWriter.fourcc(*"YUYV") if key == cv2.CAP_PROP_FOURCC else self._video.get(key))

    def grab(self) -> bool:
        self._due_s += 1 / RATE_HZ
        time.sleep(max(0.0, self._due_s - time.monotonic()))  # a device blocks until its next frame
        if self._switch.lost:
            return False
        if not self._video.grab():
            self._video = cv2.VideoCapture(str(self._path), cv2.CAP_FFMPEG)
            return bool(self._video.grab())
        return True

    def retrieve(self) -> Any:
        return self._video.retrieve()

    def release(self) -> None:
        self._video.release()


class UsbCamera:
    """The capture code with a video in the device's place."""

    tolerance = 0
    named = "serial A1"

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.lost = False
        self.config = configured("v4l2", serial="A1", fourcc="YUYV")
        self.expected = [reference(image) for image in write_video(folder / "usb.mp4")]
        open_device = lambda path, backend: VideoDevice(folder / "usb.mp4", self)  # noqa: E731 (bound to this camera)
        source = partial(V4l2Source, find=lambda device, serial: "/dev/video7", open_device=open_device)
        patch.setattr(camera_node, "V4l2Source", source)

    def close(self) -> None:
        pass


class Recording:
    """A file in a camera's place, a video or a folder of images; lost means that it was moved away."""

    tolerance = 0

    def __init__(self, folder: Path, *, video: bool) -> None:
        self._path = folder / ("recorded.mp4" if video else "recorded")
        self._away = folder / "away"
        self._lost = False
        self.named = f"file {self._path}"
        self.config = configured("file", path=str(self._path))
        if video:
            self.expected = [reference(image) for image in write_video(self._path)]
        else:
            self._path.mkdir()
            for k, picture in enumerate(pictures()):
                cv2.imwrite(str(self._path / f"{k}.png"), picture[..., ::-1])
            self.expected = [reference(picture) for picture in pictures()]

    @property
    def lost(self) -> bool:
        return self._lost

    @lost.setter
    def lost(self, lost: bool) -> None:
        source, target = (self._path, self._away) if lost else (self._away, self._path)
        if lost is not self._lost:
            source.rename(target)
        self._lost = lost

    def close(self) -> None:
        pass


def make(kind: str, bench: Bench, folder: Path, patch: pytest.MonkeyPatch) -> Any:
    """A source by its name."""
    if kind == "sim":
        return Simulator(bench)
    if kind == "v4l2":
        return UsbCamera(folder, patch)
    if kind == "topic_raw":
        return Driver(bench)
    if kind == "topic_compressed":
        return Driver(bench, f"{TOPIC}/compressed", compressed=True)
    return Recording(folder, video=kind == "file_video")


SOURCES = ("sim", "v4l2", "topic_raw", "topic_compressed", "file_video", "file_folder")
assert CELL == "sim"
