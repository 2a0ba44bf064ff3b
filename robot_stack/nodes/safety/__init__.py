"""The process of the safety filter: everything that is commanded passes through it."""
