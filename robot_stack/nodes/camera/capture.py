"""A camera that this process reads itself: a Video4Linux device, a file in its place, or one of another package."""

from __future__ import annotations

from typing import Any

from robot_stack import plugins
from robot_stack.config.camera import FileCameraConfig, V4l2CameraConfig
from robot_stack.config.kinds import CAMERAS
from robot_stack.nodes.base import NodeSettings
from robot_stack.nodes.camera.face import CameraNode, config_of
from robot_stack.plugins import Registry
from robot_stack.sensing.capture import CameraPart, Capture, Source
from robot_stack.sensing.file_source import FileSource
from robot_stack.sensing.v4l2_source import V4l2Source
from robot_stack.types.errors import ConfigError

PARTS: Registry[CameraPart[Any]] = Registry(plugins.CAMERAS, CameraPart)


class CaptureCameraNode(CameraNode):
    """A camera node that shows the newest frame of a capture thread; the executor never waits for the device."""

    def __init__(self, settings: NodeSettings) -> None:
        source, words = _source(settings)
        super().__init__(settings, words)
        self._capture = Capture(source, self._on_frame)
        self._opened = 0

    def figures(self) -> dict[str, object]:
        """Return the capture thread's counts of frames read, frames skipped and openings."""
        return {"read": self._capture.read, "skipped": self._capture.skipped, "opened": self._capture.opened}

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
        if frame is not None and self.wanted(frame.stamp_ns):
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
