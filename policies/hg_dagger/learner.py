"""HG-DAgger: imitation of the demonstrations and of every correction made since.

Source: Kelly et al., 2019, arXiv:1810.02890. Deviations: the data set grows with each step instead of each epoch, the
network goes on from where it is instead of being trained anew, and there is no doubt threshold: when to take over is
the operator's decision alone.
"""

from __future__ import annotations

from policies.bc.learner import BCLearner
from policies.hg_dagger.config import HGDAggerConfig
from policies.learner import LearnerSpec


def make_learner(spec: LearnerSpec, config: HGDAggerConfig, *, seed: int, device: str = "cpu") -> BCLearner:
    """Build behaviour cloning's learner; what differs is its batches, see `HGDAggerConfig.sampling`."""
    learner = BCLearner(spec, config, seed=seed, device=device)
    learner.name = "hg_dagger"
    return learner
