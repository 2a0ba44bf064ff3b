"""Progress by optimal transport to recorded successes: nothing is trained."""
