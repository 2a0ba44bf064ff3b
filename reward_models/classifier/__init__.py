"""The binary success classifier: one frame in, is it done, with a threshold at a wanted precision."""
