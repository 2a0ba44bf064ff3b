"""Records that a run keeps of itself: metrics, and statistics of its episodes."""
