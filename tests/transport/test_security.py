from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
from fake_learner import SPEC, TASK, FakeLearner, make_header, make_step, wait_until

from robot_stack.transport import learner_pb2 as pb
from robot_stack.transport.calls import learner_status
from robot_stack.transport.client import LearnerClient
from robot_stack.transport.learner_pb2_grpc import LearnerStub
from robot_stack.transport.security import Security, require_loopback
from robot_stack.transport.server import LearnerServer
from robot_stack.types.errors import TransportError

TOKEN = "0123456789abcdef0123"
Serve = Callable[..., LearnerServer]
Connect = Callable[..., LearnerClient]


def openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True, timeout=60)


def make_security(folder: Path, name: str) -> Security:
    """A fresh authority and one certificate for 127.0.0.1 under it, used by both ends."""
    folder = folder / name
    folder.mkdir()
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
    (folder / "san").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    openssl(folder, "req", "-x509", *curve, "-keyout", "ca.key", "-out", "ca.pem", "-subj", f"/CN={name}")
    openssl(folder, "req", *curve[:-2], "-keyout", "key.pem", "-out", "csr.pem", "-subj", "/CN=cell")
    openssl(
        folder, "x509", "-req", "-in", "csr.pem", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
        "-days", "2", "-out", "cert.pem", "-extfile", "san",
    )  # fmt: skip
    (folder / "token").write_text(TOKEN + "\n")
    return Security.from_files(
        ca=folder / "ca.pem", cert=folder / "cert.pem", key=folder / "key.pem", token=folder / "token"
    )


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Security:
    return make_security(tmp_path_factory.mktemp("certs"), "ours")


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Security:
    return make_security(tmp_path_factory.mktemp("certs"), "theirs")


def test_steps_and_status_go_through_tls_with_the_token(serve: Serve, connect: Connect, ours: Security) -> None:
    backend = FakeLearner()
    address = serve(backend, security=ours).address
    client = connect(address, security=ours)
    client.begin(make_header("e"))
    client.push(make_step("e", 0, last=True))
    assert client.wait_acked(20.0)
    assert [step.index for step in backend.disk["e"]] == [0]
    assert client.status(timeout_s=10.0).phase == "training"


def test_a_wrong_token_is_a_refusal_for_good(serve: Serve, connect: Connect, ours: Security) -> None:
    backend = FakeLearner()
    client = connect(serve(backend, security=ours).address, security=replace(ours, token="x" * 20))
    assert wait_until(lambda: client.refusal)
    assert client.refusal == "token is missing or wrong, must be the learner's; copy its token file"
    assert backend.hellos == 0


@pytest.mark.parametrize("call", ["Status", "WatchParams", "PushSteps"])
def test_a_missing_token_is_refused_on_every_kind_of_call(serve: Serve, ours: Security, call: str) -> None:
    credentials = grpc.ssl_channel_credentials(ours.ca, ours.key, ours.cert)
    with grpc.secure_channel(serve(FakeLearner(), security=ours).address, credentials) as channel:
        stub = LearnerStub(channel)
        ask = {
            "Status": lambda: stub.Status(pb.StatusRequest(), timeout=10),
            "WatchParams": lambda: next(stub.WatchParams(pb.WatchParamsRequest(), timeout=10)),
            "PushSteps": lambda: next(stub.PushSteps(iter([pb.PushRequest()]), timeout=10)),
        }[call]
        with pytest.raises(grpc.RpcError) as caught:
            ask()
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_a_certificate_of_another_authority_is_refused(serve: Serve, ours: Security, theirs: Security) -> None:
    address = serve(FakeLearner(), security=ours).address
    assert learner_status(address, security=ours, timeout_s=10.0).phase == "training"
    stranger = replace(ours, cert=theirs.cert, key=theirs.key)
    with pytest.raises(TransportError, match=f"learner at {address} is UNAVAILABLE"):
        learner_status(address, security=stranger, timeout_s=10.0)


def test_a_client_without_a_certificate_is_refused(serve: Serve, ours: Security) -> None:
    address = serve(FakeLearner(), security=ours).address
    credentials = grpc.composite_channel_credentials(
        grpc.ssl_channel_credentials(ours.ca), grpc.access_token_call_credentials(TOKEN)
    )
    with grpc.secure_channel(address, credentials) as channel, pytest.raises(grpc.RpcError) as caught:
        LearnerStub(channel).Status(pb.StatusRequest(), timeout=10)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def test_a_plain_client_gets_nothing_from_a_tls_server(serve: Serve, ours: Security) -> None:
    with pytest.raises(TransportError, match="must answer"):
        learner_status(serve(FakeLearner(), security=ours).address, timeout_s=3.0)


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "192.168.1.5:50051", "learner.local:50051"])
def test_beyond_loopback_nothing_goes_without_tls(address: str, tmp_path: Path) -> None:
    with pytest.raises(TransportError, match=r"without TLS, must be on loopback"):
        LearnerServer(FakeLearner(), address).start()
    with pytest.raises(TransportError, match=r"without TLS, must be on loopback"):
        LearnerClient(address, SPEC, TASK, "a", tmp_path)


@pytest.mark.parametrize("address", ["127.0.0.1:0", "localhost:50051", "[::1]:50051", "127.9.9.9:1"])
def test_loopback_needs_no_tls(address: str) -> None:
    require_loopback(address)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.1:x", ":50051", "unix:/tmp/learner"])
def test_an_address_without_host_or_port_is_refused(address: str) -> None:
    with pytest.raises(TransportError, match="must be host:port"):
        require_loopback(address)


@pytest.mark.parametrize("token", ["", "short", "ümlaut-token-0123456789", "with\nnewline-0123456789"])
def test_a_weak_token_is_refused(token: str) -> None:
    with pytest.raises(TransportError, match="token is"):
        Security(ca=b"", cert=b"", key=b"", token=token)


def test_secrets_stay_out_of_the_log(ours: Security) -> None:
    assert TOKEN not in repr(ours)
    assert "PRIVATE" not in repr(ours)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TransportError, match=r"ca\.pem is unreadable"):
        Security.from_files(
            ca=tmp_path / "ca.pem", cert=tmp_path / "cert.pem", key=tmp_path / "key.pem", token=tmp_path / "token"
        )
