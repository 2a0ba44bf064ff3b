"""The simulator's camera, which renders the world as the robot process last described it."""

from __future__ import annotations

import time
import zlib

import numpy as np
from sensor_msgs.msg import CameraInfo, JointState

from robot_stack.nodes import topics
from robot_stack.nodes.base import NodeSettings
from robot_stack.nodes.camera.face import CameraNode, config_of
from robot_stack.nodes.conversion import header_of, pinhole_to_msg, stamp_ns_of, vector_from_msg
from robot_stack.nodes.diagnostics import Due
from robot_stack.nodes.qos import NEWEST, SAMPLED
from robot_stack.workcell.build import build_world
from robot_stack.workcell.sim_camera import SimCamera


class SimCameraNode(CameraNode):
    """A camera node that renders the policy's image, stamped with the instant that it shows."""

    slow_advice = "this machine is too busy to draw more; end other programs, or lower rate_hz"

    def __init__(self, settings: NodeSettings) -> None:
        super().__init__(settings, "simulator")
        config = config_of(settings)
        self.watch.excuse = "is the robot process running?"
        self._due = Due(config.rate_hz)
        self._world = build_world(settings.run)
        self._camera = SimCamera(self._world, self.name, config)
        self._rng = np.random.default_rng()
        self._pinhole = self._camera.pinhole()
        self._infos_wanted = False
        self._infos = self.create_publisher(CameraInfo, topics.camera_info(self.name), NEWEST)
        self.create_subscription(JointState, topics.SNAPSHOT, self._on_snapshot, SAMPLED)

    def look(self, now_ns: int) -> None:
        """Find out whether somebody wants to know how the image was projected."""
        self._infos_wanted = self._infos.get_subscription_count() > 0

    def safe_stop(self, reason: str) -> None:
        """Free the GL context."""
        self._camera.close()

    def _on_snapshot(self, msg: JointState) -> None:
        stamp_ns = stamp_ns_of(msg.header)
        if not self._due.now(stamp_ns) or not self.watch.take_stamp(stamp_ns, time.monotonic_ns()):
            return
        self._world.show(vector_from_msg(msg))
        image = self._camera.see(self._rng)
        self.show(image, stamp_ns, zlib.crc32(image.tobytes()))
        self.show_whole(self._camera.captured, "rgb8", stamp_ns)
        if self._infos_wanted:
            info = pinhole_to_msg(*self._pinhole)
            info.header = header_of(stamp_ns, self.frame)
            self._infos.publish(info)
