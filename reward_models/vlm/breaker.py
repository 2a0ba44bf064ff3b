"""A circuit breaker: a server that has failed several times in a row is left alone for a while, then probed once."""

from __future__ import annotations

from reward_models.vlm.prompt import BreakerState


class Breaker:
    """A count of failures that opens the circuit; the time is passed in.

    Args:
        failures: In a row, after which it opens.
        cool_down_s: For which it stays open before one question may probe the server.
    """

    def __init__(self, *, failures: int, cool_down_s: float) -> None:
        self._limit = failures
        self._cool_down_s = cool_down_s
        self._failures = 0
        self._opened_s: float | None = None

    def state(self, now_s: float) -> BreakerState:
        """Return what may be asked: all ("closed"), one question ("half-open"), nothing ("open")."""
        if self._opened_s is None:
            return "closed"
        return "half-open" if now_s - self._opened_s >= self._cool_down_s else "open"

    def succeeded(self) -> None:
        """Count a question that was answered: close the circuit."""
        self._failures = 0
        self._opened_s = None

    def failed(self, now_s: float) -> None:
        """Count a question that was not answered, retries included."""
        self._failures += 1
        if self._failures >= self._limit:
            self._opened_s = now_s

    def seconds_left(self, now_s: float) -> float:
        """Return the seconds until a probe is allowed."""
        return 0.0 if self._opened_s is None else max(0.0, self._opened_s + self._cool_down_s - now_s)
