"""Readers of devices at a port and of devices behind a topic. Neither ever blocks, both notice silence."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

from robot_stack.teleop.hotplug import HotPlug, Port
from robot_stack.teleop.reading import Decoder, Reading
from robot_stack.types.errors import RobotError

PacketT = TypeVar("PacketT")


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

    def refuse(self, refusal: str) -> None:
        """Note a broken message or a loss: nothing is believed until the next message."""
        self._refusal, self._heard_ns, self._decoder = refusal, None, self._make_decoder()

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
