"""A rank of learners, one after the other: updates on its share of synthetic batches, writes their losses as JSON.

Started by torchrun, or alone: python ranks_process.py FILE ALGORITHM ...
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
from torch import distributed

from policies import precision
from policies.distributed import ALONE, Ranks
from robot_stack.learner.distributed import batch_of, share_of
from tests.policies.test_all_algorithms import TWO_ARMS, batch, make, sized


def main(out: Path, names: list[str]) -> None:
    """Ten updates of each."""
    torch.set_num_threads(1)
    precision.FAST_BF16["cpu"] = False  # whose rounding depends on how many rows there are
    ranks = ALONE
    if "RANK" in os.environ:
        distributed.init_process_group("gloo")
        ranks = Ranks(index=distributed.get_rank(), count=distributed.get_world_size())
    losses = {name: ten_updates(name, ranks) for name in names}
    if ranks.index == 0:
        out.write_text(json.dumps(losses))
    if ranks.count > 1:
        distributed.barrier()


def ten_updates(name: str, ranks: Ranks) -> list[dict[str, float]]:
    """Return the losses, means over all ranks; the weights of all must be the same in the end."""
    learner: Any = make(name, TWO_ARMS)
    learner.ranks = ranks
    losses = []
    for number in range(10):
        joint = batch(number, sized(name, TWO_ARMS))
        joint.label[:3] = False  # the ranks have unequal numbers of labels
        if number % 4 == 1:  # and some have none at all
            joint.label[4:] = False
            joint.expert[1:] = False
        metrics = learner.update(batch_of(share_of(joint, ranks)))
        for value in metrics.values():
            if ranks.count > 1:
                distributed.all_reduce(value)
                value /= ranks.count
        losses.append({key: float(value) for key, value in metrics.items()})
    weights = torch.cat([torch.from_numpy(w.astype("f4")).flatten() for w in learner.actor_tensors().values()])
    if ranks.count > 1:
        everywhere = [torch.empty_like(weights) for _ in range(ranks.count)]
        distributed.all_gather(everywhere, weights)
        assert all(torch.equal(weights, other) for other in everywhere)
    return losses


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
    sys.stdout.flush()
    os._exit(0)  # gloo's threads may abort an interpreter that takes its time to end
