"""`robot-stack certs`: a set that works as printed, once, and in no other hands."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography import x509
from ruamel.yaml import YAML

from robot_stack.cli import main as command
from robot_stack.config.cell import CellConfig
from robot_stack.config.resolve import load_run
from robot_stack.transport.access.security import security_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    assert command.main(["certs", str(tmp_path / "set"), "--host", "learner.lan", "--host", "192.168.1.5"]) == 0
    return tmp_path / "set"


def hosts_of(cert: Path) -> list[str]:
    names = x509.load_pem_x509_certificate(cert.read_bytes()).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    return [str(name.value) for name in names.value]


def test_set_is_complete_and_secret(folder: Path) -> None:
    found = {str(path.relative_to(folder)): path.stat().st_mode & 0o777 for path in folder.rglob("*")}
    parts = {"ca.pem": 0o644, "cert.pem": 0o644, "key.pem": 0o600, "token": 0o600}
    wanted = {f"{role}/{name}": mode for role in ("learner", "actor") for name, mode in parts.items()}
    assert found == {**wanted, "learner": 0o700, "actor": 0o700}
    assert folder.stat().st_mode & 0o777 == 0o700


def test_both_ends_can_read_it_and_share_the_token(folder: Path) -> None:
    learner, actor = security_of(str(folder), "learner"), security_of(str(folder), "actor")
    assert learner is not None
    assert actor is not None
    assert learner.token == actor.token
    assert learner.key != actor.key


def test_learner_is_known_by_the_names_given_and_on_its_own_machine(folder: Path) -> None:
    assert hosts_of(folder / "learner" / "cert.pem") == ["learner.lan", "192.168.1.5", "localhost", "127.0.0.1", "::1"]


def test_two_sets_have_nothing_in_common(folder: Path, tmp_path: Path) -> None:
    assert command.main(["certs", str(tmp_path / "other")]) == 0
    for name in ("ca.pem", "cert.pem", "key.pem", "token"):
        assert (folder / "actor" / name).read_bytes() != (tmp_path / "other" / "actor" / name).read_bytes()


def test_nothing_is_overwritten(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert command.main(["certs", str(folder)]) == 1
    assert "must be a new or empty folder; nothing was changed" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert list(folder.parent.iterdir()) == [folder]


@pytest.mark.parametrize("host", ["learner.lan:50051", "a b", "", "-x", "http://learner"])
def test_host_that_is_none_is_refused(tmp_path: Path, host: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["certs", str(tmp_path / "set"), f"--host={host}"]) == 1
    assert f"host is {host!r}, must be a name or an address without a port" in capsys.readouterr().err
    assert not (tmp_path / "set").exists()


def test_what_is_printed_for_the_cell_is_what_a_cell_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert command.main(["certs", str(tmp_path / "keys" / "set"), "--host", "learner.lan"]) == 0
    printed = capsys.readouterr().out
    keys = dict(re.findall(r"^    (learner_\w+): (\S+)$", printed, flags=re.MULTILINE))
    assert keys == {"learner_address": "learner.lan:50051", "learner_certs": "~/keys/set"}
    assert keys.keys() <= CellConfig.model_fields.keys()
    assert security_of(keys["learner_certs"], "actor") is not None
    assert printed.splitlines()[-1] == "Next: scp -rp ~/keys/set/actor ROBOT:~/keys/set/"


def test_printed_commands_bear_a_space_in_the_folder_here_and_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert command.main(["certs", str(tmp_path / "my keys")]) == 0
    *_, make, copy = capsys.readouterr().out.splitlines()
    assert copy == "Next: scp -rp ~/'my keys/actor' ROBOT:~/'my keys/'"
    remote = shlex.split(make)[2:]
    assert remote == ["mkdir -p -m 700 ~/'my keys'"]  # which the shell of the robot's machine splits once more


def test_printed_address_of_an_ipv6_host_is_what_a_cell_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["certs", str(tmp_path / "set"), "--host", "fd00::5"]) == 0
    printed = "".join(re.findall(r"^    learner_\w+: .*\n", capsys.readouterr().out, flags=re.MULTILINE))
    keys = YAML(typ="safe").load(printed)
    assert keys["learner_address"] == "[fd00::5]:50051"
    run = load_run("peg_insert", [f'cell.learner_address="{keys["learner_address"]}"'])
    assert run.cell.learner_address == keys["learner_address"]


def test_help_does_not_load_the_library() -> None:
    code = "import sys; from robot_stack.cli import main; main.parser(); print('cryptography' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240).stdout == "False\n"
