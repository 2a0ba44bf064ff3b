"""Serial chains, their bodies as capsules, and the joint speeds of a twist."""
