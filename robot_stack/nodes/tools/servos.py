"""`python -m robot_stack.nodes.tools.servos PORT`: which servos of an SO-101 answer at a port, as one line of JSON.

It reads positions and what a calibration has left in each servo, and writes nothing: whoever moves an arm by hand and
asks again sees which port is that arm's.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from dataclasses import asdict

from robot_stack.config.feetech import ServoPort
from robot_stack.control.drivers.feetech import TICKS, ServoCalibration
from robot_stack.nodes.drivers.servo_line import DirectLine, ServoSilence
from robot_stack.types.surveyed import SurveyedServo

IDS = range(1, 7)
REPLY_S, TRIES = 0.1, 3
"""Nobody waits for an arm here, so a busy machine has more time than a control loop has."""


STORED = ("Homing_Offset", "Min_Position_Limit", "Max_Position_Limit")


def survey(port: str) -> dict[str, SurveyedServo]:
    """Return id -> servo of those that answer at a port.

    Raises:
        OSError: If it is not there, or no serial port.
    """
    whole = {
        str(each): ServoCalibration(id=each, drive_mode=0, homing_offset=0, range_min=0, range_max=TICKS - 1)
        for each in IDS
    }
    line = DirectLine(ServoPort(port=port, calibration="none", reply_s=REPLY_S), whole)
    found = {}
    try:
        for name in whole:
            ticks = _insist(line, "Present_Position", name)
            if ticks is not None:
                offset, low, high = (_insist(line, register, name) for register in STORED)
                stored = None if offset is None or low is None or high is None else (offset, low, high)
                found[name] = SurveyedServo(ticks=ticks, stored=stored)
    finally:
        line.close()
    return found


def _insist(line: DirectLine, register: str, name: str) -> int | None:
    """Read until there is an answer, a few times; None without one."""
    for _ in range(TRIES):
        with suppress(ServoSilence):
            return line.read(register, name)
    return None


def main() -> int:
    """See the module."""
    try:
        found = survey(sys.argv[1])
    except OSError as error:
        print(
            f"{sys.argv[1]} cannot be asked ({error}); plug it in, end what uses it, and join the group `dialout`",
            file=sys.stderr,
        )
        return 1
    print(json.dumps({name: asdict(servo) for name, servo in found.items()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
