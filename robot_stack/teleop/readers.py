"""Readers of devices at a port and of devices behind a topic. Neither ever blocks, both notice silence."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

from robot_stack.teleop.reading import Decoder, Reading
from robot_stack.types.errors import RobotError
from robot_stack.types.robot import ENDS_MOTION

FIRST_PAUSE_NS, LONGEST_PAUSE_NS = 250_000_000, 4_000_000_000
PacketT = TypeVar("PacketT")
PacketT_co = TypeVar("PacketT_co", covariant=True)


class Port(Protocol[PacketT_co]):
    """An open device that is read without blocking."""

    def read(self) -> Sequence[PacketT_co]:
        """Return all that has arrived since the last call, in order; never blocks.

        Raises:
            OSError: If the device is gone.
        """
        ...

    def close(self) -> None:
        """Close the device and free it for others."""
        ...


def in_thread(job: Callable[[], None]) -> None:
    """Run a job in a thread beside the loop.

    A device that hangs while it is opened holds up neither the loop nor the exit.
    """
    threading.Thread(target=job, name="teleop-open", daemon=True).start()


class HotPlug(Generic[PacketT]):
    """An opener of a port that tries as often as it takes, with rising pauses between tries."""

    def __init__(
        self, open_port: Callable[[], Port[PacketT]], start: Callable[[Callable[[], None]], None] = in_thread
    ) -> None:
        """Keep how the port is opened; nothing is opened yet.

        Args:
            open_port: May block. Raises RobotError with what is missing.
            start: Runs a job elsewhere.
        """
        self.problem = "looked for for the first time"
        self._open_port = open_port
        self._start = start
        self._results: queue.SimpleQueue[Port[PacketT] | str] = queue.SimpleQueue()
        self._trying = False
        self._next_ns = 0
        self._pause_ns = FIRST_PAUSE_NS

    def attempt(self, now_ns: int) -> Port[PacketT] | None:
        """Return the port, if one has opened since the last call; start the next try when it is due."""
        if not self._trying and now_ns >= self._next_ns:
            self._trying = True
            self._start(self._try)
        try:
            result = self._results.get_nowait()
        except queue.Empty:
            return None
        self._trying = False
        if isinstance(result, str):
            self.gone(result, now_ns)
            return None
        return result

    def gone(self, problem: str, now_ns: int) -> None:
        """Note that there is no device, or no longer; the next try comes after a pause, twice as long as the last."""
        self.problem = problem
        self._next_ns = now_ns + self._pause_ns
        self._pause_ns = min(2 * self._pause_ns, LONGEST_PAUSE_NS)

    def works(self) -> None:
        """Note that the device has said something that makes sense: the next loss is a new one."""
        self._pause_ns = FIRST_PAUSE_NS

    def _try(self) -> None:
        try:
            self._results.put(self._open_port())
        except Exception as error:  # the top of a thread: what went wrong is told by the loop
            self._results.put(str(error) if isinstance(error, RobotError) else f"{type(error).__name__}: {error}")


class PortReader(Generic[PacketT]):
    """A reader of one device at a port; implements `Reader`."""

    def __init__(
        self,
        name: str,
        plug: HotPlug[PacketT],
        make_decoder: Callable[[], Decoder[PacketT]],
        *,
        silence_s: float | None = None,
    ) -> None:
        """Start with nothing open.

        Args:
            name: As told to an operator.
            plug: Opens the port.
            make_decoder: A fresh decoder for each connection.
            silence_s: A device that repeats itself while it is deflected is lost after this long without a word, and
                until it says that it is at rest; None where it does not.
        """
        self._name = name
        self._plug = plug
        self._make_decoder = make_decoder
        self._silence_ns = None if silence_s is None else round(silence_s * 1e9)
        self._port: Port[PacketT] | None = None
        self._decoder = make_decoder()
        self._heard_ns = 0
        self._silent = False
        self._problem = plug.problem

    @property
    def name(self) -> str:
        """Return the device's name as an operator is told it."""
        return self._name

    @property
    def problem(self) -> str:
        """Return why the last poll gave nothing, else ""."""
        return f"{self._name}: {self._problem}" if self._problem else ""

    def poll(self, now_ns: int) -> Reading | None:
        """Return the newest reading, or None while there is no device to believe."""
        if self._port is None:
            self._port = self._plug.attempt(now_ns)
            if self._port is None:
                self._problem = self._plug.problem
                return None
            self._decoder, self._heard_ns, self._silent = self._make_decoder(), now_ns, False
        try:
            packets = self._port.read()
            for packet in packets:
                self._decoder.push(packet)
            reading = self._decoder.reading()
        except (OSError, RobotError) as error:
            self._drop(str(error), now_ns)
            return None
        if packets:
            self._plug.works()
            self._heard_ns = now_ns
        if self._falls_silent(reading, now_ns):
            self._problem = "silent while deflected; is it out of reach? bring it back and let it go"
            return None
        self._problem = ""
        return reading

    def _falls_silent(self, reading: Reading, now_ns: int) -> bool:
        if self._silence_ns is None or not reading.axes.any():
            self._silent = False
        elif now_ns - self._heard_ns > self._silence_ns:
            self._silent = True
        return self._silent

    def _drop(self, problem: str, now_ns: int) -> None:
        port, self._port = self._port, None
        if port is not None:
            with suppress(OSError):  # it is gone anyway
                port.close()
        self._plug.gone(problem, now_ns)
        self._problem = problem


