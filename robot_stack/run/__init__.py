"""Where the parts meet: control loop, actor, learner, scorer, evaluation, checkpoints, metrics."""
