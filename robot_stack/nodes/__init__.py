"""The only ROS code: thin faces that convert and call. Decisions live in the pure packages below."""
