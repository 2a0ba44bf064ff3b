"""The edits of an operator's YAML file: values are written back; comments, order and layout stay."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.constructor import RoundTripConstructor
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.representer import RoundTripRepresenter
from ruamel.yaml.util import load_yaml_guess_indent

from robot_stack.disk.durable import write_durable
from robot_stack.types.errors import ConfigError

Edits = Mapping[tuple[str, ...], Any]
"""Keys from the top of the file -> new value."""
WIDEST = 1_000_000
NULL = "tag:yaml.org,2002:null"


@dataclass(frozen=True, slots=True)
class _Null:
    """A null as it is written: `null`, `~` or nothing."""

    text: str


class _Constructor(RoundTripConstructor):
    """A YAML constructor that keeps how a null is written."""


class _Representer(RoundTripRepresenter):
    """A YAML representer that writes a null as it was written."""


def _null_of(_: RoundTripConstructor, node: ScalarNode) -> _Null:
    return _Null(node.value)


def _node_of(representer: RoundTripRepresenter, null: _Null) -> ScalarNode:
    return representer.represent_scalar(NULL, null.text)  # type: ignore[no-any-return]


_Constructor.add_constructor(NULL, _null_of)
_Representer.add_representer(_Null, _node_of)


def edited(text: str, edits: Edits) -> str:
    """Return the text with values replaced, or added where they are missing.

    New mappings and lists are written in one line.

    Args:
        edits: Keys -> value: a number, a text, a list, or a mapping.

    Raises:
        ConfigError: If a key on the way holds something else than a mapping.
    """
    yaml = YAML()
    yaml.Constructor, yaml.Representer = _Constructor, _Representer
    yaml.preserve_quotes = True
    yaml.width = WIDEST  # type: ignore[assignment]
    data, _, offset = load_yaml_guess_indent(text, yaml=yaml)
    offset = 2 if offset is None else offset
    yaml.indent(mapping=2, sequence=offset + 2, offset=offset)
    for keys, value in edits.items():
        _set(data, keys, _flow(value))
    stream = io.StringIO()
    yaml.dump(data, stream)
    return stream.getvalue()


def write_edited(source: Path, target: Path, edits: Edits) -> None:
    """Write `source` with its edits as `target`, at once or not at all.

    Raises:
        ConfigError: If a key on the way holds something else than a mapping, or the file cannot be written.
    """
    text = edited(source.read_text(encoding="utf-8"), edits)
    try:
        write_durable(target, text)
    except OSError as error:
        raise ConfigError(f"{target} is not writable ({error.strerror}), must be; check whose it is") from error


def _set(data: CommentedMap, keys: Sequence[str], value: Any) -> None:
    *way, last = keys
    for depth, key in enumerate(way):
        inner = data.setdefault(key, CommentedMap())
        if not isinstance(inner, CommentedMap):
            where = ".".join(keys[: depth + 1])
            raise ConfigError(f"{where} is {inner!r}, must be a mapping to hold {'.'.join(keys)}; correct the file")
        data = inner
    data[last] = value


def _flow(value: Any) -> Any:
    """Return mappings and lists in the style that fits one line."""
    if isinstance(value, Mapping):
        mapping = CommentedMap((key, _flow(inner)) for key, inner in value.items())
        mapping.fa.set_flow_style()
        return mapping
    if isinstance(value, list | tuple):
        sequence = CommentedSeq(_flow(inner) for inner in value)
        sequence.fa.set_flow_style()
        return sequence
    return value
