"""The edits of an operator's YAML file: values are written in place; every other character stays."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode

from robot_stack.disk.durable import write_durable
from robot_stack.types.errors import ConfigError

Edits = Mapping[tuple[str, ...], Any]
"""Keys from the top of the file -> new value."""
WIDEST = 1_000_000


def edited(text: str, edits: Edits) -> str:
    """Return the text with values replaced, or added where they are missing; every other character stays.

    New mappings and lists are written in one line.

    Args:
        edits: Keys -> value: a number, a text, a list, or a mapping.

    Raises:
        ConfigError: If a key on the way holds something else than a mapping.
    """
    for keys, value in edits.items():
        text = _edited(text, keys, value)
    return text


def write_edited(source: Path, target: Path, edits: Edits) -> None:
    """Write `source` with its edits as `target`, see `replace_content`.

    Raises:
        ConfigError: If a key on the way holds something else than a mapping, or the file cannot be written.
    """
    with source.open(encoding="utf-8", newline="") as file:
        text = edited(file.read(), edits)
    replace_content(target, text)


def replace_content(path: Path, content: str | bytes) -> None:
    """Write what a file shall hold, at once or not at all; a file behind a link, with the permissions that it has.

    Raises:
        ConfigError: If it cannot be written.
    """
    path = path.resolve()
    try:
        mode = path.stat().st_mode if path.exists() else None
        write_durable(path, content)
        if mode is not None:
            path.chmod(mode)
    except OSError as error:
        raise ConfigError(f"{path} is not writable ({error.strerror}), must be; check whose it is") from error


def _edited(text: str, keys: Sequence[str], value: Any) -> str:
    """Return the text with one value replaced or added."""
    node = YAML(typ="safe", pure=True).compose(text)
    for depth, key in enumerate(keys):
        if not isinstance(node, MappingNode):
            where = ".".join(keys[:depth]) or "file"
            held = repr(node.value) if isinstance(node, ScalarNode) else "empty" if node is None else "a list"
            raise ConfigError(f"{where} is {held}, must be a mapping to hold {'.'.join(keys)}; correct it")
        pair = next((pair for pair in node.value if pair[0].value == key), None)
        if pair is None:
            for inner in reversed(keys[depth + 1 :]):
                value = {inner: value}
            return _with_entry(text, node, f"{key}: {_in_one_line(value)}")
        name, node = pair
    return _with_value(text, name, node, _in_one_line(value))


def _with_value(text: str, name: Node, old: Node, value: str) -> str:
    """Return the text with another value behind a key; a comment behind key or value stays in its line."""
    behind, start, end = _behind_colon(text, name), old.start_mark.index, _end_of_pair(text, name, old)
    if name.end_mark.line == old.start_mark.line and end > behind:
        return f"{text[:start]}{value}{text[end:]}"
    colon = "" if text[behind - 1] == ":" else ":"
    comment = text[behind:end].partition("\n")[0].rstrip()
    return f"{text[:behind]}{colon} {value}{comment}{text[end:]}"


def _with_entry(text: str, mapping: MappingNode, entry: str) -> str:
    """Return the text with another entry at the end of a mapping."""
    if not mapping.value:
        return f"{text[: mapping.start_mark.index]}{{{entry}}}{text[mapping.end_mark.index :]}"
    end = _end_of_pair(text, *mapping.value[-1])
    if mapping.flow_style:
        return f"{text[:end]}, {entry}{text[end:]}"
    line_end = text.find("\n", end)
    end = len(text) if line_end < 0 else line_end - (text[line_end - 1] == "\r")
    newline = "\r\n" if "\r\n" in text else "\n"
    return f"{text[:end]}{newline}{' ' * mapping.start_mark.column}{entry}{text[end:]}"


def _end(text: str, node: Node) -> int:
    """Return where the text of a node ends, without blank lines and comments behind it."""
    if isinstance(node, ScalarNode):
        start = node.start_mark.index
        return start + len(text[start : node.end_mark.index].rstrip())
    assert isinstance(node, CollectionNode)
    if node.flow_style:
        return int(node.end_mark.index)
    return _end_of_pair(text, *node.value[-1]) if isinstance(node, MappingNode) else _end(text, node.value[-1])


def _end_of_pair(text: str, name: Node, value: Node) -> int:
    """Return where an entry of a mapping ends; behind the colon, where nothing is its value."""
    nothing = isinstance(value, ScalarNode) and value.start_mark.index == value.end_mark.index
    return _behind_colon(text, name) if nothing else _end(text, value)


def _behind_colon(text: str, name: Node) -> int:
    """Return where the colon of a key ends; the key itself, where it has none."""
    colon = re.compile(r"\s*:").match(text, name.end_mark.index)
    return int(name.end_mark.index) if colon is None else colon.end()


def _in_one_line(value: Any) -> str:
    yaml, stream = YAML(typ="safe", pure=True), io.StringIO()
    yaml.default_flow_style, yaml.sort_base_mapping_type_on_output = True, False  # type: ignore[assignment]
    yaml.width = WIDEST  # type: ignore[assignment]
    yaml.dump({"": value}, stream)
    return stream.getvalue().strip().removeprefix("{'': ").removesuffix("}")
