"""Scores of episodes, and judgement of the reward model that gives them: live, after a refit, and in evaluations."""
