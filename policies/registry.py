"""The registry of algorithms by name: those below, and those of other packages (`robot_stack.plugins`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

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
from robot_stack import plugins
from robot_stack.plugins import ConfigT, Part, Registry

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
class Algorithm(Part[ConfigT]):
    """A registered algorithm, as `algorithm: {name: ...}` names it.

    Attributes:
        config: Model of its settings; its instances are `policies.learner.LearnerConfig` too.
        learner: Builds what learns, from sizes and settings.
        policy: Builds what acts.
        critic: Builds what values actions at an actor, of the tensors that `policies.learner.PublishesCritic` gives;
            None where there is nothing to build, or the acting network has it already (`values_actions`).
        values_actions: Whether the acting network brings its critics along, see `policies.learner.ValuesActions`.
        frozen_encoder: Whether a part of it is frozen, so that an encoder that goes on learning would take its
            features away.
        needs_base: Whether it reads what the run's base policy proposes.
        steers_base: Whether it chooses the noise of the run's base policy.
    """

    learner: MakeLearner[ConfigT]
    policy: MakePolicy[ConfigT]
    critic: MakeCritic[ConfigT] | None = None
    values_actions: bool = False
    frozen_encoder: bool = False
    needs_base: bool = False
    steers_base: bool = False

    @property
    def has_critics(self) -> bool:
        """Return whether an actor can ask several critics about what the policy does."""
        return self.critic is not None or self.values_actions


def _imitation_policy(spec: LearnerSpec, config: BCConfig | HGDAggerConfig) -> BCPolicy:
    return BCPolicy(spec, head=config.head, hidden=config.hidden)


RLPD = Algorithm(config=RLPDConfig, learner=RLPDLearner, policy=RLPDPolicy, critic=ArmCritic)
BC = Algorithm(config=BCConfig, learner=BCLearner, policy=_imitation_policy)
HG_DAGGER = Algorithm(config=HGDAggerConfig, learner=hg_dagger.make_learner, policy=_imitation_policy)
RESIDUAL = Algorithm(
    config=ResidualConfig, learner=residual.ResidualLearner, policy=ResidualPolicy, frozen_encoder=True
)
RESIDUAL_ON_BASE = Algorithm(
    config=ResidualOnBaseConfig, learner=residual.make_on_base, policy=ResidualOnBasePolicy, needs_base=True
)
CAL_QL = Algorithm(config=CalQLConfig, learner=cal_ql.make_learner, policy=RLPDPolicy, critic=ArmCritic)
JUMP_START = Algorithm(config=JumpStartConfig, learner=JumpStartLearner, policy=JumpStartPolicy, frozen_encoder=True)
ACT = Algorithm(config=ActConfig, learner=ActLearner, policy=ActPolicy)
FLOW_BC = Algorithm(config=FlowBCConfig, learner=FlowBCLearner, policy=FlowPolicy)
QC = Algorithm(config=QCConfig, learner=QCLearner, policy=QCPolicy, values_actions=True)
QC_FQL = Algorithm(config=QCFQLConfig, learner=QCLearner, policy=QCPolicy, values_actions=True)
RECAP = Algorithm(config=RecapConfig, learner=RecapLearner, policy=RecapPolicy)
CQN = Algorithm(config=CQNConfig, learner=CQNLearner, policy=CQNPolicy)
CQN_AS = Algorithm(config=CQNASConfig, learner=CQNLearner, policy=CQNPolicy)
DSRL = Algorithm(config=DSRLConfig, learner=DSRLLearner, policy=DSRLPolicy, frozen_encoder=True)
DSRL_ON_BASE = Algorithm(
    config=DSRLOnBaseConfig,
    learner=DSRLOnBaseLearner,
    policy=DSRLOnBasePolicy,
    frozen_encoder=True,
    needs_base=True,
    steers_base=True,
)

ALGORITHMS: Registry[Algorithm[Any]] = Registry(plugins.ALGORITHMS, Algorithm)


def find_algorithm(name: str) -> Algorithm[Any]:
    """Return the algorithm of a name.

    Raises:
        ConfigError: If there is none, or a package's cannot be used; see `Registry`.
    """
    return ALGORITHMS[name]
