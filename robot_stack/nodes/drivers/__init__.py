"""Faces of the drivers: topics, services and messages of each. Decisions live in `control.drivers`."""
