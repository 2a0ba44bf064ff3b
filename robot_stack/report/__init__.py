"""Results of a run: figures, plots, one HTML file, and the live view while it goes."""
