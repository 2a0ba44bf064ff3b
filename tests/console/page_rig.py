"""A real server in front of a real desk, fed by the test: what a page would see of a cell, without the cell."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.console.access import Gate
from robot_stack.console.app import Pages
from robot_stack.console.figures import Diagnosed
from robot_stack.console.journal import Journal
from robot_stack.console.serving import PageServer, listen, page_address
from robot_stack.console.session import ConsoleSession
from robot_stack.console.web import build_digest
from robot_stack.runs.rows import EpisodeRow, MetricsRow, UpdateRow
from robot_stack.teleop.messages import JoyPacket
from robot_stack.types.command import Mode
from robot_stack.types.event import Verdict
from robot_stack.types.help import HelpKind, HelpReason, HelpRequest
from robot_stack.types.reward import LiveScore
from robot_stack.types.transition import EpisodeKind

LOCAL = "127.0.0.1:0"
REPEAT_S = 1.0
TIMELY = ("press", "say", "undo", "sit")
"""Kinds of messages that say which state was on the page's screen."""


class Done:
    """What a desk has had done: `ConsoleActions`."""

    def __init__(self) -> None:
        self.pressed: list[str] = []
        self.requested: list[str] = []
        self.moves: list[JoyPacket] = []

    def press(self, events: tuple[str, ...]) -> None:
        """See `ConsoleActions`."""
        self.pressed += events

    def request(self, name: str) -> None:
        """See `ConsoleActions`."""
        self.requested.append(name)

    def move(self, packet: JoyPacket) -> None:
        """See `ConsoleActions`."""
        self.moves.append(packet)

    @property
    def driving(self) -> bool:
        """Whether the newest packet has the deadman held."""
        return bool(self.moves) and bool(self.moves[-1].buttons[0])

    @property
    def gone(self) -> bool:
        """Whether the newest packet says that the hand is gone."""
        return bool(self.moves) and bool(self.moves[-1].buttons[-1])


def sim_run(*overrides: str) -> ResolvedRun:
    """The dry run, which a page may drive."""
    return load_run("peg_insert", overrides)


class Obedient(Done):
    """What a desk has had done, by a safety filter that obeys at once."""

    def __init__(self) -> None:
        super().__init__()
        self.cell: FakeCell | None = None

    def press(self, events: tuple[str, ...]) -> None:
        """See `ConsoleActions`."""
        super().press(events)
        if "stop" in events:
            self._turn(Mode.STOP)
        elif "hold" in events and self._mode in (Mode.READY, Mode.POLICY, Mode.HUMAN):
            self._turn(Mode.HOLD)

    def request(self, name: str) -> None:
        """See `ConsoleActions`."""
        super().request(name)
        before, after = {
            "arm": (Mode.DISARMED, Mode.READY),
            "resume": (Mode.HOLD, Mode.POLICY),
            "clear_stop": (Mode.STOP, Mode.DISARMED),
        }[name]
        if self._mode is before:
            self._turn(after)

    @property
    def _mode(self) -> Mode | None:
        assert self.cell is not None
        return self.cell.desk.heard.mode

    def _turn(self, mode: Mode) -> None:
        assert self.cell is not None
        self.cell.mode(mode, "by the page")


STUCK = HelpRequest(reason=HelpReason(kind=HelpKind.STALL, text="no progress for 2.1 s; see what it is stuck at"))


