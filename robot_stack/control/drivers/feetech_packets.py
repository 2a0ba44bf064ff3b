"""Packets of Feetech's STS servos: ping, read, write, sync read, sync write, and what servos answer. Pure.

A packet is FF FF, id, length, instruction (a servo: status bits), parameters, checksum; length counts what follows it,
and the checksum is the complement of the sum from the id on. Numbers are little-endian. Some registers hold a sign and
a magnitude instead of a two's complement.

Source: Feetech, "STS/SMS series communication protocol" and memory table of the STS3215; addresses and sign bits as in
lerobot/motors/feetech/tables.py of github.com/huggingface/lerobot, v0.6.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from robot_stack.types.errors import SpecError

HEADER = b"\xff\xff"
BROADCAST = 0xFE
LARGEST_ID = 0xFD
PING, READ, WRITE, SYNC_READ, SYNC_WRITE = 0x01, 0x02, 0x03, 0x82, 0x83
SHORTEST = 6
"""Bytes of a packet without parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Register:
    """A value in a servo's memory: where, how many bytes, and which bit is its sign; None has none."""

    address: int
    size: int
    sign_bit: int | None = None


REGISTERS: Mapping[str, Register] = {
    "Model_Number": Register(address=3, size=2),
    "Min_Position_Limit": Register(address=9, size=2),
    "Max_Position_Limit": Register(address=11, size=2),
    "Homing_Offset": Register(address=31, size=2, sign_bit=11),
    "Torque_Enable": Register(address=40, size=1),
    "Goal_Position": Register(address=42, size=2, sign_bit=15),
    "Present_Position": Register(address=56, size=2, sign_bit=15),
    "Present_Voltage": Register(address=62, size=1),
    "Present_Temperature": Register(address=63, size=1),
    "Status": Register(address=65, size=1),
}
"""Those that are used here, by the names that LeRobot has for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The answer of one servo."""

    servo_id: int
    status: int
    parameters: bytes


def packet(servo_id: int, instruction: int, parameters: bytes = b"") -> bytes:
    """Build a packet with its header and checksum."""
    body = bytes([servo_id, len(parameters) + 2, instruction]) + parameters
    return HEADER + body + bytes([checksum(body)])


def checksum(body: bytes) -> int:
    """Return the checksum of everything between header and checksum."""
    return ~sum(body) & 0xFF


def read_request(servo_id: int, register: Register) -> bytes:
    """Build the packet that asks one servo for a value."""
    return packet(servo_id, READ, bytes([register.address, register.size]))


def write_request(servo_id: int, register: Register, value: int) -> bytes:
    """Build the packet that sets a value of one servo, which acknowledges it."""
    return packet(servo_id, WRITE, bytes([register.address]) + encoded(register, value))


def sync_read_request(servo_ids: Sequence[int], register: Register) -> bytes:
    """Build the packet that asks several servos for the same value; each answers by itself, in this order."""
    return packet(BROADCAST, SYNC_READ, bytes([register.address, register.size, *servo_ids]))


def sync_write_request(register: Register, values: Mapping[int, int]) -> bytes:
    """Build the packet that sets one register of several servos at one instant, id -> value. Nobody acknowledges it."""
    data = b"".join(bytes([servo_id]) + encoded(register, value) for servo_id, value in values.items())
    return packet(BROADCAST, SYNC_WRITE, bytes([register.address, register.size]) + data)


def encoded(register: Register, value: int) -> bytes:
    """Return the bytes of a register's value.

    Raises:
        SpecError: If it does not fit.
    """
    largest = (1 << (8 * register.size if register.sign_bit is None else register.sign_bit)) - 1
    smallest = 0 if register.sign_bit is None else -largest
    if not smallest <= value <= largest:
        raise SpecError(f"value at address {register.address} is {value}, must be in [{smallest}, {largest}]")
    raw = value if value >= 0 or register.sign_bit is None else -value | 1 << register.sign_bit
    return raw.to_bytes(register.size, "little")


def decoded(register: Register, data: bytes) -> int:
    """Return the value of a register's bytes.

    Raises:
        SpecError: If they are too few or too many.
    """
    if len(data) != register.size:
        raise SpecError(f"answer has {len(data)} bytes, must have {register.size}; look at the cable")
    raw = int.from_bytes(data, "little")
    if register.sign_bit is None or not raw >> register.sign_bit & 1:
        return raw
    return -(raw & (1 << register.sign_bit) - 1)


class ReplyParser:
    """A parser that finds replies in a stream of bytes; it skips what is no packet with a right checksum."""

    def __init__(self) -> None:
        self.broken = 0
        """Packets whose checksum was wrong."""
        self._bytes = b""

    def push(self, data: bytes) -> list[Reply]:
        """Take bytes of the stream; return the replies that are whole now."""
        self._bytes += data
        found: list[Reply] = []
        while True:
            start = self._bytes.find(HEADER)
            if start < 0:
                self._bytes = self._bytes[-1:] if self._bytes.endswith(HEADER[:1]) else b""
                return found
            self._bytes = self._bytes[start:]
            if len(self._bytes) < 4:
                return found
            size = 4 + self._bytes[3]
            if self._bytes[2] > LARGEST_ID or size < SHORTEST:
                self._bytes = self._bytes[1:]
                continue
            if len(self._bytes) < size:
                return found
            whole = self._bytes[:size]
            if checksum(whole[2:-1]) != whole[-1]:
                self.broken += 1
                self._bytes = self._bytes[2:]
                continue
            self._bytes = self._bytes[size:]
            found.append(Reply(servo_id=whole[2], status=whole[4], parameters=whole[5:-1]))
