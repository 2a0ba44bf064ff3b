"""The process of the arms: simulated, or behind the drivers of their makers."""
