"""ros2 launch robot_stack workcell.launch.py cell:=NAME: robot, safety, cameras and teleop, brought up in this order.

With cell_only:=false the actor too, and with remote_learner:=false the learner on this machine.
"""

import os
import site
import sys

PREFIX = os.path.normpath(os.path.join(os.path.abspath(__file__), "../../../.."))  # of this installation, not of ROS
site.addsitedir(f"{PREFIX}/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages")

from robot_stack.nodes.launching import describe_workcell  # noqa: E402


def generate_launch_description():
    """Read by ros2 launch."""
    return describe_workcell(__file__)
