"""A line to Feetech servos: one transaction at a time, each within a deadline.

Two speak on it: this project's own code, over a serial port that the kernel opens, and the motors bus of the lerobot
package. The second is loaded only where a file asks for it. LeRobot waits 50 ms for each packet that does not come, so
one missing servo of six takes it down to a few readings a second.
"""

from __future__ import annotations

import fcntl
import os
import select
import termios
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from robot_stack.config.feetech import ServoPort
from robot_stack.control.drivers.feetech import ServoCalibration
from robot_stack.control.drivers.feetech_packets import (
    REGISTERS,
    Register,
    Reply,
    ReplyParser,
    decoded,
    read_request,
    sync_read_request,
    sync_write_request,
    write_request,
)
from robot_stack.types.errors import ConfigError, RobotError, SpecError

CHUNK = 4096


class ServoSilence(RobotError):
    """The error of a servo that has not answered, or not in a way that can be read; the line is still there."""


class ServoLine(Protocol):
    """An open line to the servos of one arm, by their names.

    Every method raises OSError if the line itself is gone, and ServoSilence if a servo does not answer in time.
    """

    def sync_read(self, register: str) -> dict[str, int]:
        """Read one register of all servos; all of them or none."""
        ...

    def sync_write(self, register: str, values: Mapping[str, int]) -> None:
        """Write one register of several servos at one instant."""
        ...

    def read(self, register: str, name: str) -> int:
        """Read one register of one servo."""
        ...

    def write(self, register: str, name: str, value: int) -> None:
        """Write one register of one servo."""
        ...

    def close(self) -> None:
        """Give the port back; the servos go on as they are."""
        ...


