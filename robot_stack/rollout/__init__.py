"""Acting on a cell: the control loop, and what runs it to train, record, deploy or evaluate."""
