"""The builders of the learners and networks of all algorithms, which need torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from policies.act.config import ActConfig
from policies.act.learner import ActLearner
from policies.act.policy import ActPolicy
from policies.bc.config import BCConfig
from policies.bc.learner import BCLearner
from policies.bc.policy import BCPolicy
from policies.cal_ql import learner as cal_ql
from policies.cal_ql.config import CalQLConfig
from policies.cqn.config import CQNASConfig, CQNConfig
from policies.cqn.learner import CQNLearner
from policies.cqn.policy import CQNPolicy
from policies.dsrl.config import DSRLConfig, DSRLOnBaseConfig
from policies.dsrl.learner import DSRLLearner
from policies.dsrl.on_base import DSRLOnBaseLearner
from policies.dsrl.policy import DSRLOnBasePolicy, DSRLPolicy
from policies.flow_bc.config import FlowBCConfig
from policies.flow_bc.learner import FlowBCLearner
from policies.flow_bc.policy import FlowPolicy
from policies.hg_dagger import learner as hg_dagger
from policies.hg_dagger.config import HGDAggerConfig
from policies.jump_start.config import JumpStartConfig
from policies.jump_start.learner import JumpStartLearner
from policies.jump_start.policy import JumpStartPolicy
from policies.learner import ActingNetwork, JudgingCritic, Learner, LearnerSpec
from policies.qc.config import QCConfig, QCFQLConfig
from policies.qc.learner import QCLearner
from policies.qc.policy import QCPolicy
from policies.recap.config import RecapConfig
from policies.recap.learner import RecapLearner
from policies.recap.policy import RecapPolicy
from policies.residual import learner as residual
from policies.residual.config import ResidualConfig, ResidualOnBaseConfig
from policies.residual.policy import ResidualOnBasePolicy, ResidualPolicy
from policies.rlpd.config import RLPDConfig
from policies.rlpd.learner import RLPDLearner
from policies.rlpd.policy import ArmCritic, RLPDPolicy
from robot_stack.plugins import ConfigT

ConfigT_contra = TypeVar("ConfigT_contra", contravariant=True)


class MakeLearner(Protocol[ConfigT_contra]):
    """The builder of an algorithm's learner."""

    def __call__(self, spec: LearnerSpec, config: ConfigT_contra, *, seed: int, device: str = "cpu") -> Learner:
        """Build a learner at its first weights, on a device."""
        ...


class MakeCritic(Protocol[ConfigT_contra]):
    """The builder of the network that values actions with an algorithm's critics."""

    def __call__(self, spec: LearnerSpec, config: ConfigT_contra) -> JudgingCritic:
        """Build the network; its weights are loaded afterwards."""
        ...


class MakePolicy(Protocol[ConfigT_contra]):
    """The builder of the network that acts with an algorithm's parameters."""

    def __call__(self, spec: LearnerSpec, config: ConfigT_contra) -> ActingNetwork:
        """Build the network; its weights are loaded afterwards."""
        ...


@dataclass(frozen=True, kw_only=True)
class Builders(Generic[ConfigT]):
    """The builders of one algorithm.

    Attributes:
        learner: Builds what learns, from sizes and settings.
        policy: Builds what acts.
        critic: Builds what values actions at an actor, of the tensors that `policies.learner.PublishesCritic` gives;
            None where there is nothing to build, or the acting network has it already (`ValuesActions`).
    """

    learner: MakeLearner[ConfigT]
    policy: MakePolicy[ConfigT]
    critic: MakeCritic[ConfigT] | None = None


def _imitation_policy(spec: LearnerSpec, config: BCConfig | HGDAggerConfig) -> BCPolicy:
    return BCPolicy(spec, head=config.head, hidden=config.hidden)


RLPD: Builders[RLPDConfig] = Builders(learner=RLPDLearner, policy=RLPDPolicy, critic=ArmCritic)
BC: Builders[BCConfig] = Builders(learner=BCLearner, policy=_imitation_policy)
HG_DAGGER: Builders[HGDAggerConfig] = Builders(learner=hg_dagger.make_learner, policy=_imitation_policy)
RESIDUAL: Builders[ResidualConfig] = Builders(learner=residual.ResidualLearner, policy=ResidualPolicy)
RESIDUAL_ON_BASE: Builders[ResidualOnBaseConfig] = Builders(learner=residual.make_on_base, policy=ResidualOnBasePolicy)
CAL_QL: Builders[CalQLConfig] = Builders(learner=cal_ql.make_learner, policy=RLPDPolicy, critic=ArmCritic)
JUMP_START: Builders[JumpStartConfig] = Builders(learner=JumpStartLearner, policy=JumpStartPolicy)
ACT: Builders[ActConfig] = Builders(learner=ActLearner, policy=ActPolicy)
FLOW_BC: Builders[FlowBCConfig] = Builders(learner=FlowBCLearner, policy=FlowPolicy)
QC: Builders[QCConfig] = Builders(learner=QCLearner, policy=QCPolicy)
QC_FQL: Builders[QCFQLConfig] = Builders(learner=QCLearner, policy=QCPolicy)
RECAP: Builders[RecapConfig] = Builders(learner=RecapLearner, policy=RecapPolicy)
CQN: Builders[CQNConfig] = Builders(learner=CQNLearner, policy=CQNPolicy)
CQN_AS: Builders[CQNASConfig] = Builders(learner=CQNLearner, policy=CQNPolicy)
DSRL: Builders[DSRLConfig] = Builders(learner=DSRLLearner, policy=DSRLPolicy)
DSRL_ON_BASE: Builders[DSRLOnBaseConfig] = Builders(learner=DSRLOnBaseLearner, policy=DSRLOnBasePolicy)
