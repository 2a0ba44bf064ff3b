"""The session of the console: checks what each page asks for, and has it done by `ConsoleActions`.

Callers in several threads hold `locked` around everything but what may wait for the disk, as `keep` and what `obey`
leaves to do, and but `halt`: a hold waits for nobody.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol

from robot_stack.config.resolved import ResolvedRun
from robot_stack.console import shown
from robot_stack.console.heard import Claim, Heard
from robot_stack.console.journal import Journal
from robot_stack.console.messages import Message, Move, PageError, Press, Say, Seen, Sit, Undo, Write
from robot_stack.console.operator_lock import OperatorLock
from robot_stack.console.rights import ENABLING, Rights
from robot_stack.teleop.messages import JoyPacket
from robot_stack.teleop.page import page_packet
from robot_stack.types.command import Mode
from robot_stack.types.event import Label, Verdict

LATEST_MS = 250.0
"""A packet that took this much longer than the fastest one is no picture of the hand any more."""
DRIFT = 500e-6
"""Milliseconds per millisecond that two clocks may part."""
RESET_MS = 2000.0
"""After a silence this long the page's clock is learnt anew."""
FOR_EVERYBODY = ("hold", "stop")
"""What a page that only watches may press too."""
HERE_NS = 300_000_000
"""A hand that says nothing for so long is not on the arm, whatever it held."""


class PageClock:
    """Estimate of how late a page's packets are, against the fastest one so far, from the page's own stamps."""

    def __init__(self) -> None:
        self.anew = False
        """Whether the last packet came after a silence, so that nobody knows how late it was."""
        self._offset_ms: float | None = None
        self._last: tuple[float, float] = (0.0, 0.0)

    def late_ms(self, t_ms: float, now_ms: float) -> float:
        """Return how late a packet is that was stamped `t_ms` and arrived at `now_ms`, in milliseconds."""
        last_t_ms, last_ms = self._last
        self.anew = last_ms > 0.0 and (t_ms < last_t_ms or now_ms - last_ms > RESET_MS)
        if self.anew:
            self._offset_ms = None
        passed_ms, self._last = now_ms - last_ms, (t_ms, now_ms)
        offset_ms = now_ms - t_ms
        if self._offset_ms is None:
            self._offset_ms = offset_ms
        self._offset_ms = min(offset_ms, self._offset_ms + DRIFT * passed_ms)
        return offset_ms - self._offset_ms


class Hand:
    """The hand at one page: checks its moves and makes packets of them for the teleop process."""

    def __init__(self) -> None:
        self._clock = PageClock()
        self.holds = False
        """Whether its deadman is held."""
        self._must_release = False

    def take(self, move: Move, now_ns: int) -> JoyPacket:
        """Return the packet to send on for a move of the hand.

        After a silence a deadman must be seen released first: what waited in a network is not what is meant now.

        Raises:
            PageError: If it is too old to be believed, and nothing is lost by that: the arm is not in the hand.
        """
        late = self._clock.late_ms(move.t_ms, now_ns / 1e6) > LATEST_MS
        if (late or not move.live) and self.holds:
            return self._gone()
        if late:
            raise PageError(f"page is more than {LATEST_MS:.0f} ms late, network or machine is too busy; drive later")
        self._must_release = "deadman" in move.pressed and (self._must_release or self._clock.anew)
        pressed = move.pressed - {"deadman"} if self._must_release else move.pressed
        self.holds = move.live and "deadman" in pressed
        return page_packet(move.axes, pressed if move.live else ())

    def let_go(self) -> None:
        """Take the arm out of the hand; a deadman that is held on must be seen released first."""
        self.holds, self._must_release = False, True

    def close(self) -> JoyPacket | None:
        """Return the packet that lets go of the arm if the page drove, else None; for a page that has gone."""
        return self._gone() if self.holds else None

    def _gone(self) -> JoyPacket:
        self.holds = False
        return page_packet([0.0] * 6, (), gone=True)


class ConsoleActions(Protocol):
    """Actions that the session has done by others; called in the thread of the caller, they never wait."""

    def press(self, events: tuple[str, ...]) -> None:
        """Tell everybody that an operator pressed these, out of `EVENTS`."""
        ...

    def request(self, name: str) -> None:
        """Call a service of the safety filter by its name; a refusal is told to the pages."""
        ...

    def move(self, packet: JoyPacket) -> None:
        """Send on what the hand at the page does."""
        ...


