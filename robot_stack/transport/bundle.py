"""Conversion of Params to a safetensors message and back, and the checks before an actor may use them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping

import numpy as np
from safetensors import SafetensorError
from safetensors import numpy as safetensors

from robot_stack.transport import learner_pb2 as pb
from robot_stack.transport.access import bounds
from robot_stack.transport.wire import MAX_MESSAGE_BYTES
from robot_stack.types.errors import TransportError
from robot_stack.types.params import Params

SPEC_DIGEST = "spec_digest"
"""Metadata key that every bundle carries."""


def seal(*, version: int, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> Params:
    """Make Params with the digest of their serialised tensors; `metadata` must name the spec digest.

    Raises:
        TransportError: If the version is below 1, the spec digest is missing, or a value is not finite.
    """
    if version < 1:
        raise TransportError(f"params version is {version}, must be 1 or more; 0 stands for none")
    if not metadata.get(SPEC_DIGEST):
        raise TransportError(f"params metadata is {sorted(metadata)}, must contain {SPEC_DIGEST!r}")
    owned = {name: np.array(value, copy=True, order="C") for name, value in tensors.items()}
    _check_finite(owned, version)
    digest = hashlib.sha256(safetensors.save(owned)).hexdigest()
    return Params(version=version, tensors=owned, sha256=digest, metadata=dict(metadata))


def encode_params(params: Params, *, created_unix_s: float) -> pb.Params:
    """Encode `params` as a message, with the digest that they carry.

    Raises:
        TransportError: If the message is larger than the link takes.
    """
    raw = safetensors.save(dict(params.tensors))
    if len(raw) > MAX_MESSAGE_BYTES - 65536:
        raise TransportError(
            f"params version {params.version} is {len(raw)} bytes, must be below {MAX_MESSAGE_BYTES}; "
            "publish only what the actor needs, as fp16"
        )
    return pb.Params(
        version=params.version,
        sha256=params.sha256,
        safetensors=raw,
        metadata=dict(params.metadata),
        created_unix_s=created_unix_s,
    )


def decode_params(message: pb.Params, *, above_version: int, spec_digest: str) -> Params:
    """Decode params, once they are known to be newer than `above_version`, whole, finite and of this cell.

    Raises:
        TransportError: If they are not; the message says which check failed.
    """
    version = message.version
    if version <= above_version:
        raise TransportError(f"params version is {version}, must be above {above_version}; a lower one is never used")
    digest = hashlib.sha256(message.safetensors).hexdigest()
    if digest != message.sha256:
        raise TransportError(
            f"sha256 of params version {version} is {digest}, must be {message.sha256[:64]} as announced"
        )
    if message.metadata.get(SPEC_DIGEST, "") != spec_digest:
        raise TransportError(
            f"{SPEC_DIGEST} of params version {version} is {message.metadata.get(SPEC_DIGEST, '')[:128]!r}, "
            f"must be {spec_digest!r}; they were trained for another cell or task"
        )
    _check_size(message)
    try:
        tensors = safetensors.load(message.safetensors)
    except (SafetensorError, KeyError, ValueError, TypeError, MemoryError) as error:
        raise TransportError(f"params version {version} is unreadable ({error}), must be safetensors") from error
    _check_finite(tensors, version)
    return Params(version=version, tensors=tensors, sha256=digest, metadata=dict(message.metadata))


def _check_size(message: pb.Params) -> None:
    """Raise TransportError if the table of the tensors names more than a policy has, or more than follows it."""
    raw, version = message.safetensors, message.version
    if len(message.metadata) > bounds.MAX_METADATA or any(
        len(key) + len(value) > bounds.MAX_METADATA_CHARS for key, value in message.metadata.items()
    ):
        raise TransportError(
            f"metadata of params version {version} has {len(message.metadata)} entries, must have at most "
            f"{bounds.MAX_METADATA} of {bounds.MAX_METADATA_CHARS} characters each; publish less beside the tensors"
        )
    length = int.from_bytes(raw[:8], "little")
    if len(raw) < 8 or length > min(len(raw) - 8, bounds.MAX_TENSOR_HEADER_BYTES):
        raise TransportError(
            f"table of params version {version} is {length} bytes of {len(raw)}, must be safetensors, whose table fits "
            f"and is at most {bounds.MAX_TENSOR_HEADER_BYTES}; publish that"
        )
    try:
        table = json.loads(raw[8 : 8 + length])
        shapes = {name: entry["shape"] for name, entry in table.items() if name != "__metadata__"}
        elements = {name: _elements(shape) for name, shape in shapes.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise TransportError(
            f"table of params version {version} is unreadable ({error!r}), must be safetensors"
        ) from error
    if len(shapes) > bounds.MAX_TENSORS:
        raise TransportError(
            f"number of tensors of params version {version} is {len(shapes)}, must be at most {bounds.MAX_TENSORS}; "
            "publish only what the actor needs"
        )
    for name, count in elements.items():
        if count > len(raw) or len(shapes[name]) > bounds.MAX_DIMENSIONS:
            raise TransportError(
                f"shape of tensor {name[:80]} of params version {version} is {str(shapes[name])[:80]}, must be of at "
                f"most {bounds.MAX_DIMENSIONS} dimensions and fit into {len(raw)} bytes; publish it again"
            )


def _elements(shape: object) -> int:
    """Return the number of values in a tensor of this shape.

    Raises:
        ValueError: If it is no shape.
    """
    if not isinstance(shape, list) or not all(isinstance(size, int) and 0 <= size < 1 << 40 for size in shape):
        raise ValueError(f"shape {str(shape)[:80]}")
    return math.prod(shape[: bounds.MAX_DIMENSIONS + 1])


def _check_finite(tensors: Mapping[str, np.ndarray], version: int) -> None:
    for name, value in tensors.items():
        if not np.isfinite(value).all():
            raise TransportError(f"tensor {name} of params version {version} is not finite, must be; training diverged")
