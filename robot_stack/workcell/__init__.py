"""Builds the parts of a cell from its files, brings it up, checks it, and logs what was commanded."""
