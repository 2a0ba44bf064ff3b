"""The parser of YAML text into `Located` values.

YAML 1.2, one document, plain data: no tags, no aliases, no repeated keys.
"""

from __future__ import annotations

import stat
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, StringMark, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.scanner import ScannerError

from robot_stack.config.files.located import Located, Mark, Scalar
from robot_stack.config.files.mistake import Mistake, shown
from robot_stack.types.errors import ConfigError

START = StringMark("", 0, 0, 0, "", 0)
MOST_CHARS = 1_000_000
DEEPEST = 32
"""Levels of keys and lists; of our own files none has more than a few."""
TOO_DEEP = f"this is nested more than {DEEPEST} levels deep, must be at most that; write it flatter"
TABS = "indent with spaces, never with a tab"
PUNCTUATION = "look for a colon, quote or bracket here or in the line above; a text with a colon in it needs quotes"
TAG = "tag:yaml.org,2002:"
TYPED = {f"{TAG}{name}" for name in ("int", "float", "bool", "null")}
TEXT = {f"{TAG}{name}" for name in ("str", "timestamp", "merge", "value")}


def read(path: Path, mistakes: list[Mistake], *, saved: bool = False) -> Located | None:
    """Read the mapping in a YAML file; return None after adding what is wrong with it.

    Args:
        path: Of the file.
        mistakes: Receives what is wrong.
        saved: A program wrote the file, which leaves a null empty; one that a person left empty is refused.
    """
    top = Mark(source=shown_path(path), line=1, column=1)
    try:
        text = _text(path)
    except FileNotFoundError:
        mistakes.append(Mistake(mark=Mark(source=top.source), text="file does not exist; check its name"))
        return None
    except OSError as error:
        text = f"file cannot be read ({error.strerror}), must be; check whose it is"
        mistakes.append(Mistake(mark=Mark(source=top.source), text=text))
        return None
    except UnicodeDecodeError as error:
        mistakes.append(Mistake(mark=top, text=f"file cannot be read as UTF-8 text: {error}; save it as UTF-8"))
        return None
    except ConfigError as error:
        mistakes.append(Mistake(mark=Mark(source=top.source), text=str(error)))
        return None
    tree, wrong = _parsed(text, top.source, saved)
    if wrong:
        mistakes.extend(wrong)
        return None
    if tree is None:
        text = "file is empty, must be a mapping of keys to values; copy a shipped one of its kind"
        mistakes.append(Mistake(mark=top, text=text))
    elif not isinstance(tree.value, dict):
        kind = "a list" if isinstance(tree.value, tuple) else f"the value {shown(tree.value)}"
        text = f"file holds {kind}, must be a mapping of keys to values; write 'key: value' lines"
        mistakes.append(Mistake(mark=tree.mark, text=text))
        return None
    return tree


def _text(path: Path) -> str:
    """Return the text of a file.

    Raises:
        OSError: If it cannot be read.
        UnicodeDecodeError: If it is no UTF-8.
        ConfigError: If it is no regular file, of which a pipe would be waited for and a device has no end, or too long.
    """
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a pipe or device"
        raise ConfigError(f"this is {kind}, must be a file; check its name")
    with path.open(encoding="utf-8") as file:
        text = file.read(MOST_CHARS + 1)
    if len(text) > MOST_CHARS:
        raise ConfigError(f"file has more than {MOST_CHARS} characters, must have at most that; is it the right one?")
    return text


@lru_cache(maxsize=512)
def _parsed(text: str, source: str, saved: bool) -> tuple[Located | None, tuple[Mistake, ...]]:
    """Return the value in the text of a file and the mistakes in it; nothing changes a `Located`: it can be shared.

    Of all shipped files and an operator's own, read in turn: of fewer than that, none would still be there when asked.
    """
    wrong: list[Mistake] = []
    tree = parse(text, lambda mark: Mark(source=source, line=mark.line + 1, column=mark.column + 1), wrong, saved=saved)
    return tree, tuple(wrong)


def shown_path(path: Path) -> str:
    """Return the path relative to the working directory if it lies below, else absolute."""
    absolute = path.absolute()
    return str(absolute.relative_to(Path.cwd())) if absolute.is_relative_to(Path.cwd()) else str(absolute)


