"""Values that remember where they were written: what YAML gives before a model has looked at it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

Scalar: TypeAlias = str | int | float | bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A place in a file, or an argument of the command line.

    Attributes:
        source: File as shown to an operator, or "--set key=value".
        line: From 1; 0 where the source has no lines.
        column: From 1; 0 where the source has no columns.
    """

    source: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}" if self.line else self.source

    @property
    def origin(self) -> str:
        """Return the source and line, without the column."""
        return f"{self.source}:{self.line}" if self.line else self.source


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """A YAML value, its place and its dotted key.

    Attributes:
        value: A scalar, a mapping of key to `Located`, or a tuple of `Located`.
        mark: Where the value starts; where its key stands if the value starts on a later line.
        path: Keys from the top of its file, e.g. ("joints", "0", "name").
    """

    value: Scalar | dict[str, Located] | tuple[Located, ...]
    mark: Mark
    path: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Return the dotted key from the top of its file."""
        return ".".join(self.path)

    @property
    def entries(self) -> dict[str, Located]:
        """Return the children by key; by index for a list; none for a scalar."""
        if isinstance(self.value, dict):
            return self.value
        if isinstance(self.value, tuple):
            return {str(index): item for index, item in enumerate(self.value)}
        return {}

    def plain(self) -> object:
        """Return the bare value: dicts, tuples and scalars."""
        if isinstance(self.value, dict):
            return {key: item.plain() for key, item in self.value.items()}
        if isinstance(self.value, tuple):
            return tuple(item.plain() for item in self.value)
        return self.value

    def nearest(self, path: Sequence[str]) -> tuple[Located, int]:
        """Return the deepest existing node on the way to `path`, and how many keys were followed."""
        node = self
        for depth, key in enumerate(path):
            if key not in node.entries:
                return node, depth
            node = node.entries[key]
        return node, len(path)

    def get(self, *path: str) -> Located | None:
        """Return the node at `path`, or None."""
        node, depth = self.nearest(path)
        return node if depth == len(path) else None

    def with_value(self, path: Sequence[str], new: Located) -> Located:
        """Return a copy with `new` at `path`.

        Mappings on the way are made where missing; anything else is replaced.
        """
        if not path:
            return new
        key, *rest = path
        entries = dict(self.value) if isinstance(self.value, dict) else {}
        child = entries.get(key, Located(value={}, mark=new.mark, path=(*self.path, key)))
        entries[key] = child.with_value(rest, new)
        return replace(self, value=entries)

    def leaves(self) -> Iterator[Located]:
        """Yield scalars, lists and empty mappings, depth first."""
        if isinstance(self.value, dict) and self.value:
            for item in self.value.values():
                yield from item.leaves()
        else:
            yield self


def located(plain: object, mark: Mark, path: tuple[str, ...] = ()) -> Located:
    """Return a bare value, of mappings, tuples and scalars, as if it had been written at one place."""
    if isinstance(plain, dict):
        return Located(value={k: located(v, mark, (*path, str(k))) for k, v in plain.items()}, mark=mark, path=path)
    if isinstance(plain, tuple):
        items = tuple(located(item, mark, (*path, str(index))) for index, item in enumerate(plain))
        return Located(value=items, mark=mark, path=path)
    if not isinstance(plain, Scalar):
        raise TypeError(f"value is {type(plain).__name__}, must be a mapping, a tuple or a scalar")
    return Located(value=plain, mark=mark, path=path)
