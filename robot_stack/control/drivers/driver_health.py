"""The judge of whether an arm may be driven: inputs that must be heard, their ages, faults to be cleared by hand.

Two kinds of reasons. Something missing or stale ends by itself when it is there again: the safety filter holds
meanwhile, and only an operator ends that. A fault that the driver reports is latched here until an operator asks for
recovery. All ages are between arrivals on the steady clock: no stamp of another machine counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from robot_stack.types.reason import Fault, FaultKind

NEVER = -1
RECOVERY_NS = 10_000_000_000
"""After an operator has asked, the driver may take this long until it reports that it is well."""
RIVAL_NS = 1_000_000_000
"""What two senders contradict each other in counts for this long after the last contradiction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """An input from the driver that must be heard.

    Attributes:
        name: "joint states".
        topic: As subscribed, for messages.
        timeout_s: Age at which it is stale; None for what is sent on a change only.
        remedy: What to do when it has gone silent.
    """

    name: str
    topic: str
    timeout_s: float | None
    remedy: str = "look after the driver"


class DriverHealth:
    """The reasons not to move an arm, in plain sentences that stay the same while the reason does."""

    def __init__(self, recovery: str) -> None:
        """Begin without a fault; no input is expected yet.

        Args:
            recovery: The service that an operator calls after a fault, for messages.
        """
        self.recovery = recovery
        self._inputs: dict[str, Input] = {}
        self._heard_ns: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        self._refused: dict[str, Fault] = {}
        self._rival: tuple[Fault, int] | None = None
        self._explained: dict[str, Fault | None] = {}
        self._fault: Fault | None = None
        self._reported: Fault | None = None
        self._recovery_until_ns = NEVER

    @property
    def fault(self) -> Fault | None:
        """Return the latched fault, or None."""
        return self._fault

    def expect(self, each: Input) -> None:
        """Expect that input to be heard from now on."""
        self._inputs[each.name] = each
        self._heard_ns[each.name] = NEVER
        self._counts[each.name] = 0

    def heard(self, name: str, now_ns: int) -> None:
        """Note that a usable message of that input has arrived."""
        self._heard_ns[name] = now_ns
        self._counts[name] += 1
        self._refused.pop(name, None)

    def refused(self, name: str, reason: Fault, now_ns: int) -> None:
        """Note a message of that input that cannot be used; the reason names topic and remedy.

        One bad message among good ones is passed over. One that shows a second sender is not: nobody can tell which of
        the two is the arm.
        """
        self._refused[name] = reason
        if reason.kind is FaultKind.SECOND_SENDER:
            first = reason if self._rival is None else self._rival[0]  # the same words while it lasts
            self._rival = (first, now_ns)

    def explain(self, name: str, reason: Fault | None) -> None:
        """Note why that input stays silent, as far as the graph shows it."""
        self._explained[name] = reason

    def silent(self, now_ns: int) -> tuple[Input, ...]:
        """Return the inputs that are missing or stale."""
        return tuple(each for each in self._inputs.values() if self._stale(each, now_ns))

    def silences(self, now_ns: int) -> str:
        """Return why each silent input is, and what to do about it, for who asks for recovery; "" where none is."""
        return "; ".join(str(self._refused.get(each.name) or self._silence(each)) for each in self.silent(now_ns))

    def age_s(self, name: str, now_ns: int) -> float:
        """Return the seconds since that input was heard; infinite if never."""
        heard_ns = self._heard_ns[name]
        return float("inf") if heard_ns == NEVER else (now_ns - heard_ns) / 1e9

    def values(self, now_ns: int) -> dict[str, object]:
        """Return age and number of messages of each input that was heard at all, for diagnostics."""
        heard = {name: self.age_s(name, now_ns) for name, count in self._counts.items() if count}
        ages = {f"{name}: age_ms": round(age_s * 1e3, 1) for name, age_s in heard.items()}
        return {**ages, **{f"{name}: count": self._counts[name] for name in heard}}

    def report(self, fault: Fault | None, now_ns: int) -> None:
        """Note the fault that the driver reports now. It stays latched afterwards; only `recover` ends it."""
        self._reported = fault
        if fault is not None and (now_ns >= self._recovery_until_ns or fault.kind is FaultKind.EMERGENCY_STOP):
            self._fault = fault  # a stop button counts at once, whatever is being recovered from
        elif fault is None and now_ns < self._recovery_until_ns:
            self._fault, self._recovery_until_ns = None, NEVER

    def recover(self, now_ns: int, *, asked_driver: bool) -> Fault | None:
        """Clear the latched fault for an operator, now or once the driver is well; return why it cannot be cleared.

        Args:
            now_ns: Steady clock.
            asked_driver: The driver was just told to recover: its fault may take a moment to go.
        """
        if self._reported is not None and not asked_driver:
            return replace(self._reported, text=f"driver still reports: {self._reported}")
        if self._reported is not None:
            self._recovery_until_ns = now_ns + RECOVERY_NS
        else:
            self._fault = None
        return None

    def reason(self, now_ns: int) -> Fault | None:
        """Return why the arm must not be moved, or None."""
        if self._fault is not None:
            return replace(self._fault, text=f"{self._fault}; then call {self.recovery}")
        if self._rival is not None:
            rival, seen_ns = self._rival
            if now_ns - seen_ns <= RIVAL_NS:
                return rival
            self._rival = None
        for each in self.silent(now_ns):
            return self._refused.get(each.name) or self._silence(each)
        return None

    def _stale(self, each: Input, now_ns: int) -> bool:
        age_s = self.age_s(each.name, now_ns)
        return age_s == float("inf") or (each.timeout_s is not None and age_s > each.timeout_s)

    def _silence(self, each: Input) -> Fault:
        explained = self._explained.get(each.name)
        if explained is not None:
            return replace(explained, text=f"{each.name}: {explained}")
        if self._heard_ns[each.name] == NEVER or each.timeout_s is None:
            text = f"{each.name} have not come on {each.topic}; start the driver or correct the topic"
            return Fault(kind=FaultKind.INPUT_MISSING, text=text)
        text = f"{each.name} on {each.topic} are silent (limit {each.timeout_s * 1e3:.0f} ms); {each.remedy}"
        return Fault(kind=FaultKind.INPUT_STALE, text=text)
