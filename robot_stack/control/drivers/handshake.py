"""The comparison of a driver with the robot file: what is asked, how answers are judged, what holds the arm.

Each question stands for one field of the robot file. While one is unanswered the arm is not ready; an answer that says
something else than the file is a contradiction, in one sentence that names the field, both values and what to write.
A question is only asked where the file says whom to ask, so a driver whose maker offers no such answer contradicts
nothing; and one that this machine cannot ask for lack of a message package is said, and holds nothing.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import TypeAlias

from robot_stack.types.reason import Fault, FaultKind

Said: TypeAlias = str | float | bool | tuple[str, ...]
RETRY_NS = 250_000_000
"""An unanswered question is asked again after this."""
AGAIN_NS = 1_000_000_000
"""A contradicted one is asked again after this: the driver may have been corrected. So are controllers that agreed:
somebody may have stopped one since, and its subscription, which still counts, would go on hiding that."""
PATIENCE_NS = 10_000_000_000
"""Unanswered for so long, it is a missing input: what should answer is not there."""
SLOWEST_SHARE = 0.7
"""Of the rate in the robot file: what a driver must at least keep."""
SAME_SHARE = 1e-3
"""Two numbers are the same within this share of the larger."""
WHY = ": why"
"""Behind a field in the diagnostics: the sentence of its contradiction."""
PACE_MESSAGES = 20
"""Messages over which a rate is measured."""


class Way(StrEnum):
    """The way in which a question is put to the driver."""

    PARAMETER = "parameter"
    """A parameter of a node."""
    CONTROLLERS = "controllers"
    """The controller manager's list of those that are active."""
    ACTION_TYPE = "action type"
    """The graph: the type of an action's server."""
    PUBLISHERS = "publishers"
    """The graph: the names of the nodes that publish a topic."""
    RATE = "rate"
    """Measured: how often messages come."""


class Rule(StrEnum):
    """The rule by which an answer agrees with the file."""

    SAME = "same"
    CONTAINS = "contains"
    """The driver's list has all that the file names."""
    FAST_ENOUGH = "fast enough"
    """The driver's number is not far below the file's."""
    AT_LEAST = "at least"
    """The driver's number is not below the file's."""


class Standing(StrEnum):
    """The standing of one question: how far it has got."""

    ASKED = "asked"
    AGREED = "agreed"
    CONTRADICTED = "contradicted"
    UNASKABLE = "cannot be asked"
    """This machine lacks the messages to ask with, or the driver has no such parameter: it holds nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question to the driver about one field of the robot file.

    Attributes:
        field: Dotted place in the robot file; for what no file sets, the parameter that the driver must have.
        way: How to ask.
        of: Node, topic or action that is asked, as on the wire.
        name: Parameter's name, or "".
        says: What the file says.
        rule: When an answer agrees.
        optional: A driver that has no such parameter agrees: an older version.
        in_file: False where only the driver can be changed.
    """

    field: str
    way: Way
    of: str
    says: Said
    name: str = ""
    rule: Rule = Rule.SAME
    optional: bool = False
    in_file: bool = True

    def whom(self) -> str:
        """Return whom the question is put to, for messages."""
        return f"{self.name} of {self.of}" if self.name else f"{self.way} of {self.of}"


def agrees(question: Question, answer: Said) -> bool:
    """Return whether the driver says what the file says."""
    says = question.says
    if question.rule is Rule.CONTAINS:
        wanted = says if isinstance(says, tuple) else (says,)
        return isinstance(answer, tuple) and set(wanted) <= set(answer)
    if isinstance(says, bool) or isinstance(answer, bool) or isinstance(says, str | tuple):
        return says == answer
    if not isinstance(answer, float | int) or not math.isfinite(answer):
        return False
    if question.rule is Rule.FAST_ENOUGH:
        return answer >= SLOWEST_SHARE * says
    if question.rule is Rule.AT_LEAST and answer > says:
        return True
    return math.isclose(answer, says, rel_tol=SAME_SHARE)


def contradiction(question: Question, answer: Said) -> Fault | None:
    """Return a fault that says what to change where file and driver differ, or None where they agree."""
    if agrees(question, answer):
        return None
    field, driver = question.field, shown(answer)
    if question.rule is Rule.AT_LEAST:
        text = (
            f"{question.whom()} is {driver}, must be at least {shown(question.says)}, as {field} says; write it in the "
            "driver's own file, and start the driver again"
        )
        return Fault(kind=FaultKind.CONTRADICTION, text=text)
    if not question.in_file:
        todo = f"write {field}: {shown(question.says)} in the driver's own file"
    elif question.rule is Rule.CONTAINS:
        todo = f"start what is missing, or correct {field} in the robot file"
    elif question.rule is Rule.FAST_ENOUGH:
        todo = f"make the driver faster, or write {field}: {driver} in the robot file"
    else:
        todo = f"write {field}: {driver} in the robot file, or change the driver"
    text = f"{field} is {shown(question.says)}, must be what {question.whom()} says: {driver}; {todo}"
    return Fault(kind=FaultKind.CONTRADICTION, text=text)


