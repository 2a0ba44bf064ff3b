"""Proves from a log alone that what reached the robot was safe; shares no rule with the filter."""
