"""The fits of a run's image encoder beside its online training."""
