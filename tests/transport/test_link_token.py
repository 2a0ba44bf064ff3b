"""The token of a run's folder: made whole by whoever comes first, and no use to another account."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from multiprocessing.pool import ThreadPool
from pathlib import Path

import pytest

from robot_stack.transport.access import link_token
from robot_stack.transport.access.link_token import FILE, LinkToken
from robot_stack.transport.access.security import Security, actor_credentials, learner_credentials
from robot_stack.transport.client import LearnerClient
from robot_stack.transport.server import LearnerServer
from robot_stack.types.errors import TransportError
from tests.transport.fake_learner import FakeLearner, wait_until

Serve = Callable[..., LearnerServer]
Connect = Callable[..., LearnerClient]
NOBODY = 65534


def test_it_is_random_long_and_of_its_owner_alone(tmp_path: Path) -> None:
    one, two = LinkToken.keep(tmp_path / "a"), LinkToken.keep(tmp_path / "b")
    assert one.token != two.token
    assert len(bytes.fromhex(one.token)) * 8 >= 128
    assert (tmp_path / "a" / FILE).stat().st_mode & 0o777 == 0o600
    assert [path.name for path in (tmp_path / "a").iterdir()] == [FILE], "no draft is left"
    assert one.token not in repr(one)


def test_it_is_for_its_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        LinkToken.keep(tmp_path)
    finally:
        os.umask(before)
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


def test_whoever_comes_second_takes_what_is_there(tmp_path: Path) -> None:
    with ThreadPool(16) as pool:
        tokens = {each.token for each in pool.map(lambda _: LinkToken.keep(tmp_path), range(64))}
    assert len(tokens) == 1
    assert actor_credentials(None, tmp_path) == learner_credentials(None, tmp_path)


def test_certificates_of_the_cell_take_its_place(tmp_path: Path) -> None:
    from datetime import UTC, datetime

    from robot_stack.transport.access.certificates import make_set

    make_set(tmp_path / "certs", [], datetime.now(UTC))
    assert isinstance(learner_credentials(str(tmp_path / "certs"), tmp_path / "run"), Security)
    assert not (tmp_path / "run").exists()


def spoil(path: Path, how: str) -> None:
    match how:
        case "readable":
            path.chmod(0o644)
        case "group":
            path.chmod(0o640)
        case "empty":
            path.write_text("")
        case "short":
            path.write_text("abc\n")
        case "long":
            path.write_text("x" * 10_000)
        case "binary":
            path.write_bytes(b"\xff" * 64)
        case "link":
            path.rename(path.with_name("elsewhere"))
            path.symlink_to(path.with_name("elsewhere"))
        case "pipe":
            path.unlink()
            os.mkfifo(path, 0o600)
        case "folder":
            path.unlink()
            path.mkdir(0o700)
        case "missing":
            path.unlink()


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("readable", r"mode of .*link\.token is 0644, must be 0600, because others could label and push; stop the run"),
        ("group", r"mode of .*link\.token is 0640, must be 0600"),
        ("empty", r"token in .*link\.token is 0 characters, must be 16 to 256 .*; stop the run, remove the file"),
        ("short", r"token in .*link\.token is 3 characters, must be 16"),
        ("long", r"token in .*link\.token is 258 characters, must be 16 to 256"),
        ("binary", r"token in .*link\.token is 64 characters, must be 16 to 256 printable ASCII"),
        ("link", r"link\.token is unreadable \(Too many levels of symbolic links\)"),
        ("pipe", r"link\.token is no plain file, must be one"),
        ("folder", r"link\.token is no plain file, must be one"),
        (
            "missing",
            r"link\.token is unreadable \(No such file or directory\), must be .*; start the learner in this run",
        ),
    ],
)
def test_one_that_cannot_be_trusted_is_refused_with_what_to_do(tmp_path: Path, how: str, words: str) -> None:
    LinkToken.keep(tmp_path)
    spoil(tmp_path / FILE, how)
    with pytest.raises(TransportError, match=words):
        LinkToken.read(tmp_path)
    if how != "missing":
        with pytest.raises(TransportError):
            LinkToken.keep(tmp_path)


def test_files_of_one_folder_hold_tokens_of_their_own(tmp_path: Path) -> None:
    """The console keeps that of its page so."""
    page = LinkToken.keep(tmp_path / "state", "console.token")
    assert page.path.stat().st_mode & 0o777 == 0o600
    assert LinkToken.keep(tmp_path / "state", "console.token") == page
    assert LinkToken.keep(tmp_path / "state").token != page.token
    page.path.chmod(0o644)
    with pytest.raises(TransportError, match=r"console\.token is 0644, must be 0600"):
        LinkToken.keep(tmp_path / "state", "console.token")


def test_one_of_another_owner_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    LinkToken.keep(tmp_path)
    owner = os.geteuid()
    monkeypatch.setattr(link_token.os, "geteuid", lambda: owner + 1)
    with pytest.raises(TransportError, match=rf"owner of .* is user {owner}, must be user {owner + 1}, who runs this"):
        LinkToken.read(tmp_path)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TransportError, match=r"link\.token cannot be made .*; choose a run folder that can be written"):
        LinkToken.keep(tmp_path / "file")


def test_a_client_without_it_is_told_where_it_lies(serve: Serve, connect: Connect, tmp_path: Path) -> None:
    address = serve(FakeLearner(), security=LinkToken.keep(tmp_path / "run")).address
    none = connect(address, security=None, spool_dir=tmp_path / "one")
    other = connect(address, security=LinkToken.keep(tmp_path / "other"), spool_dir=tmp_path / "two")
    assert wait_until(lambda: none.refusal and other.refusal)
    where = tmp_path / "run" / FILE
    assert none.refusal.startswith(f"token is missing, must be that in {where}; start this process in the same run")
    assert other.refusal.startswith(f"token is wrong, must be that in {where}; ")


ANOTHER = """
import os, sys
import grpc
from robot_stack.transport import learner_pb2 as pb
from robot_stack.transport.service import LearnerStub
os.setgroups([]); os.setgid({nobody}); os.setuid({nobody})
try:
    open(sys.argv[2]).read()
    print("read")
except PermissionError:
    print("not read")
with grpc.insecure_channel(sys.argv[1]) as channel:
    stub = LearnerStub(channel)
    label = pb.Label(episode_id="e", verdict="discard", source="operator", stamp_unix_s=1.0)
    for ask in (
        lambda: stub.Label(label, timeout=10),
        lambda: list(stub.PushSteps(iter([]), timeout=10)),
        lambda: stub.Label(label, timeout=10, metadata=(("authorization", "Bearer " + "0" * 64),)),
    ):
        try:
            ask()
            print("taken")
        except grpc.RpcError as error:
            print(error.code().name)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another account")
def test_another_account_of_this_machine_neither_reads_it_nor_labels_nor_pushes(serve: Serve) -> None:
    with tempfile.TemporaryDirectory() as folder:  # not pytest's own, which nobody else may enter
        Path(folder).chmod(0o755)
        refused_to_another(serve, Path(folder) / "run")


def refused_to_another(serve: Serve, run: Path) -> None:
    backend = FakeLearner()
    address = serve(backend, security=LinkToken.keep(run)).address
    run.chmod(0o755)  # the file alone must do
    said = subprocess.run(
        [sys.executable, "-c", ANOTHER.format(nobody=NOBODY), address, str(run / FILE)],
        capture_output=True, text=True, timeout=240, check=True,
    )  # fmt: skip
    assert said.stdout.split("\n")[:-1] == ["not read", *["UNAUTHENTICATED"] * 3]
    assert (backend.label_calls, backend.memory) == (0, {})
