"""The acting side: a policy built from published parameters alone, encoder included."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from policies.encoders.registry import load_trunk
from policies.encoders.trunk import Trunk, encode_frames
from policies.familiarity import Familiarity
from policies.learner import ChoosesNoise, ExploresSmoothly, JudgingCritic, LearnerSpec, Module, ValuesActions
from policies.playback import ChunkPlayer
from policies.registry import find_algorithm, find_builders
from policies.settings import LearnerConfig
from robot_stack.types.errors import SpecError
from robot_stack.types.help import Insight
from robot_stack.types.observation import Observation
from robot_stack.types.params import Params
from robot_stack.types.spec import Spec

TRUNK = "trunk."
ACTOR = "actor."
CRITIC = "critic."
FAMILIAR = "familiar."
SAMPLES = 8
"""Actions that are drawn beside the one that is taken, to see how far they differ."""
_DESCRIPTION = {"algorithm", "settings", "trunk", "trunk_reference", "trunk_trained"}
"""What parameters say of themselves, see `actor_metadata`."""


def pack_tensors(
    trunk: Trunk,
    actor: Mapping[str, np.ndarray],
    trained: Mapping[str, np.ndarray] | None = None,
    *,
    critic: Mapping[str, np.ndarray] | None = None,
    familiar: Mapping[str, np.ndarray] | None = None,
) -> dict[str, np.ndarray]:
    """Collect the tensors that an actor needs into one mapping, with a prefix for each part.

    Args:
        trunk: The run's encoder; travels as float32, so that features match bit by bit, if it travels.
        actor: The acting network.
        trained: Weights of the encoder where it is trained end to end; they travel instead.
        critic: The critics, where the policy asks for help by them.
        familiar: The demonstrations to compare features with (`policies.familiarity`), where it asks by that.
    """
    seeing = trained or {}
    if not trained and trunk.travels:
        seeing = {name: tensor.cpu().numpy() for name, tensor in trunk.state_dict().items()}
    parts = ((TRUNK, seeing), (ACTOR, actor), (CRITIC, critic or {}), (FAMILIAR, familiar or {}))
    return {prefix + name: tensor for prefix, tensors in parts for name, tensor in tensors.items()}


def actor_metadata(trunk: Trunk, *, algorithm: str, config: LearnerConfig, trained: bool = False) -> dict[str, str]:
    """Return the metadata from which an actor rebuilds the networks around published tensors.

    Args:
        trunk: The run's encoder, at its first weights if it is trained.
        algorithm: Name in the registry.
        config: Its settings.
        trained: Whether the encoder is trained end to end.
    """
    return {
        "algorithm": algorithm,
        "settings": config.model_dump_json(),
        "trunk": trunk.identity,
        "trunk_reference": json.dumps(trunk.reference),
        "trunk_trained": json.dumps(trained),
    }


class ActingPolicy:
    """Encoder and acting network of a run; implements `types.interfaces.Policy` and `SteersBase`.

    Parameters are swapped between two ticks by `load`, never during one.

    Raises:
        ConfigError, SpecError: If the parameters do not say how to build their networks, or the encoder that
            they name is not found here, or is another one.
    """

    def __init__(self, spec: Spec, params: Params, *, seed: int) -> None:
        self._rng = torch.Generator().manual_seed(seed)
        metadata = params.metadata
        if missing := sorted(_DESCRIPTION - metadata.keys()):
            raise SpecError(f"params {params.version} do not say {missing}, must say how to build their networks")
        self.trunk_id = metadata["trunk"]
        self._trained = bool(json.loads(metadata["trunk_trained"]))
        shapes = {camera.name: camera.shape for camera in spec.cameras}
        self._trunk = load_trunk(json.loads(metadata["trunk_reference"]), shapes, _tensors(params, TRUNK))
        algorithm = find_algorithm(metadata["algorithm"])
        sizes = LearnerSpec(
            parts=self._trunk.parts,
            proprio_mean=torch.zeros(spec.proprio_size),
            proprio_std=torch.ones(spec.proprio_size),
            actions=spec.action_size,
            grippers=spec.discrete_gripper_indices,
            noise=spec.noise_size,
        )
        builders = find_builders(metadata["algorithm"])
        try:
            settings = algorithm.config.model_validate_json(metadata["settings"])
        except ValueError as error:  # pydantic's is one
            why = " ".join(str(error).split())
            raise SpecError(
                f"settings of params {params.version} are not of {metadata['algorithm']} as known here ({why}); "
                "install the same robot-stack on both sides"
            ) from error
        self._network = builders.policy(sizes, settings)
        self._network.requires_grad_(False).eval()
        self._critic: JudgingCritic | None = None
        if builders.critic is not None and _tensors(params, CRITIC):
            self._critic = builders.critic(sizes, settings)
            self._critic.requires_grad_(False).eval()
        self._familiarity = Familiarity.from_tensors(_arrays(params, FAMILIAR))
        self._sample_rng = torch.Generator().manual_seed(seed)
        self._seen: tuple[Tensor, Tensor] | None = None
        self._insight: tuple[tuple[int, np.ndarray], Insight] | None = None
        self._steering: np.ndarray | None = None
        self._actions = spec.action_size
        self._player = ChunkPlayer(self._network, self._actions, self._rng, spec.discrete_gripper_indices)
        self.version = 0
        self.age_s = 0.0
        self.load(params)

    def load(self, params: Params) -> None:
        """Take newer parameters of the same run.

        Raises:
            SpecError: If they belong to another trunk, are not newer, or do not fit.
        """
        trunk = params.metadata.get("trunk", "unnamed")
        if trunk != self.trunk_id:
            raise SpecError(f"trunk of params {params.version} is {trunk}, must be {self.trunk_id}")
        if params.version <= self.version:
            raise SpecError(f"params version is {params.version}, must be above {self.version}")
        modules: list[tuple[Module | Trunk, dict[str, Tensor]]] = [(self._network, _tensors(params, ACTOR))]
        if self._critic is not None:
            modules.append((self._critic, _tensors(params, CRITIC)))
        if self._trained:
            modules.append((self._trunk, _tensors(params, TRUNK)))
        # all is looked at before anything is taken: torch copies what fits, then raises
        for module, tensors in modules:
            _check_fit(params.version, module.state_dict(), tensors)
        for module, tensors in modules:
            module.load_state_dict(tensors)
        self.version = params.version

    def begin_episode(self) -> None:
        """Count ticks from 0 and forget what was planned."""
        self._player.begin_episode()
        self._seen = self._steering = None

    @torch.no_grad()
    def act(self, observation: Observation, *, deterministic: bool, interrupted: bool = False) -> np.ndarray:
        """Return the action for this control tick, float32 (A,) in [-1, 1].

        Args:
            observation: What is sensed now.
            deterministic: Without exploration noise.
            interrupted: Someone else moved the robot since; what was planned is void.
        """
        if interrupted:
            self._player.void()
        action = self._player.next_action(lambda: self._see(observation), deterministic=deterministic)
        if isinstance(self._network, ChoosesNoise) and self._seen is not None:
            chosen = self._network.noise(*self._seen, rng=self._rng, deterministic=deterministic)
            self._steering = chosen[0].numpy()
        return action

    def steering(self) -> np.ndarray | None:
        """Return the noise that was chosen for the run's base with the newest action, float32 (D,), if any is."""
        return self._steering

    @torch.no_grad()
    def insight(self) -> Insight | None:
        """Return what the policy says of its newest decision, without drawing from the noise that it acts with."""
        decided = self._player.newest
        if decided is None or self._seen is None:
            return None
        if self._insight is None or self._insight[0] is not decided:
            self._insight = decided, self._look_within(*self._seen, *decided)
        return self._insight[1]

    def _look_within(self, features: Tensor, proprio: Tensor, tick: int, decided: np.ndarray) -> Insight:
        network, rng = self._network, self._sample_rng
        seen = features.expand(SAMPLES, -1), proprio.expand(SAMPLES, -1)
        samples = (
            network.samples(*seen, tick=tick, rng=rng)
            if isinstance(network, ExploresSmoothly)
            else network.act(*seen, tick=tick, rng=rng, deterministic=False)
        )
        judge = self._critic if self._critic is not None else self._network
        q = None
        if isinstance(judge, ValuesActions):
            q = judge.values(features, proprio, torch.from_numpy(decided.reshape(1, -1)))[:, 0].numpy()
        distance = float("nan") if self._familiarity is None else self._familiarity.distance(features[0].numpy())
        return Insight(distance=distance, samples=samples.numpy(), q=q)

    def _see(self, observation: Observation) -> tuple[Tensor, Tensor]:
        self._seen = self._features(observation), torch.from_numpy(observation.proprio)[None]
        return self._seen

    def _features(self, observation: Observation) -> Tensor:
        images = {name: image[None] for name, image in observation.images.items()}
        if self._trained:
            return self._trunk({name: torch.from_numpy(image) for name, image in images.items()})
        return torch.from_numpy(encode_frames(self._trunk, images, 1)).float()


def _check_fit(version: int, wanted: Mapping[str, Tensor], found: Mapping[str, Tensor]) -> None:
    """Refuse tensors that are missing, unknown or of another size."""
    sizes = {name: tuple(tensor.shape) for name, tensor in wanted.items()}
    for name in sorted(sizes.keys() | found.keys()):
        got = tuple(found[name].shape) if name in found else "missing"
        if got != sizes.get(name, "absent"):
            raise SpecError(
                f"params {version} do not fit the networks of this run: {name} is {got}, "
                f"must be {sizes.get(name, 'absent')}; they are of other settings"
            )


def _arrays(params: Params, prefix: str) -> dict[str, np.ndarray]:
    """Return the arrays under a prefix, without it."""
    named = params.tensors.items()
    return {name.removeprefix(prefix): np.array(value) for name, value in named if name.startswith(prefix)}


def _tensors(params: Params, prefix: str) -> dict[str, Any]:
    """Return the tensors under a prefix, without it; half precision becomes float32."""
    found = {name: torch.from_numpy(value) for name, value in _arrays(params, prefix).items()}
    return {name: tensor.float() if tensor.dtype == torch.float16 else tensor for name, tensor in found.items()}
