"""The base of all camera processes: images that may be shown go out, the rest is said in words."""

from __future__ import annotations

import importlib.util
import time
import zlib
from pathlib import Path

import numpy as np
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.subscription import Subscription
from sensor_msgs.msg import CameraInfo, CompressedImage, Image

from robot_stack.config.camera import CameraConfig, LiveCameraConfig
from robot_stack.config.resolved import ResolvedRun
from robot_stack.disk.durable import write_durable
from robot_stack.nodes import topics
from robot_stack.nodes.base import NodeSettings, StackNode
from robot_stack.nodes.conversion import header_of, image_to_msg, jpeg_to_msg, lens_to_msg, transform_to_msg
from robot_stack.nodes.diagnostics import Diagnosis, Due, RateMeter
from robot_stack.nodes.qos import LATCHED, NEWEST, endpoint_of, qos_of
from robot_stack.sensing.camera_watch import CameraProblem, CameraWatch, Cause, WatchLimits
from robot_stack.sensing.framing import Framing
from robot_stack.sensing.lens import Lens
from robot_stack.sensing.likeness import likeness, read_reference, swapped_with, thumbnail
from robot_stack.sensing.pixels import png_of, to_rgb
from robot_stack.types.errors import ConfigError, SpecError
from robot_stack.types.finding import Level
from robot_stack.types.pose import Pose
from robot_stack.workcell.qos import fits


def why_silent(node: Node, subscription: Subscription, type_name: str) -> str:
    """Return why a subscription gets nothing, as far as discovery tells.

    Args:
        node: The subscription's.
        subscription: What is silent.
        type_name: Of its messages, e.g. "sensor_msgs/msg/Image".
    """
    topic, asked = subscription.topic_name, qos_of(subscription.qos_profile)
    peers = [endpoint_of(info) for info in node.get_publishers_info_by_topic(topic)]
    if not peers:
        return f"nobody publishes {topic}; start its driver on this DDS domain, and compare the names"
    others = sorted({peer.kind for peer in peers if peer.kind != type_name})
    if others:
        return f"{topic} carries {', '.join(others)}, must carry {type_name}; see `compressed` and `source_topic`"
    for peer in peers:
        if not fits(peer.qos, asked):
            return (
                f"QoS of {topic} does not match: {peer.node} offers {peer.qos}, asked for is {asked}; set "
                "`reliable: false`, or the driver's QoS"
            )
    return f"{peers[0].node} publishes {topic} ({peers[0].qos}), but nothing comes; is it stuck?"


def deaf_subscribers(node: Node, publisher: Publisher) -> str:
    """Return a sentence about a subscriber that asks for more than our publisher offers; "" if none does."""
    offered = qos_of(publisher.qos_profile)
    for peer in map(endpoint_of, node.get_subscriptions_info_by_topic(publisher.topic_name)):
        if not fits(offered, peer.qos):
            return (
                f"QoS of {publisher.topic_name} does not match: {peer.node} asks for {peer.qos}, offered is {offered}; "
                "change the subscriber's QoS"
            )
    return ""


LOOK_HZ = 20.0
WHOLE_HZ = 5.0
"""Of whole images, while somebody looks at them."""
LOG_AGAIN_NS = 1_000_000_000
SURPLUS = 0.6
"""A frame that follows the one before within this share of the period is one more than is wanted."""
SLOW = 0.8
"""Share of the rate below which a camera is called slow."""
HASHED_ROWS = 4
"""Every so many rows count for the digest; noise is in all of them."""
SETTLED_FRAMES = 10
"""Shown before a picture is kept, so that exposure has settled."""


