"""ros2 launch robot_stack sim.launch.py: the dry run; every process of the table, with the simulator as the robot."""

import os
import sys

sys.path.append(os.path.dirname(os.path.abspath(__file__)))

from table_launch import argument, describe, flag


def generate_launch_description():
    """Describe the launch, as `ros2 launch` asks for it."""
    return describe(
        "sim",
        __file__,
        argument("run", "peg_insert", "name of a run, or path to its file"),
        flag("cell_only", "false", "no actor, no learner"),
    )
