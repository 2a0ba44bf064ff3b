"""The RLPD learner: one `update(batch)` per call, everything it needs to resume in `state_dict()`."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from policies.device import upload
from policies.distributed import ALONE
from policies.graphs import CudaRecorder, Graphs
from policies.imitation import balance, imitation_loss, labelled_ticks
from policies.learner import LearnerSpec, TensorBatch, published_tensors
from policies.optimiser import descend, follow, load_adam, make_adam
from policies.precision import fast
from policies.rlpd import losses
from policies.rlpd.config import RLPDConfig
from policies.rlpd.policy import ArmCritic, RLPDPolicy, TrainedPolicy
from policies.rlpd.snapshot import CriticSnapshot
from policies.vision import Seen, Vision


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateInputs:
    """What one update is given beside its batch: random numbers, drawn on the host for every device, and weights.

    Attributes:
        next_noise: Of the action at o', standard normal, shape (B, arm_size).
        subset: Critics that the target's minimum or mean runs over, int64.
        noise: Of the action at o, like `next_noise`; None where the actor is not updated.
        bc_weight: Of imitation in the actor's loss, shape ().
        uniform: N uniform actions for each of the R contrasted rows, in [-1, 1], shape (N * R, arm_size); None without
            a contrast.
        policy_noise: Of N actions of the policy at each of these rows, standard normal, same shape.
    """

    next_noise: Tensor
    subset: Tensor
    noise: Tensor | None
    bc_weight: Tensor
    uniform: Tensor | None
    policy_noise: Tensor | None


class RLPDLearner:
    """The RLPD learner: policy, critic ensemble, gripper critic and temperature, with target networks.

    Args:
        spec: Sizes.
        config: Hyperparameters.
        seed: Of weights, noise and subsets.
        device: Where it trains. On a GPU, updates on frozen features run as CUDA graphs.
        policy: What acts, if not `RLPDPolicy`: the neighbours of RLPD bring their own.
        cql_weight_offline: Weight of the contrast between actions in the first `pretrain_updates` updates, if not
            `cql_weight`.
    """

    name = "rlpd"

    def __init__(
        self,
        spec: LearnerSpec,
        config: RLPDConfig,
        *,
        seed: int,
        device: str = "cpu",
        policy: TrainedPolicy | None = None,
        cql_weight_offline: float | None = None,
    ) -> None:
        torch.manual_seed(seed)
        self.config = config
        self.updates = 0
        self._device = device
        self.ranks = ALONE
        self._rng = torch.Generator().manual_seed(seed)
        self._subset_rng = torch.Generator().manual_seed(seed)
        self._cql_weight_offline = config.cql_weight if cql_weight_offline is None else cql_weight_offline
        self.policy = (policy if policy is not None else RLPDPolicy(spec, config)).to(device)
        self.layout = self.policy.layout
        self.published = copy.deepcopy(self.policy).requires_grad_(False)
        """Running average of the policy: what acts and is evaluated."""
        self.critic = ArmCritic(spec, config).to(device)
        self.target = copy.deepcopy(self.critic).requires_grad_(False)
        self.vision = Vision(spec.trunk, tau=config.target_tau).to(device)
        raw = math.log(math.expm1(config.initial_temperature))
        self.log_temperature = nn.Parameter(torch.tensor(raw, device=device))
        self._target_entropy = config.target_entropy_per_action * self.layout.arm_size
        trained = {
            "actor": [p for p in self.policy.actor.parameters() if p.requires_grad],
            "critic": [*self.critic.parameters(), *self.vision.trained_parameters()],
            "temperature": [self.log_temperature],
        }
        if self.policy.gripper is not None:
            trained["gripper"] = list(self.policy.gripper.parameters())
        self._optimisers = {name: make_adam(parameters, config.learning_rate) for name, parameters in trained.items()}
        repeatable = self.log_temperature.is_cuda and spec.trunk is None
        self._graphs = Graphs(CudaRecorder()) if repeatable else None

    @property
    def temperature(self) -> Tensor:
        """Return the entropy temperature α, detached."""
        return functional.softplus(self.log_temperature).detach()

    def noise(self, rows: int, *, copies: int = 1, draw: Callable[..., Tensor] = torch.randn) -> Tensor:
        """Draw noise (copies * rows, arm_size): this rank's part of what all ranks draw together."""
        joint = draw(copies, self.ranks.count * rows, self.layout.arm_size, generator=self._rng)
        return upload(self.ranks.mine(joint, dim=1).flatten(0, 1), self._device)

    def update(self, batch: TensorBatch) -> dict[str, Tensor]:
        """Make one critic update, and an actor update every `critic_actor_ratio` calls; return detached metrics."""
        rows = len(batch.reward)
        with_actor = (self.updates + 1) % self.config.critic_actor_ratio == 0
        inputs = self.draw_inputs(rows, with_actor=with_actor)
        if self._graphs is None or self.ranks.count > 1:
            metrics = self._compute(batch, inputs)
        else:
            kind = (rows, with_actor, self._cql_weight)
            metrics = self._graphs.run(kind, self._compute, batch, inputs)
        self.updates += 1
        return metrics

    def update_critics(self, batch: TensorBatch) -> dict[str, Tensor]:
        """Make one critic update towards the values of the policy as it is, which stays; return detached metrics."""
        metrics = self._compute(batch, self.draw_inputs(len(batch.reward), with_actor=False))
        self.updates += 1
        return metrics

    @property
    def _cql_weight(self) -> float:
        """Return the weight of the contrast between actions in the next update."""
        offline = self.updates < self.config.pretrain_updates
        return self._cql_weight_offline if offline else self.config.cql_weight

    @property
    def _bc_weight(self) -> float:
        """Return the weight of imitation in the next update; it is whole in the first `pretrain_updates`."""
        config = self.config
        if config.bc_half_life == 0:
            return config.bc_weight
        faded = config.bc_weight * 0.5 ** (max(0, self.updates - config.pretrain_updates) / config.bc_half_life)
        return max(faded, min(config.bc_weight, config.bc_weight_end))

    @property
    def _contrasted(self) -> slice:
        """Return the rows of a batch whose actions are contrasted."""
        return slice(None, None, self.config.cql_stride)

    def draw_inputs(self, rows: int, *, with_actor: bool) -> UpdateInputs:
        """Draw what the next update is given, on `rows` rows."""
        subset = torch.randperm(self.critic.members, generator=self._subset_rng)[: self.config.critic_subset]
        contrast, count = self._cql_weight > 0, self.config.cql_actions
        contrasted = len(range(rows)[self._contrasted])
        return UpdateInputs(
            next_noise=self.noise(rows),
            subset=upload(subset, self._device),
            noise=self.noise(rows) if with_actor else None,
            bc_weight=upload(torch.tensor(self._bc_weight), self._device),
            uniform=self.noise(contrasted, copies=count, draw=torch.rand) * 2 - 1 if contrast else None,
            policy_noise=self.noise(contrasted, copies=count) if contrast else None,
        )

    def _compute(self, batch: TensorBatch, inputs: UpdateInputs) -> dict[str, Tensor]:
        """Compute one update as a function of tensors alone, so that it can be recorded."""
        with self._fast():
            seen = self.vision.see(batch)
        target, metrics = self._update_critic(batch, seen, inputs)
        known = seen.now.detach()
        if self.policy.gripper is not None:
            metrics |= self._update_gripper(batch, known, target)
        if inputs.noise is not None:
            metrics |= self._update_actor(batch, known, inputs.noise, inputs.bc_weight)
        return metrics

    def _update_critic(self, batch: TensorBatch, seen: Seen, inputs: UpdateInputs) -> tuple[Tensor, dict[str, Tensor]]:
        """Make one step on the TD error, of the encoder too where that is trained; the target networks follow.

        Returns:
            Target of each row, (B,), and metrics.
        """
        with torch.no_grad(), self._fast():
            next_action, _, _ = self.policy.sample(seen.following, batch.next_proprio, inputs.next_noise)
            next_q = self.target(seen.target, batch.next_proprio, next_action)
            target = losses.td_target(batch.reward, batch.discount, next_q, inputs.subset, mean=self.config.subset_mean)
        with self._fast():
            q, contrasts = self._values(batch, seen.now, inputs)
            loss = td_error = losses.critic_loss(q, target)
        metrics = {"critic_loss": td_error.detach(), "q": q.detach().mean(), "target_q": target.mean()}
        for name, (weight, contrast) in contrasts.items():
            loss = loss + weight * contrast
            metrics[name] = contrast.detach()
        self._step("critic", loss)
        follow(self.target, self.critic, self.config.target_tau)
        self.vision.follow()
        return target, metrics

    def _values(
        self, batch: TensorBatch, features: Tensor, inputs: UpdateInputs
    ) -> tuple[Tensor, dict[str, tuple[float, Tensor]]]:
        """Return Q of the executed actions, (E, B), and weight and loss of each contrast with other actions, by name.

        All come from one pass of the critics.
        """
        state, executed = self.critic.encoder(features, batch.proprio), self.layout.arm(batch.action)
        states, actions = [state], [executed]
        if self.config.correction_margin > 0:
            states.append(state)
            actions.append(self.layout.arm(batch.proposed))
        rows, count, log_policy = self._contrasted, self.config.cql_actions, None
        if inputs.uniform is not None and inputs.policy_noise is not None:
            with torch.no_grad():
                known, proprio = features[rows].repeat(count, 1), batch.proprio[rows].repeat(count, 1)
                policy, log_policy, _ = self.policy.sample(known, proprio, inputs.policy_noise)
            states.append(state[rows].repeat(2 * count, 1))
            actions += [inputs.uniform, policy]
        if len(actions) == 1:
            return self.critic.on_state(state, executed), {}
        values = self.critic.on_state(torch.cat(states), torch.cat(actions))
        q, others = values[:, : len(executed)], values[:, len(executed) :]
        contrasts = {}
        if self.config.correction_margin > 0:
            contrasts["correction_loss"] = (1.0, self._correction_loss(batch, q, others[:, : len(executed)]))
            others = others[:, len(executed) :]
        if log_policy is not None:
            uniform_q, policy_q = others.unflatten(1, (2, count, -1)).movedim(0, 2)
            gap = losses.calibrated_gap(
                q[:, rows],
                uniform_q,
                policy_q,
                log_uniform=-self.layout.arm_size * math.log(2.0),
                log_policy=log_policy.unflatten(0, (count, -1)),
                mc_return=batch.mc_return[rows],
            )
            contrasts["cql_gap"] = (self._cql_weight, gap)
        return q, contrasts

    def _correction_loss(self, batch: TensorBatch, q: Tensor, q_proposed: Tensor) -> Tensor:
        distance = (self.layout.arm(batch.action) - self.layout.arm(batch.proposed)).norm(dim=1)
        count = self.ranks.mean_count(distance > 0)
        return losses.correction_loss(q, q_proposed, distance, count, margin=self.config.correction_margin)

    def _update_gripper(self, batch: TensorBatch, features: Tensor, target: Tensor) -> dict[str, Tensor]:
        """Make one step on the critic of the discrete grippers, towards the target (B,) of the arms' critics."""
        critic = self.policy.gripper
        assert critic is not None
        target = losses.gripper_target(target, batch.gripper_change, penalty=self.config.gripper_penalty)
        with self._fast():
            q = critic(features, batch.proprio)
        choices = self.layout.choices(batch.action)
        loss = td_error = losses.gripper_loss(q, choices, target)
        if self.config.gripper_margin > 0:
            label = batch.expert[:, None] & self.layout.gripper(batch.label)
            weight = balance(choices, label, self.ranks) * batch.imitation[:, None]
            count = self.ranks.mean_count(label)
            loss = loss + losses.gripper_margin_loss(q, choices, weight, count, margin=self.config.gripper_margin)
        self._step("gripper", loss)
        return {"gripper_loss": td_error.detach(), "gripper_q": q.detach().mean()}

    def _update_actor(
        self, batch: TensorBatch, features: Tensor, noise: Tensor, bc_weight: Tensor
    ) -> dict[str, Tensor]:
        """Make one step of the policy up the critics' mean, and of the temperature.

        The published average follows.
        """
        with self._fast():
            action, log_prob, mean = self.policy.sample(features, batch.proprio, noise)
            with torch.no_grad():
                state = self.critic.encoder(features, batch.proprio)
            self.critic.requires_grad_(False)
            q = self.critic.on_state(state, action)
            self.critic.requires_grad_(True)
        action.retain_grad()
        mean.retain_grad()
        loss = losses.actor_loss(q, log_prob, self.temperature, q_weight=self.config.q_weight)
        if self.config.bc_weight > 0:
            labelled = labelled_ticks(batch).repeat_interleave(self.layout.arm_size // self.layout.chunk, dim=1)
            labelled = labelled & self.layout.arm(batch.label)
            shown = self.layout.arm(batch.action)
            loss = loss + bc_weight * imitation_loss(mean, shown, labelled, batch.imitation, self.ranks)
        self._step("actor", loss)
        follow(self.published, self.policy, self.config.actor_tau)
        temperature_loss = losses.temperature_loss(self.log_temperature, log_prob, self._target_entropy)
        self._step("temperature", temperature_loss)
        return {
            "actor_loss": loss.detach(),
            "entropy": -log_prob.detach().mean(),
            "temperature": self.temperature,
            "q_gradient": _gradient_norm(action),
            "imitation_gradient": _gradient_norm(mean),
        }

    def _fast(self) -> torch.autocast:
        """Return `fast` of the device, or float32 where the settings ask for it."""
        return fast(self._device, allowed=self.config.bf16)

    def _step(self, name: str, loss: Tensor) -> None:
        descend(self._optimisers[name], loss, self.ranks)

    def critic_snapshot(self) -> CriticSnapshot:
        """Copy the critic as it is now, to be asked later about what it has not been trained on."""
        return CriticSnapshot(
            self.layout, self.policy, self.critic, self.target, self.vision, mean=self.config.subset_mean
        )

    def actor_tensors(self) -> dict[str, np.ndarray]:
        """Return the tensors of the published average of the policy, by name."""
        return published_tensors(self.published)

    def critic_tensors(self) -> dict[str, np.ndarray]:
        """Return the tensors of the critics as they are, by name."""
        return published_tensors(self.critic)

    def trunk_tensors(self) -> dict[str, np.ndarray]:
        """Return the running average of a trained encoder, by name."""
        return self.vision.published_tensors()

    def state_dict(self) -> dict[str, Any]:
        """Return everything that the next update depends on."""
        return {
            "policy": self.policy.state_dict(),
            "published": self.published.state_dict(),
            "critic": self.critic.state_dict(),
            "target": self.target.state_dict(),
            "vision": self.vision.state_dict(),
            "log_temperature": self.log_temperature.detach(),
            "optimisers": {name: optimiser.state_dict() for name, optimiser in self._optimisers.items()},
            "rng": self._rng.get_state(),
            "subset_rng": self._subset_rng.get_state(),
            "updates": self.updates,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned, and drop recorded graphs."""
        for name in ("policy", "published", "critic", "target", "vision"):
            getattr(self, name).load_state_dict(state[name])
        with torch.no_grad():
            self.log_temperature.copy_(state["log_temperature"])
        for name, optimiser in self._optimisers.items():
            load_adam(optimiser, state["optimisers"][name])
        self._rng.set_state(state["rng"])
        self._subset_rng.set_state(state["subset_rng"])
        self.updates = state["updates"]
        if self._graphs is not None:
            self._graphs.forget()


def _gradient_norm(actions: Tensor) -> Tensor:
    """Return the norm of a mean loss's gradient in each row's action, (B, A), averaged over rows, without the 1/B."""
    gradient = actions.grad
    return torch.zeros((), device=actions.device) if gradient is None else gradient.norm(dim=1).sum()
