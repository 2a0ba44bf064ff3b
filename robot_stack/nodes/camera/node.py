"""The process of one camera, simulated, read here, or passed through from its driver, as its backend says."""

from __future__ import annotations

import argparse
import sys
import time
import zlib
from pathlib import Path
from typing import Any

import cv2
from sensor_msgs.msg import CompressedImage, Image
from std_msgs.msg import Header

from robot_stack import plugins
from robot_stack.config.camera import FileCameraConfig, TopicCameraConfig, V4l2CameraConfig
from robot_stack.config.kinds import CAMERAS
from robot_stack.nodes.base import NodeSettings, run_node
from robot_stack.nodes.camera.face import CameraNode, config_of, why_silent
from robot_stack.nodes.conversion import file_of, pixels_of, ros_ns_of
from robot_stack.nodes.qos import NEWEST, SAMPLED
from robot_stack.plugins import Registry
from robot_stack.sensing.camera_watch import Cause
from robot_stack.sensing.capture import CameraPart, Capture, Source
from robot_stack.sensing.file_source import FileSource
from robot_stack.sensing.pixels import decode, said_size
from robot_stack.sensing.stamps import stamp_clock
from robot_stack.sensing.v4l2_source import V4l2Source
from robot_stack.types.errors import ConfigError, SpecError

DISCOVERY_NS = 1_000_000_000
"""How often a silent topic is looked up."""


class TopicCameraNode(CameraNode):
    """A camera node that passes a driver's topic through.

    Stamps are judged first, so that a frame that is late, too early or surplus costs no decoding.
    """

    slow_advice = "start its driver with the cell's DDS settings (robot-stack env) or take JPEG; more light"

    def __init__(self, settings: NodeSettings) -> None:
        config = config_of(settings)
        if not isinstance(config, TopicCameraConfig):
            raise ConfigError(f"backend of camera {settings.options.camera} is {config.backend!r}, must be topic")
        super().__init__(settings, f"topic {config.source_topic}")
        self._stamps = stamp_clock(config.stamps)
        self._frame_id = config.frame_id
        self._heard_ns = self._asked_ns = time.monotonic_ns()
        self._silent_ns = round(config.max_age_s * 1e9)
        self._type_name = "sensor_msgs/msg/CompressedImage" if config.compressed else "sensor_msgs/msg/Image"
        qos = NEWEST if config.reliable else SAMPLED
        if config.compressed:
            self._driver = self.create_subscription(CompressedImage, config.source_topic, self._on_file, qos)
        else:
            self._driver = self.create_subscription(Image, config.source_topic, self._on_image, qos)

    def look(self, now_ns: int) -> None:
        """Find out why nothing comes, if so; not at each look, since asking costs a millisecond."""
        if now_ns - self._heard_ns > self._silent_ns and now_ns - self._asked_ns > DISCOVERY_NS:
            self._asked_ns = now_ns
            self.watch.excuse = why_silent(self, self._driver, self._type_name)

    def _on_image(self, msg: Image) -> None:
        stamp_ns = self._take(msg.header)
        if stamp_ns is None:
            return
        try:
            pixels = pixels_of(msg)
        except SpecError as error:
            self.watch.refuse(Cause.FORMAT, str(error), time.monotonic_ns())
            return
        self.show_captured(pixels, msg.encoding, stamp_ns)

    def _on_file(self, msg: CompressedImage) -> None:
        stamp_ns = self._take(msg.header)
        if stamp_ns is None:
            return
        data = file_of(msg)
        try:
            self.framing.require(*said_size(data, msg.format))
            pixels, encoding = decode(data, msg.format)
        except SpecError as error:
            self.watch.refuse(Cause.FORMAT, str(error), time.monotonic_ns())
            return
        self.show_captured(pixels, encoding, stamp_ns, zlib.crc32(data.tobytes()))

    def _take(self, header: Header) -> int | None:
        """Return the stamp of a frame on the monotonic clock in ns, or None if the frame is not wanted."""
        now_ns, wall_ns = time.monotonic_ns(), time.time_ns()
        if now_ns - self._heard_ns > self._silent_ns:
            self.view_is_new()
        self._heard_ns, self.watch.excuse = now_ns, ""
        if self._frame_id is not None and header.frame_id != self._frame_id:
            text = (
                f"frame_id is {header.frame_id!r}, must be {self._frame_id!r}; are the topics of two cameras swapped?"
            )
            self.watch.refuse(Cause.SWAPPED, text, now_ns)
            return None
        sent_ns = ros_ns_of(header)
        stamp_ns = self._stamps.to_monotonic(sent_ns, now_ns, wall_ns)
        return min(stamp_ns, now_ns) if self.watch.wanted(stamp_ns, time.monotonic_ns(), sent_ns) else None


PARTS: Registry[CameraPart[Any]] = Registry(plugins.CAMERAS, CameraPart)


class CaptureCameraNode(CameraNode):
    """A camera node that shows the newest frame of a capture thread; the executor never waits for the device."""

    def __init__(self, settings: NodeSettings) -> None:
        source, words = _source(settings)
        super().__init__(settings, words)
        self._capture = Capture(source, self._on_frame)
        self._opened = 0

    def figures(self) -> dict[str, object]:
        """Return the capture thread's counts of frames read, skipped and not usable, and of openings."""
        capture = self._capture
        return {"read": capture.read, "skipped": capture.skipped, "bad": capture.bad, "opened": capture.opened}

    def look(self, now_ns: int) -> None:
        """Start the capture thread, once the executor runs, and take in the thread's status."""
        self._capture.start()
        self.watch.excuse = self._capture.status
        if self._capture.opened != self._opened:
            self._opened = self._capture.opened
            self.view_is_new()

    def safe_stop(self, reason: str) -> None:
        """Stop the capture thread and let go of the device."""
        self._capture.stop()

    def _on_frame(self) -> None:
        """Hand the newest frame from the capture thread to the executor's."""
        executor = self.executor
        if executor is not None:
            executor.create_task(self._show_newest)

    def _show_newest(self) -> None:
        frame = self._capture.take()
        if frame is not None and self.watch.wanted(frame.stamp_ns, time.monotonic_ns()):
            self.show_captured(frame.image, frame.encoding, frame.stamp_ns)


def _source(settings: NodeSettings) -> tuple[Source, str]:
    """Return the source to read, and its name in messages."""
    config = config_of(settings)
    if isinstance(config, V4l2CameraConfig):
        return V4l2Source(config), f"device {config.device}" if config.device else f"serial {config.serial}"
    if isinstance(config, FileCameraConfig):
        return FileSource(config.path, config.rate_hz), f"file {config.path}"
    if config.backend in CAMERAS.builtin:
        raise ConfigError(f"backend of camera {settings.options.camera} is {config.backend!r}, must be v4l2 or file")
    return PARTS[config.backend].source(config), config.backend


def build(settings: NodeSettings) -> CameraNode:
    """Build the node of the camera that the command line names."""
    backend = config_of(settings).backend
    if backend == "sim":
        from robot_stack.nodes.camera.simulated import SimCameraNode  # loads the simulator, which no real cell needs

        return SimCameraNode(settings)
    return TopicCameraNode(settings) if backend == "topic" else CaptureCameraNode(settings)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--camera", required=True, help="name of the camera in the cell")
    parser.add_argument("--pictures", type=Path, help="folder that gets one set of pictures; for robot-stack camera")


def main() -> int:
    """Run the camera process and return its exit code."""
    cv2.setNumThreads(1)  # small images: threads wait for each other longer than they compute
    return run_node("camera", build, _arguments)


if __name__ == "__main__":
    sys.exit(main())
