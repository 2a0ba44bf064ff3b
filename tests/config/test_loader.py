"""Facts about reading one file into one model."""

from __future__ import annotations

import json
import math
import os
import re
from pathlib import Path
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from robot_stack.config.files.loader import load, load_located
from robot_stack.config.files.located import Mark
from robot_stack.config.files.mistake import Mistake, shown
from robot_stack.config.files.patterns import WORDS
from robot_stack.config.files.yaml_text import parse
from robot_stack.config.schema import schema_texts
from robot_stack.config.section import FreeSection, Section, validate_section
from robot_stack.types.errors import ConfigError


class Wheel(Section):
    radius_m: Annotated[float, Field(gt=0, le=1)]
    side: Literal["left", "right"]


class Cart(Section):
    name: str
    wheels: tuple[Wheel, ...]
    by_name: dict[str, Wheel] = Field(default_factory=dict)
    count: int = 1
    mass_kg: float = 1.0
    axle_m: tuple[float, float] = (0.0, 0.0)
    armed: bool = False
    serial: str = ""
    payload: FreeSection = Field(default_factory=dict)


TEN_MISTAKES = """\
nam: cart
wheels:
  - {radius_m: -0.1, side: left}
  - {radius_m: 0.1, side: lift}
  - {radius_m: .nan, side: left}
  - {radius_m: 0.1}
by_name:
  front: {radius_m: '0.2', side: right, colour: red}
count: 5.5
armed: yes
serial: 12345
"""


def errors(text: str, folder: Path) -> list[str]:
    path = folder / "cart.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(path, Cart)
    return [line.replace(str(folder) + "/", "") for line in str(caught.value).splitlines()]


def test_ten_mistakes_give_ten_messages_with_place_and_way_out(tmp_path: Path) -> None:
    assert errors(TEN_MISTAKES, tmp_path) == [
        "cart.yaml:1:6: nam: extra inputs are not permitted (got 'cart'); did you mean 'name'?",
        "cart.yaml:3:16: wheels.0.radius_m: input should be greater than 0 (got -0.1); raise it",
        "cart.yaml:4:27: wheels.1.side: input should be 'left' or 'right' (got 'lift'); did you mean 'left'?",
        "cart.yaml:5:16: wheels.2.radius_m: input should be a finite number (got nan); write a number",
        "cart.yaml:6:5: wheels.3.side: field required; add 'side'",
        "cart.yaml:8:21: by_name.front.radius_m: input should be a valid number (got '0.2'); remove the quotes",
        "cart.yaml:8:49: by_name.front.colour: extra inputs are not permitted (got 'red'); choose from radius_m, side",
        "cart.yaml:9:8: count: input should be a valid integer (got 5.5); write a whole number",
        "cart.yaml:10:8: armed: input should be a valid boolean (got 'yes'); did you mean 'true'?",
        "cart.yaml:11:9: serial: input should be a valid string (got 12345); put it in quotes",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cart.yaml:1:1: file is empty, must be a mapping of keys to values"),
        ("# nothing\n", "cart.yaml:1:1: file is empty, must be a mapping of keys to values; copy"),
        ("- 1\n", "cart.yaml:1:1: file holds a list, must be a mapping of keys to values"),
        ("cart\n", "cart.yaml:1:1: file holds the value 'cart', must be a mapping of keys to values"),
        ("a: 1\nb: 2\na: 3\n", "cart.yaml:3:1: a: key is given twice, first at cart.yaml:1:1; remove one of them"),
        ("a: &x 1\nb: *x\n", "cart.yaml:2:1: b: input is an alias, must be written out; repeat the value"),
        ("a: {b: &x 1, c: *x}\n", "cart.yaml:1:14: a.c: input is an alias, must be written out"),
        ("a: &x 1\nb:\n  - 3\n  - *x\n", "cart.yaml:3:3: b.1: input is an alias, must be written out"),
        ("a: !python/name:os.system x\n", "cart.yaml:1:4: a: tag !python/name:os.system is not known"),
        ("1: x\n", "cart.yaml:1:1: key is '1', must be text; put it in quotes"),
        ("a: !!int x\n", "cart.yaml:1:4: a: input should be int (got 'x')"),
        ("? [a]\n: 1\n", "cart.yaml:1:3: key is a list, must be text; put it in quotes"),
        ("# mine\n%YAML 1.1\n---\na: 010\n", "cart.yaml:2:1: line is '%YAML 1.1', must be no directive"),
        ("a: 1\nb:      # 0.5\nc: 2\n", "cart.yaml:2:1: b: value is empty, must be given; write a value, or null"),
        ("a: {b: , c: 1}\n", "cart.yaml:1:7: a.b: value is empty, must be given; write a value, or null"),
        ("a: {b}\n", "cart.yaml:1:6: a.b: value is empty, must be given; write a value, or null"),
        ("a: [1]\nb:\n  -\n  - 2\n", "cart.yaml:3:4: b.0: value is empty, must be given; write a value, or null"),
        (f"a: {40 * '['}{40 * ']'}\n", "cart.yaml:1:36: this is nested more than 32 levels deep, must be at most that"),
        (f"a: {1000 * '['}\n", "cart.yaml:1:1: this is nested more than 32 levels deep, must be at most that"),
        ('"a\\e]0;mine": !x 1\n', "cart.yaml:1:15: a\\x1b]0;mine: tag !x is not known"),
    ],
)
def test_a_file_that_is_no_plain_mapping_is_refused_with_its_place(text: str, message: str, tmp_path: Path) -> None:
    assert errors(text, tmp_path)[0].startswith(message)


