"""A seal on messages of the safety path: who sent a message, that nobody changed it, and that it is for this topic.

Anybody on the host may publish on any topic, and every message can be read and sent again. A process of a run therefore
signs what it sends with a key that only the run's own user can read. The seal covers topic, sender, stamp, frame and
numbers; a copy on another topic, with another stamp or of another life of the machine has none that fits. That a true
message comes only once, and in time, is judged by its stamp.

The key is a file of the run, mode 0600, mixed with the machine's boot id: the stamps of the steady clock begin anew at
each boot, and a recording of an earlier one must not fit again. A seal says nothing against who can read the key, and
it is no encryption.

Source: keyed BLAKE2 (RFC 7693) with a tag of 12 bytes.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from robot_stack.disk.durable import create_durable
from robot_stack.types.errors import ConfigError

KEY_FILE = "wire.key"
KEY_BYTES = 32
TAG_BYTES = 12
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
MARK = "@"
TAG_MARK = "#"


@dataclass(frozen=True, slots=True)
class WireKey:
    """The key of one run on one boot of its machine."""

    key: bytes = field(repr=False)

    @classmethod
    def of_folder(cls, folder: Path) -> WireKey:
        """Read the key of a run, or make one; the first process of a run that asks makes it.

        Raises:
            ConfigError: If others can read it, it is not the user's own, or it is none.
        """
        path = folder / KEY_FILE
        try:
            create_durable(path, secrets.token_hex(KEY_BYTES).encode(), mode=0o600)
            found = path.stat()
            if found.st_mode & 0o077 or found.st_uid != os.getuid():
                raise ConfigError(
                    f"mode of {path} is {found.st_mode & 0o777:04o} of user {found.st_uid}, must be 0600 of the run's "
                    "user; remove it and start the run again"
                )
            secret = bytes.fromhex(path.read_text().strip())
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"{path} is unreadable ({error}), must hold the key of the run; remove it and start the run again"
            ) from error
        if len(secret) != KEY_BYTES:
            raise ConfigError(
                f"{path} has {len(secret)} bytes, must have {KEY_BYTES}; remove it and start the run again"
            )
        boot = BOOT_ID.read_bytes() if BOOT_ID.exists() else b""
        return cls(hashlib.blake2b(boot, key=secret, digest_size=KEY_BYTES).digest())

    @classmethod
    def random(cls) -> WireKey:
        """Make a key that nobody else has."""
        return cls(secrets.token_bytes(KEY_BYTES))

    def sealed(self, topic: str, frame: str, session: str, stamp_ns: int, body: bytes) -> str:
        """Return the text for a header's frame_id: frame, sender and seal, "tcp@safety-3f2a91c0#1b...".

        Args:
            topic: Relative to the cell.
            frame: TF frame, may be empty.
            session: Of the sender.
            stamp_ns: Of the header.
            body: The numbers of the message.
        """
        said = f"{frame}{MARK}{session}"
        return f"{said}{TAG_MARK}{self._tag(topic, said, stamp_ns, body)}"

    def sender(self, topic: str, frame_id: str, stamp_ns: int, body: bytes) -> str | None:
        """Return the session that sealed a message, or None where no seal of this run fits it."""
        said, _, tag = frame_id.rpartition(TAG_MARK)
        _, mark, session = said.partition(MARK)
        if not (
            mark and session and tag.isascii() and hmac.compare_digest(tag, self._tag(topic, said, stamp_ns, body))
        ):
            return None
        return session

    def _tag(self, topic: str, said: str, stamp_ns: int, body: bytes) -> str:
        head = f"{topic}\0{said}\0{stamp_ns}\0".encode(errors="surrogatepass")
        return hashlib.blake2b(head + body, key=self.key, digest_size=TAG_BYTES).hexdigest()


def frame_of(frame_id: str) -> str:
    """Return the TF frame in a header's frame_id, sealed or not."""
    return frame_id.partition(MARK)[0]
