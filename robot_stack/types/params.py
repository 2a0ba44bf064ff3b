"""Policy parameters on their way from the learner to the actor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class Params:
    """One version of the weights that the actor needs, and only those.

    Attributes:
        version: Counts up from 1; a lower one is never applied.
        tensors: Name -> array; fp16 for weights, float32 for constants.
        sha256: Hex digest of the serialised tensors.
        metadata: Algorithm name, spec digest and trunk id: what must match before the tensors are used.
    """

    version: int
    tensors: Mapping[str, np.ndarray]
    sha256: str
    metadata: Mapping[str, str]
