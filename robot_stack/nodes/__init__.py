"""The only ROS code of the stack: thin nodes that convert and call; decisions live in the pure packages below."""
