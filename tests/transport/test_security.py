"""What an end of the link brings: its keys, read and checked, and where none are needed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from robot_stack.transport.access.certificates import VALID_DAYS, make_set
from robot_stack.transport.access.security import Security, require_loopback, security_of
from robot_stack.transport.calls import learner_status
from robot_stack.transport.client import LearnerClient
from robot_stack.transport.server import LearnerServer
from robot_stack.types.errors import TransportError
from tests.transport.fake_learner import SPEC, TASK, FakeLearner, make_header, make_step, wait_until

Serve = Callable[..., LearnerServer]
Connect = Callable[..., LearnerClient]


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set for this machine."""
    folder = tmp_path_factory.mktemp("certs") / "ours"
    make_set(folder, [], datetime.now(UTC))
    return folder


def test_steps_and_status_go_through_tls_with_the_token(serve: Serve, connect: Connect, ours: Path) -> None:
    backend = FakeLearner()
    address = serve(backend, security=security_of(str(ours), "learner")).address
    client = connect(address, security=security_of(str(ours), "actor"))
    client.begin(make_header("e"))
    client.push(make_step("e", 0, last=True))
    assert client.wait_acked(20.0)
    assert [step.index for step in backend.disk["e"]] == [0]
    assert client.status(timeout_s=10.0).phase == "training"


def test_a_learner_that_is_named_listens_at_all_addresses_of_its_machine(serve: Serve, ours: Path) -> None:
    """Its own host file may call it 127.0.1.1, as Debian's does, and a container knows no address of that name."""
    server = serve(FakeLearner(), "learner.invalid:0", security=Security.from_folder(ours / "learner"))
    host, _, port = server.address.rpartition(":")
    assert host == "learner.invalid"
    for address in ("127.0.0.1", "127.0.1.1"):
        socket.create_connection((address, int(port)), 10.0).close()


BY_NAME = """
import sys
from pathlib import Path
from robot_stack.transport.access.security import Security
from robot_stack.transport.calls import learner_status
print(learner_status(sys.argv[1], security=Security.from_folder(Path(sys.argv[2])), timeout_s=30.0).phase)
"""


def test_a_name_that_only_the_system_resolves_is_a_learners_too(serve: Serve, tmp_path: Path) -> None:
    """gRPC's own resolver asks DNS alone: NAME.local of mDNS is to it what this spelling of 127.0.0.1 is."""
    make_set(tmp_path / "set", ["0x7f.1"], datetime.now(UTC))
    port = serve(FakeLearner(), security=Security.from_folder(tmp_path / "set" / "learner")).address.rpartition(":")[2]
    argv = [sys.executable, "-c", BY_NAME, f"0x7f.1:{port}", str(tmp_path / "set" / "actor")]
    environment = {name: value for name, value in os.environ.items() if name != "GRPC_DNS_RESOLVER"}
    said = subprocess.run(argv, capture_output=True, text=True, timeout=240, env=environment, check=False)
    assert said.stdout.strip() == "training", said.stderr


def test_a_name_that_nobody_knows_is_said_to_be_one(ours: Path) -> None:
    security = Security.from_folder(ours / "actor")
    with pytest.raises(TransportError, match=r"^learner's host nowhere\.invalid is unknown here .*, must be a name"):
        learner_status("nowhere.invalid:50051", security=security, timeout_s=30.0)


def test_a_learner_at_an_address_listens_there_alone(serve: Serve, ours: Path) -> None:
    server = serve(FakeLearner(), "127.0.1.1:0", security=Security.from_folder(ours / "learner"))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(server.address.rpartition(":")[2])), 10.0)


def test_a_wrong_token_is_a_refusal_for_good(serve: Serve, connect: Connect, ours: Path) -> None:
    backend = FakeLearner()
    address = serve(backend, security=Security.from_folder(ours / "learner")).address
    client = connect(address, security=replace(Security.from_folder(ours / "actor"), token="x" * 20))
    assert wait_until(lambda: client.refusal)
    assert client.refusal == "token is missing or wrong, must be the learner's; copy its token file"
    assert backend.hellos == 0


def test_an_actor_waits_for_a_learner_with_the_right_certificate(
    serve: Serve, connect: Connect, ours: Path, tmp_path: Path
) -> None:
    make_set(tmp_path / "theirs", [], datetime.now(UTC))
    server = serve(FakeLearner(), security=Security.from_folder(tmp_path / "theirs" / "learner"))
    client = connect(server.address, security=Security.from_folder(ours / "actor"))
    assert wait_until(lambda: "has a certificate of another authority" in client.last_error)
    server.stop(grace_s=0.0)
    serve(FakeLearner(), server.address, security=Security.from_folder(ours / "learner"))
    assert wait_until(lambda: client.link)


def test_no_certificates_in_the_cell_means_none() -> None:
    assert security_of(None, "actor") is None


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "192.168.1.5:50051", "learner.local:50051"])
def test_beyond_loopback_no_actor_goes_without_tls(address: str, tmp_path: Path) -> None:
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


def test_secrets_stay_out_of_the_log(ours: Path) -> None:
    actor = Security.from_folder(ours / "actor")
    assert actor.token not in repr(actor)
    assert "PRIVATE" not in repr(actor)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TransportError, match=r"key\.pem is unreadable \(No such file.*`robot-stack certs`"):
        Security.from_folder(tmp_path)


@pytest.fixture
def copy(ours: Path, tmp_path: Path) -> Path:
    """The actor's part, to be spoilt."""
    return Path(shutil.copytree(ours / "actor", tmp_path / "actor"))


@pytest.mark.parametrize("name", ["key.pem", "token"])
def test_a_secret_that_others_can_read_is_refused(copy: Path, name: str) -> None:
    (copy / name).chmod(0o640)
    with pytest.raises(TransportError, match=rf"mode of .*{name} is 0640, must be 0600; chmod 600"):
        Security.from_folder(copy)


@pytest.mark.parametrize(
    ("name", "source", "words"),
    [
        ("key.pem", "ours/learner/key.pem", "key.pem in .* is of another certificate"),
        ("ca.pem", "theirs/actor/ca.pem", "cert.pem in .* is of another authority"),
        ("cert.pem", "ours/actor/token", "certificates in .* are unreadable"),
    ],
)
def test_parts_of_two_sets_are_refused(
    copy: Path, ours: Path, tmp_path: Path, name: str, source: str, words: str
) -> None:
    make_set(tmp_path / "theirs", [], datetime.now(UTC))
    folder = {"ours": ours, "theirs": tmp_path / "theirs"}[source.partition("/")[0]]
    (copy / name).write_bytes((folder / source.partition("/")[2]).read_bytes())
    with pytest.raises(TransportError, match=words):
        Security.from_folder(copy)


@pytest.mark.parametrize("days", [-VALID_DAYS - 1, 1])
def test_a_certificate_out_of_date_is_refused_with_its_dates(tmp_path: Path, days: int) -> None:
    make_set(tmp_path / "set", [], datetime.now(UTC) + timedelta(days=days))
    with pytest.raises(TransportError, match=r"is valid from \d{4}-\d\d-\d\d to .* set the clock, or make a new set"):
        Security.from_folder(tmp_path / "set" / "actor")
