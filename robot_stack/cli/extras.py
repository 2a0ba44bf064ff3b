"""Names the extra that brings a library which not every machine needs."""

from __future__ import annotations

EXTRA_OF = {
    "torch": "learner",
    "wandb": "wandb",
    "matplotlib": "learner",
    "mujoco": "sim",
    "viser": "scene",
    "trimesh": "scene",
}
"""Library -> extra."""
EXTRAS_OF_VERB = {"sim": "learner,sim,console"}
"""Verb -> the extras that it needs together, where one alone would not do."""
