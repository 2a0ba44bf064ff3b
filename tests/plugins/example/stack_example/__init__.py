"""One part of each kind for robot-stack, as a package of its own."""
