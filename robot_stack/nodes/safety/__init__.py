"""The process of the safety filter, which every command passes through."""