class CameraNode(StackNode):
    """A ROS node that publishes one camera's images as the policy sees them.

    Args:
        settings: Of the process; `options.camera` is the camera's name in the cell.
        source: Where its images come from, in words.
    """

    slow_advice = "more light or a shorter exposure, another USB port, or a lower rate_hz"

    def __init__(self, settings: NodeSettings, source: str) -> None:
        config = config_of(settings)
        name = settings.options.camera
        super().__init__(f"camera_{name}", settings.namespace)
        self.show_settings(settings.run, {"": f"cameras.{name}"})
        self.name, self.framing = name, Framing.of(config)
        limits = WatchLimits(
            max_age_s=config.max_age_s, frozen_after_s=config.frozen_after_s, least_gap_s=SURPLUS / config.rate_hz
        )
        self.watch = CameraWatch(name, source, limits, time.monotonic_ns())
        self._source = source
        self._rate_hz = config.rate_hz
        self._meter = RateMeter(config.rate_hz)
        self._problem: CameraProblem | None = None
        self._logged: tuple[int, tuple[Cause, str] | None] = (0, None)
        self._references = _references(settings)
        self._scores: dict[str, float] = {}
        self._pictures: Path | None = settings.options.pictures
        self._images = self.create_publisher(Image, topics.observation(name), NEWEST)
        self._files = self.create_publisher(CompressedImage, topics.compressed(name), NEWEST)
        self._files_wanted = False
        self._whole = self.create_publisher(CompressedImage, topics.captured(name), NEWEST)
        self._whole_wanted = False
        self._whole_due = Due(WHOLE_HZ)
        lens = self.lens(settings)
        self._info = None if lens is None else lens_to_msg(lens)
        self._infos = None if lens is None else self.create_publisher(CameraInfo, topics.camera_info(name), NEWEST)
        self._infos_wanted = False
        self.tell_place(settings.run)
        self.steady_timer(LOOK_HZ, self._look)

    def diagnose(self) -> list[Diagnosis]:
        """Return diagnoses of the frames, the view, and subscribers that cannot hear."""
        now_ns = time.monotonic_ns()
        values = {
            **self._meter.values(now_ns),
            **self.watch.counters,
            "identical_frames": self.watch.identical,
            **self.figures(),
        }
        level, text = self._judgement(now_ns)
        found = [Diagnosis(task="frames", level=level, message=text, values=values)]
        if self._scores:
            found.append(self._view())
        self._files_wanted = self._files.get_subscription_count() > 0
        self._whole_wanted = self._whole.get_subscription_count() > 0
        self._infos_wanted = self._infos is not None and self._infos.get_subscription_count() > 0
        deaf = deaf_subscribers(self, self._images)
        if deaf:
            found.append(Diagnosis(task="subscribers", level=Level.FAIL, message=deaf))
        return found

    @property
    def frame(self) -> str:
        """Return the TF frame of the camera: z forward, x right, y down."""
        return topics.optical_frame(self.name)

    def lens(self, settings: NodeSettings) -> Lens | None:
        """Return the lens of the policy's image, as far as the cell's file has that of the camera."""
        lens = settings.run.cell.cameras[self.name].lens
        return None if lens is None else Lens.of(lens).framed(self.framing)

    def tell_place(self, run: ResolvedRun) -> None:
        """Publish on /tf_static where a real camera is, if the cell's file says so; a simulated one is in the URDF."""
        mount = run.cell.cameras[self.name].mount
        if mount is None or run.cameras[self.name].backend == "sim" or importlib.util.find_spec("tf2_msgs") is None:
            return  # tf2_msgs is there only with an installed ROS
        from tf2_msgs.msg import TFMessage

        arm = mount.arm or next(iter(run.robots))
        names = topics.ArmNames.of(arm, run.robots[arm])
        pose = Pose(position_m=np.array(mount.position_m), quaternion_xyzw=np.array(mount.quaternion_xyzw))
        header = header_of(time.monotonic_ns(), names.base if mount.parent == "base" else names.tcp)
        said = TFMessage(transforms=[transform_to_msg(pose, header, self.frame)])
        self.create_publisher(TFMessage, "/tf_static", LATCHED).publish(said)

    def figures(self) -> dict[str, object]:
        """Return what else the source counts, for the diagnostics."""
        return {}

    def look(self, now_ns: int) -> None:
        """Look after the source; called at `LOOK_HZ`."""

    def show_captured(self, captured: np.ndarray, encoding: str, stamp_ns: int, digest: int | None = None) -> None:
        """Turn, crop, resize and publish a frame with a good stamp, unless something is wrong with it.

        Args:
            captured: uint8, shape (H, W, channels); may be a view of a message.
            encoding: Layout of its channels.
            stamp_ns: Of the capture, monotonic.
            digest: Of its content, if there is one already.
        """
        try:
            image = self.framing.apply(captured, encoding)
        except SpecError as error:
            self.watch.refuse(Cause.FORMAT, str(error), time.monotonic_ns())
            return
        if self._references and not self._scores:
            self._compare(captured, encoding)
        self.show(image, stamp_ns, zlib.crc32(captured[::HASHED_ROWS].tobytes()) if digest is None else digest)
        self.show_whole(captured, encoding, stamp_ns)  # the policy does not wait for it
        if self._pictures is not None and self._meter.count >= SETTLED_FRAMES:
            folder, self._pictures = self._pictures, None
            self._keep_pictures(folder, captured, encoding, image)

    def show(self, image: np.ndarray, stamp_ns: int, digest: int) -> None:
        """Publish the policy's image, unless something is wrong with it."""
        now_ns = time.monotonic_ns()
        if self.watch.take_image(image, digest, stamp_ns, now_ns):
            self._images.publish(image_to_msg(image, stamp_ns, self.frame))
            if self._files_wanted:
                self._files.publish(jpeg_to_msg(image, stamp_ns, self.frame))
            if self._infos_wanted and self._infos is not None and self._info is not None:
                self._info.header = header_of(stamp_ns, self.frame)
                self._infos.publish(self._info)
            self._meter.tick(now_ns)

    def show_whole(self, captured: np.ndarray, encoding: str, stamp_ns: int) -> None:
        """Publish a whole frame, upright, if somebody looks and one is due; for operators, no policy sees it."""
        if self._whole_wanted and self._whole_due.now(time.monotonic_ns()):
            whole = to_rgb(self.framing.upright(captured), encoding)
            self._whole.publish(jpeg_to_msg(whole, stamp_ns, self.frame))

    def view_is_new(self) -> None:
        """Forget how the view was judged: the device was opened anew, and may be another one."""
        self._scores = {}

    def _look(self) -> None:
        """Judge the camera, and publish and log a change at once."""
        now_ns = time.monotonic_ns()
        self.look(now_ns)
        was_blind = self._problem is not None and self._problem.blind
        self._problem = problem = self.watch.problem(now_ns)
        changed = was_blind is not (problem is not None and problem.blind)
        if problem is not None and problem.blind:
            reason = (problem.kind, self.watch.excuse)
            if changed or (reason != self._logged[1] and now_ns - self._logged[0] > LOG_AGAIN_NS):
                self._logged = (now_ns, reason)
                self.get_logger().error(problem.text)
        elif changed:
            self._meter = RateMeter(self._rate_hz)  # the gap is no slowness
            self.get_logger().info(f"camera {self.name} ({self._source}) is seen again")
        if changed:
            self.publish_diagnostics()

    def _judgement(self, now_ns: int) -> tuple[Level, str]:
        if self._problem is not None:
            return Level.FAIL if self._problem.blind else Level.WARN, self._problem.text
        frequency_hz = self._meter.values(now_ns).get("frequency_hz")
        if isinstance(frequency_hz, float) and frequency_hz < SLOW * self._rate_hz:
            text = (
                f"camera {self.name} ({self._source}): {frequency_hz:.1f} frames a second, must be {self._rate_hz:g}; "
                f"{self.slow_advice}"
            )
            return Level.WARN, text
        return Level.OK, "ok"

    def _compare(self, captured: np.ndarray, encoding: str) -> None:
        seen = thumbnail(to_rgb(self.framing.upright(captured), encoding))
        self._scores = {name: likeness(seen, kept) for name, kept in self._references.items()}

    def _view(self) -> Diagnosis:
        values = {f"like_{name}": round(score, 3) for name, score in self._scores.items()}
        other = swapped_with(self._scores, self.name)
        if not other:
            return Diagnosis(task="view", values=values)
        text = (
            f"camera {self.name} ({self._source}) looks like camera {other} (score {self._scores[other]:.2f}, like "
            f"itself {self._scores[self.name]:.2f}); were cables, serials or topics swapped?"
        )
        return Diagnosis(task="view", level=Level.WARN, message=text, values=values)

    def _keep_pictures(self, folder: Path, captured: np.ndarray, encoding: str, image: np.ndarray) -> None:
        """Write one set of pictures for `robot-stack camera`; the policy's comes last, when all are there."""
        upright = to_rgb(self.framing.upright(captured), encoding)
        pictures = {"captured.png": upright, "view.png": thumbnail(upright), "policy.png": image}
        for name, picture in pictures.items():
            write_durable(folder / name, png_of(picture))


def config_of(settings: NodeSettings) -> CameraConfig:
    """Return the configuration of the camera that a process is for.

    Raises:
        ConfigError: If the cell has no camera of that name.
    """
    name, cameras = settings.options.camera, settings.run.cameras
    if name not in cameras:
        raise ConfigError(f"camera is {name!r}, must be one of {sorted(cameras)}; check --camera")
    return cameras[name]


def _references(settings: NodeSettings) -> dict[str, np.ndarray]:
    """Read the kept views of all cameras of the cell; none while new ones are made."""
    if settings.options.pictures is not None:
        return {}
    return {
        name: read_reference(name, config.reference)
        for name, config in settings.run.cameras.items()
        if isinstance(config, LiveCameraConfig) and config.reference is not None
    }
