"""ros2 launch robot_stack workcell.launch.py run:=NAME: robot, safety, cameras and teleop of a cell.

With cell_only:=false the actor too, and with remote_learner:=false the learner on this machine.
"""

from robot_stack.nodes.launching import describe


def generate_launch_description():
    """Read by ros2 launch."""
    return describe(default_run=None, cell_only=True)
