"""Hyperparameters of RLPD; each is read, and each has a test that it changes something."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from policies.settings import Layers, Sampling


class RLPDConfig(BaseModel):
    """Hyperparameters of RLPD; docs/algorithms/rlpd.md has HIL-SERL's values (arXiv:2410.21845) beside them."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    batch_size: int = Field(128, ge=2, le=4096)
    utd: float = Field(8.0, gt=0.0, le=100.0, description="updates per online environment step")
    expert_fraction: float = Field(0.5, ge=0.0, le=1.0, description="share of demo and human rows in a batch")
    discount: float = Field(0.97, gt=0.0, lt=1.0, description="per control tick")
    n_step: int = Field(1, ge=1, le=10)
    chunk: int = Field(1, ge=1, le=20, description="ticks that one decision covers (arXiv:2507.07969)")
    critics: int = Field(2, ge=2, le=10)
    critic_subset: int = Field(2, ge=1, le=10, description="critics in the target's minimum, or mean")
    subset_mean: bool = Field(False, description="their mean is the target instead of their minimum")
    critic_actor_ratio: int = Field(2, ge=1, le=20, description="critic updates per actor update")
    learning_rate: float = Field(3e-4, gt=0.0, le=1e-1)
    target_tau: float = Field(0.005, gt=0.0, le=1.0)
    actor_tau: float = Field(
        0.005, gt=0.0, le=1.0, description="share by which the published actor follows the trained one; 1 publishes it"
    )
    initial_temperature: float = Field(0.003, gt=0.0, le=1.0)
    target_entropy_per_action: float = Field(-1.0, ge=-5.0, le=1.0, description="HIL-SERL has -0.5")
    std_min: float = Field(0.02, gt=0.0, le=1.0)
    std_max: float = Field(0.1, gt=0.0, le=5.0)
    smooth_ticks: int = Field(
        1, ge=1, le=1000, description="ticks for which exploration noise is one function of the state (gSDE); 1: white"
    )
    hidden: tuple[int, ...] = (256, 256)
    head: int = Field(64, ge=0, le=512, description="width of each trained head; 0 for none")
    layers: Layers = Field(
        "hil_serl",
        description="hil_serl: LayerNorm, tanh; rlpd: ReLU, LayerNorm in the critics alone, an actor that starts wide",
    )
    bf16: bool = Field(True, description="matrix products in bf16 where the processor multiplies those faster")
    shaping_weight: float = Field(1.0, ge=0.0, le=10.0, description="weight of the potential")
    q_weight: float = Field(1.0, ge=0.0, description="weight of the critics in the actor's loss; 0 only imitates")
    bc_weight: float = Field(30.0, ge=0.0, description="weight of imitation of expert rows; ours, HIL-SERL has 0")
    cql_weight: float = Field(
        0.0, ge=0.0, le=100.0, description="weight of Cal-QL's contrast between actions in the critics' loss"
    )
    cql_actions: int = Field(1, ge=1, le=64, description="uniform actions, and as many of the policy, to contrast with")
    cql_stride: int = Field(4, ge=1, le=64, description="one row of a batch in so many is contrasted")
    correction_margin: float = Field(
        0.0,
        ge=0.0,
        le=10.0,
        description="by which a correction is valued above what the policy proposed, per unit of distance; 0 for not",
    )
    bc_half_life: int = Field(0, ge=0, description="updates in which the imitation weight halves; 0 keeps it")
    bc_weight_end: float = Field(0.0, ge=0.0, description="imitation weight at which the halving stops")
    pretrain_updates: int = Field(0, ge=0, description="updates on the demos before the first online step")
    gripper_penalty: float = Field(
        0.02, ge=0.0, le=1.0, description="taken off the reward for each effective change of a discrete gripper"
    )
    gripper_margin: float = Field(
        0.05, ge=0.0, le=1.0, description="by which an operator's choice of a discrete gripper is valued above others"
    )

    @field_validator("head")
    @classmethod
    def _none_or_wide_enough(cls, head: int) -> int:
        if 0 < head < 8:
            raise ValueError(f"head is {head}, must be 0 for none, or 8 to 512; widen it")
        return head

    @field_validator("critic_subset")
    @classmethod
    def _not_more_than_there_are(cls, subset: int, info: ValidationInfo) -> int:
        critics = info.data.get("critics")
        if critics is not None and subset > critics:
            raise ValueError(f"critic_subset is {subset}, must be at most critics ({critics}); lower it")
        return subset

    @model_validator(mode="after")
    def _has_a_spread(self) -> Self:
        if self.std_max < self.std_min:
            raise ValueError(
                f"std_max is {self.std_max}, must be at least std_min ({self.std_min}); raise it or lower that"
            )
        return self

    @property
    def sampling(self) -> Sampling:
        """Return the sampling that the settings ask for; a chunk's return runs over the chunk."""
        return Sampling(
            gamma=self.discount,
            expert_fraction=self.expert_fraction,
            n_step=max(self.n_step, self.chunk),
            chunk=self.chunk,
        )

    @field_validator("chunk")
    @classmethod
    def _runs_the_return(cls, chunk: int, info: ValidationInfo) -> int:
        n_step = info.data.get("n_step", 1)
        if chunk > 1 and n_step not in (1, chunk):
            raise ValueError(f"n_step is {n_step}, must be 1 with chunk {chunk}; the return runs over the chunk")
        return chunk
