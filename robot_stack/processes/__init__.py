"""Which processes a run consists of, and how they are started, watched and ended. No ROS in here."""
