"""Shared by all tests."""

from __future__ import annotations

from hypothesis import settings

import sim  # noqa: F401 - says how MuJoCo draws, which counts only before a test imports it

settings.register_profile("any machine", deadline=None)  # how long an example takes is the machine's business
settings.load_profile("any machine")
