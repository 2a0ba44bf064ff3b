"""Two ranks of a learner that say nothing to each other for longer than torch waits by default, which is a second here.

Started by torchrun: python patient_ranks.py FILE
"""

from __future__ import annotations

import os
import sys
import time
from datetime import timedelta
from pathlib import Path

from torch.distributed import distributed_c10d

from robot_stack.learner.distributed import DistributedLearner, Message, _receive, join

DEFAULT_S = 1.0


def main(out: Path) -> None:
    """Write what the second has heard."""
    distributed_c10d.default_pg_timeout = timedelta(seconds=DEFAULT_S)
    ranks = join()
    if ranks.index == 0:
        time.sleep(3 * DEFAULT_S)
        DistributedLearner(ranks, ranks.count).end()
    else:
        message, _ = _receive()
        out.write_text(Message(message).name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    sys.stdout.flush()
    os._exit(0)  # gloo's threads may abort an interpreter that takes its time to end
