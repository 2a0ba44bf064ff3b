"""Runs every benchmark, each in a process of its own, and writes RESULTS.md and results.json beside this file.

Run: make bench, or python -m benchmarks.collect [--quick] [--only NAME ...]. With --only, the figures of the others
stay as they are.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
BENCHMARKS = (
    "cycle",
    "gpu",
    "replay_sample",
    "replay_memory",
    "rescore",
    "vlm",
    "hacking",
    "link",
    "cameras",
    "resume",
    "episode_writing",
    "kills",
    "takeover",
    "base",
    "robot_side",
    "console",
    "report",
)
PACKAGES = ("torch", "numpy", "zarr", "grpcio")
CALL = "import json, sys; from benchmarks.{name} import measure; print('FIGURES', json.dumps(measure({quick})))"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A line of the table.

    Attributes:
        key: In results.json; a dot leads into a dictionary.
        flat: As the benchmark calls it.
        what: In words.
        limit: Largest value that is wanted, or None.
    """

    key: str
    flat: str
    what: str
    limit: float | None = None


def _figure(key: str, what: str, limit: float | None = None) -> Figure:
    return Figure(key=key, flat=key.replace(".", "_"), what=what, limit=limit)


FIGURES = (
    _figure("cycle_cached_over_gemm", "full cycle on cached features / its matrix products alone, fp32", 1.5),
    _figure("cycle_cached_ms", "full cycle on cached features, fp32, ms"),
    _figure("cycle_cached_bf16_ms", "the same as shipped on this processor, products in bf16, ms"),
    _figure("cycle_end_to_end_over_network", "cycle with a trained ResNet-10 / the bare network's passes", 1.25),
    _figure("gpu_cached_updates_per_s", "updates on cached features with their batches, on a GPU, 1/s"),
    _figure("gpu_cached_eager_updates_per_s", "the same without graphs, fp32"),
    _figure("gpu_cached_peak_share", "its products / what the GPU could multiply in bf16 meanwhile"),
    _figure("gpu_end_to_end_updates_per_s", "updates with a trained ResNet-10 and their batches, on a GPU, 1/s"),
    _figure("gpu_end_to_end_eager_updates_per_s", "the same in fp32"),
    _figure("gpu_end_to_end_peak_share", "its products / what the GPU could multiply in bf16 meanwhile"),
    _figure("sample_cached_share", "sampling 256 rows with features / one update", 0.05),
    _figure("sample_images_over_memcpy", "sampling 256 rows of shifted images / a copy of the bytes", 2.0),
    _figure("rss_bytes_per_transition", "memory per transition, two 128x128 cameras, bytes", 105_000),
    _figure("disk_over_memory", "rendered images on disk / their size in memory", 0.6),
    _figure("score_frame_ms", "embedded reward model, one frame by itself, ms"),
    _figure("score_frame_batched_ms", "the same, episodes at a time"),
    _figure("rescore_50k_s", "scoring 50,000 transitions with a new version while training, s"),
    _figure("rescore_updates_kept", "updates a second meanwhile / alone"),
    _figure("vlm_in_process_per_s", "tiny VLM in this process, pairs of 8 images answered a second"),
    _figure("vlm_in_process_p99_ms", "from question to answer, p99, ms; they queue"),
    _figure("vlm_in_process_hits", "answered without asking; a quarter came before"),
    _figure("vlm_served_per_s", "the same from a `transformers serve` process"),
    _figure("vlm_served_p99_ms", "from question to answer, p99, ms"),
    _figure("vlm_served_hits", "answered without asking"),
    _figure("vlm_tick_alone_p99_ms", "ticks of a 100 Hz loop beside it, late by, p99, ms: alone"),
    _figure("vlm_in_process_tick_p99_ms", "while a VLM answers in another process"),
    _figure("vlm_served_tick_p99_ms", "while one is served"),
    _figure("hack_alarm_episode", "a planted exploitable reward model: episodes until the alarm", 10),
    _figure("hack_trusted_again_episode", "episodes until a refitted version is trusted"),
    _figure("hack_refused_claims", "claims of success refused in the whole run"),
    _figure("hack_alone_last20", "success without help in the last 20 episodes"),
    _figure("hack_episodes", "of so many"),
    _figure("publish_bytes", "published parameters, bytes", 5_000_000),
    _figure("publish_p99_ms", "from publishing to an actor acting on it, p99, ms"),
    _figure("ack_p99_ms.1", "step to durable ack at 10 Hz, 1 actor, p99, ms"),
    _figure("ack_p99_ms.4", "4 actors"),
    _figure("ack_p99_ms.16", "16 actors"),
    _figure("max_tick_delay_ms.alone", "latest tick of a 10 Hz loop without a link, ms"),
    _figure("max_tick_delay_ms.up", "with the link up"),
    _figure("max_tick_delay_ms.cut", "with the link cut"),
    _figure("max_tick_delay_ms.flapping", "with the link flapping"),
    _figure("camera_cpu.raw", "camera process, 640x480 raw from a driver at 30 Hz, share of a core"),
    _figure("camera_cpu.raw_naive", "the same as it is usually written"),
    _figure("camera_cpu.compressed", "camera process, 640x480 JPEG from a driver at 30 Hz, share of a core"),
    _figure("camera_cpu.compressed_naive", "the same as it is usually written"),
    _figure("camera_cpu.capture", "camera process that reads 640x480 Motion JPEG itself, share of a core"),
    _figure("camera_lost.raw", "images that never reach the actor, raw, share", 0.02),
    _figure("camera_lost.raw_naive", "as it is usually written"),
    _figure("camera_lost.compressed", "JPEG, share", 0.02),
    _figure("camera_lost.compressed_naive", "as it is usually written"),
    _figure("camera_lost.capture", "read by itself, share", 0.02),
    _figure("camera_age_p50_ms.raw", "age of an image at the actor, raw, median, ms"),
    _figure("camera_age_p99_ms.raw", "p99", 33.3),
    _figure("camera_age_p50_ms.raw_naive", "as it is usually written, median"),
    _figure("camera_age_p99_ms.raw_naive", "p99"),
    _figure("camera_age_p50_ms.compressed", "JPEG, median"),
    _figure("camera_age_p99_ms.compressed", "p99", 33.3),
    _figure("camera_age_p50_ms.compressed_naive", "as it is usually written, median"),
    _figure("camera_age_p99_ms.compressed_naive", "p99"),
    _figure("camera_age_p50_ms.capture", "read by itself, median"),
    _figure("camera_age_p99_ms.capture", "p99", 33.3),
    _figure("resume_s", "from the start of a killed learner to its first update, 50,000 transitions, s"),
    _figure("episode_write_ms", "to write an episode of 72 steps and two cameras of 64x64, without fsync, ms"),
    _figure("episode_write_by_zarr", "zarr by itself takes so many times as long"),
    _figure("kills", "kills at random instants"),
    _figure("lost_acked_steps", "acknowledged steps lost in them", 0),
    _figure("take_overs", "take-overs by an operator, from a Joy through teleop and safety to the robot"),
    _figure("take_over_ms.p50", "from the device to the first human command at the robot, p50, ms"),
    _figure("take_over_ms.p99", "p99; at most two periods of the safety node", 20),
    _figure("hand_back_step_share", "largest velocity step at hand-back / what the acceleration limits allow", 1.001),
    _figure("base_jitter_p99_ms.without", "ticks of a control loop, jitter p99, ms: without a base policy"),
    _figure("base_jitter_p99_ms.beside", "with one over HTTP that takes 300 ms, two cameras 128x128", 20),
    _figure("base_jitter_p99_ms.inside", "the same where the loop itself asks"),
    _figure("base_step_share.joined", "velocity step where its chunks are joined / what the limits allow", 1),
    _figure("base_step_share.unjoined", "the same without joining them"),
    _figure("robot_side_cpu.sum", "robot's machine without a learner, two cameras 640x480, joints 500 Hz, cores"),
    _figure("robot_side_cpu.robot", "of it the robot's driver side, share of a core"),
    _figure("robot_side_cpu.safety", "safety filter, 100 Hz"),
    _figure("robot_side_cpu.camera_wrist", "a camera, raw images at 30 Hz"),
    _figure("robot_side_cpu.camera_front", "the other"),
    _figure("robot_side_cpu.teleop", "device"),
    _figure("robot_side_cpu.command_recorder", "log of all commands"),
    _figure("robot_side_cpu.console", "operator's console, nobody looking"),
    _figure("robot_side_cpu.actor", "control loop with its policy, 10 Hz"),
    _figure("robot_side_messages", "joint states and images sent meanwhile"),
    _figure("robot_side_lost.joint_states", "joint states lost", 0),
    _figure("robot_side_lost.images", "images lost", 0),
    _figure("robot_side_jitter_ms.policy", "ticks of the control loop, jitter p99, ms", 20),
    _figure("robot_side_jitter_ms.safety", "ticks of the safety filter, jitter p99, ms", 20),
    _figure("console_update_ms.p95", "from a topic to the operator's screen, two cameras, five pages, p95, ms", 150),
    _figure("console_update_playing_ms.p95", "while the page plays a recorded episode", 150),
    _figure("console_frame_ms.p50", "from a camera image's stamp to that screen, one page of five drawing, p50, ms"),
    _figure("console_frame_ms.p95", "p95", 150),
    _figure("console_frame_playing_ms.p95", "while the page plays a recorded episode", 150),
    _figure("console_cpu_share", "the console's process meanwhile, share of a core", 0.3),
    _figure("console_cpu_playing_share", "while a page plays a recorded episode", 0.3),
    _figure("console_take_over_ms.p50", "from a key in the page to the first motion of a simulated arm, p50, ms"),
    _figure("console_take_over_ms.p95", "p95", 200),
    _figure("console_jitter_ms.p99", "ticks of the safety filter, five pages open, jitter p99, ms"),
    _figure("console_jitter_without_ms.p99", "the same with the console standing still"),
    _figure("console_jitter_added_ms.p99", "what the pages add to it", 0.5),
    _figure("report_s", "the report of a run of 250 episodes, from the command to its end, median of three, s", 10),
    _figure("report_imports_s", "of it the imports"),
    _figure("report_mb", "its page, MB", 10),
)


