"""Is a cell fit to be used? Judges what was measured of it; no ROS in here."""
