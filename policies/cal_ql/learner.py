"""Calibrated Q-learning: conservative critics offline, then online from where they are, without unlearning.

Source: Nakamoto et al., 2023, arXiv:2303.05479. Deviations: RLPD's losses, ensemble and batches underneath; fixed
weights offline and online instead of a Lagrangian.
"""

from __future__ import annotations

from policies.cal_ql.config import CalQLConfig
from policies.learner import LearnerSpec
from policies.rlpd.learner import RLPDLearner


def make_learner(spec: LearnerSpec, config: CalQLConfig, *, seed: int, device: str = "cpu") -> RLPDLearner:
    """Build RLPD's learner with a conservative term of another weight in the updates on the demonstrations."""
    learner = RLPDLearner(spec, config, seed=seed, device=device, cql_weight_offline=config.cql_weight_offline)
    learner.name = "cal_ql"
    return learner
