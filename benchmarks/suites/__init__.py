"""Outside suites: our learner on other people's tasks, beside the figures that they published."""
