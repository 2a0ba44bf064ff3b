"""The servos of one arm, read and commanded in a thread of their own, so that a bus that stalls stops nothing else.

A goal is sent only while it is young: what was wanted before a stall is not done after it. Torque goes on with the
first goal, after each servo's goal was set to where it stands; it is never taken off here. So an arm whose process
dies stays at its last goal, and one that has just got power hangs limp until an operator moves it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from robot_stack.control.drivers.feetech import ServoCalibration, contradiction, status_fault
from robot_stack.nodes.drivers.servo_line import ServoLine, ServoSilence
from robot_stack.types.errors import ConfigError
from robot_stack.types.reason import Fault, FaultKind

GOAL_LIFE_NS = 100_000_000
STATUS_EVERY = 5
"""Readings of the positions for one of the status."""
SLOW_EVERY = 25
"""The same for torque, temperature and voltage."""
PAUSES_S = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Between tries to open the port; the last one stays."""
JOIN_S = 1.0
OFF, ON = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticks:
    """The positions of all servos at one instant of the steady clock, in ticks."""

    ticks: Mapping[str, int]
    stamp_ns: int


class ServoBus:
    """The bus of all servos of an arm that follows commands."""

    def __init__(
        self,
        open_line: Callable[[], ServoLine],
        servos: Mapping[str, ServoCalibration],
        *,
        port: str,
        source: str,
        rate_hz: float,
    ) -> None:
        """Prepare the bus without opening anything yet.

        Args:
            open_line: May block; raises OSError while there is no line, ConfigError if there never will be.
            servos: By name.
            port: For messages.
            source: The calibration file, for messages.
            rate_hz: How often positions are read.
        """
        self.newest: Ticks | None = None
        """Read by the loop, replaced whole."""
        self.problem = f"{port} has not been opened yet"
        """Why nothing new comes, or ""."""
        self.counters = {"reads": 0, "silences": 0, "openings": 0, "goals": 0}
        self.extremes: dict[str, float] = {}
        """Hottest servo and lowest voltage, for diagnostics."""
        self._open_line = open_line
        self._servos = dict(servos)
        self._port, self._source = port, source
        self._period_s = 1.0 / rate_hz
        self._goals: dict[str, tuple[int, int]] = {}
        self._engaged = self._rearm = False
        self._lasting: Fault | None = None
        self._of_status: Fault | None = None
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="servo-bus", daemon=True)

    @property
    def fault(self) -> Fault | None:
        """Return what an operator must see to: what lasts until `rearm`, else what a servo says of itself now."""
        return self._lasting or self._of_status

    def start(self) -> None:
        """Start the thread that looks for the port, then reads and commands until `stop`."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread and give the port back, within a bounded time; the arm holds its last goal."""
        self._end.set()
        if self._thread.is_alive():
            self._thread.join(JOIN_S)

    def want(self, goals: Mapping[str, int]) -> None:
        """Set goals of the next turn, in ticks; they replace those before, of the same servos."""
        now_ns = time.monotonic_ns()
        self._goals = {**self._goals, **{name: (ticks, now_ns) for name, ticks in goals.items()}}

    def rearm(self) -> None:
        """Check the calibration again for an operator, and set torque anew with the next goal."""
        self._rearm = True

    def _run(self) -> None:
        tries = 0
        while not self._end.is_set():
            line: ServoLine | None = None
            try:
                line = self._open_line()
                self.counters["openings"] += 1
                self._serve(line)
                tries = 0
            except OSError as error:
                self.problem = f"{self._port}: {error}; plug it in"
                tries = 0 if line is not None else tries + 1
            except ConfigError as error:
                self.problem = str(error)
                self._lasting = Fault(kind=FaultKind.CONTRADICTION, text=str(error))
                return
            finally:
                self._engaged = False
                if line is not None:
                    line.close()
            self._end.wait(PAUSES_S[min(tries, len(PAUSES_S) - 1)])

    def _serve(self, line: ServoLine) -> None:
        """Read and command the servos until the end, or until the line is gone."""
        known, turn = False, 0
        while not self._end.is_set():
            began = time.monotonic()
            try:
                if not known or self._rearm:
                    self._look_at_calibration(line)
                    known = True
                self._turn(line, turn)
                turn, self.problem = turn + 1, ""
            except ServoSilence as error:
                self.problem = str(error)
                self.counters["silences"] += 1
            self._end.wait(max(0.0, self._period_s - (time.monotonic() - began)))

    def _look_at_calibration(self, line: ServoLine) -> None:
        registers = ("Homing_Offset", "Min_Position_Limit", "Max_Position_Limit")
        columns = [line.sync_read(register) for register in registers]
        stored = {name: (columns[0][name], columns[1][name], columns[2][name]) for name in self._servos}
        fault = contradiction(self._servos, stored, self._source)
        self._lasting = None if fault is None else replace(fault, text=f"{fault.text}, then recover")
        self._engaged = self._rearm = False

    def _turn(self, line: ServoLine, turn: int) -> None:
        ticks = line.sync_read("Present_Position")
        self.newest = Ticks(ticks=ticks, stamp_ns=time.monotonic_ns())
        self.counters["reads"] += 1
        if turn % STATUS_EVERY == 0:
            self._of_status = status_fault(line.sync_read("Status"), self._port)
        if turn % SLOW_EVERY == 0:
            self._look_at_the_rest(line)
        wanted, self._goals = self._goals, {}
        now_ns = time.monotonic_ns()
        young = {name: goal for name, (goal, stamp_ns) in wanted.items() if now_ns - stamp_ns <= GOAL_LIFE_NS}
        if not young or self.fault is not None:
            return
        if not self._engaged:
            self._engage(line, ticks)
        line.sync_write("Goal_Position", young)
        self.counters["goals"] += 1

    def _look_at_the_rest(self, line: ServoLine) -> None:
        hottest, lowest = line.sync_read("Present_Temperature"), line.sync_read("Present_Voltage")
        self.extremes = {"hottest_c": max(hottest.values()), "lowest_v": min(lowest.values()) / 10.0}
        limp = [name for name, torque in line.sync_read("Torque_Enable").items() if torque != ON]
        if self._engaged and limp:
            self._engaged = False
            self._lasting = Fault(
                kind=FaultKind.DRIVER_ERROR,
                text=f"servo {', '.join(limp)} on {self._port} has lost its torque; look at the power, then recover",
            )

    def _engage(self, line: ServoLine, ticks: Mapping[str, int]) -> None:
        """Set torque, with each goal where its servo stands, so that nothing jumps."""
        inside = {name: min(each.range_max, max(each.range_min, ticks[name])) for name, each in self._servos.items()}
        line.sync_write("Goal_Position", inside)
        for name in self._servos:
            line.write("Torque_Enable", name, ON)
        self._engaged = True


