"""ROS 2 face of one camera. Backend `sim`: renders what the robot process last said the world looks like."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

import numpy as np
from sensor_msgs.msg import Image, JointState

from robot_stack.nodes import topics
from robot_stack.nodes.base import NodeSettings, StackNode, run_node
from robot_stack.nodes.conversion import image_to_msg, stamp_ns_of, vector_from_msg
from robot_stack.nodes.diagnostics import Diagnosis, Due, Level, RateMeter
from robot_stack.nodes.qos import NEWEST, SAMPLED
from robot_stack.run.build import build_world
from robot_stack.run.sim_camera import SimCamera
from robot_stack.types.errors import ConfigError


class SimCameraNode(StackNode):
    """Publishes the policy's image, stamped with the instant that it shows."""

    def __init__(self, settings: NodeSettings) -> None:
        name = settings.options.camera
        run = settings.run
        if name not in run.cameras:
            raise ConfigError(f"camera is {name!r}, must be one of {sorted(run.cameras)}; check --camera")
        super().__init__(f"camera_{name}", settings.namespace)
        self._name = name
        self._config = run.cameras[name]
        self._world = build_world(run)
        self._camera = SimCamera(self._world, name, self._config)
        self._rng = np.random.default_rng()
        self._meter = RateMeter(self._config.rate_hz)
        self._due = Due(self._config.rate_hz)
        self._last: np.ndarray | None = None
        self._identical = 1
        self._counters: Counter[str] = Counter()
        self._images = self.create_publisher(Image, topics.observation(name), NEWEST)
        self.create_subscription(JointState, topics.SNAPSHOT, self._on_snapshot, SAMPLED)

    def diagnose(self) -> list[Diagnosis]:
        """Dead, frozen, or fine."""
        now_ns = time.monotonic_ns()
        values = {**self._meter.values(now_ns), **self._counters, "identical_frames": self._identical}
        age_s, limit_s = self._meter.age_s(now_ns), self._config.max_age_s
        if age_s > limit_s:
            text = f"no image for {age_s * 1e3:.0f} ms (limit {limit_s * 1e3:.0f})"
            return [Diagnosis(task="frames", level=Level.STALE, message=text, values=values)]
        if self._identical >= self._config.freeze_frames:
            text = f"{self._identical} identical images in a row"
            return [Diagnosis(task="frames", level=Level.ERROR, message=text, values=values)]
        return [Diagnosis(task="frames", values=values)]

    def _on_snapshot(self, msg: JointState) -> None:
        stamp_ns = stamp_ns_of(msg.header)
        if not self._due.now(stamp_ns):
            return
        self._world.show(vector_from_msg(msg))
        image = self._camera.see(self._rng)
        self._images.publish(image_to_msg(image, stamp_ns, f"{self._name}_optical_frame"))
        self._meter.tick(time.monotonic_ns())
        same = self._last is not None and np.array_equal(self._last, image)
        self._identical = self._identical + 1 if same else 1
        self._last = image

    def safe_stop(self, reason: str) -> None:
        """Frees the GL context."""
        self._camera.close()


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--camera", required=True, help="name of the camera in the cell")


def main() -> int:
    """Entry point of the process."""
    return run_node("camera", SimCameraNode, _arguments)


if __name__ == "__main__":
    sys.exit(main())
