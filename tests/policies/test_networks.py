"""Networks against slower ways to say the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from scipy.special import ndtr
from torch import nn

from policies.networks import Critic, EnsembleLinear, GaussianActor, StateEncoder, mlp
from tests.policies.small_task import ACTIONS, FEATURES, PROPRIO, SPEC, random_batch


def encoder() -> StateEncoder:
    return StateEncoder(SPEC.parts, SPEC.proprio_mean, SPEC.proprio_std, head=8)


def actor(**std: float) -> GaussianActor:
    torch.manual_seed(0)
    return GaussianActor(encoder(), ACTIONS, hidden=(16,), **std)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def noise(shape: Sequence[int], seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=rng(seed), dtype=dtype)


def test_ensemble_linear_equals_separate_linears() -> None:
    torch.manual_seed(0)
    layer, x = EnsembleLinear(3, 5, 4), torch.randn(3, 7, 5)
    separate = [nn.functional.linear(x[i], layer.weight[i].T, layer.bias[i, 0]) for i in range(3)]
    torch.testing.assert_close(layer(x), torch.stack(separate))


def test_critics_of_an_ensemble_are_independent() -> None:
    torch.manual_seed(0)
    critic, batch = Critic(encoder(), ACTIONS, members=3, hidden=(16, 16)), random_batch(0)
    q = critic(batch.features, batch.proprio, batch.action)
    assert q.shape == (3, 16)
    assert not torch.allclose(q[0], q[1])
    q[1].sum().backward()
    for layer in (*critic.body, critic.out):
        if isinstance(layer, EnsembleLinear):
            assert layer.weight.grad is not None
            assert (layer.weight.grad[1] != 0).any()
            assert (layer.weight.grad[[0, 2]] == 0).all()


def test_state_encoder_standardises_proprio_and_keeps_slices_apart() -> None:
    torch.manual_seed(0)
    module, batch = encoder(), random_batch(0)
    state = module(batch.features, batch.proprio)
    assert state.shape == (16, module.size)
    inputs: list[torch.Tensor] = []
    module.proprio.register_forward_pre_hook(lambda _, seen: inputs.append(seen[0]))
    changed = batch.features.clone()
    changed[:, SPEC.parts[1].slice] += 1
    other = module(changed, batch.proprio)
    torch.testing.assert_close(inputs[0], ((batch.proprio - SPEC.proprio_mean) / SPEC.proprio_std).clamp(-5, 5))
    assert torch.equal(state[:, :8], other[:, :8])
    assert not torch.allclose(state[:, 8:16], other[:, 8:16])
    assert torch.equal(state[:, 16:], other[:, 16:])


def test_log_prob_is_the_derivative_of_the_distribution_function() -> None:
    module, batch = actor(std_min=0.3, std_max=0.9).double(), random_batch(1)
    features, proprio = batch.features.double(), batch.proprio.double()
    action, log_prob, _ = module.sample(features, proprio, noise((len(features), ACTIONS), dtype=torch.float64))
    mean, log_std = module(features, proprio)

    def below(value: np.ndarray) -> np.ndarray:
        return ndtr((np.arctanh(value) - mean.detach().numpy()) / log_std.detach().exp().numpy())

    a, h = action.detach().numpy(), 1e-6
    density = (below(a + h) - below(a - h)) / (2 * h)
    np.testing.assert_allclose(log_prob.detach(), np.log(density).sum(axis=1), atol=1e-6)


def test_log_prob_stays_finite_where_the_squash_saturates() -> None:
    module, batch = actor(), random_batch(1)
    with torch.no_grad():
        module.mean.bias.fill_(30.0)
    action, log_prob, _ = module.sample(batch.features, batch.proprio, noise(batch.action.shape))
    assert torch.isfinite(log_prob).all()
    assert (action.abs() <= 1).all()


def test_sample_is_reparameterised() -> None:
    module, batch = actor(), random_batch(1)
    action, _, _ = module.sample(batch.features, batch.proprio, noise(batch.action.shape))
    action.sum().backward()
    assert all(p.grad is not None and (p.grad != 0).any() for p in module.mean.parameters())


def test_sample_is_decided_by_its_noise() -> None:
    module, batch = actor(), random_batch(1)
    first, again, other = (
        module.sample(batch.features, batch.proprio, noise(batch.action.shape, seed))[0] for seed in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(("bias", "edge"), [(-50.0, 0.05), (50.0, 0.4)])
def test_spread_stays_within_its_limits(bias: float, edge: float) -> None:
    module = actor(std_min=0.05, std_max=0.4)
    with torch.no_grad():
        module.log_std.bias.fill_(bias)
    _, log_std = module(torch.zeros(2, FEATURES), torch.zeros(2, PROPRIO))
    np.testing.assert_allclose(log_std.exp().detach(), edge, rtol=1e-5)


def test_deterministic_action_is_the_squashed_mean() -> None:
    module, batch = actor(), random_batch(1)
    mean, _ = module(batch.features, batch.proprio)
    assert torch.equal(module.deterministic(batch.features, batch.proprio), torch.tanh(mean))
    _, _, squashed = module.sample(batch.features, batch.proprio, noise(batch.action.shape))
    assert torch.equal(squashed, torch.tanh(mean))


@pytest.mark.long
def test_critics_with_layers_of_rlpd_are_separate_networks_of_dense_layernorm_and_relu() -> None:
    torch.manual_seed(0)
    plain = StateEncoder(SPEC.parts, SPEC.proprio_mean, SPEC.proprio_std, head=0)
    critic, batch = Critic(plain, ACTIONS, members=3, hidden=(16, 12), layers="rlpd"), random_batch(0)
    for parameter in critic.parameters():  # as after some training: no scale is 1, no bias 0
        parameter.data += 0.1 * torch.randn(parameter.shape, generator=rng(1))
    known = (batch.proprio - SPEC.proprio_mean) / SPEC.proprio_std
    joint = torch.cat([batch.features.to(known.dtype), known.clamp(-5, 5), batch.action], dim=1)
    for member, q in enumerate(critic(batch.features, batch.proprio, batch.action)):
        x = joint
        for dense, scaled in zip(critic.body[::2], critic.body[1::2], strict=True):
            x = x @ dense.weight[member] + dense.bias[member]  # type: ignore[union-attr, index, operator]
            own = (scaled.weight[member, 0], scaled.bias[member, 0])  # type: ignore[union-attr, index]
            x = nn.functional.layer_norm(x, x.shape[1:], *own, eps=1e-6).relu()
        torch.testing.assert_close((x @ critic.out.weight[member] + critic.out.bias[member])[:, 0], q)


def test_an_actor_with_layers_of_rlpd_is_dense_and_relu_and_starts_wide() -> None:
    torch.manual_seed(0)
    plain = StateEncoder(SPEC.parts, SPEC.proprio_mean, SPEC.proprio_std, head=0)
    module = GaussianActor(plain, ACTIONS, hidden=(16, 12), std_min=1e-5, std_max=5.0, layers="rlpd")
    batch = random_batch(0)
    x = plain(batch.features, batch.proprio)
    for dense in module.body[::2]:
        x = (x @ dense.weight.T + dense.bias).relu()  # type: ignore[union-attr, operator]
    mean, log_std = module(batch.features, batch.proprio)
    torch.testing.assert_close(mean, x @ module.mean.weight.T)
    torch.testing.assert_close(log_std, x @ module.log_std.weight.T)
    assert 0.3 < float(log_std.detach().exp().mean()) < 3


def test_an_actor_starts_near_the_middle_and_narrow_unless_told_otherwise() -> None:
    module = GaussianActor(encoder(), ACTIONS, hidden=(16,), std_min=0.02, std_max=0.5)
    assert not module.mean.bias.any()
    assert (module.log_std.bias == -2.5).all()
    assert max(float(layer.weight.detach().abs().max()) for layer in (module.mean, module.log_std)) <= 1e-2


def test_dense_layers_of_rlpd_start_as_xavier_uniform_says() -> None:
    torch.manual_seed(0)
    ensemble, alone = EnsembleLinear(2, 300, 100, "rlpd"), mlp(300, (100,), "rlpd")[0]
    bound = np.sqrt(6 / 400)
    for weight in (ensemble.weight.detach()[0], ensemble.weight.detach()[1], alone.weight.detach()):
        assert bound * 0.99 < float(weight.abs().max()) <= bound
        assert float(weight.std()) == pytest.approx(bound / np.sqrt(3), rel=0.02)
    assert not ensemble.bias.any()
    assert not alone.bias.any()


def test_a_head_of_nothing_leaves_the_features_as_they_are() -> None:
    plain, batch = StateEncoder(SPEC.parts, SPEC.proprio_mean, SPEC.proprio_std, head=0), random_batch(0)
    state = plain(batch.features, batch.proprio)
    known = ((batch.proprio - SPEC.proprio_mean) / SPEC.proprio_std).clamp(-5, 5)
    assert plain.size == FEATURES + PROPRIO
    torch.testing.assert_close(state, torch.cat([batch.features.to(known.dtype), known], dim=1))
