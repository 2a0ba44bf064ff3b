"""What a run came to: figures, plots, one HTML file, and the live view while it goes."""
