"""Parameters on their way to the actor: whole, finite, newer, of this cell, or not at all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robot_stack.transport import bundle
from robot_stack.transport import learner_pb2 as pb
from robot_stack.transport.client import LearnerClient
from robot_stack.transport.server import LearnerServer
from robot_stack.types.errors import TransportError
from robot_stack.types.params import Params
from tests.examples import examples
from tests.transport.fake_learner import SPEC, FakeLearner, make_header, make_step, wait_until

Serve = Callable[..., LearnerServer]
Connect = Callable[..., LearnerClient]
METADATA = {"algorithm": "rlpd", bundle.SPEC_DIGEST: SPEC.digest, "trunk": "t1"}


def make_params(version: int, value: float = 0.5) -> Params:
    tensors: dict[str, np.ndarray] = {
        "actor.w": np.full((4, 3), value, np.float16),
        "actor.b": np.arange(3, dtype=np.float32),
    }
    return bundle.seal(version=version, tensors=tensors, metadata=METADATA)


def make_message(version: int = 1) -> pb.Params:
    return bundle.encode_params(make_params(version), created_unix_s=1.5e9)


def decode(message: pb.Params, above_version: int = 0) -> Params:
    return bundle.decode_params(message, above_version=above_version, spec_digest=SPEC.digest)


@settings(max_examples=examples(30), deadline=None)
@given(
    shape=st.lists(st.integers(0, 4), max_size=3),
    dtype=st.sampled_from([np.float16, np.float32, np.int64, np.bool_]),
    names=st.sets(st.text("abc.", min_size=1, max_size=5), max_size=4),
)
def test_tensors_come_back_bit_for_bit(shape: list[int], dtype: type, names: set[str]) -> None:
    tensors: dict[str, np.ndarray] = {name: np.ones(shape, dtype) * i for i, name in enumerate(sorted(names))}
    params = bundle.seal(version=3, tensors=tensors, metadata=METADATA)
    back = decode(pb.Params.FromString(bundle.encode_params(params, created_unix_s=1.0).SerializeToString()))
    assert (back.version, back.sha256, back.metadata) == (3, params.sha256, METADATA)
    assert back.tensors.keys() == tensors.keys()
    for name, value in params.tensors.items():
        assert back.tensors[name].dtype == value.dtype
        np.testing.assert_array_equal(back.tensors[name], value)


def test_a_transposed_tensor_keeps_its_values() -> None:
    wanted = np.arange(12, dtype=np.float16).reshape(3, 4).T
    params = bundle.seal(version=1, tensors={"w": wanted}, metadata=METADATA)
    np.testing.assert_array_equal(decode(bundle.encode_params(params, created_unix_s=0)).tensors["w"], wanted)


def test_sealed_tensors_are_copies() -> None:
    weights = np.zeros(3, np.float16)
    params = bundle.seal(version=1, tensors={"w": weights}, metadata=METADATA)
    weights[:] = 9
    np.testing.assert_array_equal(params.tensors["w"], 0)


def corrupt(kind: str) -> pb.Params:
    message = make_message(version=5)
    match kind:
        case "flipped bit":
            raw = bytearray(message.safetensors)
            raw[-1] ^= 1
            message.safetensors = bytes(raw)
        case "not safetensors":
            message.safetensors = b"pickle"
            message.sha256 = bundle.hashlib.sha256(b"pickle").hexdigest()
        case "nan":
            bad = {"w": np.array([1.0, np.nan], np.float16)}
            message.safetensors = bundle.safetensors.save(bad)
            message.sha256 = bundle.hashlib.sha256(message.safetensors).hexdigest()
        case "other cell":
            message.metadata[bundle.SPEC_DIGEST] = "0" * 64
        case "no cell":
            del message.metadata[bundle.SPEC_DIGEST]
        case "same version":
            message.version = 4
    return message


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("flipped bit", "sha256 of params version 5 is"),
        ("not safetensors", "table of params version 5 is .* must be safetensors, whose table fits and is at most"),
        ("nan", "tensor w of params version 5 is not finite"),
        ("other cell", "spec_digest of params version 5 is '000"),
        ("no cell", "spec_digest of params version 5 is ''"),
        ("same version", "params version is 4, must be above 4"),
    ],
)
def test_a_bad_bundle_is_refused_with_the_reason(kind: str, words: str) -> None:
    assert decode(make_message(version=5), above_version=4).version == 5
    with pytest.raises(TransportError, match=words):
        decode(corrupt(kind), above_version=4)


def test_a_diverged_policy_is_not_sealed() -> None:
    with pytest.raises(TransportError, match="tensor w of params version 1 is not finite"):
        bundle.seal(version=1, tensors={"w": np.array([np.inf], np.float16)}, metadata=METADATA)


def test_a_bundle_without_its_cell_is_not_sealed() -> None:
    with pytest.raises(TransportError, match="must contain 'spec_digest'"):
        bundle.seal(version=1, tensors={}, metadata={"algorithm": "rlpd"})


def test_each_version_is_handed_out_once(serve: Serve, connect: Connect) -> None:
    backend = FakeLearner()
    client = connect(serve(backend).address)
    assert client.latest() is None
    backend.publish(make_params(1))
    assert wait_until(lambda: client.counters.params_version == 1)
    taken = client.latest()
    assert taken is not None
    assert taken.version == 1
    assert client.latest() is None


def test_only_the_newest_of_several_is_handed_out(serve: Serve, connect: Connect) -> None:
    backend = FakeLearner()
    client = connect(serve(backend).address)
    for version in (1, 2, 3):
        backend.publish(make_params(version))
        assert wait_until(lambda v=version: client.counters.params_version == v)  # type: ignore[misc]
    taken = client.latest()
    assert taken is not None
    assert taken.version == 3
    assert client.latest() is None


def spoilt(kind: str) -> Params:
    """Version 2, or below 1, as a learner that has lost its mind would publish it."""
    good = make_params(2)
    match kind:
        case "hash":
            return replace(good, sha256="0" * 64)
        case "nan":
            tensors = {**good.tensors, "actor.b": np.array([0.0, np.nan, 0.0], np.float32)}
            return replace(
                good, tensors=tensors, sha256=bundle.hashlib.sha256(bundle.safetensors.save(tensors)).hexdigest()
            )
        case "spec":
            return replace(good, metadata={**METADATA, bundle.SPEC_DIGEST: "0" * 64})
        case _:
            return replace(good, version=1)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("hash", "sha256 of params version 2 is"),
        ("nan", "tensor actor.b of params version 2 is not finite, must be"),
        ("spec", "spec_digest of params version 2 is '000"),
        ("older", "params version is 1, must be above 1"),
    ],
)
def test_bad_version_is_refused_and_the_one_in_use_stays_until_a_good_one_comes(
    serve: Serve, connect: Connect, monkeypatch: pytest.MonkeyPatch, kind: str, words: str
) -> None:
    backend = FakeLearner()
    client = connect(serve(backend).address)
    backend.publish(make_params(1))
    assert wait_until(lambda: client.counters.params_version == 1)
    taken = client.latest()
    assert taken is not None
    assert taken.version == 1
    if kind == "older":  # the real backend never hands out what the actor holds
        sent = iter([spoilt(kind)])
        real = backend.params_after
        monkeypatch.setattr(
            backend, "params_after", lambda version, timeout_s: next(sent, None) or real(version, timeout_s)
        )
    else:
        backend.publish(spoilt(kind))
    assert wait_until(lambda: client.counters.params_refused == 1)
    assert words in client.last_error
    assert client.latest() is None
    assert client.counters.params_version == 1
    backend.publish(make_params(3))
    assert wait_until(lambda: client.counters.params_version == 3)
    assert client.link
    assert client.counters.reconnects == 0


def test_params_too_large_for_the_link_leave_the_recording_be(
    serve: Serve, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "MAX_MESSAGE_BYTES", 65536 + 100)
    backend = FakeLearner()
    client = connect(serve(backend).address)
    assert wait_until(lambda: client.link)
    backend.publish(make_params(1))
    assert wait_until(lambda: client.counters.params_refused >= 1)
    assert "publish only what the actor needs" in client.last_error
    client.begin(make_header("e"))
    client.push(make_step("e", 0, last=True))
    assert client.wait_acked(20.0)
    assert client.counters.reconnects == 0


def test_after_a_restart_of_the_learner_only_newer_versions_come(serve: Serve, connect: Connect) -> None:
    backend = FakeLearner()
    server = serve(backend)
    client = connect(server.address)
    backend.publish(make_params(4))
    assert wait_until(lambda: client.counters.params_version == 4)
    server.stop(grace_s=0.0)
    again = backend.restarted()
    again.publish(make_params(3))
    serve(again, server.address)
    assert wait_until(lambda: client.counters.reconnects >= 1 and client.link)
    again.publish(make_params(5, value=0.25))
    assert wait_until(lambda: client.counters.params_version == 5)
    assert client.counters.params_refused == 0
    taken = client.latest()
    assert taken is not None
    assert taken.tensors["actor.w"][0, 0] == np.float16(0.25)


def table_of(entries: dict[str, object]) -> bytes:
    """Safetensors with this table and 16 bytes behind it."""
    raw = json.dumps(entries).encode()
    return len(raw).to_bytes(8, "little") + raw + bytes(16)


def entry(*shape: int) -> dict[str, object]:
    return {"dtype": "F16", "shape": list(shape), "data_offsets": [0, 16]}


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (
            table_of({"w": entry(1 << 30, 1 << 30)}),
            r"shape of tensor w .* is \[1073741824, 1073741824\], must be",
        ),
        (table_of({"w": entry(*[1] * 9)}), "shape of tensor w .* must be of at most 8 dimensions"),
        (table_of({"w": entry(-1)}), r"table of params version 5 is unreadable \(ValueError\('shape \[-1\]'\)\)"),
        (table_of({"w": {"dtype": "F16"}}), "table of params version 5 is unreadable"),
        (
            table_of({f"w{i}": entry(0) for i in range(5000)}),
            "number of tensors of params version 5 is 5000, must",
        ),
        ((1 << 62).to_bytes(8, "little") + bytes(100), "table of params version 5 is 4611686018427387904 bytes of 108"),
        ((60_000).to_bytes(8, "little") + b"[" * 60_000, "table of params version 5 is unreadable .*Recursion"),
    ],
)
def test_a_table_of_tensors_that_lies_is_refused_before_it_is_obeyed(raw: bytes, words: str) -> None:
    message = make_message(version=5)
    message.safetensors, message.sha256 = raw, hashlib.sha256(raw).hexdigest()
    with pytest.raises(TransportError, match=words):
        decode(message, above_version=4)


def test_metadata_beyond_its_bound_is_refused() -> None:
    message = make_message(version=5)
    message.metadata["x"] = "y" * 20_000
    with pytest.raises(TransportError, match="metadata of params version 5 has 4 entries, must have at most 64 of 163"):
        decode(message, above_version=4)
