"""Shapes that bound what stands in a cell: capsules around links, and boxes."""
