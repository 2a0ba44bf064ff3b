"""One atomic write: whoever is killed between any two instructions leaves the old file or the new one."""

from __future__ import annotations

import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from robot_stack.disk.durable import PARTIAL, create_durable, write_durable

OLD, NEW = b"old" * 1000, b"new" * 2000
KILLED = """
import os, sys
from pathlib import Path
from robot_stack.disk import durable

path, call = Path(sys.argv[1]), sys.argv[2]

def killed_at(number):
    left = number

    def trace(frame, event, argument):
        nonlocal left
        if frame.f_code.co_filename not in (durable.__file__, os.__file__):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            left -= 1
            if left < 0:
                os._exit(9)
        return trace

    sys.settrace(trace)
    if call == "write":
        durable.write_durable(path, b"new" * 2000)
    else:
        durable.create_durable(path, b"new" * 2000, mode=0o600)
    os._exit(0)

number = 0
while True:
    if call == "write":
        path.write_bytes(b"old" * 1000)
    else:
        path.unlink(missing_ok=True)
    if (child := os.fork()) == 0:
        killed_at(number)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    found = path.read_bytes() if path.exists() else b""
    print("old" if found == b"old" * 1000 else "new" if found == b"new" * 2000 else "none" if not found else "torn")
    if code == 0:
        break
    assert code == 9, code
    number += 1
"""


def _left_behind(path: Path, call: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(path), call], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.split()


def test_a_kill_between_any_two_instructions_leaves_the_old_or_the_new_file(tmp_path: Path) -> None:
    found = _left_behind(tmp_path / "a.json", "write")
    assert len(found) > 30
    assert set(found) == {"old", "new"}
    assert found == sorted(found, reverse=True), "what was new once stays new"


def test_a_kill_while_a_file_is_made_leaves_none_or_all_of_it(tmp_path: Path) -> None:
    found = _left_behind(tmp_path / "key", "create")
    assert len(found) > 30
    assert set(found) == {"none", "new"}


def test_a_disk_that_refuses_leaves_the_old_file_and_no_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    write_durable(path, OLD)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("robot_stack.disk.durable.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_durable(path, NEW)
    assert path.read_bytes() == OLD
    assert not list(tmp_path.glob("*" + PARTIAL))


def test_two_processes_write_one_file_at_once_and_neither_notices(tmp_path: Path) -> None:
    """`train` and `act` both keep the run's file, and may be started in the same instant."""
    path, content = tmp_path / "run.yaml", "x" * 100_000
    script = "import sys; from pathlib import Path; from robot_stack.disk.durable import write_durable\n"
    script += "for _ in range(300): write_durable(Path(sys.argv[1]), 'x' * 100_000)"
    both = [subprocess.Popen([sys.executable, "-c", script, str(path)], stderr=subprocess.PIPE) for _ in range(2)]
    said = [process.communicate(timeout=240)[1].decode() for process in both]
    assert said == ["", ""]
    assert path.read_text() == content
    assert [each.name for each in tmp_path.iterdir()] == ["run.yaml"]


def test_text_becomes_utf_8_and_the_mode_is_as_asked(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "a.txt"
    write_durable(path, "Φ", mode=0o600)
    assert path.read_bytes() == "Φ".encode()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_of_two_makers_the_first_wins(tmp_path: Path) -> None:
    path = tmp_path / "key"
    create_durable(path, b"one", mode=0o600)
    create_durable(path, b"two", mode=0o600)
    assert path.read_bytes() == b"one"
    assert [each.name for each in tmp_path.iterdir()] == ["key"]


def test_many_threads_write_one_file_at_once_and_nobody_sees_half_of_it(tmp_path: Path) -> None:
    path, seen = tmp_path / "a", set()

    def write(content: bytes) -> None:
        for _ in range(40):
            write_durable(path, content)
            seen.add(path.read_bytes())

    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(write, content) for content in (OLD, NEW, OLD + NEW)]:
            done.result()
    assert seen == {OLD, NEW, OLD + NEW}
    assert [each.name for each in tmp_path.iterdir()] == ["a"]


def test_the_names_of_folders_that_are_made_on_the_way_are_on_disk_too(tmp_path: Path, monkeypatch) -> None:
    synced = []
    monkeypatch.setattr("robot_stack.disk.durable.sync_directory", synced.append)
    write_durable(tmp_path / "one/two/a", OLD)
    assert synced == [tmp_path, tmp_path / "one", tmp_path / "one/two"]
    write_durable(tmp_path / "one/two/b", OLD)
    assert synced[3:] == [tmp_path / "one/two"]
