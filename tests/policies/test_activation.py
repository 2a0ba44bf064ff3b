"""The fast tanh is tanh."""

from __future__ import annotations

import torch
from torch import nn

from policies.encoders.activation import Tanh
from policies.networks import mlp


def test_values_and_gradients_are_those_of_tanh() -> None:
    x = torch.linspace(-12, 12, 4001, requires_grad=True)
    theirs = torch.linspace(-12, 12, 4001, dtype=torch.float64, requires_grad=True)
    y, expected = Tanh()(x), torch.tanh(theirs)
    torch.testing.assert_close(y.double(), expected, rtol=0, atol=3e-7)
    y.sum().backward()
    expected.sum().backward()
    assert x.grad is not None
    assert theirs.grad is not None
    torch.testing.assert_close(x.grad.double(), theirs.grad, rtol=0, atol=1e-6)


def test_small_values_keep_their_digits_in_bf16() -> None:
    x = torch.cat([torch.logspace(-4, 1, 201), -torch.logspace(-4, 1, 201)]).bfloat16().requires_grad_()
    theirs = x.detach().double().requires_grad_()
    y, expected = Tanh()(x), torch.tanh(theirs)
    assert y.dtype is torch.bfloat16
    torch.testing.assert_close(y.double(), expected, rtol=2**-8, atol=3e-7)  # one rounding to 8 bits
    y.sum().backward()
    expected.sum().backward()
    assert x.grad is not None
    assert theirs.grad is not None
    torch.testing.assert_close(x.grad.double(), theirs.grad, rtol=0, atol=2**-7)


def test_gradient_agrees_with_finite_differences() -> None:
    x = torch.linspace(-2, 2, 9, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(Tanh(), (x,))


def test_hidden_layers_use_it() -> None:
    kinds = {type(module) for module in mlp(4, (8, 8)).modules()}
    assert Tanh in kinds
    assert nn.Tanh not in kinds
