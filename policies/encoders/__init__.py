"""Image trunks: frozen ones are run once per frame, and their features are replayed."""
