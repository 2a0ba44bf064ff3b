"""Checks of the machine: disk, shared memory, clock, round trips, load, priority, GPU."""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from robot_stack.config.resolved import ResolvedRun
from robot_stack.types.finding import Finding
from robot_stack.workcell.checkup.finding import fail, ok, warn

GB = 1e9
LEAST_FREE_GB, LITTLE_FREE_GB = 2.0, 20.0
WRITTEN_MB = 32
HEADROOM = 5.0
"""The disk must be this much faster than what a run writes."""
SEGMENT_BYTES = 33_554_432
"""Shared memory of one participant."""
OFFSET_LIMIT_S = 0.05
"""Between two hosts: images and state that are further apart are refused."""
ALLOWED_BY = (
    'type: echo "$USER - rtprio 10" | sudo tee -a /etc/security/limits.d/robot-stack.conf; then log out and in, until '
    "ulimit -r says 10"
)
ROUND_TRIP_LIMIT_S = 0.02
STARVED_S = 0.3
STA_UNSYNC = 0x40


def judge_disk(free_bytes: float, written_mb_s: float, needed_mb_s: float, folder: Path) -> Finding:
    """Judge room and speed of the disk where runs are kept."""
    free_gb = free_bytes / GB
    measured = f"{free_gb:.0f} GB free, writes {written_mb_s:.0f} MB/s in {folder}"
    if free_gb < LEAST_FREE_GB:
        return fail("disk", f"{measured}, must have {LITTLE_FREE_GB:g} GB; free some")
    if written_mb_s < needed_mb_s:
        return fail("disk", f"{measured}, must write {needed_mb_s:.1f} MB/s; use a faster disk")
    if free_gb < LITTLE_FREE_GB:
        return warn("disk", f"{measured}; below {LITTLE_FREE_GB:g} GB, free some before a long run")
    if written_mb_s < HEADROOM * needed_mb_s:
        return warn("disk", f"{measured}; a run writes up to {needed_mb_s:.1f} MB/s")
    return ok("disk", measured)


def measure_disk(folder: Path, run: ResolvedRun) -> Finding:
    """Measure and judge the disk with a file that is written and synced beside the runs, then removed."""
    pixels = sum(camera.policy_height_px * camera.policy_width_px * 3 for camera in run.cameras.values())
    needed_mb_s = pixels * run.run.rate_hz / 1e6
    probe = folder / f".doctor-{os.getpid()}"
    block = np.random.default_rng(0).bytes(1_000_000)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        began_s = time.perf_counter()
        with probe.open("wb") as file:
            for _ in range(WRITTEN_MB):
                file.write(block)
            os.fsync(file.fileno())
        took_s = time.perf_counter() - began_s
    except OSError as error:
        return fail("disk", f"{folder} is not writable ({error.strerror}), must hold the runs; free or remount it")
    finally:
        with suppress(OSError):
            probe.unlink()
    return judge_disk(shutil.disk_usage(folder).free, WRITTEN_MB / took_s, needed_mb_s, folder)


def judge_shared_memory(free_bytes: float, readers: int) -> Finding:
    """Judge the free shared memory, of which every process that reads a camera's driver takes a segment."""
    needed = readers * SEGMENT_BYTES
    measured = f"{free_bytes / 1e6:.0f} MB free for the images of {readers} drivers"
    if free_bytes < needed:
        remedy = "mount it larger, or in a container: --shm-size=1g"
        return fail("memory", f"shared memory: {measured}, must be {needed / 1e6:.0f} MB; {remedy}")
    return ok("memory", f"shared memory: {measured}")


def clock_synchronised() -> tuple[bool, float]:
    """Return whether the kernel's clock follows a time server, and its largest error in seconds."""
    buffer = ctypes.create_string_buffer(256)  # struct timex, modes = 0: only asks
    ctypes.CDLL(None).adjtimex(buffer)
    status = ctypes.c_int.from_buffer(buffer, 40).value
    error_us = ctypes.c_long.from_buffer(buffer, 24).value
    return not status & STA_UNSYNC, error_us / 1e6


def judge_clock(offsets_s: Mapping[str, float], *, synchronised: bool, error_s: float, alone: bool) -> Finding:
    """Judge the wall clocks of all hosts.

    Args:
        offsets_s: Node -> how far its wall clock is from this host's, as its diagnostics say.
        synchronised: Whether this host follows a time server.
        error_s: Its largest error then.
        alone: True if learner and drivers are on this host.
    """
    worst = max(offsets_s, key=lambda node: abs(offsets_s[node]), default=None)
    if worst is not None and abs(offsets_s[worst]) > OFFSET_LIMIT_S:
        ahead_ms, limit_ms = offsets_s[worst] * 1e3, OFFSET_LIMIT_S * 1e3
        return fail(
            "clock", f"{worst} is {ahead_ms:+.0f} ms off, must be within {limit_ms:g}; align the hosts (chrony)"
        )
    nodes = "no node measured" if worst is None else f"all nodes within {abs(offsets_s[worst]) * 1e3:.0f} ms"
    if synchronised:
        return ok("clock", f"{nodes}; follows a time server, within {error_s * 1e3:.0f} ms")
    if alone:
        return ok("clock", f"{nodes}; follows no time server, and need not on one host")
    return warn("clock", f"{nodes}; follows no time server; run chrony on this host and on the learner's")


def judge_round_trip(times_s: Sequence[float], lost: int) -> Finding:
    """Judge the times from a request to a node to its answer, over DDS."""
    if not times_s:
        return fail("dds", "no request was answered; are the nodes on this ROS domain, and of this user?")
    p50_ms, worst_ms = float(np.median(times_s)) * 1e3, max(times_s) * 1e3
    measured = f"round trip {p50_ms:.1f} ms, longest {worst_ms:.1f} ms"
    if lost:
        return warn("dds", f"{measured}; {lost} of {lost + len(times_s)} requests were lost")
    if p50_ms > ROUND_TRIP_LIMIT_S * 1e3:
        return warn("dds", f"{measured}, should be below {ROUND_TRIP_LIMIT_S * 1e3:g} ms; the machine is busy")
    return ok("dds", measured)


def judge_load(starved_s: float) -> list[Finding]:
    """Warn if the doctor itself was kept from listening: then rates and ages say little."""
    if starved_s < STARVED_S:
        return []
    text = f"this command was kept waiting for {starved_s:.1f} s by other programs: rates and ages say little; end them"
    return [warn("load", text)]


def judge_priority() -> Finding:
    """Judge whether the processes that hold the arm may go before all others."""
    limit = resource.getrlimit(resource.RLIMIT_RTPRIO)[0]
    if os.geteuid() == 0 or limit == resource.RLIM_INFINITY or limit >= 2:
        return ok("priority", "robot and safety run before ordinary processes")
    return warn("priority", f"robot and safety run like any other process: on a busy machine they hold; {ALLOWED_BY}")


def measure_gpu(run: ResolvedRun) -> Finding:
    """Find what the learner would compute on, if it ran here."""
    import torch

    cores = os.cpu_count() or 1
    if torch.cuda.is_available():
        return ok("gpu", f"{torch.cuda.get_device_name(0)}, torch {torch.__version__}")
    if run.run.device == "cuda":
        return fail(
            "gpu", f"torch {torch.__version__} finds none, and the run asks for one; install a CUDA build of it"
        )
    return ok("gpu", f"none; the learner computes on {cores} cores")
