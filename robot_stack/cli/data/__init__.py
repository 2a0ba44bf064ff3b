"""The verbs of `robot-stack data`: look at, check, mend, import and export recorded episodes."""