class MessageReader(Generic[PacketT]):
    """A reader of what a topic brings; implements `Reader`. The sender must repeat itself: silence is loss."""

    def __init__(
        self,
        name: str,
        make_decoder: Callable[[], Decoder[PacketT]],
        timeout_s: float,
        *,
        freeze_s: float | None = None,
        same: Callable[[PacketT, PacketT], bool] | None = None,
    ) -> None:
        """Start with nothing arrived.

        Args:
            name: As told to an operator.
            make_decoder: A fresh decoder after each loss.
            timeout_s: Silence that counts as loss.
            freeze_s: A sender that repeats one packet for this long has lost the device itself; None believes it.
            same: Whether two packets are one and the same; needed for `freeze_s`.
        """
        self._name = name
        self._freeze_ns = None if freeze_s is None else round(freeze_s * 1e9)
        self._same = same
        self._last: tuple[PacketT, int] | None = None
        self._make_decoder = make_decoder
        self._decoder = make_decoder()
        self._timeout_ns = round(timeout_s * 1e9)
        self._heard_ns: int | None = None
        self._refusal = ""
        self._problem = "nothing has arrived yet"
        self._refused: Decoder[PacketT] | None = None
        self._stops: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """Return the device's name as an operator is told it."""
        return self._name

    @property
    def problem(self) -> str:
        """Return why the last poll gave nothing, else ""."""
        return f"{self._name}: {self._problem}" if self._problem else ""

    def feed(self, packet: PacketT, now_ns: int) -> None:
        """Take a message on its arrival."""
        self._refused = None
        if self._is_frozen(packet, now_ns):
            self.refuse("sends the same again and again; is the device tracked? wake it, bring it into view")
            return
        try:
            self._decoder.push(packet)
        except RobotError as error:
            self.refuse(str(error))
        else:
            self._heard_ns = now_ns

    def _is_frozen(self, packet: PacketT, now_ns: int) -> bool:
        if self._freeze_ns is None or self._same is None:
            return False
        if self._last is None or not self._same(self._last[0], packet):
            self._last = packet, now_ns
        return now_ns - self._last[1] > self._freeze_ns

    def refuse(self, refusal: str, packet: PacketT | None = None) -> None:
        """Note a broken message or a loss: nothing is believed until the next message.

        Args:
            refusal: Why, as told to an operator.
            packet: What it said, where that can be read: keys that end motion count whoever pressed them.
        """
        self._refusal, self._heard_ns, self._decoder = refusal, None, self._make_decoder()
        if packet is None:
            return
        if self._refused is None:
            self._refused = self._make_decoder()
        with suppress(RobotError):  # what cannot be decoded presses nothing
            self._refused.push(packet)
            self._stops |= self._refused.reading().tapped & ENDS_MOTION

    def stops(self) -> frozenset[str]:
        """Return the keys that end motion which went down in refused messages since the last call."""
        stops, self._stops = self._stops, frozenset()
        return stops

    def poll(self, now_ns: int) -> Reading | None:
        """Return the newest reading; None after a broken message and while nothing arrives."""
        if self._refusal:
            self._problem, self._refusal = self._refusal, ""
            return None
        if self._heard_ns is None:
            return None
        if now_ns - self._heard_ns > self._timeout_ns:
            self.refuse(f"silent for {self._timeout_ns / 1e6:.0f} ms; does its sender repeat itself?")
            return self.poll(now_ns)
        try:
            reading = self._decoder.reading()
        except RobotError as error:
            self.refuse(str(error))
            return self.poll(now_ns)
        self._problem = ""
        return reading
