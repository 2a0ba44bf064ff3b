"""ros2 launch robot_stack workcell.launch.py cell:=NAME: robot, safety, cameras and teleop, brought up in this order.

With cell_only:=false the actor too, and with remote_learner:=false the learner on this machine.
"""

import os
import sys

sys.path.append(os.path.dirname(os.path.abspath(__file__)))

from table_launch import argument, describe, flag


def generate_launch_description():
    """Describe the launch, as `ros2 launch` asks for it."""
    return describe(
        "workcell",
        __file__,
        argument("cell", "", "name of a cell that one run names"),
        argument("run", "", "name of a run, or path to its file"),
        flag("cell_only", "true", "no actor, no learner"),
        flag("remote_learner", "true", "the learner runs where the cell says, not here"),
    )
