"""The registry of algorithms by name: those below, and those of other packages (`robot_stack.plugins`).

Settings are read here without torch, which the builders alone need: a robot's PC refuses the mistakes that a learner
would.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from policies.act.config import ActConfig
from policies.bc.config import BCConfig
from policies.cal_ql.config import CalQLConfig
from policies.cqn.config import CQNASConfig, CQNConfig
from policies.dsrl.config import DSRLConfig, DSRLOnBaseConfig
from policies.flow_bc.config import FlowBCConfig
from policies.hg_dagger.config import HGDAggerConfig
from policies.jump_start.config import JumpStartConfig
from policies.qc.config import QCConfig, QCFQLConfig
from policies.recap.config import RecapConfig
from policies.residual.config import ResidualConfig, ResidualOnBaseConfig
from policies.rlpd.config import RLPDConfig
from robot_stack import plugins
from robot_stack.plugins import ConfigT, Part, Registry, imported
from robot_stack.types.errors import ConfigError

if TYPE_CHECKING:
    from policies.builders import Builders


@dataclass(frozen=True, kw_only=True)
class Algorithm(Part[ConfigT]):
    """A registered algorithm, as `algorithm: {name: ...}` names it.

    Attributes:
        config: Model of its settings; its instances are `policies.settings.LearnerConfig` too.
        builders: Returns what builds its learner and networks.
        has_critics: Whether an actor can ask several critics about what the policy does.
        frozen_encoder: Whether a part of it is frozen, so that an encoder that goes on learning would take its
            features away.
        needs_base: Whether it reads what the run's base policy proposes.
        steers_base: Whether it chooses the noise of the run's base policy.
    """

    builders: Callable[[], Builders[ConfigT]]
    has_critics: bool = False
    frozen_encoder: bool = False
    needs_base: bool = False
    steers_base: bool = False


RLPD = Algorithm(config=RLPDConfig, builders=imported("policies.builders:RLPD"), has_critics=True)
BC = Algorithm(config=BCConfig, builders=imported("policies.builders:BC"))
HG_DAGGER = Algorithm(config=HGDAggerConfig, builders=imported("policies.builders:HG_DAGGER"))
RESIDUAL = Algorithm(config=ResidualConfig, builders=imported("policies.builders:RESIDUAL"), frozen_encoder=True)
RESIDUAL_ON_BASE = Algorithm(
    config=ResidualOnBaseConfig, builders=imported("policies.builders:RESIDUAL_ON_BASE"), needs_base=True
)
CAL_QL = Algorithm(config=CalQLConfig, builders=imported("policies.builders:CAL_QL"), has_critics=True)
JUMP_START = Algorithm(config=JumpStartConfig, builders=imported("policies.builders:JUMP_START"), frozen_encoder=True)
ACT = Algorithm(config=ActConfig, builders=imported("policies.builders:ACT"))
FLOW_BC = Algorithm(config=FlowBCConfig, builders=imported("policies.builders:FLOW_BC"))
QC = Algorithm(config=QCConfig, builders=imported("policies.builders:QC"), has_critics=True)
QC_FQL = Algorithm(config=QCFQLConfig, builders=imported("policies.builders:QC_FQL"), has_critics=True)
RECAP = Algorithm(config=RecapConfig, builders=imported("policies.builders:RECAP"))
CQN = Algorithm(config=CQNConfig, builders=imported("policies.builders:CQN"))
CQN_AS = Algorithm(config=CQNASConfig, builders=imported("policies.builders:CQN_AS"))
DSRL = Algorithm(config=DSRLConfig, builders=imported("policies.builders:DSRL"), frozen_encoder=True)
DSRL_ON_BASE = Algorithm(
    config=DSRLOnBaseConfig,
    builders=imported("policies.builders:DSRL_ON_BASE"),
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


def find_builders(name: str) -> Builders[Any]:
    """Return what builds the learner and networks of an algorithm.

    Raises:
        ConfigError: If there is none, or a package's cannot be used; see `Registry`.
    """
    from policies.builders import Builders

    found = ALGORITHMS.builders(name, Builders)
    if found.critic is not None and not ALGORITHMS[name].has_critics:
        raise ConfigError(
            f"algorithm {name!r} has a critic among its builders and has_critics false, must be true; correct it"
        )
    return found
