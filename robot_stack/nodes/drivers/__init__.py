"""Faces of the drivers, with the topics, services and messages of each; decisions live in `control.drivers`."""
