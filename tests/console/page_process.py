"""A page's server in a process of its own, which a test can freeze; what it was asked to do goes to its output."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from robot_stack.types.command import Mode
from tests.console.page_rig import FakeCell, Obedient, served, sim_run


class Telling(Obedient):
    """An obedient cell that tells what it was asked for."""

    def press(self, events: tuple[str, ...]) -> None:
        """See `ConsoleActions`."""
        print(*events, flush=True)
        super().press(events)

    def request(self, name: str) -> None:
        """See `ConsoleActions`."""
        print(name, flush=True)
        super().request(name)


def main() -> None:
    """Serve until the test ends this process; the policy is in control."""
    cell = FakeCell(sim_run(), Path(sys.argv[1]), done=Telling())
    with served(cell, port=int(sys.argv[2])) as url:
        cell.mode(Mode.POLICY)
        cell.episode(7)
        print(url, flush=True)
        while True:
            time.sleep(1.0)


if __name__ == "__main__":
    main()
