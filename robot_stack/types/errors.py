"""The project's exception tree. A message reads `<what> is <value>, must be <rule>; <what to do>`."""

from __future__ import annotations

import struct

MISCONFIGURED = 2
"""Exit code of a process that was given what it cannot use, as of a wrong command line: started again it would end so
again."""
UNPREPARED = 3
"""Exit code of a process that failed before it came to its work, however long it took until then."""


class StackError(Exception):
    """The root of every error this project raises on purpose."""


class SpecError(StackError):
    """A value does not fit the spec of the cell: shape, dtype, range, frame or name."""


class ConfigError(StackError):
    """A configuration file is wrong. Holds every mistake found, one line each."""


class StoreError(StackError):
    """The episode store or a checkpoint cannot be read or written."""


class ResumeError(StoreError):
    """A run cannot be resumed exactly; the message names what is missing or differs."""


class TransportError(StackError):
    """The learner link refused or lost a request."""


class RobotError(StackError):
    """The robot, a camera or a teleop device reports a fault."""


class FitError(StackError):
    """A fit in a process of its own could not be done: nothing to learn from, or it was killed or is broken."""


class RewardError(StackError):
    """A reward model cannot score: missing capability, bad weights, unreadable answer."""


DAMAGES = (
    OSError, ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RuntimeError, MemoryError, EOFError,
    struct.error, SpecError,
)  # fmt: skip
"""What a damaged or hostile file makes its readers raise, beside the errors that they raise on purpose."""


def error_text(error: Exception) -> str:
    """Return what an operator is told of an error: its message, and of one that nobody foresaw its kind as well."""
    return str(error) if isinstance(error, StackError) else f"{error!r}; report this"
