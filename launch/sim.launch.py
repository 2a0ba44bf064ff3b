"""ros2 launch robot_stack sim.launch.py: the dry run; every process of the table, with the simulator as the robot."""

from robot_stack.nodes.launching import describe


def generate_launch_description():
    """Read by ros2 launch."""
    return describe(default_run="peg_insert", cell_only=False)
