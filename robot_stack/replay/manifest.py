"""The seal of a closed episode: a manifest, written last, that lists every file with its checksum."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from robot_stack.disk.durable import PARTIAL, write_json
from robot_stack.types.errors import DAMAGES, StoreError
from robot_stack.types.transition import EndReason

FILE_NAME = "manifest.json"
ENDING_NAME = "ending.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The manifest of a closed episode: why it ended, its length, and a checksum of every file.

    Attributes:
        length: T, the number of actions.
        sha256: Path relative to the episode -> hex digest.
    """

    end: EndReason
    length: int
    sha256: dict[str, str]

    @classmethod
    def seal(cls, path: Path, *, end: EndReason, length: int) -> Manifest:
        """Hash the files in the episode directory `path` and write its manifest, atomically."""
        files = sorted(p for p in path.rglob("*") if p.is_file() and p.name != FILE_NAME)
        digests = {str(p.relative_to(path)): _digest(p) for p in files if not p.name.endswith(PARTIAL)}
        manifest = cls(end=end, length=length, sha256=digests)
        write_json(path / FILE_NAME, asdict(manifest))
        return manifest

    @classmethod
    def load(cls, path: Path) -> Manifest | None:
        """Read the manifest of the episode directory `path`, or return None while it is unfinished.

        Raises:
            StoreError: If there is one that cannot be read.
        """
        file = path / FILE_NAME
        if not file.exists():
            return None
        try:
            raw = json.loads(file.read_text())
            digests = {name: str(digest) for name, digest in dict(raw["sha256"]).items()}
            return cls(end=EndReason(raw["end"]), length=int(raw["length"]), sha256=digests)
        except DAMAGES as error:
            raise StoreError(f"manifest of {path.name} is unreadable: {error!r}") from error

    def verify(self, path: Path) -> None:
        """Compare every file with its checksum, and the length with the arrays'.

        Raises:
            StoreError: Naming the first file that is missing or differs.
        """
        for name, wanted in self.sha256.items():
            file = path / name
            try:
                found = _digest(file)
            except OSError as error:
                raise StoreError(f"file {path.name}/{name} is missing or unreadable: {error.strerror}") from error
            if found != wanted:
                raise StoreError(f"checksum of {path.name}/{name} is {found[:12]}, must be {wanted[:12]}")
        try:
            rows = json.loads((path / "source" / "zarr.json").read_text())["shape"][0]
        except DAMAGES as error:
            raise StoreError(f"array source of {path.name} is unreadable: {error!r}") from error
        if rows != self.length:
            raise StoreError(f"length of {path.name} is {self.length} in its manifest, must be {rows} as in its arrays")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """Where and why an episode is cut, on disk before any of it is: it ends there, however often that is killed.

    Attributes:
        length: T, the number of actions.
    """

    end: EndReason
    length: int

    def declare(self, path: Path) -> None:
        """Write it into the episode directory `path`, atomically."""
        write_json(path / ENDING_NAME, asdict(self))

    @staticmethod
    def declared(path: Path) -> bool:
        """Return whether the episode directory `path` has one: then it ends before its actor ended it."""
        return (path / ENDING_NAME).exists()

    @classmethod
    def load(cls, path: Path) -> Ending | None:
        """Read that of the episode directory `path`, or return None if it was not being cut.

        Raises:
            OSError, ValueError, KeyError, TypeError: If there is one that cannot be read.
        """
        if not cls.declared(path):
            return None
        raw = json.loads((path / ENDING_NAME).read_text())
        return cls(end=EndReason(raw["end"]), length=int(raw["length"]))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
