"""Scores episodes and judges the reward model that does so: live, again after a refit, and in evaluations."""
