"""How well Φ orders frames of other episodes after 0, 20 and 100 preferences, where labels of progress say nothing.

    python -m benchmarks.learning.preferences

Eight synthetic successes whose label of progress is 0.5 throughout; preferences are true answers about random pairs of
frames of other episodes. Those with a held-out episode are not trained on. Accuracy is over 300 pairs of frames of six
other episodes whose true progress differs by 0.2 or more; five seeds.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from reward_models.progress.fit import fit
from tests.reward_models.misled import accuracy, answers, misled
from tests.reward_models.synthetic import QUICK, TEXT

COUNTS, SEEDS = (0, 20, 100), range(5)


def main() -> None:
    """Fit and print a row for each number of preferences."""
    torch.set_num_threads(1)
    made = [misled(seed) for seed in range(8)]
    print("| preferences | trained on | accuracy of each seed | mean |\n| --- | --- | --- | --- |")
    for count in COUNTS:
        found, used = [], []
        for seed in SEEDS:
            orders = answers(made, count, seed=seed)
            told = [replace(shown, orders=own) for (shown, _), own in zip(made, orders, strict=True)]
            model, report = fit(told, QUICK, text=TEXT, seed=seed)
            found.append(accuracy(model))
            used.append(report.orders)
        print(
            f"| {count} | {min(used)} to {max(used)} | {', '.join(f'{a:.3f}' for a in found)} | {np.mean(found):.3f} |"
        )


if __name__ == "__main__":
    main()
