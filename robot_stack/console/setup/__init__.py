"""The set-up page: a cell of one's own, from what is connected to its files."""
