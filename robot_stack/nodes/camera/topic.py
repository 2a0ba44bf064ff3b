"""A camera with a ROS driver of its own: its topic is passed through."""

from __future__ import annotations

import time
import zlib

from sensor_msgs.msg import CompressedImage, Image
from std_msgs.msg import Header

from robot_stack.config.camera import TopicCameraConfig
from robot_stack.nodes.base import NodeSettings
from robot_stack.nodes.camera.face import CameraNode, config_of
from robot_stack.nodes.camera.topic_peers import why_silent
from robot_stack.nodes.conversion import file_of, pixels_of, ros_ns_of
from robot_stack.nodes.qos import NEWEST, SAMPLED
from robot_stack.sensing.camera_watch import Cause
from robot_stack.sensing.pixels import decode
from robot_stack.sensing.stamps import stamp_clock
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
        stamp_ns = self._stamps.to_monotonic(ros_ns_of(header), now_ns, wall_ns)
        return min(stamp_ns, now_ns) if self.wanted(stamp_ns) else None
