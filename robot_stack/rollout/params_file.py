"""The file of a policy's parameters, as the learner writes it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open

from robot_stack.types.errors import StoreError
from robot_stack.types.params import Params


def load_params(path: Path) -> Params:
    """Load a policy's parameters from a file that the learner wrote.

    Raises:
        StoreError: If it is missing or unreadable, or not all of it is finite.
    """
    try:
        with safe_open(path, "np") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
            metadata = dict(file.metadata())
            version = int(metadata["version"])
    except (OSError, ValueError, TypeError, KeyError, SafetensorError) as error:
        raise StoreError(f"policy {path} is unreadable ({error!r}), must be written by the learner") from error
    for name, tensor in tensors.items():
        if not np.isfinite(tensor).all():
            raise StoreError(f"tensor {name} of policy {path} is not finite, must be; take another policy of the run")
    return Params(version=version, tensors=tensors, sha256="", metadata=metadata)
