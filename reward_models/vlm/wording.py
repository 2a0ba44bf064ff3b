"""Wordings of questions: texts with placeholders, our own or read from a file.

A prompt file holds one or more sections, each headed by the name of a question in brackets, with the system text under
the same name and ".system":

    [done]
    Is the task {task} finished?
    {image}
    [done.system]
    You judge robots.

Placeholders are lower-case names in braces; other braces stand for themselves, as JSON needs them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from reward_models.vlm.prompt import Part, Prompt
from robot_stack.types.errors import RewardError

_PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9_]*)\}")
_HEADING = re.compile(r"\[([a-z_]+)(\.system)?\]\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """A question in words, with placeholders for the task and the images.

    Attributes:
        system: Text for the system role, placeholders for text only; "" for none.
        optional: Placeholders that another wording may have or leave out.
    """

    user: str
    system: str = ""
    optional: frozenset[str] = frozenset()

    @property
    def placeholders(self) -> frozenset[str]:
        """Return the names of the placeholders in both texts."""
        return frozenset(_PLACEHOLDER.findall(self.user)) | frozenset(_PLACEHOLDER.findall(self.system))

    def fill(self, **values: Part | Sequence[Part]) -> Prompt:
        """Make the prompt with every placeholder replaced; a value is not searched for placeholders again.

        Raises:
            RewardError: If the system text asks for an image.
        """
        user: list[Part] = []
        for piece in _pieces(self.user, values):
            if isinstance(piece, str) and user and isinstance(user[-1], str):
                user[-1] += piece
            elif not isinstance(piece, str) or piece:
                user.append(piece)
        system = _pieces(self.system, values)
        if not all(isinstance(piece, str) for piece in system):
            raise RewardError("system text has an image, must have text only; put the image into the question")
        return Prompt(user=tuple(user), system="".join(str(piece) for piece in system))


def _pieces(text: str, values: Mapping[str, Part | Sequence[Part]]) -> list[Part]:
    pieces: list[Part] = []
    for i, piece in enumerate(_PLACEHOLDER.split(text)):
        value: Part | Sequence[Part] = piece if i % 2 == 0 else values[piece]
        pieces.extend([value] if isinstance(value, str | np.ndarray) else value)
    return pieces


def read_prompt_file(path: str | None, own: Mapping[str, Wording]) -> dict[str, Wording]:
    """Return our own wordings, with those that a file has in their place.

    Args:
        path: Of the file; None for our own.
        own: Name of the question -> our wording, which says what placeholders there are.

    Raises:
        RewardError: If the file cannot be read, names a question that is not asked, or has an unknown placeholder or
            lacks one.
    """
    wordings = dict(own)
    if path is None:
        return wordings
    for name, parts in _sections(Path(path).expanduser(), own).items():
        if "user" not in parts:
            raise RewardError(f"prompt_file {path} has [{name}.system] alone, must have [{name}] too")
        wording = replace(own[name], user=parts["user"], system=parts.get("system", ""))
        known = own[name].placeholders | own[name].optional
        for fault, names in (
            ("has the placeholder", wording.placeholders - known),
            ("lacks the placeholder", known - wording.placeholders - own[name].optional),
        ):
            if names:
                shown = ", ".join(f"{{{n}}}" for n in sorted(names))
                legal = ", ".join(f"{{{n}}}" for n in sorted(known))
                raise RewardError(f"[{name}] of prompt_file {path} {fault} {shown}, must have {legal}")
        wordings[name] = wording
    return wordings


def _sections(path: Path, own: Mapping[str, Wording]) -> dict[str, dict[str, str]]:
    """Read the sections of a prompt file: question -> role -> text."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RewardError(f"prompt_file is {path}, must be a text file ({error})") from error
    found: dict[str, dict[str, str]] = {}
    lines: list[str] = []
    place = ("", "user")
    for line in [*text.splitlines(), None]:
        heading = None if line is None else _HEADING.fullmatch(line)
        if line is not None and heading is None:
            lines.append(line)
            continue
        words = "\n".join(lines).strip("\n")
        lines = []
        if place[0]:
            found.setdefault(place[0], {})[place[1]] = words
        elif words.strip():
            raise RewardError(f"prompt_file {path} begins with text, must begin with one of {_headings(own)}")
        if heading is not None:
            if heading[1] not in own:
                raise RewardError(f"prompt_file {path} has the section {line!r}, must be one of {_headings(own)}")
            place = (heading[1], "system" if heading[2] else "user")
            if place[1] in found.get(place[0], {}):
                raise RewardError(f"prompt_file {path} has the section {line!r} twice, must have it once")
    if not found:
        raise RewardError(f"prompt_file {path} has no section, must have at least one of {_headings(own)}")
    return found


def _headings(own: Mapping[str, Wording]) -> list[str]:
    return [f"[{name}]" for name in own]
