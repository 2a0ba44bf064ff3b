"""ros2 launch robot_stack learner.launch.py run:=NAME: the learner alone, on the machine with the GPU."""

import os
import site
import sys

PREFIX = os.path.normpath(os.path.join(os.path.abspath(__file__), "../../../.."))  # of this installation, not of ROS
site.addsitedir(f"{PREFIX}/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages")

from robot_stack.nodes.launching import describe_learner  # noqa: E402


def generate_launch_description():
    """Read by ros2 launch."""
    return describe_learner(__file__)
