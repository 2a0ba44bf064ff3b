"""The process of the cell's arms: simulated all together, or each behind its driver."""

from __future__ import annotations

import sys

from robot_stack.nodes.base import NodeSettings, StackNode, run_node


def build(settings: NodeSettings) -> StackNode:
    """Build the node that the arms' backend asks for."""
    if settings.run.simulated:
        from robot_stack.nodes.robot.simulated import SimRobotNode  # loads the simulator, which no real cell needs

        return SimRobotNode(settings)
    from robot_stack.nodes.robot.driven import DriverRobotNode

    return DriverRobotNode(settings)


def main() -> int:
    """Run the robot process and return its exit code."""
    return run_node("robot", build)


if __name__ == "__main__":
    sys.exit(main())
