"""LeRobotDataset v3, out and in."""