def shown(said: Said) -> str:
    """Return a value as YAML would have it."""
    if isinstance(said, bool):
        return str(said).lower()
    if isinstance(said, tuple):
        return f"[{', '.join(said)}]"
    return said if isinstance(said, str) else f"{said:.4g}"


@dataclass(slots=True, kw_only=True)
class _Course:
    standing: Standing = Standing.ASKED
    fault: Fault | None = None
    since_ns: int
    next_ns: int


class Handshake:
    """All questions to the driver of one arm, and how far each has got."""

    def __init__(self, questions: Sequence[Question], now_ns: int) -> None:
        self._courses: dict[Question, _Course] = {}
        self._questions = tuple(questions)
        self.restart(now_ns)

    def restart(self, now_ns: int) -> None:
        """Ask all anew: the driver may be another one now."""
        self._courses = {question: _Course(since_ns=now_ns, next_ns=now_ns) for question in self._questions}

    def due(self, now_ns: int) -> list[Question]:
        """Return the questions to be asked now; each is asked again only after a while."""
        found = []
        for question, course in self._courses.items():
            settled = course.standing is Standing.UNASKABLE or (
                course.standing is Standing.AGREED and question.way is not Way.CONTROLLERS
            )
            if not settled and now_ns >= course.next_ns:
                course.next_ns = now_ns + (RETRY_NS if course.standing is Standing.ASKED else AGAIN_NS)
                found.append(question)
        return found

    def answered(self, question: Question, answer: Said | None, now_ns: int) -> None:
        """Judge the driver's answer to a question; None if it has no such parameter."""
        course = self._courses[question]
        if answer is None and question.optional:
            course.standing, course.fault = Standing.UNASKABLE, None
            return
        course.fault = contradiction(question, "not set" if answer is None else answer)
        course.standing = Standing.AGREED if course.fault is None else Standing.CONTRADICTED
        course.since_ns = now_ns

    def cannot_ask(self, question: Question) -> None:
        """Note that this machine has no messages to ask a question with."""
        self._courses[question].standing = Standing.UNASKABLE

    def standing(self) -> dict[Question, Standing]:
        """Return the standing of each question, for diagnostics."""
        return {question: course.standing for question, course in self._courses.items()}

    def faults(self) -> dict[Question, Fault]:
        """Return every contradiction, by its question."""
        return {question: course.fault for question, course in self._courses.items() if course.fault is not None}

    def contradiction(self) -> Fault | None:
        """Return the first contradiction, or None."""
        return next(iter(self.faults().values()), None)

    def fault(self, now_ns: int) -> Fault | None:
        """Return why the arm must not move yet, or None: the first contradiction, or what has not answered."""
        if (fault := self.contradiction()) is not None:
            return fault
        for question, course in self._courses.items():
            if course.standing is Standing.ASKED:
                return _unanswered(question, late=now_ns - course.since_ns >= PATIENCE_NS)
        return None


def _unanswered(question: Question, *, late: bool) -> Fault:
    if not late:
        return Fault(kind=FaultKind.NOT_READY, text=f"driver is being asked for {question.whom()}; wait a moment")
    text = f"{question.whom()} is not answered; start it, or correct {question.field} in the robot file"
    return Fault(kind=FaultKind.INPUT_MISSING, text=text)


class Pace:
    """The rate of messages, by the driver's stamps where it sets them: a busy listener makes no driver slow."""

    def __init__(self) -> None:
        self._times_ns: deque[int] = deque(maxlen=PACE_MESSAGES)
        self._stamped = False

    def heard(self, stamp_ns: int, now_ns: int) -> None:
        """Note that one message has come."""
        stamped = stamp_ns != 0
        time_ns = stamp_ns if stamped else now_ns
        if self._times_ns and (stamped != self._stamped or time_ns <= self._times_ns[-1]):
            self._times_ns.clear()
        self._stamped = stamped
        self._times_ns.append(time_ns)

    def forget(self) -> None:
        """Begin to measure the rate anew."""
        self._times_ns.clear()

    def rate_hz(self) -> float | None:
        """Return the rate of the median interval, so that lost messages count little; None before there are enough."""
        if len(self._times_ns) < PACE_MESSAGES:
            return None
        times = list(self._times_ns)
        intervals = sorted(after - before for before, after in pairwise(times))
        return 1e9 / intervals[len(intervals) // 2]