class FakeCell:
    """Tells a desk what a cell would, in the test's own words and time."""

    def __init__(
        self, run: ResolvedRun, folder: Path, pictures: set[str] | None = None, done: Done | None = None
    ) -> None:
        self.run = run
        self.store = folder / "store"
        self.done = Done() if done is None else done
        if isinstance(self.done, Obedient):
            self.done.cell = self
        self.journal = Journal(folder)
        self.journal.open()
        kept = pictures if pictures is not None else set()
        self.desk = ConsoleSession(run, self.done, self.journal, kept.__contains__)
        self.desk.heard.folder = "sim"
        self.server: PageServer | None = None
        self._safety_over = False

    def mode(self, mode: Mode, reason: str = "", age_s: float = 0.0) -> None:
        """The safety filter changes its mind."""
        with self.desk.locked():
            self.desk.heard.banner(mode, reason, time.monotonic_ns() - round(age_s * 1e9), time.time())
        self.tell()

    def repeat(self, over: threading.Event) -> None:
        """The safety process says its mode again each second, until it ends."""
        heard = self.desk.heard
        while not over.wait(REPEAT_S):
            with self.desk.locked():
                if heard.mode is not None and not self._safety_over:
                    heard.banner(heard.mode, heard.reason, time.monotonic_ns(), time.time())

    def episode(self, number: int, kind: str = "online") -> str:
        """An episode begins."""
        name = f"{number:06d}-{kind}-actor"
        with self.desk.locked():
            self.desk.heard.episode(name, kind, time.monotonic_ns(), time.time())
        self.tell()
        return name

    def ended(self, *, resetting: bool = False) -> None:
        """None runs any more."""
        with self.desk.locked():
            self.desk.heard.no_episode(resetting=resetting, now_ns=time.monotonic_ns())
        self.tell()

    def events(self, *events: str, device: str = "browser") -> None:
        """Keys of an operator."""
        with self.desk.locked():
            self.desk.heard.events(events, device, time.monotonic_ns(), time.time())
        self.tell()

    def asks(self, request: HelpRequest | None) -> None:
        """The policy asks for help, or no longer does."""
        with self.desk.locked():
            self.desk.heard.asked(request, time.time())
        self.tell()

    def claim(self) -> None:
        """The model says success."""
        with self.desk.locked():
            self.desk.heard.claimed(Verdict.SUCCESS, time.monotonic_ns(), time.time())
        self.tell()

    def score(self, episode_id: str, index: int, progress: float, success: float = 0.1) -> None:
        """The reward model has seen a frame."""
        score = LiveScore(
            episode_id=episode_id, index=index, progress=progress, success=success, declared=False, version="v1"
        )
        with self.desk.locked():
            self.desk.heard.score(score, time.monotonic_ns())
        self.tell()

    def diagnosis(self, name: str, message: str = "ok", level: int = 0, **values: object) -> None:
        """A process says how it is."""
        said = Diagnosed(
            level=level,
            message=message,
            values={key: str(value) for key, value in values.items()},
            heard_ns=time.monotonic_ns(),
        )
        with self.desk.locked():
            self.desk.heard.diagnosis(name, said, time.time())
        self.tell()

    def safety_ends(self) -> None:
        """The safety process has said its last word a while ago."""
        heard, self._safety_over = self.desk.heard, True
        assert heard.mode is not None
        self.mode(heard.mode, heard.reason, age_s=10.0)

    def frame(self, camera: str, image: np.ndarray, jpeg: bytes) -> None:
        """A camera has seen something."""
        names = list(self.run.cameras)
        with self.desk.locked():
            now_ns = time.monotonic_ns()
            self.desk.heard.cameras[camera].frame(now_ns, now_ns)
        if self.server is not None:
            self.server.show(names.index(camera), jpeg)

    def tell(self) -> None:
        """To the open pages, at once."""
        if self.server is not None:
            self.server.change()


def trained(episodes: int, first: int = 0) -> list[MetricsRow]:
    """What a learner logs of online episodes of a minute at 10 Hz; each second one succeeds, each fourth by help."""
    rows: list[MetricsRow] = []
    for number in range(first, first + episodes):
        rows.append(
            UpdateRow(
                updates=100 * number,
                env_steps=600 * (number + 1),
                metrics={"q": 0.01 * number, "q_gradient": 1.0, "imitation_gradient": 3.0},
            )
        )
        rows.append(
            EpisodeRow(
                episode_id=f"{number:06d}-online-a",
                episode_kind=EpisodeKind.ONLINE,
                steps=600,
                duration_s=60.0,
                success=number % 2 == 0,
                human_steps=300 if number % 4 == 0 else 0,
            )
        )
    return rows


@contextmanager
def served(
    cell: FakeCell, *, token: str = "", picture: Any = lambda _: None, port: int = 0, report: Path | None = None
) -> Iterator[str]:
    """The address of the page, for as long as it is served."""
    listening = listen(f"127.0.0.1:{port}")
    with PageServer(Pages(cell.desk, Gate(token), cell.store, picture, report), listening) as server:
        cell.server, over = server, threading.Event()
        repeating = threading.Thread(target=cell.repeat, args=[over])
        repeating.start()
        try:
            yield page_address(listening, "127.0.0.1", token)
        finally:
            over.set()
            repeating.join()
            cell.server = None


def hello(page: str = "a", token: str = "", build: str | None = None) -> str:
    """The first message of a page."""
    return json.dumps({"k": "hello", "token": token, "page": page, "build": build_digest() if build is None else build})
