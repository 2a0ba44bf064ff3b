"""What killed participants left in shared memory goes, what living ones hold stays."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from robot_stack.processes.profile import IMAGES_FILE, write_profiles
from robot_stack.processes.shared_memory import SHARED_MEMORY, YOUNG_S, remove_stale
from tests.nodes.cell_rig import wait_until

LATER_S = 10 * YOUNG_S
SEGMENT = "fastrtps_0123456789abcdef"
PORT = "fastrtps_port7411"


def made(folder: Path, *names: str) -> list[Path]:
    for name in names:
        (folder / name).write_bytes(b"\0" * 8192)
    return [folder / name for name in names]


def test_a_segment_and_a_port_that_nobody_holds_are_removed_with_all_their_files(tmp_path):
    made(tmp_path, SEGMENT, f"{SEGMENT}_el", PORT, f"{PORT}_el", f"{PORT}_sl", f"sem.{PORT}_mutex")
    assert remove_stale(tmp_path, now_unix_s=time.time() + LATER_S) == 6 * 8192
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("name", "lock"), [(SEGMENT, f"{SEGMENT}_el"), (PORT, f"{PORT}_sl")])
@pytest.mark.parametrize("how", [fcntl.LOCK_EX, fcntl.LOCK_SH])
def test_what_somebody_holds_stays(tmp_path, name, lock, how):
    made(tmp_path, name, f"{name}_el", lock)
    with (tmp_path / lock).open() as held:
        fcntl.flock(held, how)
        assert remove_stale(tmp_path, now_unix_s=time.time() + LATER_S) == 0
        assert (tmp_path / name).exists()


def test_a_young_file_stays_since_its_lock_may_come(tmp_path):
    made(tmp_path, SEGMENT, f"{SEGMENT}_el")
    assert remove_stale(tmp_path) == 0


def test_other_files_are_none_of_our_business(tmp_path):
    others = made(tmp_path, "fastrtps_data", "psm_1234_el", "fastrtps_0123456789abcdeg_el", SEGMENT)
    assert remove_stale(tmp_path, now_unix_s=time.time() + LATER_S) == 0
    assert all(path.exists() for path in others)


def test_a_killed_participant_loses_its_segment_and_a_living_one_keeps_it(tmp_path):
    pytest.importorskip("rclpy", reason="no ROS on this machine")
    code = "import rclpy; rclpy.init(domain_id=88); n = rclpy.create_node('x'); print('up', flush=True); input()"
    environment = {**os.environ, "FASTRTPS_DEFAULT_PROFILES_FILE": str(write_profiles(tmp_path).with_name(IMAGES_FILE))}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    before = segments()
    with (
        subprocess.Popen([sys.executable, "-c", code], env=environment, **pipes) as dies,
        subprocess.Popen([sys.executable, "-c", code], env=environment, **pipes) as lives,
    ):
        try:
            assert dies.stdout.readline() == lives.stdout.readline() == b"up\n"
            both = segments() - before
            dies.send_signal(signal.SIGKILL)
            dies.wait(5)
            assert segments() - before == both, "a killed one leaves its segment"
            remove_stale(now_unix_s=time.time() + LATER_S)
            wait_until(lambda: len(segments() & both) < len(both), 5, "the segment's end")
            left = segments() & both
            assert left
            assert all((SHARED_MEMORY / f"{name}_el").exists() for name in left)
        finally:
            dies.kill()
            lives.kill()


def segments() -> set[str]:
    names = {path.name for path in SHARED_MEMORY.glob("fastrtps_*_el")}
    return {name.removesuffix("_el") for name in names if "port" not in name}
