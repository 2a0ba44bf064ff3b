"""The process of one camera, whose backend decides which node runs in it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import cv2

from robot_stack.nodes.base import NodeSettings, run_node
from robot_stack.nodes.camera.capture import CaptureCameraNode
from robot_stack.nodes.camera.face import CameraNode, config_of
from robot_stack.nodes.camera.topic import TopicCameraNode


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
