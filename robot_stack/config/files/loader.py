"""The loading of one YAML file into one frozen model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from robot_stack.config.files.located import Located
from robot_stack.config.files.mistake import Mistake, raise_if_any
from robot_stack.config.files.overrides import apply_overrides
from robot_stack.config.files.yaml_text import read
from robot_stack.config.section import ModelT, Tagged, validate_section


def load_located(path: Path) -> Located:
    """Load the mapping in a YAML file, with marks.

    Raises:
        ConfigError: If it is missing, empty, no mapping, no valid YAML, or repeats a key.
    """
    mistakes: list[Mistake] = []
    tree = read(path, mistakes)
    raise_if_any(mistakes)
    if tree is None:
        raise AssertionError("a file was refused without a reason")
    return tree


def load(path: Path, model: type[ModelT] | Tagged[ModelT], overrides: Sequence[str] = ()) -> ModelT:
    """Load the model in a YAML file.

    Raises:
        ConfigError: One line per mistake: `file:line:col: dotted.key: message (got X); did you mean 'Y'?`.
    """
    return validate_section(apply_overrides(load_located(path), overrides), model)
