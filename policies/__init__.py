"""Encoders, networks and algorithms. Torch lives here, in reward_models, learner and rollout only."""
