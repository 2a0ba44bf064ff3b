"""`--set dotted.key=value`: values from the command line, read as YAML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from robot_stack.config.files.located import Located, Mark
from robot_stack.config.files.mistake import Mistake, raise_if_any, shown
from robot_stack.config.files.yaml_text import DEEPEST, parse


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """One value from the command line.

    Attributes:
        path: Keys from the top of the section it changes.
        value: The value, marked with the argument it came from.
    """

    path: tuple[str, ...]
    value: Located


def parse_override(text: str, mistakes: list[Mistake]) -> Override | None:
    """Parse an override `dotted.key=value`; return None after adding what is wrong with it."""
    mark = Mark(source=f"--set {text}")
    name, equals, raw = text.partition("=")
    path = tuple(part.strip() for part in name.split("."))
    if not equals or not all(path):
        mistakes.append(
            Mistake(mark=mark, text=f"override is {shown(text)}, must be dotted.key=value; e.g. training.demos=10")
        )
        return None
    if len(path) > DEEPEST:
        mistakes.append(
            Mistake(mark=mark, text=f"key has {len(path)} parts, must have at most {DEEPEST}; e.g. training.demos=10")
        )
        return None
    count = len(mistakes)
    value = parse(raw, lambda _: mark, mistakes, path)
    if value is None and len(mistakes) == count:
        mistakes.append(Mistake(mark=mark, key=".".join(path), text="value is empty; write one after '='"))
    return None if value is None else Override(path=path, value=value)


def apply(tree: Located, override: Override, mistakes: list[Mistake]) -> Located:
    """Return a copy of `tree` with the override in it; lists and scalars are replaced whole, never by part."""
    for depth in range(len(override.path)):
        node = tree.get(*override.path[:depth])
        if node is not None and not isinstance(node.value, dict):
            text = f"key leads into '{node.key}', which is {shown(node.plain())}; set '{node.key}' as a whole"
            mistakes.append(Mistake(mark=override.value.mark, key=".".join(override.path), text=text))
            return tree
    return tree.with_value(override.path, override.value)


def apply_overrides(tree: Located, overrides: Sequence[str]) -> Located:
    """Return a copy of `tree` with every `dotted.key=value` applied in order.

    Raises:
        ConfigError: If one cannot be read or leads into a list or scalar.
    """
    mistakes: list[Mistake] = []
    for text in overrides:
        override = parse_override(text, mistakes)
        if override is not None:
            tree = apply(tree, override, mistakes)
    raise_if_any(mistakes)
    return tree