def test_a_syntax_error_says_where(tmp_path: Path) -> None:
    (only,) = errors("name: cart\nwheels: [1, 2\nmass_kg: 3\n", tmp_path)
    assert only.startswith("cart.yaml:3:")
    assert "this is not valid YAML: " in only


def test_a_list_that_is_too_short_says_so(tmp_path: Path) -> None:
    assert errors("name: cart\nwheels: []\naxle_m: [0.1]\n", tmp_path) == [
        "cart.yaml:3:9: axle_m.1: the list ends before its value number 2; add it"
    ]


def test_what_is_no_file_of_a_bearable_size_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "long.yaml").write_text(f"a: {1_000_000 * 'b'}")
    for name, refusal in (
        ("", ": this is a folder, must be a file; check its name"),
        ("pipe.yaml", "pipe.yaml: this is a pipe or device, must be a file; check its name"),
        ("/dev/zero", "/dev/zero: this is a pipe or device, must be a file; check its name"),
        ("long.yaml", "long.yaml: file has more than 1000000 characters, must have at most that; is it the right one?"),
    ):
        with pytest.raises(ConfigError, match=re.escape(refusal)):
            load(tmp_path / name, Cart)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: file does not exist"):
        load(tmp_path / "none.yaml", Cart)


def test_an_integer_is_a_fine_float_but_a_bool_is_no_number(tmp_path: Path) -> None:
    path = tmp_path / "cart.yaml"
    path.write_text("name: a\nwheels: []\nmass_kg: 3\n")
    cart = load(path, Cart)
    assert isinstance(cart.mass_kg, float)
    lines = errors("name: a\nwheels: []\nmass_kg: true\ncount: true\n", tmp_path)
    assert [line.split(": ")[1] for line in lines] == ["mass_kg", "count"]


def test_a_loaded_model_cannot_be_changed(tmp_path: Path) -> None:
    path = tmp_path / "cart.yaml"
    path.write_text("name: a\nwheels: []\n")
    cart = load(path, Cart)
    with pytest.raises(ValueError, match="frozen"):
        cart.count = 2  # type: ignore[misc]


def test_a_free_section_is_checked_later_with_the_same_places(tmp_path: Path) -> None:
    path = tmp_path / "cart.yaml"
    path.write_text("name: a\nwheels: []\npayload:\n  radius: 0.3\n  side: left\n")
    assert load(path, Cart).payload == {"radius": 0.3, "side": "left"}
    section = load_located(path).get("payload")
    assert section is not None
    with pytest.raises(ConfigError) as caught:
        validate_section(section, Wheel)
    assert str(caught.value).endswith(
        "cart.yaml:4:11: payload.radius: extra inputs are not permitted (got 0.3); did you mean 'radius_m'?"
    )


def test_every_pattern_of_a_shipped_kind_is_said_in_words() -> None:
    used = {pattern for text in schema_texts().values() for pattern in re.findall(r'"pattern": "(.*)"', text)}
    assert {json.loads(f'"{pattern}"') for pattern in used} == set(WORDS)
    assert all(re.search(pattern, example.split(" ")[0]) for pattern, (_, example) in WORDS.items())


@pytest.mark.long
@given(st.text(max_size=60))
def test_any_text_gives_a_value_or_a_mistake_but_never_another_error(text: str) -> None:
    mistakes: list[Mistake] = []
    tree = parse(text, lambda mark: Mark(source="t", line=mark.line + 1, column=mark.column + 1), mistakes)
    if tree is not None:
        assert all(leaf.mark.line >= 1 for leaf in tree.leaves())
    assert all(mistake.mark.line >= 1 and mistake.text for mistake in mistakes)


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_a_radius_is_accepted_exactly_within_its_bounds(radius_m: float) -> None:
    literal = {"nan": ".nan", "inf": ".inf", "-inf": "-.inf"}.get(repr(radius_m), repr(radius_m))
    mistakes: list[Mistake] = []
    tree = parse(f"{{radius_m: {literal}, side: left}}", lambda _: Mark(source="t"), mistakes)
    assert tree is not None
    if math.isfinite(radius_m) and 0 < radius_m <= 1:
        assert validate_section(tree, Wheel).radius_m == radius_m
    else:
        with pytest.raises(ConfigError, match="radius_m: input should be"):
            validate_section(tree, Wheel)


def test_a_long_value_is_cut_in_messages() -> None:
    assert len(shown("x" * 500)) < 70
