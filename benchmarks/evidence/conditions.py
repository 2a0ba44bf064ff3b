"""The conditions of the evidence table: what is varied around the learner as it is shipped, and who helps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from policies.rlpd.config import RLPDConfig

DEMONSTRATIONS, CORRECTIONS = "demonstrations", "corrections"
EVAL_EPISODES = 100
SKILLED = "skilled"
OF_THE_CELL = "of_the_cell"
OPERATORS: Mapping[str, str | None] = {
    SKILLED: "scripted",
    "half_skilled": "scripted_half_skilled",
    "inattentive": "scripted_inattentive",
    OF_THE_CELL: None,
}
"""Operator -> file of the teleop device; None takes what the run's cell names."""
MINUTES, FEWER_MINUTES = 12.0, 5.0
"""Of robot time: about a dry run's; and with the operators who teach poorly."""
_SHIPPED = RLPDConfig()


def _rlpd(**settings: object) -> tuple[str, ...]:
    return tuple(f"run.algorithm.settings.{name}={value}" for name, value in settings.items())


def _imitation(weight: float) -> tuple[str, ...]:
    return _rlpd(bc_weight=weight, bc_half_life=0)


NEVER_TAKES_OVER = tuple(
    f"teleop.operator.{name}={value}"
    for name, value in {"stuck_s": 60, "patience_s": 600, "off_course_m": 1, "force_limit_n": 100}.items()
)
HIL_SERL = (
    *_rlpd(bc_weight=0, bc_half_life=0, shaping_weight=0, std_min=0.00001, std_max=5, actor_tau=1, batch_size=256),
    *_rlpd(initial_temperature=0.01, target_entropy_per_action=-0.5, pretrain_updates=0, cql_weight=0),
    "run.reward.form=sparse",
)
"""docs/algorithms/rlpd.md has these values; as many updates a step as all others make."""
AS_MANY_UPDATES = _rlpd(utd=_SHIPPED.utd, actor_tau=_SHIPPED.actor_tau)


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A condition of the table.

    Attributes:
        words: What it is, in the table.
        run: Shipped run that it varies.
        operator: Who demonstrates and helps, of `OPERATORS`.
        algorithm: Name in the registry.
        overrides: Texts `dotted.key=value`, against the shipped run.
        imitates: None: it trains online. Else it is trained on what was recorded, without a robot: on the
            demonstrations alone, or with the corrections that HG-DAgger was given too.
        ranks_actions: Whether its critic is asked to rank actions (`benchmarks.evidence.advantage`).
        minutes: Robot time of the online training.
    """

    words: str
    run: str = "peg_insert"
    operator: str = SKILLED
    algorithm: str = "rlpd"
    overrides: tuple[str, ...] = ()
    imitates: str | None = None
    ranks_actions: bool = False
    minutes: float = MINUTES


_FULL = Condition(words="RLPD as shipped, reward shaped by a potential", ranks_actions=True)
_WITHOUT_Q = Condition(
    words="the same without Q in the actor's loss: online imitation, which does not fade",
    overrides=_rlpd(q_weight=0, bc_half_life=0),
)
_HG_DAGGER = Condition(
    words="HG-DAgger, as many updates, averaged actor", algorithm="hg_dagger", overrides=AS_MANY_UPDATES
)
_BC = Condition(
    words="behaviour cloning of the demonstrations",
    algorithm="hg_dagger",
    overrides=AS_MANY_UPDATES,
    imitates=DEMONSTRATIONS,
)
_BC_PLUS = Condition(
    words="behaviour cloning of the demonstrations and of all corrections of HG-DAgger's run",
    algorithm="hg_dagger",
    overrides=AS_MANY_UPDATES,
    imitates=CORRECTIONS,
)
_QC = Condition(words="Q-chunking: the best of 16 cloned chunks by its critic", algorithm="qc", ranks_actions=True)
_QC_WITHOUT_Q = Condition(
    words="Q-chunking without Q: the first cloned chunk is played",
    algorithm="qc",
    overrides=("run.algorithm.settings.candidates=1", "run.algorithm.settings.target_candidates=1"),
)
FOR_EVERY_OPERATOR = {
    "full": _FULL,
    "without_q": _WITHOUT_Q,
    "hg_dagger": _HG_DAGGER,
    "bc": _BC,
    "bc_plus_corrections": _BC_PLUS,
    "qc": _QC,
    "qc_without_q": _QC_WITHOUT_Q,
}


def _with(operator: str) -> dict[str, Condition]:
    return {
        f"{operator}.{name}": Condition(
            words=base.words,
            operator=operator,
            algorithm=base.algorithm,
            overrides=base.overrides,
            imitates=base.imitates,
            minutes=FEWER_MINUTES,
        )
        for name, base in FOR_EVERY_OPERATOR.items()
    }


CONDITIONS: Mapping[str, Condition] = {
    **FOR_EVERY_OPERATOR,
    "imitation_weight_0": Condition(words="imitation weight 0 throughout", overrides=_imitation(0)),
    "imitation_weight_1": Condition(words="imitation weight 1 throughout", overrides=_imitation(1)),
    "imitation_weight_30": Condition(words="imitation weight 30 throughout", overrides=_imitation(30)),
    "without_help": Condition(words="an operator who judges and never takes over", overrides=NEVER_TAKES_OVER),
    "without_demonstrations": Condition(
        words="no demonstration in any batch and nothing imitated (encoder and reward model are fitted on them)",
        overrides=_rlpd(expert_fraction=0, pretrain_updates=0),
    ),
    "sparse": Condition(words="sparse reward", overrides=("run.reward.form=sparse",)),
    "scheduled_discount": Condition(
        words="a discount that grows with what the policy has mastered (arXiv:2310.07433)",
        overrides=("run.reward.discount=scheduled",),
    ),
    "hil_serl": Condition(words="HIL-SERL's own settings", overrides=HIL_SERL),
    **_with("half_skilled"),
    **_with("inattentive"),
}
"""By name, in the order of the table; `<operator>.<name>` is with another operator than the skilled one."""

FIRST = (
    *("full", "without_q", "half_skilled.full", "half_skilled.without_q", "imitation_weight_0", "hg_dagger"),
    *("qc", "qc_without_q", "half_skilled.qc", "half_skilled.qc_without_q"),
)
"""What is measured first, seed after seed; the others follow in the order of the table."""
