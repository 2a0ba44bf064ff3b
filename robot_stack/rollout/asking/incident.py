"""One request an incident: when a judgement becomes a request, and when the situation has mended itself."""

from __future__ import annotations

from robot_stack.rollout.asking.moment import NS


class Incident:
    """Whether a request for help is open, with hysteresis in time.

    Args:
        sustain_s: It opens once help would be asked for this long without a break.
        calm_s: It closes once help would not be asked for this long without a break.
        pause_s: After an answer it stays closed for this long.
    """

    def __init__(self, *, sustain_s: float, calm_s: float, pause_s: float) -> None:
        self._sustain_ns, self._calm_ns, self._pause_ns = sustain_s * NS, calm_s * NS, pause_s * NS
        self.begin()

    def begin(self) -> None:
        """Begin an episode: none is open, and none was answered."""
        self.open = False
        self._since_ns: int | None = None
        """Since when the judgement has been other than the state."""
        self._quiet_until_ns = 0.0

    def judge(self, ask: bool, now_ns: int) -> None:
        """Take in the judgement of a tick, and open or close."""
        if now_ns < self._quiet_until_ns or ask == self.open:
            self._since_ns = None
            return
        if self._since_ns is None:
            self._since_ns = now_ns
        needed_ns = self._calm_ns if self.open else self._sustain_ns
        if now_ns - self._since_ns >= needed_ns:
            self.open, self._since_ns = not self.open, None

    def answered(self, now_ns: int) -> None:
        """Close for an answer, and ask for nothing for a while: also where an operator came without being asked."""
        self.open, self._since_ns = False, None
        self._quiet_until_ns = now_ns + self._pause_ns
