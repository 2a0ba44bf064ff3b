"""The simulator's camera, which renders the world as the robot process last described it."""

from __future__ import annotations

import time
import zlib

import numpy as np
from sensor_msgs.msg import JointState

from robot_stack.nodes import topics
from robot_stack.nodes.base import NodeSettings
from robot_stack.nodes.camera.face import CameraNode, config_of
from robot_stack.nodes.conversion import stamp_ns_of, vector_from_msg
from robot_stack.nodes.diagnostics import Due
from robot_stack.nodes.qos import SAMPLED
from robot_stack.sensing.lens import Lens
from robot_stack.workcell.build import build_world
from robot_stack.workcell.sim_camera import SimCamera


class SimCameraNode(CameraNode):
    """A camera node that renders the policy's image, stamped with the instant that it shows."""

    slow_advice = "this machine is too busy to draw more; end other programs, or lower rate_hz"

    def __init__(self, settings: NodeSettings) -> None:
        config = config_of(settings)
        self._world = build_world(settings.run)
        self._camera = SimCamera(self._world, settings.options.camera, config)
        super().__init__(settings, "simulator")
        self.watch.excuse = "is the robot process running?"
        self._due = Due(config.rate_hz)
        self._rng = np.random.default_rng()
        self.create_subscription(JointState, topics.SNAPSHOT, self._on_snapshot, SAMPLED)

    def lens(self, settings: NodeSettings) -> Lens:
        """Return the lens with which the policy's image is drawn."""
        return self._camera.lens()

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