class DirectLine:
    """A line spoken by this project's own code, over a serial port that the kernel opens."""

    def __init__(self, port: ServoPort, servos: Mapping[str, ServoCalibration]) -> None:
        """Open the serial port of the servos.

        Raises:
            OSError: If it is not there, or no serial port.
        """
        self._reply_s = port.reply_s
        self._port = port.port
        self._ids = {name: each.id for name, each in servos.items()}
        self._names = {each.id: name for name, each in servos.items()}
        self._file = os.open(port.port, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _make_raw(self._file, port.baud)
        except BlockingIOError:
            os.close(self._file)
            raise OSError(f"{port.port} is in use by another process") from None
        except termios.error as error:
            os.close(self._file)
            raise OSError(f"{port.port} is no serial port: {error}") from None

    def sync_read(self, register: str) -> dict[str, int]:
        """Read one register of all servos; all of them or none."""
        place = REGISTERS[register]
        replies = self._ask(sync_read_request(list(self._ids.values()), place), list(self._ids.values()), place.size)
        return {name: _value(place, replies[servo_id], name) for name, servo_id in self._ids.items()}

    def sync_write(self, register: str, values: Mapping[str, int]) -> None:
        """Write one register of several servos at one instant; nobody acknowledges it."""
        by_id = {self._ids[name]: value for name, value in values.items()}
        self._send(sync_write_request(REGISTERS[register], by_id))

    def read(self, register: str, name: str) -> int:
        """Read one register of one servo."""
        place, servo_id = REGISTERS[register], self._ids[name]
        return _value(place, self._ask(read_request(servo_id, place), [servo_id], place.size)[servo_id], name)

    def write(self, register: str, name: str, value: int) -> None:
        """Write one register of one servo, which acknowledges it."""
        servo_id = self._ids[name]
        self._ask(write_request(servo_id, REGISTERS[register], value), [servo_id], 0)

    def close(self) -> None:
        """Give the port back."""
        with suppress(OSError):
            os.close(self._file)

    def _ask(self, request: bytes, servo_ids: list[int], size: int) -> dict[int, Reply]:
        """Send a request and return the replies of these servos.

        What came late after an earlier request is thrown away first.
        """
        with suppress(termios.error):
            termios.tcflush(self._file, termios.TCIFLUSH)
        self._send(request)
        parser, found = ReplyParser(), dict[int, Reply]()
        deadline = time.monotonic() + self._reply_s
        while len(found) < len(servo_ids):
            for reply in parser.push(self._receive(deadline, parser, found, servo_ids)):
                if reply.servo_id in servo_ids and len(reply.parameters) == size:
                    found[reply.servo_id] = reply
        return found

    def _receive(self, deadline: float, parser: ReplyParser, found: Mapping[int, Reply], servo_ids: list[int]) -> bytes:
        left_s = deadline - time.monotonic()
        ready = select.select([self._file], [], [], left_s)[0] if left_s > 0.0 else []
        if not ready:
            silent = ", ".join(f"{self._names[each]} (id {each})" for each in servo_ids if each not in found)
            why = f"{parser.broken} answers were broken" if parser.broken else "nothing came"
            raise ServoSilence(
                f"servo {silent} on {self._port} has not answered within {self._reply_s * 1e3:.0f} ms, {why}; "
                "look at its cable and power"
            )
        data = os.read(self._file, CHUNK)
        if not data:
            raise OSError(f"{self._port} is gone")
        return data

    def _send(self, request: bytes) -> None:
        deadline = time.monotonic() + self._reply_s
        while request:
            left_s = deadline - time.monotonic()
            if left_s <= 0.0 or not select.select([], [self._file], [], left_s)[1]:
                raise ServoSilence(f"{self._port} takes no bytes within {self._reply_s * 1e3:.0f} ms; replug it")
            request = request[os.write(self._file, request) :]


class LeRobotLine:
    """A line spoken by the motors bus of the lerobot package."""

    def __init__(self, port: ServoPort, servos: Mapping[str, ServoCalibration]) -> None:
        """Open the serial port of the servos with LeRobot.

        Raises:
            ConfigError: If lerobot cannot be imported.
            OSError: If the port is not there.
        """
        feetech, motors_bus = load_lerobot()
        degrees = motors_bus.MotorNormMode.DEGREES
        motors = {name: motors_bus.Motor(each.id, "sts3215", degrees) for name, each in servos.items()}
        self._bus: Any = feetech.FeetechMotorsBus(port=port.port, motors=motors)
        try:
            self._bus.connect(handshake=False)
        except ConnectionError as error:
            raise OSError(f"{port.port} cannot be opened: {error.__cause__ or error}") from None

    def sync_read(self, register: str) -> dict[str, int]:
        """Read one register of all servos; all of them or none."""
        return {name: int(value) for name, value in self._call("sync_read", register, normalize=False).items()}

    def sync_write(self, register: str, values: Mapping[str, int]) -> None:
        """Write one register of several servos at one instant."""
        self._call("sync_write", register, dict(values), normalize=False)

    def read(self, register: str, name: str) -> int:
        """Read one register of one servo."""
        return int(self._call("read", register, name, normalize=False))

    def write(self, register: str, name: str, value: int) -> None:
        """Write one register of one servo."""
        self._call("write", register, name, value, normalize=False)

    def close(self) -> None:
        """Give the port back; torque stays as it is, which LeRobot's own way out does not do."""
        with suppress(OSError):
            self._bus.disconnect(disable_torque=False)

    def _call(self, method: str, *arguments: object, **options: object) -> Any:
        try:
            return getattr(self._bus, method)(*arguments, **options)
        except ConnectionError as error:  # its word for an answer that did not come
            raise ServoSilence(f"lerobot: {error}; look at cable and power") from None
        except RuntimeError as error:  # its word for a status that is not 0
            raise ServoSilence(f"lerobot: {error}") from None
        except TypeError as error:  # its SDK reads on after the port is gone
            raise OSError(f"lerobot: {error}") from None


def load_lerobot() -> tuple[Any, Any]:
    """Import LeRobot's modules of the Feetech bus and of motors.

    Raises:
        ConfigError: If they cannot be imported.
    """
    try:
        return import_module("lerobot.motors.feetech"), import_module("lerobot.motors")
    except ImportError as error:
        raise ConfigError(
            f"servos.bus is 'lerobot', must be importable ({error}); install 'robot-stack[so101]' without this "
            "project's constraints.txt, whose torch is newer than LeRobot takes, or take bus: direct"
        ) from None


def open_line(port: ServoPort, servos: Mapping[str, ServoCalibration]) -> ServoLine:
    """Open the line that the file asks for.

    Raises:
        ConfigError: If that needs a package that is not there.
        OSError: If the port is not there.
    """
    return LeRobotLine(port, servos) if port.bus == "lerobot" else DirectLine(port, servos)


def calibration_text(path: str) -> str:
    """Read the text of a calibration file.

    Raises:
        ConfigError: If there is none.
    """
    try:
        return Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"calibration {path} cannot be read ({error}), must be what lerobot-calibrate writes; correct "
            "servos.calibration"
        ) from None


def _value(register: Register, reply: Reply, name: str) -> int:
    try:
        return decoded(register, reply.parameters)
    except SpecError as error:
        raise ServoSilence(f"servo {name}: {error}") from None


def _make_raw(file: int, baud: int) -> None:
    """Set a serial port to raw bytes: 8 bits, no parity, one stop bit, nothing translated, nothing waited for."""
    speed = getattr(termios, f"B{baud}")
    control = termios.CS8 | termios.CREAD | termios.CLOCAL
    special = termios.tcgetattr(file)[6]
    special[termios.VMIN], special[termios.VTIME] = 0, 0
    termios.tcsetattr(file, termios.TCSANOW, [0, 0, control, 0, speed, speed, special])
