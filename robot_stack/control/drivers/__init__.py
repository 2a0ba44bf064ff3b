"""Cores for robot drivers: what each is told, and what its answers mean. One module per driver, all without ROS."""
