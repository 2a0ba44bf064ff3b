"""Shared by all tests."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # counts only before numpy or torch is imported

from hypothesis import settings

import sim  # noqa: F401 - says how MuJoCo draws, which counts only before a test imports it

settings.register_profile("search", deadline=None)  # how long an example takes is the machine's business
# A rare find is for whoever searches; it must not fail a change that has nothing to do with it.
settings.register_profile("same", settings.get_profile("search"), derandomize=True)
settings.load_profile("same")
