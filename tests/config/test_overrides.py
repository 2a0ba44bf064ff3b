"""Facts about `--set dotted.key=value`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_stack.config.files.located import Located, Mark
from robot_stack.config.files.overrides import apply_overrides
from robot_stack.types.errors import ConfigError

FILE = Mark(source="a.yaml", line=1, column=1)


def tree() -> Located:
    inner = Located(value={"x": Located(value=1, mark=FILE, path=("inner", "x"))}, mark=FILE, path=("inner",))
    points = Located(value=(Located(value=1, mark=FILE, path=("points", "0")),), mark=FILE, path=("points",))
    return Located(value={"inner": inner, "points": points}, mark=FILE)


def test_values_are_read_as_yaml() -> None:
    changed = apply_overrides(tree(), ["inner.x=2.5", "inner.y=true", "inner.z=[1, two]", "inner.w='5'"])
    assert changed.plain() == {"inner": {"x": 2.5, "y": True, "z": (1, "two"), "w": "5"}, "points": (1,)}


def test_the_original_stays_as_it_was() -> None:
    before = tree()
    apply_overrides(before, ["inner.x=2"])
    assert before.plain() == {"inner": {"x": 1}, "points": (1,)}


def test_a_value_remembers_the_argument_it_came_from() -> None:
    node = apply_overrides(tree(), ["inner.x=2"]).get("inner", "x")
    assert node is not None
    assert node.mark.origin == "--set inner.x=2"


@pytest.mark.parametrize(
    ("override", "refusal"),
    [
        (f"inner.x={1000 * '['}", "this is nested more than 32 levels deep, must be at most that; write it flatter"),
        (f"inner.x={40 * '['}{40 * ']'}", "this is nested more than 32 levels deep"),
        (".".join(3000 * "a") + "=1", "key has 3000 parts, must have at most 32"),
        ("inner.\x1b[2Jx=!y 1", r"--set inner.\x1b[2Jx=!y 1: inner.\x1b[2Jx: tag !y is not known"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_a_line_that_a_terminal_bears(override: str, refusal: str) -> None:
    with pytest.raises(ConfigError) as refused:
        apply_overrides(tree(), [override])
    assert refusal in str(refused.value)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 1000


def test_the_last_of_two_overrides_wins() -> None:
    assert apply_overrides(tree(), ["inner.x=2", "inner.x=3"]).plain() == {"inner": {"x": 3}, "points": (1,)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("inner.x", "override is 'inner.x', must be dotted.key=value"),
        ("=3", "must be dotted.key=value"),
        ("a..b=3", "must be dotted.key=value"),
        ("inner.x=", "value is empty"),
        ("inner.x=[1", "this is not valid YAML"),
        ("points.0=3", "leads into 'points'"),
        ("inner.x.y=3", "leads into 'inner.x', which is 1; set 'inner.x' as a whole"),
    ],
)
def test_an_override_that_cannot_be_applied_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        apply_overrides(tree(), [text])
    assert str(caught.value).startswith(f"--set {text}: ")
    assert message in str(caught.value)


@given(st.integers() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_written_by_python_is_read_back_exactly(value: float) -> None:
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    node = apply_overrides(tree(), [f"inner.x={text}"]).get("inner", "x")
    assert node is not None
    assert node.value == value
    assert type(node.value) is type(value)
