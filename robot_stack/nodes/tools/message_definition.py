"""The definition of a message type as text, from the class itself: installed wheels bring no .msg files."""

from __future__ import annotations

import importlib
import re
from typing import Any

SEPARATOR = "=" * 80
IDL_NAMES = {"double": "float64", "float": "float32", "boolean": "bool", "octet": "byte"}


def message_class(kind: str) -> Any:
    """Import the class of a message type like "sensor_msgs/msg/Image".

    Raises:
        ImportError, AttributeError: If its package is not installed here, or has no such type.
    """
    package, _, name = kind.split("/")
    return getattr(importlib.import_module(f"{package}.msg"), name)


def definition_of(kind: str) -> str:
    """Write a type's definition as bags have it: its fields, then those of every type in it, each once.

    Constants and defaults are left out: they are not on the wire.

    Raises:
        ImportError, AttributeError: As in `message_class`.
    """
    texts: dict[str, str] = {}
    _collect(kind, texts)
    own, *others = texts.values()
    names = [name.replace("/msg/", "/") for name in texts][1:]
    parts = [own, *(f"{SEPARATOR}\nMSG: {name}\n{text}" for name, text in zip(names, others, strict=True))]
    return "".join(parts)


def _collect(kind: str, texts: dict[str, str]) -> None:
    fields: dict[str, str] = message_class(kind).get_fields_and_field_types()
    texts[kind] = "".join(f"{in_msg_words(idl)} {name}\n" for name, idl in fields.items())
    for idl in fields.values():
        base = re.sub(r"^sequence<([^,>]+).*", r"\1", idl).split("[")[0]
        if "/" in base and (inner := "{}/msg/{}".format(*base.split("/"))) not in texts:
            _collect(inner, texts)


def in_msg_words(idl: str) -> str:
    """Write a type of IDL as a .msg file has it: "sequence<double, 3>" becomes "float64[<=3]"."""
    if match := re.fullmatch(r"sequence<(.+?)(?:, (\d+))?>", idl):
        return f"{in_msg_words(match[1])}[{f'<={match[2]}' if match[2] else ''}]"
    if match := re.fullmatch(r"(.+)\[(\d+)\]", idl):
        return f"{in_msg_words(match[1])}[{match[2]}]"
    if match := re.fullmatch(r"(w?string)<(\d+)>", idl):
        return f"{match[1]}<={match[2]}"
    return IDL_NAMES.get(idl, idl)
