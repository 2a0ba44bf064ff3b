"""Processes of a run: which ones there are, and how they are started, watched and ended. No ROS in here."""
