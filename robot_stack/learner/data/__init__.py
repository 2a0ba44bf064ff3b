"""Data of the learner: what arrives and is restored, the cache of features, and the batches that updates read."""
