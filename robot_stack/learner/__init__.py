"""The learner: takes in episodes, fits encoder and reward model, updates the policy, saves checkpoints."""
