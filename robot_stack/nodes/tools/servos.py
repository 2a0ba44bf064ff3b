"""`python -m robot_stack.nodes.tools.servos PORT`: which servos of an SO-101 answer at a port, as one line of JSON.

It reads positions and writes nothing: whoever moves an arm by hand and asks again sees which port is that arm's.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress

from robot_stack.config.feetech import ServoPort
from robot_stack.control.drivers.feetech import TICKS, ServoCalibration
from robot_stack.nodes.drivers.servo_line import DirectLine, ServoSilence

IDS = range(1, 7)
REPLY_S, TRIES = 0.1, 3
"""Nobody waits for an arm here, so a busy machine has more time than a control loop has."""


def positions(port: str) -> dict[str, int]:
    """Return id -> position in ticks of the servos that answer at a port.

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
        for name in [each for each in whole for _ in range(TRIES)]:
            if name not in found:
                with suppress(ServoSilence):
                    found[name] = line.read("Present_Position", name)
    finally:
        line.close()
    return found


def main() -> int:
    """See the module."""
    try:
        found = positions(sys.argv[1])
    except OSError as error:
        print(
            f"{sys.argv[1]} cannot be asked ({error}); plug it in, end what uses it, and join the group `dialout`",
            file=sys.stderr,
        )
        return 1
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
