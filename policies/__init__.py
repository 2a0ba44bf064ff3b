"""Encoders, networks and algorithms. Torch lives here, in reward_models and in robot_stack.run only."""
