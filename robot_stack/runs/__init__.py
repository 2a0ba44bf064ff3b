"""What a run writes down about itself: metrics, and what its episodes came to."""
