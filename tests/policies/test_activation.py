"""LayerNorm and tanh in one step are LayerNorm and tanh."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from policies.encoders.activation import NormTanh
from policies.networks import mlp


def norm(width: int, seed: int = 0) -> NormTanh:
    """With a scale and an offset that differ from nothing."""
    made, rng = NormTanh(width), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        made.weight.copy_(torch.randn(width, generator=rng) + 1)
        made.bias.copy_(torch.randn(width, generator=rng))
    return made


def plain(made: NormTanh, x: Tensor) -> Tensor:
    """The same as two modules of torch."""
    return torch.tanh(nn.functional.layer_norm(x, made.normalized_shape, made.weight, made.bias, made.eps))


def both(made: NormTanh, x: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Values and gradients, ours and torch's."""
    found = []
    for function in (made, lambda leaf: plain(made, leaf)):
        leaf = x.detach().requires_grad_()
        y = function(leaf)
        gradients = torch.autograd.grad((y * torch.linspace(-1, 1, y.shape[-1])).sum(), [leaf, *made.parameters()])
        found.append([y.detach(), *gradients])
    return found[0], found[1]


@pytest.mark.parametrize("shape", [(5, 64), (2, 7, 64), (1, 64)])
def test_values_and_gradients_are_those_of_torch(shape: tuple[int, ...]) -> None:
    x = 3 * torch.randn(shape, generator=torch.Generator().manual_seed(1))
    ours, theirs = both(norm(64), x)
    torch.testing.assert_close(ours[0], theirs[0], rtol=0, atol=3e-7)
    torch.testing.assert_close(ours[1:], theirs[1:], rtol=1e-5, atol=2e-6)


def test_large_and_small_values_stay_exact() -> None:
    made = NormTanh(1001)
    with torch.no_grad():
        made.weight.zero_()
        made.bias.copy_(torch.linspace(-20, 20, 1001))
    expected = torch.tanh(made.bias.double())
    torch.testing.assert_close(made(torch.randn(3, 1001))[0].double(), expected, rtol=0, atol=3e-7)


def test_small_values_keep_their_digits_in_bf16() -> None:
    made = NormTanh(402)
    with torch.no_grad():
        made.weight.zero_()
        made.bias.copy_(torch.cat([torch.logspace(-4, 1, 201), -torch.logspace(-4, 1, 201)]))
        made.bias.copy_(made.bias.bfloat16())  # what the norm returns
    y = made(torch.randn(3, 402).bfloat16())
    assert y.dtype is torch.bfloat16
    expected = torch.tanh(made.bias.detach().double())
    torch.testing.assert_close(y[0].double(), expected, rtol=2**-8, atol=3e-7)  # one rounding to 8 bits


def test_gradients_in_bf16_are_torchs_within_its_digits() -> None:
    x = torch.randn(16, 64, generator=torch.Generator().manual_seed(2)).bfloat16()
    ours, theirs = both(norm(64), x)
    torch.testing.assert_close(ours, theirs, rtol=2**-6, atol=2**-6)


def test_gradient_agrees_with_finite_differences() -> None:
    x = torch.randn(3, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(3), requires_grad=True)
    made = norm(9).double()
    assert torch.autograd.gradcheck(lambda x, weight, bias: _of(made, x, weight, bias), (x, made.weight, made.bias))


def _of(made: NormTanh, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    y: Tensor = torch.func.functional_call(made, {"weight": weight, "bias": bias}, (x,))
    return y


def test_frozen_weights_get_no_gradient_and_what_comes_before_does() -> None:
    made = norm(8).requires_grad_(False)
    x = torch.randn(4, 8, requires_grad=True)
    made(x).sum().backward()
    assert x.grad is not None
    assert made.weight.grad is None


def test_without_a_graph_it_is_the_same() -> None:
    made, x = norm(8), torch.randn(4, 8)
    with torch.no_grad():
        assert torch.equal(made(x), made(x.clone().requires_grad_()))
    assert torch.equal(made(x).detach(), made(x))


def test_what_came_in_is_left_as_it_was() -> None:
    x = torch.randn(4, 8)
    before = x.clone()
    norm(8)(x)
    assert torch.equal(x, before)


def test_hidden_layers_use_it() -> None:
    kinds = {type(module) for module in mlp(4, (8, 8)).modules()}
    assert NormTanh in kinds
    assert not kinds & {nn.Tanh, nn.LayerNorm}
