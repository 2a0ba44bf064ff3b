"""`python -m robot_stack.nodes.tools.survey`: what the drivers of a ROS domain publish, as one line of JSON.

It listens for some seconds: names and angles in joint states, the description of a robot, an image of each camera, and
the topics on which controllers wait for commands.
"""

from __future__ import annotations

import argparse
import base64
import math
import re
import sys
from collections.abc import Callable

import numpy as np
from pydantic import TypeAdapter
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.subscription import Subscription
from sensor_msgs.msg import CompressedImage, Image, JointState
from std_msgs.msg import String

from robot_stack.nodes.camera.face import why_silent
from robot_stack.nodes.conversion import file_of, pixels_of
from robot_stack.nodes.qos import LATCHED, SAMPLED
from robot_stack.nodes.tools.listening import listening
from robot_stack.sensing.pixels import decode, jpeg_of, to_rgb
from robot_stack.types.errors import SpecError
from robot_stack.types.surveyed import Surveyed, SurveyedImages

MOST_TOPICS = 24
"""Of each type that are listened to; a domain with more is not one cell's."""
DEPTHS = ("/compressedDepth", "/theora")
"""Ends of topics whose messages are no pictures, whatever their type says."""
MOST_JOINTS = 64
DESCRIBED = re.compile(r"<robot\b[^>]{0,500}?\bname\s*=\s*[\"']([^\"'<>]{1,80})[\"']")
HEAD = 4096
LONGEST = 2_000_000
"""A description with more characters is not handed on."""
MOVED = 0.005
"""A joint whose angle has changed by more, in rad or m, moves."""
LOOK_S = 0.25
MOST_CONTROLLERS = 32
COMMANDS = (
    "trajectory_msgs/msg/JointTrajectory",
    "std_msgs/msg/Float64MultiArray",
    "geometry_msgs/msg/TwistStamped",
    "geometry_msgs/msg/PoseStamped",
)
"""Types of the topics on which controllers of arms are commanded."""
KINDS = {
    "sensor_msgs/msg/JointState": JointState,
    "sensor_msgs/msg/Image": Image,
    "sensor_msgs/msg/CompressedImage": CompressedImage,
    "std_msgs/msg/String": String,
}


class Surveyor(Node):
    """A ROS node that listens once to each topic that a driver of an arm or a camera may publish."""

    def __init__(self) -> None:
        super().__init__("robot_stack_survey", start_parameter_services=False, enable_rosout=False)
        self._heard: dict[str, tuple[Subscription, str]] = {}
        self._joints: dict[str, list[str]] = {}
        self._angles: dict[str, dict[str, tuple[float, float, float]]] = {}
        """Topic -> joint -> its angle now, and the lowest and highest one."""
        self._robot = ""
        self._descriptions: dict[str, str] = {}
        self._images: dict[str, SurveyedImages] = {}
        self._left_out: set[str] = set()
        self._commanded: dict[str, str] = {}

    def look(self) -> None:
        """Subscribe to what is new, and no longer to cameras of which there is an image."""
        for topic, kinds in self.get_topic_names_and_types():
            command = next((each for each in kinds if each in COMMANDS), "")
            if command and len(self._commanded) < MOST_CONTROLLERS and self.count_subscribers(topic):
                self._commanded[topic] = command
            kind = next((each for each in kinds if each in KINDS), "")
            described = kind != "std_msgs/msg/String" or topic.rpartition("/")[2] == "robot_description"
            if not kind or not described or topic in self._heard or topic.endswith(DEPTHS):
                continue
            if sum(other == kind for _, other in self._heard.values()) >= MOST_TOPICS:
                self._left_out.add(topic)
                continue
            self._heard[topic] = (self._listen(topic, kind, LATCHED if KINDS[kind] is String else SAMPLED), kind)
        for topic in self._images:
            subscription, _ = self._heard[topic]
            self.destroy_subscription(subscription)  # images are large, and one is enough

    def found(self) -> Surveyed:
        """Return what was heard so far; of cameras that said nothing, why."""
        for topic, (subscription, kind) in self._heard.items():
            if kind.endswith("Image") and topic not in self._images:
                self._keep(topic, kind, problem=why_silent(self, subscription, kind))
        images = [self._images[topic] for topic in sorted(self._images)]
        return Surveyed(
            joints=dict(sorted(self._joints.items())),
            robot=self._robot,
            images=images,
            left_out=len(self._left_out),
            commanded=dict(sorted(self._commanded.items())),
            descriptions=self._descriptions,
            angles={topic: {name: now for name, (now, _, _) in seen.items()} for topic, seen in self._angles.items()},
            moving={
                topic: sorted(name for name, (_, low, high) in seen.items() if high - low > MOVED)
                for topic, seen in self._angles.items()
            },
        )

    def _listen(self, topic: str, kind: str, qos: QoSProfile) -> Subscription:
        takes: dict[str, Callable[..., None]] = {
            "sensor_msgs/msg/JointState": lambda msg: self._move(
                topic, list(msg.name[:MOST_JOINTS]), list(msg.position[:MOST_JOINTS])
            ),
            "sensor_msgs/msg/Image": lambda msg: self._see(topic, kind, lambda: (pixels_of(msg), msg.encoding)),
            "sensor_msgs/msg/CompressedImage": lambda msg: self._see(
                topic, kind, lambda: decode(file_of(msg), msg.format)
            ),
            "std_msgs/msg/String": lambda msg: self._describe(topic, msg.data),
        }
        return self.create_subscription(KINDS[kind], topic, takes[kind], qos)

    def _move(self, topic: str, names: list[str], angles: list[float]) -> None:
        self._joints[topic] = names
        seen = self._angles.setdefault(topic, {})
        for name, angle in zip(names, angles):
            if math.isfinite(angle):
                _, low, high = seen.get(name, (angle, angle, angle))
                seen[name] = angle, min(low, angle), max(high, angle)

    def _describe(self, topic: str, text: str) -> None:
        named = DESCRIBED.search(text[:HEAD])
        self._robot = named[1] if named is not None else self._robot
        if named is not None and len(text) <= LONGEST:
            self._descriptions[topic] = text

    def _see(self, topic: str, kind: str, decoded: Callable[[], tuple[np.ndarray, str]]) -> None:
        if topic in self._images:
            return
        try:
            image = to_rgb(*decoded())
        except SpecError as error:
            self._keep(topic, kind, problem=str(error))
            return
        jpeg = base64.b64encode(jpeg_of(image)).decode()
        self._keep(topic, kind, size_px=(image.shape[1], image.shape[0]), jpeg=jpeg)

    def _keep(
        self, topic: str, kind: str, *, size_px: tuple[int, int] | None = None, jpeg: str = "", problem: str = ""
    ) -> None:
        compressed = kind == "sensor_msgs/msg/CompressedImage"
        self._images[topic] = SurveyedImages(
            topic=topic, compressed=compressed, size_px=size_px, jpeg=jpeg, problem=problem
        )


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args()
    with listening(Surveyor) as surveyor:
        for _ in range(max(1, round(options.seconds / LOOK_S))):
            surveyor.node.look()
            surveyor.listen(LOOK_S)
        found = surveyor.node.found()
    sys.stdout.write(TypeAdapter(Surveyed).dump_json(found).decode() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
