"""Plots of a run and of a reward model: the curves that a report shows, in one style."""
