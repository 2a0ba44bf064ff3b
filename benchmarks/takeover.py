"""How fast an operator has the robot, and how smoothly it goes back. Run: python -m benchmarks.takeover [--quick]

Two real processes, teleop and safety, over DDS on shared memory. The benchmark publishes the device's Joy, the robot's
state at 100 Hz and a policy's commands at 20 Hz, and takes the commands that would reach the robot.

take-over  from publishing the Joy with the deadman pressed, at any phase of every clock, to the arrival at the robot of
           the first command that the safety filter decided for the human
hand-back  over a second from letting go in full motion: the largest change of velocity between two commands, over what
           the acceleration limits allow in the time between them
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.fed_cell import FedCell, fed_cell, fed_run, steps_over_limit
from robot_stack.types.command import Decision, Mode, Source

DOMAIN = 90
TAKE_OVERS, QUICK_TAKE_OVERS = 220, 20
DRIVE_S, WATCH_S = 0.25, 0.55
RELEASE_S = 0.1
SAFETY_PERIODS = 2
"""The limit: from the device to the robot within this many periods of the safety node."""
WHOLE = 1.001
"""All that the acceleration limit allows, and rounding."""


def by_human(decision: Decision) -> bool:
    """Whether the operator had the arm at that tick."""
    return decision.mode is Mode.HUMAN and decision.source in (Source.HUMAN, Source.IDLE)


class Held(Exception):
    """The safety filter holds: a process was not heard in time, which a busy machine does."""


def wait(cell: FedCell, fits: Callable[[], object], what: str) -> None:
    """As `FedCell.until`.

    Raises:
        Held: If the filter holds meanwhile.
    """
    cell.until(lambda: cell.banner[0] is Mode.HOLD or fits(), what)
    if cell.banner[0] is Mode.HOLD:
        raise Held(str(cell.banner[1]))


def take_over(cell: FedCell) -> float:
    """Press the deadman; seconds from the device to the robot."""
    first, before = len(cell.decisions), len(cell.commands)
    pressed_ns = cell.button("deadman", 1)
    wait(cell, lambda: any(by_human(each) for each in cell.decisions[first:]), "take-over")
    stamp_ns = next(each.command.stamp_ns for each in cell.decisions[first:] if by_human(each))
    wait(cell, lambda: cell.commands[-1].stamp_ns >= stamp_ns, "a command from that tick on")
    arrived_ns = next(each.arrived_ns for each in cell.commands[before:] if each.stamp_ns >= stamp_ns)
    return (arrived_ns - pressed_ns) / 1e9


def hand_back(cell: FedCell) -> float:
    """Let go in full motion; the largest step of velocity as a share of the limit."""
    safety = cell.run.safety
    first = len(cell.commands)
    cell.button("deadman", 0)
    time.sleep(WATCH_S)
    wait(cell, lambda: cell.decisions[-1].source is Source.POLICY, "the policy's turn")
    return steps_over_limit(
        cell.commands[first - 1 :], safety.max_acceleration_m_s2, safety.max_rotation_acceleration_rad_s2
    )


def measure(quick: bool = False) -> dict[str, float]:
    """Milliseconds to take over, p50 and p99, their limit, and the largest share of the limit at hand-back."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = fed_run(folder / "config", DOMAIN, f"teleop.release_s={RELEASE_S}")
        with fed_cell(run, folder / "run") as cell:
            delays_ms, shares, holds = _take_overs(cell, QUICK_TAKE_OVERS if quick else TAKE_OVERS)
    return {
        "take_overs": len(delays_ms),
        "take_over_holds": holds,
        "take_over_ms_p50": float(np.percentile(delays_ms, 50)),
        "take_over_ms_p99": float(np.percentile(delays_ms, 99)),
        "take_over_limit_ms": SAFETY_PERIODS * 1e3 / run.safety.rate_hz,
        "hand_back_step_share": max(shares),
    }


def _take_overs(cell: FedCell, count: int) -> tuple[list[float], list[float], int]:
    """Milliseconds of each take-over, the largest step of each hand-back, and how often the filter held instead."""
    rng = np.random.default_rng(0)
    delays_ms, shares, holds = [], [], 0
    while len(shares) < count:
        cell.until(cell.believed, "a device that is believed")
        cell.until(cell.recovered, "the policy's turn")
        time.sleep(rng.uniform(0.0, 0.02))
        try:
            delay_s = take_over(cell)
            cell.push("x", 1.0 if len(shares) % 2 else -1.0)
            cell.push("rz", -1.0)
            time.sleep(DRIVE_S)
            shares.append(hand_back(cell))
            delays_ms.append(1e3 * delay_s)
        except Held as held:
            print(f"held: {held}", flush=True)
            holds += 1
            cell.button("deadman", 0)
        cell.push("x", 0.0)
        cell.push("rz", 0.0)
    return delays_ms, shares, holds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_TAKE_OVERS} take-overs only")
    figures = measure(quick=parser.parse_args().quick)
    for name, value in figures.items():
        print(f"{name:>24} {value:.3f}")
    if figures["take_over_ms_p99"] > figures["take_over_limit_ms"] or figures["hand_back_step_share"] > WHOLE:
        sys.exit("a limit is not kept")


if __name__ == "__main__":
    main()
