"""How far a cell reaches over DDS: its own machine's loopback, other users, other machines, and nobody else."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from robot_stack.config.resolve import load_run
from robot_stack.processes.profile import IMAGES_FILE, ros_environment, write_profiles
from robot_stack.types.errors import ConfigError

pytest.importorskip("rclpy", reason="no ROS on this machine")
DOMAIN = 58
NOBODY = 65534
WAIT_S = 20
TALKER = """
import sys, time, rclpy
from std_msgs.msg import String
rclpy.init()
node = rclpy.create_node(sys.argv[1])
out = node.create_publisher(String, sys.argv[2], 10)
heard = []
node.create_subscription(String, sys.argv[3], lambda msg: heard.append(msg.data), 10)
print("up", flush=True)
until_s, said_s = time.monotonic() + float(sys.argv[4]), None
while time.monotonic() < until_s and (said_s is None or time.monotonic() < said_s + 1):
    out.publish(String(data=sys.argv[1]))
    rclpy.spin_once(node, timeout_sec=0.05)
    if heard and said_s is None:
        said_s = time.monotonic()
print(heard[0] if heard else "nothing", flush=True)
"""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may change its user or make a network namespace")


@contextmanager
def talker(
    name: str, out: str, heard: str, environment: dict[str, str], *before: str, wait_s: float = WAIT_S
) -> Iterator[subprocess.Popen[str]]:
    """A participant that says its name on one topic until it has heard something on another, or time is up."""
    words = [*before, sys.executable, "-c", TALKER, name, out, heard, str(wait_s)]
    whole = {**os.environ, "HOME": "/tmp", "ROS_LOG_DIR": "/tmp", **environment}
    with subprocess.Popen(words, env=whole, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def heard_by(process: subprocess.Popen[str]) -> str:
    """Return the name that the process has heard, or "nothing"."""
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process.stdout.readline().strip()


def environment_of(folder: Path, reach: str = "host", *peers: str, images: bool = False) -> dict[str, str]:
    """Write profiles in a new folder that every user may read; return the environment of a run with that reach."""
    folder.mkdir()
    profile = write_profiles(folder, reach, peers)
    for path in (*folder.iterdir(), folder, *folder.parents):
        if path.owner() == Path(folder).owner() and path != Path("/"):
            path.chmod(path.stat().st_mode | 0o055 if path.is_dir() else 0o644)
    return ros_environment(profile.with_name(IMAGES_FILE) if images else profile, DOMAIN)


def test_every_socket_of_a_cells_process_is_on_loopback(tmp_path: Path) -> None:
    with talker("alone", "a", "b", environment_of(tmp_path / "ros"), wait_s=2.0) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        own = {os.readlink(each) for each in Path(f"/proc/{process.pid}/fd").iterdir()}
        rows = [line.split() for line in Path("/proc/net/udp").read_text().splitlines()[1:]]
        addresses = [row[1].partition(":")[0] for row in rows if f"socket:[{row[9]}]" in own]
        mapped = Path(f"/proc/{process.pid}/maps").read_text()
    loopback = f"{int.from_bytes(socket.inet_aton('127.0.0.1'), 'little'):08X}"
    assert addresses
    assert set(addresses) == {loopback}
    assert "/dev/shm/fastrtps" not in mapped, "control has no shared memory that it could wait for"


@pytest.mark.parametrize("theirs", ["cell", "images", "defaults"])
def test_a_driver_with_its_own_settings_and_a_cell_hear_each_other(tmp_path: Path, theirs: str) -> None:
    ours = environment_of(tmp_path / "ros")
    other = ros_environment(None, DOMAIN)
    if theirs != "defaults":
        other = environment_of(tmp_path / "other", images=theirs == "images")
    with talker("cell", "a", "b", ours) as cell, talker("driver", "b", "a", other) as driver:
        assert (heard_by(cell), heard_by(driver)) == ("driver", "cell")


@needs_root
def test_a_driver_of_another_user_and_a_cell_hear_each_other(tmp_path: Path) -> None:
    environment = environment_of(tmp_path / "ros")
    other = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    with talker("cell", "a", "b", environment) as cell, talker("driver", "b", "a", environment, *other) as driver:
        assert (heard_by(cell), heard_by(driver)) == ("driver", "cell")


@contextmanager
def two_machines() -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Two network namespaces with a cable between them: a workstation at 10.77.0.1, a real-time PC at 10.77.0.2."""
    names, here = ("robot-stack-a", "robot-stack-b"), ["ip", "netns"]
    made = []
    try:
        for name in names:
            subprocess.run([*here, "add", name], check=True)
            made.append(name)
        cable = ["ip", "link", "add", "cable-a", "netns", names[0], "type", "veth", "peer", "name", "cable-b"]
        subprocess.run([*cable, "netns", names[1]], check=True)
        for number, name in enumerate(names, 1):
            inside = ["ip", "-n", name]
            subprocess.run([*inside, "addr", "add", f"10.77.0.{number}/24", "dev", f"cable-{name[-1]}"], check=True)
            subprocess.run([*inside, "link", "set", "lo", "up"], check=True)
            subprocess.run([*inside, "link", "set", f"cable-{name[-1]}", "up"], check=True)
            subprocess.run([*inside, "route", "add", "default", "dev", f"cable-{name[-1]}"], check=True)
        yield ("ip", "netns", "exec", names[0]), ("ip", "netns", "exec", names[1])
    finally:
        for name in made:
            subprocess.run([*here, "del", name], check=False)


@needs_root
@pytest.mark.skipif(shutil.which("ip") is None, reason="ip (iproute2) is not installed")
@pytest.mark.parametrize(("reach", "expected"), [("network", ("driver", "cell")), ("host", ("nothing", "nothing"))])
def test_two_machines_hear_each_other_only_where_the_cell_reaches_the_network(
    tmp_path: Path, reach: str, expected: tuple[str, str]
) -> None:
    peers = ("10.77.0.2",) if reach == "network" else ()
    ours, wait_s = environment_of(tmp_path / "ros", reach, *peers), WAIT_S if reach == "network" else 4.0
    with two_machines() as (workstation, pc):
        driver_side = ros_environment(None, DOMAIN)  # a driver's shell: Fast DDS as it comes
        with (
            talker("cell", "a", "b", ours, *workstation, wait_s=wait_s) as cell,
            talker("driver", "b", "a", driver_side, *pc, wait_s=wait_s) as driver,
        ):
            assert (heard_by(cell), heard_by(driver)) == expected


def test_peers_without_a_network_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"dds_peers is given with dds_reach host.*set dds_reach: network"):
        load_run("peg_insert", ["cell.dds_peers=['10.0.0.2']"])