class LeaderServos:
    """All servos of an arm that an operator moves: without torque, and only read. A port of `teleop.readers`."""

    def __init__(self, line: ServoLine, *, port: str, rate_hz: float, timeout_s: float) -> None:
        """Take the torque off and begin to read.

        Raises:
            OSError: If the line is gone.
            ServoSilence: If a servo does not answer.
        """
        self._line, self._port = line, port
        self._period_s, self._timeout_ns = 1.0 / rate_hz, round(timeout_s * 1e9)
        self._lock = threading.Lock()
        self._waiting: list[Mapping[str, int]] = []
        self._heard_ns = time.monotonic_ns()
        self._problem = ""
        self._end = threading.Event()
        for name in line.sync_read("Present_Position"):
            line.write("Torque_Enable", name, OFF)
        self._thread = threading.Thread(target=self._run, name="servo-leader", daemon=True)
        self._thread.start()

    def read(self) -> list[Mapping[str, int]]:
        """Return the ticks of all servos, for each reading since the last call; never blocks.

        Raises:
            OSError: If the line is gone, or the servos have been silent for too long.
        """
        with self._lock:
            waiting, self._waiting = self._waiting, []
            problem, silent_ns = self._problem, time.monotonic_ns() - self._heard_ns
        if silent_ns > self._timeout_ns:
            raise OSError(problem or f"{self._port} is silent for {silent_ns / 1e6:.0f} ms; look at cable and power")
        return waiting

    def close(self) -> None:
        """End reading and give the port back."""
        self._end.set()
        if self._thread.is_alive():
            self._thread.join(JOIN_S)

    def _run(self) -> None:
        try:
            while not self._end.is_set():
                began = time.monotonic()
                with suppress(ServoSilence):
                    ticks = self._line.sync_read("Present_Position")
                    with self._lock:
                        self._waiting.append(ticks)
                        self._heard_ns = time.monotonic_ns()
                self._end.wait(max(0.0, self._period_s - (time.monotonic() - began)))
        except OSError as error:
            with self._lock:
                self._problem, self._heard_ns = f"{self._port}: {error}; plug it in", 0
        finally:
            self._line.close()
