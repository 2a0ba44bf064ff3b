"""Human-in-the-loop reinforcement learning on real robots, over ROS 2."""
