"""Tokens in files: that of the learner link tells a run's own processes from those of other accounts."""

from __future__ import annotations

import os
import secrets
import stat
from dataclasses import dataclass, field
from pathlib import Path

from robot_stack.disk.durable import create_durable
from robot_stack.types.errors import TransportError

FILE = "link.token"
"""In the folder of a run, for its owner only."""
TOKEN_BYTES = 32
MIN_TOKEN_CHARS, MAX_TOKEN_CHARS = 16, 256
_AGAIN = "stop the run, remove the file and start again: a new one is made"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkToken:
    """The credentials of a link on one machine: no TLS, but a secret that only the run's owner can read.

    Attributes:
        token: The secret, at least 16 printable ASCII characters.
        path: The file it is from, as the operator is told who lacks it.
    """

    token: str = field(repr=False)
    path: Path

    def __post_init__(self) -> None:
        check_token(self.token, f"token in {self.path}", _AGAIN)

    @classmethod
    def keep(cls, folder: Path, file: str = FILE) -> LinkToken:
        """Return the token in a file of `folder`, made atomically by whichever process comes first.

        Raises:
            TransportError: As `read`, or if the folder cannot be written.
        """
        cls._make(folder / file, secrets.token_hex(TOKEN_BYTES))
        return cls.read(folder, file)

    @classmethod
    def pass_on(cls, source: Path, folder: Path) -> None:
        """Give a folder the token of another one, where that has one and this has none.

        Raises:
            TransportError: As `read`, or if the folder cannot be written.
        """
        if (source / FILE).exists():
            cls._make(folder / FILE, cls.read(source).token)

    @classmethod
    def read(cls, folder: Path, file: str = FILE) -> LinkToken:
        """Read the token in a file of `folder`.

        Raises:
            TransportError: If it is missing, no plain file, of another owner, readable by others, empty, or no token.
        """
        path = (folder / file).absolute()
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise TransportError(
                f"{path} is unreadable ({error.strerror}), must be the token of the run's learner; start the learner "
                "in this run folder, or copy its file here, as the account that runs this"
            ) from error
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):  # of a folder no file can be made
            os.close(descriptor)
            raise TransportError(f"{path} is no plain file, must be one; {_AGAIN}")
        with os.fdopen(descriptor, "rb") as opened:
            if found.st_uid != os.geteuid():
                raise TransportError(
                    f"owner of {path} is user {found.st_uid}, must be user {os.geteuid()}, who runs this; run all of "
                    "it as one account, or copy the file as that account"
                )
            mode = stat.S_IMODE(found.st_mode)
            if mode & 0o077:
                raise TransportError(
                    f"mode of {path} is {mode:04o}, must be 0600, because others could label and push; {_AGAIN}"
                )
            raw = opened.read(MAX_TOKEN_CHARS + 2)
        return cls(token=raw.decode("ascii", errors="replace").strip(), path=path)

    @staticmethod
    def _make(path: Path, token: str) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            create_durable(path, token.encode() + b"\n", mode=0o600)
        except OSError as error:
            raise TransportError(
                f"{path} cannot be made ({error.strerror}), must be there for whoever is let in; choose a run folder "
                "that can be written"
            ) from error


def check_token(token: str, what: str, advice: str) -> None:
    """Raise TransportError unless a token is long enough that nobody guesses it, and fits into a header."""
    good = MIN_TOKEN_CHARS <= len(token) <= MAX_TOKEN_CHARS and token.isascii() and token.isprintable()
    if not good:
        raise TransportError(
            f"{what} is {len(token)} characters, must be {MIN_TOKEN_CHARS} to {MAX_TOKEN_CHARS} printable ASCII "
            f"characters; {advice}"
        )
