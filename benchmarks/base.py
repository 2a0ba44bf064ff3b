"""Ticks of a control loop beside a base policy that takes 300 ms for an answer, and the steps where chunks are joined.

The base is a real HTTP server in a process of its own, shown two cameras of 128 x 128; the loop ticks at 10 Hz in real
time. Beside it in the same run: the loop without a base, and the rejected alternative, the loop itself asking. Each
chunk of the base contradicts the one before at 0.8 of full scale, the worst that a join can meet.

Run: python -m benchmarks.base [--quick]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from benchmarks.json_server import json_server
from robot_stack.config.base import AnyBase, HttpBase
from robot_stack.config.resolve import load_run
from robot_stack.control.executed import ExecutedMotion
from robot_stack.rollout.base.cell import CellWithBase
from robot_stack.rollout.base.http import HttpConnection
from robot_stack.rollout.base.mapping import BaseMapping
from robot_stack.rollout.base.policy import BasePolicy
from robot_stack.rollout.base.source import ServedSource
from robot_stack.rollout.clock import SteadyClock
from robot_stack.rollout.control_loop import ControlLoop, EpisodeOutcome, LoopLimits
from robot_stack.rollout.evaluate import NullSink
from robot_stack.types.command import Mode, Source
from robot_stack.types.event import Verdict
from robot_stack.types.help import HelpRequest
from robot_stack.types.interfaces import Cell
from robot_stack.types.observation import Observation
from robot_stack.types.reason import Refusal
from robot_stack.types.spec import BASE, CameraSpec, ProprioField, Spec
from robot_stack.types.transition import EpisodeHeader, EpisodeKind

LATENCY_S = 0.3
CHUNK = 16
SIDE_PX = 128
FULL = 0.8
TICKS, QUICK_TICKS = 600, 40


class RealTimeCell:
    """A cell in real time that sees noise and does nothing; implements `Cell`.

    Args:
        spec: With the base's field.
    """

    def __init__(self, spec: Spec) -> None:
        rng = np.random.default_rng(0)
        self._images = {camera.name: rng.integers(0, 256, camera.shape, np.uint8) for camera in spec.cameras}
        self._proprio = np.zeros(spec.proprio_size, np.float32)
        still = ExecutedMotion(
            twist=np.zeros(6), gripper=None, human_twist=np.zeros(6), human_gripper=0, source=Source.POLICY,
            clipped=False,
        )  # fmt: skip
        self._windows = {arm.name: still for arm in spec.arms}
        self.sent: list[np.ndarray] = []

    def observe(self) -> Observation:
        """See `Cell`."""
        return Observation(images=self._images, proprio=self._proprio, stamp_ns=time.monotonic_ns())

    def send(self, action: np.ndarray) -> None:
        """Keep the action."""
        self.sent.append(action)

    def executed(self) -> Mapping[str, ExecutedMotion]:
        """See `Cell`."""
        return self._windows

    def mode(self) -> Mode:
        """See `Cell`."""
        return Mode.POLICY

    def reason(self) -> Refusal | None:
        """See `Cell`."""
        return None

    def events(self) -> tuple[str, ...]:
        """See `Cell`."""
        return ()

    def reset(self, seed: int, *, task_id: str | None = None, scene: bool = True) -> None:
        """See `Cell`."""

    def start(self, episode_id: str, kind: EpisodeKind) -> None:
        """See `Cell`."""

    def claim(self, verdict: Verdict) -> None:
        """See `Cell`."""

    def ask(self, request: HelpRequest | None) -> None:
        """See `Cell`."""

    def finish(self) -> None:
        """See `Cell`."""

    def truth(self) -> bool | None:
        """See `Cell`."""
        return None


def serve() -> None:
    """Answer each question late, and contrary to the one before; prints the port."""
    sign = [1.0]

    def answer(asked: dict[str, Any]) -> dict[str, Any]:
        time.sleep(LATENCY_S)
        sign[0] = -sign[0]
        return {"actions": [[sign[0] * FULL] * len(asked["state"])] * CHUNK}

    server = json_server({"name": "slow"}, answer)
    print(server.server_port, flush=True)
    server.serve_forever()


@contextmanager
def slow_base() -> Iterator[str]:
    """Address of the base, in a process of its own."""
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.base", "--serve"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.wait()


def specs() -> tuple[Spec, Spec]:
    """The dry run's arm with larger cameras, and a state as large as its action: what is sensed, and with a base."""
    plain = load_run("peg_insert").spec()
    cameras = tuple(CameraSpec(name=name, height_px=SIDE_PX, width_px=SIDE_PX) for name in ("wrist", "front"))
    state = (ProprioField(name="state", size=plain.action_size),)
    sensed = replace(plain, cameras=cameras, proprio=state)
    return sensed, replace(sensed, proprio=(*state, ProprioField(name=BASE, size=plain.action_size)))


def play(url: str | None, *, ticks: int, waits: bool = False, join_s: float = 0.3) -> tuple[float, float]:
    """Run the loop; returns the p99 of its ticks' jitter in ms, and the largest step of an action in full scale."""
    sensed, based = specs()
    cell, clock = RealTimeCell(based), SteadyClock()
    limits = LoopLimits(episode_steps=ticks)
    header = EpisodeHeader(
        episode_id="000000-online-bench", kind=EpisodeKind.ONLINE, task="bench", actor="bench", started_unix_s=0.0
    )

    def run(seen: Cell) -> EpisodeOutcome:
        return ControlLoop(seen, based, clock, limits).run_episode(header, BasePolicy(based), NullSink())

    if url is None:
        outcome = run(cell)
    else:
        words = {
            "kind": "http", "url": url, "cameras": {name: name for name in ("wrist", "front")}, "state": ["state"],
            "action": sensed.action_names, "rate_hz": 10.0, "join_s": join_s,
        }  # fmt: skip
        config = TypeAdapter(AnyBase).validate_json(json.dumps(words))
        assert isinstance(config, HttpBase)
        connection = HttpConnection(url, timeout_s=5.0)
        source = ServedSource(connection, BaseMapping(config, sensed, "bench"), waits=waits, seed=(0,))
        try:
            outcome = run(CellWithBase(cell, source, based.part(BASE), start_s=10.0, stopping=lambda: False))
        finally:
            source.close()
    steps = np.abs(np.diff(np.array(cell.sent), axis=0))
    return 1e3 * float(np.percentile(outcome.ticks.jitter_s, 99)), float(steps.max(initial=0.0))


def measure(quick: bool) -> dict[str, float]:
    """Figures for RESULTS.md."""
    ticks = QUICK_TICKS if quick else TICKS
    resolved = load_run("peg_insert")
    arm = resolved.spec().arms[0]
    full_m_s = arm.translation_m * resolved.spec().rate_hz
    allowed_m_s = resolved.safety.max_acceleration_m_s2 / resolved.safety.rate_hz
    with slow_base() as url:
        without, _ = play(None, ticks=ticks)
        beside, joined = play(url, ticks=ticks)
        inside, _ = play(url, ticks=ticks, waits=True)
        _, unjoined = play(url, ticks=ticks, join_s=0.0)
    return {
        "base_jitter_p99_ms_without": without,
        "base_jitter_p99_ms_beside": beside,
        "base_jitter_p99_ms_inside": inside,
        "base_step_share_joined": joined * full_m_s / allowed_m_s,
        "base_step_share_unjoined": unjoined * full_m_s / allowed_m_s,
    }


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="four seconds each instead of a minute")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve()
    for name, value in measure(options.quick).items():
        print(f"{name:36}{value:10.3f}")


if __name__ == "__main__":
    main()
