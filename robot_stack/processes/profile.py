"""DDS profiles and domain of a run: how its processes meet, on a domain that no other run uses.

The cell's `dds_reach` says how far. With `host`, the default, every process has UDP sockets on 127.0.0.1 and nothing
else: no other machine sees or commands the cell, and other users' processes on this one can join it. Control never goes
over Fast DDS' shared memory: a sender asks each new participant's port whether somebody listens, and sleeps a third of
its `healthy_check_timeout_ms` between two looks, in the thread that sends. One `ros2 topic list` beside the cell kept a
process from its arm for 334 ms; with 60 instead of the 1000 ms it was 20 to 104 ms, with 15 ms living processes were
taken for dead. Over UDP the longest gap in 800 joins, ends and kills was 14 ms. Only what reads whole images of a
camera's driver has shared memory too (`IMAGES_FILE`).

`ROS_AUTOMATIC_DISCOVERY_RANGE` is left at the system's default: with LOCALHOST rmw_fastrtps adds a shared memory with
1000 ms, and UDP sockets on all interfaces, to whatever the profile says.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from robot_stack.config.cell import DdsReach
from robot_stack.disk.durable import write_durable
from robot_stack.processes.shared_memory import try_lock
from robot_stack.types.errors import ConfigError

LAST_DOMAIN = 101
PORT_BASE, PORTS_PER_DOMAIN = 7400, 250
PROFILE_FILE, IMAGES_FILE = "fastdds.xml", "fastdds_images.xml"
PARTICIPANTS = 64
"""Most on a domain that find each other without multicast."""
PROFILE_VARIABLE = "FASTRTPS_DEFAULT_PROFILES_FILE"
SOCKETS = """\
      <transport_descriptor>
        <transport_id>sockets</transport_id>
        <type>UDPv4</type>
        <receiveBufferSize>4194304</receiveBufferSize>
        <maxInitialPeersRange>{participants}</maxInitialPeersRange>{only}
      </transport_descriptor>
"""
ONLY_LOOPBACK = """
        <interfaceWhiteList><address>127.0.0.1</address></interfaceWhiteList>"""
SHARED = """\
      <transport_descriptor>
        <transport_id>shared_memory</transport_id>
        <type>SHM</type>
        <segment_size>33554432</segment_size>
        <maxMessageSize>8388608</maxMessageSize>
        <healthy_check_timeout_ms>60</healthy_check_timeout_ms>
      </transport_descriptor>
"""
NO_MULTICAST = """\
          <metatrafficUnicastLocatorList><locator/></metatrafficUnicastLocatorList>
"""
PEER = "<locator><udpv4><address>{address}</address></udpv4></locator>"
MULTICAST_ADDRESS = "239.255.0.1"
PROFILE = """\
<?xml version="1.0" encoding="UTF-8"?>
<dds xmlns="http://www.eprosima.com/XMLSchemas/fastRTPS_Profiles">
  <profiles>
    <transport_descriptors>
{transports}    </transport_descriptors>
    <participant profile_name="cell" is_default_profile="true">
      <rtps>
        <useBuiltinTransports>false</useBuiltinTransports>
        <userTransports>{names}</userTransports>
        <builtin>
          <discovery_config>
            <leaseDuration><sec>3</sec></leaseDuration>
            <leaseAnnouncement><sec>1</sec></leaseAnnouncement>
          </discovery_config>
{multicast}          <initialPeersList>{peers}</initialPeersList>
        </builtin>
      </rtps>
    </participant>
  </profiles>
</dds>
"""


def profile(reach: DdsReach, peers: Sequence[str] = (), *, images: bool) -> str:
    """Return a Fast DDS profile as the text of its XML file.

    Args:
        reach: "host" binds 127.0.0.1 only, "network" all interfaces.
        peers: Addresses of other machines that multicast does not reach.
        images: Whether shared memory is added, for whole images of a driver on this machine.
    """
    alone = reach == "host"
    sockets = SOCKETS.format(participants=PARTICIPANTS, only=ONLY_LOOPBACK if alone else "")
    addresses = ["127.0.0.1"] if alone else [MULTICAST_ADDRESS, "127.0.0.1", *peers]
    names = ["sockets", "shared_memory"] if images else ["sockets"]
    return PROFILE.format(
        transports=sockets + SHARED if images else sockets,
        names="".join(f"<transport_id>{name}</transport_id>" for name in names),
        multicast=NO_MULTICAST if alone else "",
        peers="".join(PEER.format(address=address) for address in addresses),
    )


def write_profiles(folder: Path, reach: DdsReach = "host", peers: Sequence[str] = ()) -> Path:
    """Write both Fast DDS profiles as files in `folder`; return the path of the one for control."""
    write_durable(folder / IMAGES_FILE, profile(reach, peers, images=True))
    path = folder / PROFILE_FILE
    write_durable(path, profile(reach, peers, images=False))
    return path


def ros_environment(
    profile: Path | None, domain: int, log_folder: Path | None = None, prefix: Path | None = None
) -> dict[str, str]:
    """Return the ROS environment of a run.

    Args:
        profile: Of Fast DDS; None where middleware, transports and discovery are those of the shell.
        domain: Of DDS.
        log_folder: For the logs of ROS.
        prefix: Where the run's Python is; default: this one's.
    """
    environment = {"ROS_DOMAIN_ID": str(domain), "RCUTILS_COLORIZED_OUTPUT": "0"}
    if profile is not None:
        environment |= {
            PROFILE_VARIABLE: str(profile),
            "RMW_IMPLEMENTATION": "rmw_fastrtps_cpp",
            "ROS_AUTOMATIC_DISCOVERY_RANGE": "SYSTEM_DEFAULT",
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
    """Return whether a participant, of whatever user, has a UDP socket among the ports of the domain."""
    first = PORT_BASE + PORTS_PER_DOMAIN * domain
    return any(first <= port < first + PORTS_PER_DOMAIN for port in _bound_ports())


def _bound_ports() -> Iterator[int]:
    """Yield the ports of all UDP sockets of this machine."""
    for table in (Path("/proc/net/udp"), Path("/proc/net/udp6")):
        if table.is_file():
            for line in table.read_text().splitlines()[1:]:
                yield int(line.split()[1].rpartition(":")[2], 16)
