"""Set-up of a new cell: what is connected, the files that fit it, and their place on the disk."""