def measured(name: str, *, quick: bool) -> dict[str, float]:
    """Figures of one benchmark.

    Raises:
        SystemExit: If it fails; its own words stand above.
    """
    print(f"== {name}", flush=True)
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", CALL.format(name=name, quick=quick)],
        cwd=FOLDER.parent,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("FIGURES ")]
    if done.returncode != 0 or not lines:
        raise SystemExit(f"benchmark {name} ended with {done.returncode}, must give figures; see its words above")
    figures: dict[str, float] = json.loads(lines[-1].removeprefix("FIGURES "))
    print(f"   {time.monotonic() - started:.0f} s", *(f"\n   {k} {v:g}" for k, v in figures.items()), flush=True)
    return figures


def nested(flat: dict[str, float]) -> dict[str, Any]:
    """As results.json has them: `ack_p99_ms_16` under `ack_p99_ms`."""
    found: dict[str, Any] = {}
    for figure in FIGURES:
        if figure.flat in flat:
            outer, _, inner = figure.key.partition(".")
            if inner:
                found.setdefault(outer, {})[inner] = flat[figure.flat]
            else:
                found[outer] = flat[figure.flat]
    return found


def flattened(results: dict[str, Any]) -> dict[str, float]:
    """Inverse of `nested`."""
    flat = {}
    for figure in FIGURES:
        outer, _, inner = figure.key.partition(".")
        value = results.get(outer)
        if inner:
            value = value.get(inner) if isinstance(value, dict) else None
        if value is not None:
            flat[figure.flat] = value
    return flat


