"""STS3215 servos on a pseudo-terminal, as Feetech documents their protocol; written without the code under test.

Faults can be had: a cable that is pulled, checksums that are wrong, servos that answer late or not at all.
"""

from __future__ import annotations

import os
import pty
import select
import threading
import time
import tty
from contextlib import suppress

NAMES = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper")
"""Of the servos 1 to 6 of an SO-101."""
ID, LENGTH, INSTRUCTION = 2, 3, 4
PING, READ, WRITE, SYNC_READ, SYNC_WRITE = 1, 2, 3, 0x82, 0x83
MODEL, MIN, MAX, OFFSET, TORQUE, GOAL, POSITION, VOLTAGE, TEMPERATURE, STATUS = 3, 9, 11, 31, 40, 42, 56, 62, 63, 65


class Servo:
    """The memory of one servo, which stands at its goal at once while it has torque."""

    def __init__(self, position: int = 2048, *, low: int = 800, high: int = 3200, offset: int = 0) -> None:
        self.memory = bytearray(128)
        self.put(MODEL, 777, 2)
        self.put(MIN, low, 2)
        self.put(MAX, high, 2)
        self.put(OFFSET, offset if offset >= 0 else 1 << 11 | -offset, 2)
        self.put(POSITION, position, 2)
        self.put(VOLTAGE, 74, 1)
        self.put(TEMPERATURE, 31, 1)
        self.stuck = False

    def put(self, address: int, value: int, size: int) -> None:
        self.memory[address : address + size] = value.to_bytes(size, "little")

    def get(self, address: int, size: int) -> int:
        return int.from_bytes(self.memory[address : address + size], "little")

    @property
    def position(self) -> int:
        return self.get(POSITION, 2)

    @property
    def torque(self) -> bool:
        return bool(self.memory[TORQUE])

    def write(self, address: int, data: bytes) -> None:
        self.memory[address : address + len(data)] = data
        if self.torque and not self.stuck:
            self.memory[POSITION : POSITION + 2] = self.memory[GOAL : GOAL + 2]


class StsBus:
    """Servos on one cable; `port` is the name that a driver opens."""

    def __init__(self, ids: range = range(1, 7), **servo: int) -> None:
        self.servos = {each: Servo(**servo) for each in ids}
        self.silent: set[int] = set()
        self.late_s: dict[int, float] = {}
        self.corrupt = False
        self.packets: list[tuple[int, int, bytes]] = []
        """Id, instruction and parameters of all that was heard."""
        self.goals: list[dict[int, int]] = []
        """Of each sync write to the goal position."""
        self._end = threading.Event()
        self.port = ""
        self.plug()

    def plug(self) -> None:
        self._end = threading.Event()
        self._master, slave = pty.openpty()
        tty.setraw(slave)
        self.port = os.ttyname(slave)
        os.close(slave)
        self._thread = threading.Thread(target=self._run, args=(self._master, self._end), daemon=True)
        self._thread.start()

    def pull(self) -> None:
        """The cable is pulled: the port is gone, and another one comes with `plug`."""
        self._end.set()
        self._thread.join(2.0)
        os.close(self._master)

    def close(self) -> None:
        with suppress(OSError):
            self.pull()

    def _run(self, master: int, end: threading.Event) -> None:
        heard = b""
        while not end.is_set():
            if not select.select([master], [], [], 0.02)[0]:
                continue
            try:
                heard += os.read(master, 4096)
            except OSError:  # nobody has opened the port, or it was closed
                time.sleep(0.01)
                continue
            while (whole := self._whole(heard)) is not None:
                heard = heard[len(whole) :]
                self._obey(whole, master)

    def _whole(self, heard: bytes) -> bytes | None:
        if len(heard) < 4:
            return None
        assert heard[:2] == b"\xff\xff", f"no packet: {heard.hex()}"
        size = 4 + heard[LENGTH]
        if len(heard) < size:
            return None
        assert 255 - sum(heard[ID : size - 1]) % 256 == heard[size - 1], f"wrong checksum: {heard.hex()}"
        return heard[:size]

    def _obey(self, whole: bytes, master: int) -> None:
        servo_id, instruction, parameters = whole[ID], whole[INSTRUCTION], whole[5:-1]
        self.packets.append((servo_id, instruction, parameters))
        if instruction == SYNC_READ:
            address, size = parameters[0], parameters[1]
            for each in parameters[2:]:
                if each in self.servos:
                    self._answer(each, bytes(self.servos[each].memory[address : address + size]), master)
        elif instruction == SYNC_WRITE:
            self._sync_write(parameters)
        elif servo_id in self.servos:
            servo = self.servos[servo_id]
            data = b""
            if instruction == READ:
                data = bytes(servo.memory[parameters[0] : parameters[0] + parameters[1]])
            elif instruction == WRITE:
                servo.write(parameters[0], parameters[1:])
            self._answer(servo_id, data, master)

    def _sync_write(self, parameters: bytes) -> None:
        address, size, rest = parameters[0], parameters[1], parameters[2:]
        values = {rest[at]: rest[at + 1 : at + 1 + size] for at in range(0, len(rest), size + 1)}
        if address == GOAL:
            self.goals.append({each: int.from_bytes(data, "little") for each, data in values.items()})
        for each, data in values.items():
            if each in self.servos:
                self.servos[each].write(address, data)

    def _answer(self, servo_id: int, data: bytes, master: int) -> None:
        if servo_id in self.silent:
            return
        time.sleep(self.late_s.get(servo_id, 0.0))
        body = bytes([servo_id, len(data) + 2, self.servos[servo_id].memory[STATUS]]) + data
        wrong = 1 if self.corrupt else 0
        with suppress(OSError):
            os.write(master, b"\xff\xff" + body + bytes([(255 - sum(body) + wrong) % 256]))
