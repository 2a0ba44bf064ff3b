"""Checks that prove from a log alone that what reached the robot was safe; they share no rule with the filter."""
