"""How many examples a property is tried on: fewer at every save (`make check`) than in `make test`."""

from __future__ import annotations

import os

SHARE = float(os.environ.get("EXAMPLES_SHARE", "1"))
FEWEST = 4


def examples(count: int) -> int:
    """Return how many of the examples of a whole test are tried now."""
    return max(min(count, FEWEST), round(SHARE * count))
