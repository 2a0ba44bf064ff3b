"""Stamps on the steady clock of one machine, in nanoseconds."""

from __future__ import annotations

FUTURE_TOLERANCE_NS = 5_000_000
"""A stamp that is further ahead of now is refused as one of the future, wherever stamps are judged."""
