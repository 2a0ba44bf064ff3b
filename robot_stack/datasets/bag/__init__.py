"""Episodes as MCAP files of ROS 2 messages, written and read without ROS."""