def table(flat: dict[str, float], machine: dict[str, Any]) -> str:
    """RESULTS.md."""
    rows = []
    for figure in FIGURES:
        if figure.flat not in flat:
            continue
        value = flat[figure.flat]
        if figure.limit is None:
            wanted, met = "", ""
        else:
            wanted, met = f"at most {figure.limit:,g}", "yes" if value <= figure.limit else "**no**"
        rows.append(f"| {figure.what} | {value:,.4g} | {wanted} | {met} |")
    said = ", ".join(f"{name} {text}" for name, text in machine.items())
    return "\n".join(
        [
            "# Benchmarks",
            "",
            "Made by `make bench`. Ratios are medians of pairs run by turns in one process, one thread each.",
            f"Machine: {said}.",
            "",
            "| figure | measured | wanted | met |",
            "| --- | --- | --- | --- |",
            *rows,
            "",
        ]
    )


def machine_facts() -> dict[str, Any]:
    """What the figures depend on."""
    cpu = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.processor(),
    )
    versions = {name: version(name) for name in PACKAGES}
    return {"cpu": cpu, "cores": os.cpu_count(), "python": platform.python_version(), **versions}


def main() -> None:
    """Measure, write, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="minutes less, and nothing is written")
    parser.add_argument("--only", nargs="*", choices=BENCHMARKS, default=BENCHMARKS)
    options = parser.parse_args()
    path = FOLDER / "results.json"
    flat = flattened(json.loads(path.read_text())) if path.exists() and not options.quick else {}
    for name in options.only:
        flat |= measured(name, quick=options.quick)
        if not options.quick:
            machine = machine_facts()
            path.write_text(json.dumps({**nested(flat), "machine": machine}, indent=1) + "\n")
            (FOLDER / "RESULTS.md").write_text(table(flat, machine))
    print(table(flat, machine_facts()))


if __name__ == "__main__":
    main()
