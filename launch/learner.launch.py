"""ros2 launch robot_stack learner.launch.py run:=NAME: the learner alone, on the machine with the GPU."""

import os
import sys

sys.path.append(os.path.dirname(os.path.abspath(__file__)))

from table_launch import argument, describe


def generate_launch_description():
    """Describe the launch, as `ros2 launch` asks for it."""
    return describe(
        "learner",
        __file__,
        argument("run", text="name of a run, or path to its file"),
        argument("address", "", "host:port; default: the cell's"),
    )
