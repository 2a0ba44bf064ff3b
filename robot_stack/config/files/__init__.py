"""The reading of configuration files: where they lie, how they combine, and what is wrong with them."""