class ConsoleSession:
    """The console session of one run: obeys its pages and tells them what to show.

    Args:
        run: The run.
        actions: Does what pages may have done.
        journal: Keeps verdicts and notes; opened already.
        pictures: Whether there are pictures of an episode.
    """

    def __init__(
        self,
        run: ResolvedRun,
        actions: ConsoleActions,
        journal: Journal,
        pictures: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self.heard = Heard(run)
        self.rights = Rights.of(run)
        self.operator_lock = OperatorLock()
        self._run = run
        self._actions = actions
        self._journal = journal
        self._pictures = pictures
        self._lock = threading.RLock()
        self._disk = threading.Lock()
        """Held by who writes, from what is decided to what then counts; before `_lock` and never inside it."""
        self._offered_ns = 0
        self._hands: dict[str, Hand] = {}
        self._moved_ns = 0
        self._held_up = ""

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other threads out for as long as the context is open; keep it short, and touch no file."""
        with self._lock:
            yield

    def join(self, page: str, now_ns: int) -> None:
        """Add a page that has opened."""
        self.operator_lock.join(page, now_ns)
        self._hands[page] = Hand()

    def leave(self, page: str, now_ns: int) -> None:
        """Remove a page that has closed or is lost; if it drove, the arm holds."""
        gone = self._hands.pop(page, Hand()).close()
        if gone is not None:
            self._actions.move(gone)
        self.operator_lock.leave(page, now_ns)

    def halt(self, what: str) -> None:
        """Tell everybody at once that an operator pressed HOLD or STOP, at whatever page; needs no lock."""
        self._actions.press((what,))

    def obey(self, page: str, message: Message, now_ns: int, now_unix_s: float) -> Callable[[], None] | None:
        """Do what a page wishes, but for what has to be kept on disk.

        Returns:
            What is left to do, without the lock, as it waits for the disk; or None. It raises PageError, or StoreError
            if the disk refuses: then nothing was said.

        Raises:
            PageError: Why not, for the operator at the page.
        """
        if isinstance(message, Seen):
            if message.in_view:
                self.operator_lock.heard(page, now_ns)
        elif isinstance(message, Move):
            self._move(page, message, now_ns)
        elif isinstance(message, Sit):
            before = self.operator_lock.writer
            self.operator_lock.sit(page, now_ns, driving=self.here(now_ns))
            if before != page and before in self._hands:
                self._hands[before].let_go()
        elif isinstance(message, Press):
            return self._press(page, message, now_ns, now_unix_s)
        else:
            self.operator_lock.check_writer(page, now_ns)
            if isinstance(message, Say):
                return partial(self._say, message, now_ns, now_unix_s)
            if isinstance(message, Undo):
                return partial(self._undo, now_ns, now_unix_s)
            if isinstance(message, Write):
                return partial(self._write, message, now_unix_s)
        return None

    def here(self, now_ns: int) -> bool:
        """Return whether a page's hand is on the arm."""
        hand = self._hands.get(self.operator_lock.writer)
        return hand is not None and hand.holds and now_ns - self._moved_ns <= HERE_NS

    def to_send(self, now_ns: int) -> list[Label]:
        """Return the verdicts for the learner that can no longer be taken back."""
        with self._disk, self._lock:
            self._offered_ns = now_ns
            kept_back = self.heard.verdicts.kept_back(now_ns)
            return [label for label in self._journal.waiting if label != kept_back]

    def sent(self, label: Label, refused: str = "") -> None:
        """Record that the learner has a verdict, or why it never will.

        Raises:
            StoreError: If the disk refuses.
        """
        with self._disk:
            self._journal.sent(label, refused)
        with self._lock:
            self.heard.version += 1

    def waits(self, why: str) -> None:
        """Record why the learner does not take the verdicts that wait; "" once none does."""
        if why != self._held_up:
            self._held_up = why
            self.heard.version += 1

    def stored(self, labels: Sequence[Label]) -> None:
        """Record that labels are in a store that has no learner, whose process takes them from the journal.

        Raises:
            StoreError: If the disk refuses.
        """
        for label in self._journal.waiting:
            if label in labels:
                self.sent(label)

    def welcome(self) -> dict[str, Any]:
        """Return what does not change while the process lives, as the page is sent it."""
        return shown.welcome(self._run, self.rights, self.heard)

    def now(self, now_ns: int) -> dict[str, Any]:
        """Return what changes all the time, as the page is sent it."""
        return shown.now(self.heard, self.rights, now_ns, here=self.here(now_ns), pages=self.operator_lock.pages)

    def part(self, name: str) -> Any:
        """Return one of the parts in `shown.versions`."""
        return shown.part(self.heard, name, self._state_of, self._pictures)

    def _press(self, page: str, message: Press, now_ns: int, now_unix_s: float) -> Callable[[], None] | None:
        what = message.what
        refusal = self.rights.refuse_press(what)
        if refusal:
            raise PageError(refusal)
        self.operator_lock.check_writer(page, now_ns)
        if what in tuple(Verdict):
            return self._judge(Verdict(what), message.episode, now_ns, now_unix_s)
        if what in ENABLING:  # by the filter's services, which say why not
            resumes = what == "arm" and self.heard.mode is Mode.HOLD
            self._actions.request("resume" if resumes else what)
        else:
            self._actions.press((what,))
        return None

    def _judge(self, verdict: Verdict, named: str, now_ns: int, now_unix_s: float) -> Callable[[], None] | None:
        """Apply a verdict to the episode that the button named: the running one, or one that the model calls a success.

        The next one may have begun by the time an operator has made up their mind. For the same reason one that has
        ended meanwhile is judged as one of the list.
        """
        claim = self.heard.claim(now_ns)
        if not named:
            raise PageError(f"no episode runs, must run to be called a {verdict}; choose an earlier one in the list")
        if named == self.heard.episodes.running:
            self._actions.press((verdict.value,))
            return None
        if claim is not None and named == claim.episode_id:
            return partial(self._answer, claim, verdict, now_ns, now_unix_s)
        return partial(self._say, Say(episode=named, verdict=verdict), now_ns, now_unix_s)

    def keep(self, label: Label) -> None:
        """Keep a verdict that was said elsewhere and that nobody else records.

        Raises:
            StoreError: If the disk refuses.
        """
        with self._disk:
            self._journal.add(label)

    # on disk before it counts: without the lock ---------------------------------------------------------------------
    def _answer(self, claim: Claim, verdict: Verdict, now_ns: int, now_unix_s: float) -> None:
        verdicts = self.heard.verdicts
        with self._disk:
            with self._lock:
                label = verdicts.label(claim.episode_id, verdict, now_unix_s)
            self._journal.add(label)
            with self._lock:
                verdicts.ended(label, now_ns)
                listens = self.heard.answered(claim)
        if listens:
            self._actions.press((verdict.value,))

    def _say(self, message: Say, now_ns: int, now_unix_s: float) -> None:
        heard = self.heard
        with self._disk:
            with self._lock:
                row = heard.episodes.check(message.episode)
                if row.open:
                    raise PageError(
                        f"episode {row.number} still runs, must have ended; press the key of the verdict instead"
                    )
                label = heard.verdicts.label(message.episode, message.verdict, now_unix_s)
            self._journal.add(label)
            with self._lock:
                heard.verdicts.say(label, now_ns)
                heard.version += 1

    def _undo(self, now_ns: int, now_unix_s: float) -> None:
        verdicts = self.heard.verdicts
        with self._disk:
            now_ns = max(now_ns, self._offered_ns)  # what was offered to the learner since then is no longer kept back
            with self._lock:
                newest, answer = verdicts.to_take_back(now_ns, now_unix_s)
            if answer is None:
                self._journal.take_back(newest.label)
            else:
                self._journal.add(answer)
            with self._lock:
                verdicts.taken_back(newest, answer)
                self.heard.version += 1

    def _write(self, message: Write, now_unix_s: float) -> None:
        episodes = self.heard.episodes
        with self._disk:
            with self._lock:
                episodes.check(message.episode)
            self._journal.note(message.episode, message.text, now_unix_s)
            with self._lock:
                episodes.note(message.episode, message.text)

    def _move(self, page: str, message: Move, now_ns: int) -> None:
        refusal = self.rights.refuse_move()
        if refusal:
            raise PageError(refusal)
        self.operator_lock.check_writer(page, now_ns)
        packet = self._hands[page].take(message, now_ns)
        self._moved_ns = now_ns
        self._actions.move(packet)

    def _state_of(self, episode_id: str) -> str:
        """Return in words what is still to happen with an episode's verdict, or ""."""
        if any(label.episode_id == episode_id for label in self._journal.waiting):
            way = "on its way to the store"
            return f"{way}: {self._held_up}" if self._held_up else way
        refused = self._journal.refused.get(episode_id)
        return f"not taken: {refused}" if refused else ""
