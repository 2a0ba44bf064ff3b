"""Lock that lets one page write while all others watch: which page holds it, and is somebody there at all. Pure."""

from __future__ import annotations

from enum import StrEnum

from robot_stack.console.messages import PageError

PRESENT_NS = 800_000_000
"""A page that shows what it is sent says so many times a second; silent for longer, nobody looks at it."""
KEPT_NS = 5_000_000_000
"""So long the lock is kept for a page that has gone, so that a reload does not lose it."""


class Holder(StrEnum):
    """Who holds the lock, as a page is told: whoever knows the name of a page can say hello in its place."""

    YOU = "you"
    ANOTHER = "another"
    NOBODY = ""


class OperatorLock:
    """The lock of the operator, and the open pages, of which one may hold it and write."""

    def __init__(self) -> None:
        self._heard_ns: dict[str, int] = {}
        self.writer = ""
        """Page that holds the lock, or ""."""
        self._left_ns: int | None = None

    @property
    def pages(self) -> int:
        """Return how many pages are open."""
        return len(self._heard_ns)

    def holder(self, page: str) -> Holder:
        """Return who holds the lock, from where a page stands."""
        if not self.writer:
            return Holder.NOBODY
        return Holder.YOU if page == self.writer else Holder.ANOTHER

    def join(self, page: str, now_ns: int) -> None:
        """Add a page that has opened; it takes the lock if that is free, or was its own a moment ago."""
        self._heard_ns[page] = now_ns
        if self._free(now_ns) or page == self.writer:
            self.writer, self._left_ns = page, None

    def leave(self, page: str, now_ns: int) -> None:
        """Remove a page that has closed; the lock is kept for it for a while."""
        self._heard_ns.pop(page, None)
        if page == self.writer:
            self._left_ns = now_ns

    def heard(self, page: str, now_ns: int) -> None:
        """Note that a page has shown what it was sent."""
        if page in self._heard_ns:
            self._heard_ns[page] = now_ns

    def sit(self, page: str, now_ns: int, *, driving: bool) -> None:
        """Give the lock to a page whose operator asks for it; nobody keeps it for ever.

        Raises:
            PageError: If the one who has it drives the arm, or the page is closed.
        """
        self._check_open(page)
        if driving and page != self.writer and not self._free(now_ns):
            raise PageError("another page is the operator's and drives the arm; wait until it lets go, or press Esc")
        self.writer, self._left_ns = page, None

    def check_writer(self, page: str, now_ns: int) -> None:
        """Check that a page holds the lock; it takes it first if the lock is free.

        Raises:
            PageError: If another page has it, or this one is closed.
        """
        self._check_open(page)
        if page != self.writer and self._free(now_ns):
            self.writer, self._left_ns = page, None
        if page != self.writer:
            raise PageError("this page watches, must be the operator's to do that; press 'become the operator'")

    def attended(self, now_ns: int) -> bool:
        """Return whether the page that holds the lock is open and in view."""
        heard_ns = self._heard_ns.get(self.writer)
        return heard_ns is not None and now_ns - heard_ns <= PRESENT_NS

    def _check_open(self, page: str) -> None:
        if page not in self._heard_ns:
            raise PageError("this page is closed, must be open to do that; open it again")

    def _free(self, now_ns: int) -> bool:
        return not self.writer or (self._left_ns is not None and now_ns - self._left_ns > KEPT_NS)
