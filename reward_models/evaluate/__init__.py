"""Evaluation of reward models on labelled episodes, beside null models that look at nothing. numpy only."""
