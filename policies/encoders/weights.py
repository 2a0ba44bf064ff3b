"""Loading of weights from files: read whole, or refused in words."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from robot_stack.types.errors import ConfigError


def read_safetensors(path: Path, what: str) -> dict[str, Tensor]:
    """Read all tensors of a safetensors file.

    Args:
        path: Of the file.
        what: Whose it is, for the message.

    Raises:
        ConfigError: If it is missing, cut short, or no safetensors file.
    """
    if not path.is_file():
        raise ConfigError(f"{what} is {path}, must be a file; copy it there, on the learner's and each actor's machine")
    try:
        return load_file(path)
    except SafetensorError as error:
        raise ConfigError(f"{what} is {path}, must be a whole safetensors file; copy it again ({error})") from error


def load_strictly(network: nn.Module, tensors: Mapping[str, Tensor], what: str) -> None:
    """Fill a network with the weights of exactly that network.

    Raises:
        ConfigError: If a weight is missing, left over, of another shape, or not finite.
    """
    own = network.state_dict()
    wrong = [
        *(f"{name} is missing" for name in own.keys() - tensors.keys()),
        *(f"{name} is left over" for name in tensors.keys() - own.keys()),
        *(
            f"{name} is {tuple(tensors[name].shape)}, must be {tuple(own[name].shape)}"
            for name in own.keys() & tensors.keys()
            if tensors[name].shape != own[name].shape
        ),
    ]
    if wrong:
        named = "; ".join(sorted(wrong)[:3])
        raise ConfigError(f"weights are {what}, must be of that network; {len(wrong)} do not fit: {named}")
    check_finite(tensors, what)
    network.load_state_dict(dict(tensors))


def check_finite(tensors: Mapping[str, Tensor], what: str) -> None:
    """Refuse a weight that is not finite.

    Raises:
        ConfigError: With its name.
    """
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise ConfigError(f"weight {name} of {what} is not finite, must be; copy the file again")
