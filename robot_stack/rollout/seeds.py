"""Seeds of resets. Held-out resets never appear in online training, and are the same for all policies compared."""

from __future__ import annotations

from robot_stack.types.transition import EpisodeKind

_OFFSETS = {EpisodeKind.DEMO: 0, EpisodeKind.ONLINE: 1 << 20, EpisodeKind.EVAL: 1 << 30}


def reset_seed(run_seed: int, kind: EpisodeKind, number: int) -> int:
    """Return the seed of reset `number`; evaluation does not depend on the run's seed."""
    base = 0 if kind is EpisodeKind.EVAL else (run_seed % 256) << 21
    return _OFFSETS[kind] + base + number
