"""How good a reward model is: scored on labelled episodes, beside models that look at nothing. numpy only."""
