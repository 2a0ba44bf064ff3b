"""Export to LeRobotDataset v3, and import from it."""
