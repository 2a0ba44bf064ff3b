"""Published process reward models, in this process or behind an OpenAI-compatible server, as `RewardModel`s."""