def parse(
    text: str,
    at: Callable[[StringMark], Mark],
    mistakes: list[Mistake],
    path: tuple[str, ...] = (),
    *,
    saved: bool = False,
) -> Located | None:
    """Parse a YAML text; return its value, or None if it holds none.

    Args:
        at: Turns the parser's mark into ours.
        path: Keys above this value.
        saved: A program wrote it; see `read`.
    """
    directive = _directive(text)
    if directive is not None:  # by %YAML 1.1 an 010 would be 8, and a yes true
        line = shown(text.splitlines()[directive])
        refusal = f"line is {line}, must be no directive: this is YAML 1.2; remove it"
        mistakes.append(Mistake(mark=at(StringMark("", 0, directive, 0, "", 0)), text=refusal))
        return None
    yaml = YAML(typ="safe", pure=True)
    try:
        node = yaml.compose(text)
    except MarkedYAMLError as error:
        began = error.context_mark if isinstance(error, ScannerError) else None  # of a quote or key that has no end
        mark = began or error.problem_mark or error.context_mark or START
        remedy = TABS if _indented_by_tab(text, mark.line) else PUNCTUATION
        mistakes.append(
            Mistake(mark=at(mark), text=f"this is not valid YAML: {error.problem or error.context}; {remedy}")
        )
        return None
    except (YAMLError, ValueError) as error:
        reason = str(error).splitlines()[0]
        mistakes.append(Mistake(mark=at(START), text=f"this is not valid YAML: {reason}; write plain text"))
        return None
    except RecursionError:  # what is nested less deeply than the parser bears is refused by the reader
        mistakes.append(Mistake(mark=at(START), text=TOO_DEEP))
        return None
    return None if node is None else _Reader(yaml, at, mistakes, saved).located(node, path)


def _directive(text: str) -> int | None:
    """Return the line, from 0, of a directive before the document, or None."""
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines()):
        if line.startswith("%"):
            return number
        if line.strip() and not line.lstrip().startswith("#"):
            return None
    return None


def _indented_by_tab(text: str, line: int) -> bool:
    lines = text.splitlines()
    return line < len(lines) and "\t" in lines[line][: len(lines[line]) - len(lines[line].lstrip())]


class _Reader:
    """A walk over the nodes of one YAML document."""

    def __init__(self, yaml: YAML, at: Callable[[StringMark], Mark], mistakes: list[Mistake], saved: bool) -> None:
        self._yaml = yaml
        self._at = at
        self._mistakes = mistakes
        self._saved = saved
        self._seen: set[int] = set()

    def located(
        self, node: Node, path: tuple[str, ...], key: Node | None = None, within: Node | None = None
    ) -> Located:
        start, beside = node.start_mark, key if key is not None else within
        alias = id(node) in self._seen  # its own marks are those of what it repeats
        if alias and beside is not None:
            start = beside.start_mark
        elif key is not None and key.start_mark.line != start.line:
            start = key.start_mark
        mark = self._at(start)
        value: Scalar | dict[str, Located] | tuple[Located, ...] = None
        if alias:
            self._add(mark, path, "input is an alias, must be written out; repeat the value")
            return Located(value=None, mark=mark, path=path)
        if len(path) > DEEPEST:
            self._add(mark, (), TOO_DEEP)
            return Located(value=None, mark=mark, path=path)
        self._seen.add(id(node))
        if isinstance(node, MappingNode):
            value = self._mapping(node, path)
        elif isinstance(node, SequenceNode):
            value = tuple(self.located(item, (*path, str(index)), within=node) for index, item in enumerate(node.value))
        elif isinstance(node, ScalarNode):
            value = self._scalar(node, mark, path)
        return Located(value=value, mark=mark, path=path)

    def _mapping(self, node: MappingNode, path: tuple[str, ...]) -> dict[str, Located]:
        entries: dict[str, Located] = {}
        first: dict[str, Mark] = {}
        for key, item in node.value:
            mark = self._at(key.start_mark)
            if not isinstance(key, ScalarNode) or str(key.tag) not in TEXT:
                self._add(mark, path, f"key is {_key_shown(key)}, must be text; put it in quotes")
                continue
            name = str(key.value)
            if name in first:
                self._add(mark, (*path, name), f"key is given twice, first at {first[name]}; remove one of them")
                continue
            first[name] = mark
            entries[name] = self.located(item, (*path, name), key)
        return entries

    def _scalar(self, node: ScalarNode, mark: Mark, path: tuple[str, ...]) -> Scalar:
        tag = str(node.tag)
        if tag in TEXT:
            return str(node.value)
        if path and not node.value and not self._saved:  # a null that may be a value yet to be written
            self._add(mark, path, "value is empty, must be given; write a value, or null")
            return None
        if tag in TYPED:
            try:
                value: Scalar = self._yaml.constructor.construct_object(node)
            except (ValueError, KeyError, YAMLError):
                self._add(mark, path, f"input should be {tag.removeprefix(TAG)} (got {shown(node.value)})")
                return None
            return value
        self._add(mark, path, f"tag {tag} is not known; write a plain value")
        return None

    def _add(self, mark: Mark, path: tuple[str, ...], text: str) -> None:
        self._mistakes.append(Mistake(mark=mark, key=".".join(path), text=text))


def _key_shown(key: Node) -> str:
    if isinstance(key, ScalarNode):
        return shown(str(key.value))
    return "a list" if isinstance(key, SequenceNode) else "a mapping"
