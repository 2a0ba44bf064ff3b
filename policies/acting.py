"""The acting side: a policy built from published parameters alone, trunk included."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from policies.encoders.embedded import EmbeddedTrunk
from policies.learner import LearnerSpec
from policies.networks import GaussianActor, StateEncoder
from robot_stack.types.errors import SpecError
from robot_stack.types.observation import Observation
from robot_stack.types.params import Params
from robot_stack.types.spec import Spec

TRUNK = "trunk."
ACTOR = "actor."


def pack_tensors(trunk: EmbeddedTrunk, actor: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Tensors of a bundle: the frozen trunk as float32, so that features match bit by bit, and the actor as given."""
    frozen = {TRUNK + name: tensor.cpu().numpy() for name, tensor in trunk.state_dict().items()}
    return frozen | {ACTOR + name: tensor for name, tensor in actor.items()}


def actor_metadata(trunk: EmbeddedTrunk, *, algorithm: str, head: int, hidden: tuple[int, ...]) -> dict[str, str]:
    """What is needed to rebuild the networks around the tensors."""
    return {
        "algorithm": algorithm,
        "trunk": trunk.identity,
        "to_go_size": str(trunk.to_go_size),
        "head": str(head),
        "hidden": ",".join(map(str, hidden)),
    }


class ActingPolicy:
    """Frozen trunk and tanh-Gaussian actor; implements `types.interfaces.Policy`.

    Parameters are swapped between two ticks by `load`, never during one.
    """

    def __init__(self, spec: Spec, params: Params, *, seed: int) -> None:
        self._spec = spec
        self._rng = torch.Generator().manual_seed(seed)
        self.trunk_id = params.metadata["trunk"]
        self._trunk = EmbeddedTrunk({c.name: c.shape for c in spec.cameras}, int(params.metadata["to_go_size"]))
        self._trunk.load_state_dict(_tensors(params, TRUNK))
        self._trunk.requires_grad_(False).eval()
        if self._trunk.identity != self.trunk_id:
            raise SpecError(f"trunk is {self._trunk.identity}, must be {self.trunk_id}; the parameters are damaged")
        sizes = LearnerSpec(
            slices=self._trunk.slices,
            proprio_mean=torch.zeros(spec.proprio_size),
            proprio_std=torch.ones(spec.proprio_size),
            actions=spec.action_size,
        )
        head, hidden = int(params.metadata["head"]), tuple(map(int, params.metadata["hidden"].split(",")))
        encoder = StateEncoder(sizes.slices, sizes.proprio_mean, sizes.proprio_std, head=head, proprio_head=head)
        self._actor = GaussianActor(encoder, sizes.actions, hidden=hidden).requires_grad_(False)
        self.version = 0
        self.age_s = 0.0
        self.load(params)

    def load(self, params: Params) -> None:
        """Take newer parameters of the same run.

        Raises:
            SpecError: If they belong to another trunk, are not newer, or do not fit.
        """
        if params.metadata["trunk"] != self.trunk_id:
            raise SpecError(f"trunk of params {params.version} is {params.metadata['trunk']}, must be {self.trunk_id}")
        if params.version <= self.version:
            raise SpecError(f"params version is {params.version}, must be above {self.version}")
        self._actor.load_state_dict({name: tensor.float() for name, tensor in _tensors(params, ACTOR).items()})
        self.version = params.version

    @torch.no_grad()
    def act(self, observation: Observation, *, deterministic: bool) -> np.ndarray:
        """Action float32 (A,) in [-1, 1]."""
        features = torch.from_numpy(self._trunk.encode({n: i[None] for n, i in observation.images.items()})).float()
        proprio = torch.from_numpy(observation.proprio)[None]
        if deterministic:
            action = self._actor.deterministic(features, proprio)
        else:
            action, _, _ = self._actor.sample(features, proprio, self._rng)
        return action[0].numpy()


def _tensors(params: Params, prefix: str) -> dict[str, torch.Tensor]:
    return {
        name.removeprefix(prefix): torch.from_numpy(np.array(value))
        for name, value in params.tensors.items()
        if name.startswith(prefix)
    }
