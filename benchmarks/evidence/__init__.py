"""What the learning does: the conditions of the evidence table, their runs, and what a critic knows."""
