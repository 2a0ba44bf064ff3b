"""DDS profile and domain of a run: its processes meet over shared memory only, on a domain that no other run uses.

Without UDP sockets nothing outside this host can see or command the cell. Participants that vanish are forgotten
after 3 s instead of 20. Whoever sends first to a participant that has just joined asks whether it listens, and sleeps a
third of `healthy_check_timeout_ms` between two looks, in the thread that sends: with Fast DDS' own 1000 ms a
`ros2 topic list` beside the cell can keep a process from its arm for 334 ms. Of 200 participants that join, end or are
killed, 60 ms still cost one HOLD. Shorter times stall less and lose more: with 15 ms five runs of 200 had no HOLD, in a
sixth living processes were taken for dead and heard nothing for 370 ms; with 6 ms they hear nothing for a second.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from robot_stack.processes.shared_memory import SHARED_MEMORY, try_lock
from robot_stack.types.errors import ConfigError

LAST_DOMAIN = 101
PORT_BASE, PORTS_PER_DOMAIN = 7400, 250
PROFILE_FILE = "fastdds.xml"
PROFILE = """\
<?xml version="1.0" encoding="UTF-8"?>
<dds xmlns="http://www.eprosima.com/XMLSchemas/fastRTPS_Profiles">
  <profiles>
    <transport_descriptors>
      <transport_descriptor>
        <transport_id>shared_memory</transport_id>
        <type>SHM</type>
        <segment_size>33554432</segment_size>
        <maxMessageSize>8388608</maxMessageSize>
        <healthy_check_timeout_ms>60</healthy_check_timeout_ms>
      </transport_descriptor>
    </transport_descriptors>
    <participant profile_name="single_host" is_default_profile="true">
      <rtps>
        <useBuiltinTransports>false</useBuiltinTransports>
        <userTransports>
          <transport_id>shared_memory</transport_id>
        </userTransports>
        <builtin>
          <discovery_config>
            <leaseDuration><sec>3</sec></leaseDuration>
            <leaseAnnouncement><sec>1</sec></leaseAnnouncement>
          </discovery_config>
        </builtin>
      </rtps>
    </participant>
  </profiles>
</dds>
"""


def write_profile(folder: Path) -> Path:
    """Write the Fast DDS profile as a file in `folder`; return its path."""
    path = folder / PROFILE_FILE
    path.write_text(PROFILE)
    return path


def ros_environment(
    profile: Path, domain: int, log_folder: Path | None = None, prefix: Path | None = None
) -> dict[str, str]:
    """Return the ROS environment of a run whose Python is under `prefix`; default: this one's."""
    environment = {
        "FASTRTPS_DEFAULT_PROFILES_FILE": str(profile),
        "RMW_IMPLEMENTATION": "rmw_fastrtps_cpp",
        "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
        "ROS_DOMAIN_ID": str(domain),
        "RCUTILS_COLORIZED_OUTPUT": "0",
    }
    if log_folder is not None:
        environment["ROS_LOG_DIR"] = str(log_folder / "ros")
    return {**environment, **package_path(prefix)}


def package_path(prefix: Path | None = None) -> dict[str, str]:
    """Return what lets `ros2` find the packages under `prefix`, if there are any; default: this Python's."""
    prefix = Path(sys.prefix) if prefix is None else prefix
    if not (prefix / "share" / "ament_index").is_dir():
        return {}
    before = os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)
    return {"AMENT_PREFIX_PATH": os.pathsep.join(dict.fromkeys([str(prefix), *filter(None, before)]))}


@contextmanager
def claim_domain(wanted: int, *, exact: bool) -> Iterator[int]:
    """Claim a DDS domain for as long as the context is open; the claim ends with the process, even a killed one.

    Args:
        wanted: Taken if it is free.
        exact: A real cell's drivers live on its domain: then no other one will do, and drivers are welcome there.

    Raises:
        ConfigError: If it is taken and must be this one, or if all are taken.
    """
    candidates = [wanted] if exact else [*range(wanted, LAST_DOMAIN + 1), *range(wanted)]
    for domain in candidates:
        claim = _lock(domain)
        if claim is None:
            continue
        try:
            if exact or not _occupied(domain):
                yield domain
                return
        finally:
            os.close(claim)
    if exact:
        raise ConfigError(f"DDS domain {wanted} is in use by another run, must be free; stop that or change dds_domain")
    raise ConfigError(f"DDS domains 0 to {LAST_DOMAIN} are all in use, one must be free; stop another run")


def _lock(domain: int) -> int | None:
    """Return a descriptor that holds the domain's lock until it is closed, or None if it is taken."""
    folder = Path(tempfile.gettempdir()) / f"robot-stack-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return try_lock(folder / f"domain-{domain}.lock", os.O_CREAT)


def _occupied(domain: int) -> bool:
    """Return whether a living participant listens on the domain; a dead one's files are not locked."""
    first = PORT_BASE + PORTS_PER_DOMAIN * domain
    for path in SHARED_MEMORY.glob("fastrtps_port*_el"):
        number = path.name.removeprefix("fastrtps_port").removesuffix("_el")
        if number.isdigit() and first <= int(number) < first + PORTS_PER_DOMAIN and _held(path):
            return True
    return False


def _held(path: Path) -> bool:
    try:
        descriptor = try_lock(path)
    except OSError:
        return path.exists()  # another user's
    if descriptor is None:
        return True
    os.close(descriptor)
    return False
