"""Whatever a model says is a number in its range or no number at all."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reward_models.vlm.grm import read_hop
from reward_models.vlm.lrm import read_completed, read_further, read_progress
from reward_models.vlm.prompt import Token
from reward_models.vlm.reading import after_thought, one_against_other, share, signed_percent, soft_percent
from reward_models.vlm.roboreward import read_step
from reward_models.vlm.vlac import second_progress
from tests.reward_models.spoken import digit_tokens

NO = math.nan
Reader = Callable[[str], float]

PERCENT = [
    ("40", 0.4), ("+40", 0.4), ("-12.5%", -0.125), (" 7 % ", 0.07), ("<score>-3</score>", -0.03), ("100", 1.0),
    ("12<|im_end|>", 0.12), ("0", 0.0), ("-150", -1.0), ("101", NO), ("999", NO), ("4500", NO), ("", NO), ("+", NO),
    ("about 40", NO), ("40 or so", NO), ("4 0", NO), ("1e2", NO), ("nan", NO), ("inf", NO), ("٤٠", NO), ("--4", NO),
    ("40%%", NO), (".5", NO),
]  # fmt: skip
HOP = [
    ("<score>+12.5%</score>", 0.125), ("<score>-100%</score>", -1.0), ("<score> 30 </score>", 0.3),
    ("<score>+45%", 0.45), ("<score>+250%</score>", 1.0), ("<score>1</score> no, <score>2%</score>", 0.02),
    ("The score is\n<score>+5%</score>\n", 0.05), ("<score>+4", NO), ("+45%", NO), ("<score></score>", NO),
    ("<score>Error</score>", NO), ("<score>+NN%</score>", NO), ("<score>+5%</score><score>", NO), ("", NO),
]  # fmt: skip
FURTHER = [
    ('Both show... {"more_complete_image": "ImageB"}', 1.0), ('{"more_complete_image":"imagea"}', -1.0),
    ('{"more_complete_image": "Image B"}', 1.0), ('{"more_complete_image": "ImageC"}', NO), ("ImageB", NO),
    ('{"more_complete_image": "ImageA"} wait {"more_complete_image": "ImageB"}', 1.0), ("", NO),
]  # fmt: skip
PROGRESS = [
    ('{"completion_progress": 0.4}', 0.4), ('```json\n{"completion_progress": 1}\n```', 1.0),
    ('{"completion_progress": "0.25", "why": "x"}', 0.25), ('{"completion_progress": 0.', NO),
    ('{"completion_progress": 0.4', NO), ('{"completion_progress": 45}', NO), ('{"completion_progress": -0.1}', NO),
    ('{"completion_progress": NaN}', NO), ('{"completion_progress": null}', NO), ("0.4", NO), ("", NO),
]  # fmt: skip
COMPLETED = [
    ('{"task_completed": "yes"}', 1.0), ('{"task_completed": "No"}', 0.0), ('{"task_completed": true}', 1.0),
    ('{"task_completed": "yes and no"}', NO), ('{"task_completed": "yes"', NO), ("yes", NO), ("", NO),
]  # fmt: skip
STEP = [
    ("ANSWER: 1", 0.0), ("Nearly there. ANSWER: 4.", 0.75), ("answer : 5", 1.0), ("ANSWER: **3**", 0.5),
    ("ANSWER: 2 no, ANSWER: 3", 0.5), ("ANSWER: 0", NO), ("ANSWER: 6", NO), ("ANSWER: 10", NO), ("ANSWER: 3.5", NO),
    ("4", NO), ("", NO),
]  # fmt: skip
SHARE = [("1", 1.0), (" 0 </done>", 0.0), ("0.7", 0.7), ("2", NO), ("-0", NO), ("yes", NO), ("", NO)]
SECOND = [
    ("<think>first image progressing: 10%\nsecond image progressing: 35.5%</think>28", 0.355),
    ("second image progressing: 20% ... Second Image Progressing : 30 % </think>", 0.3),
    ("second image progressing: 130%</think>", NO), ("second image progressing: 30%", NO), ("</think>30", NO),
]  # fmt: skip
TABLES: dict[Reader, list[tuple[str, float]]] = {
    signed_percent: PERCENT, read_hop: HOP, read_further: FURTHER, read_progress: PROGRESS,
    read_completed: COMPLETED, read_step: STEP, share: SHARE, second_progress: SECOND,
}  # fmt: skip
LOWEST = {signed_percent: -1.0, read_hop: -1.0, read_further: -1.0}
PIECES = [
    "<score>", "</score>", "</think>", "ANSWER:", '{"completion_progress":', '{"task_completed":', '"yes"', '"ImageB"',
    '{"more_complete_image":', "second image progressing:", "%", "+", "-", ".", "9" * 400, "}", "{" * 50, "٣", "²",
]  # fmt: skip
SAID = st.one_of(
    st.text(max_size=60),
    st.lists(st.one_of(st.sampled_from(PIECES), st.integers(-200, 200).map(str)), max_size=8).map("".join),
    st.lists(st.one_of(st.sampled_from(PIECES), st.integers(0, 9).map(str)), max_size=8).map(" ".join),
)
LOGPROBS = st.floats(allow_nan=True, allow_infinity=True)
TOKENS = st.lists(
    st.builds(
        Token,
        text=st.one_of(st.sampled_from(["4", "5", "+", "-", "%", " 1", "yes", "No", "</think>"]), st.text(max_size=4)),
        top=st.lists(
            st.tuples(st.one_of(st.sampled_from(["4", "12", "yes", " no", "1"]), st.text(max_size=3)), LOGPROBS),
            max_size=4,
        ).map(tuple),
    ),
    max_size=6,
)


@pytest.mark.parametrize(
    ("read", "text", "expected"), [(read, text, value) for read, table in TABLES.items() for text, value in table]
)
def test_an_answer_is_read_as_it_was_meant(read: Reader, text: str, expected: float) -> None:
    assert read(text) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("read", TABLES, ids=lambda read: read.__name__)
@pytest.mark.parametrize(
    "begun",
    [
        "5", "<score>", "<score>+10", "<score>+10%", "5<a>", "ANSWER", "ANSWER:", "ANSWER:*", '"more_complete_image":"',
        '"completion_progress":', '"completion_progress":0.5', '"task_completed":', '"task_completed":yes', "second",
        "second image progressing:5",
    ],
)  # fmt: skip
def test_a_text_of_many_blanks_is_read_at_once(read: Reader, begun: str) -> None:
    text = f"{begun}{' ' * 20_000}x</think>"
    since_s = time.process_time()
    read(text)
    assert time.process_time() - since_s < 0.5  # a few ms; the square of the length takes seconds


@pytest.mark.parametrize("read", TABLES, ids=lambda read: read.__name__)
@given(text=SAID)
def test_no_text_breaks_a_reader_or_takes_it_out_of_its_range(read: Reader, text: str) -> None:
    value = read(text)
    assert math.isnan(value) or LOWEST.get(read, 0.0) <= value <= 1.0


@given(tokens=TOKENS)
def test_no_tokens_break_soft_decoding_or_take_it_out_of_its_range(tokens: list[Token]) -> None:
    for value, low in (
        (soft_percent(tokens), -1.0),
        (soft_percent(after_thought(tokens)), -1.0),
        (one_against_other(tokens, "yes", "no"), 0.0),
        (one_against_other(tokens, "1", "0"), 0.0),
    ):
        assert math.isnan(value) or low <= value <= 1.0


@given(value=st.integers(-100, 100), decimals=st.integers(0, 99))
def test_soft_decoding_of_a_certain_answer_is_the_answer(value: int, decimals: int) -> None:
    text = f"{value}.{decimals:02d}%" if abs(value) < 100 else f"{value}%"
    assert soft_percent(digit_tokens(text)) == pytest.approx(signed_percent(text))


def certain(text: str) -> Token:
    return Token(text=text, top=((text, 0.0),))


def test_soft_decoding_weighs_likely_digits_in_their_places() -> None:
    four = Token(text="4", top=(("4", math.log(0.6)), ("5", math.log(0.3)), ("x", math.log(0.1))))
    assert soft_percent([certain("+"), four, certain("5"), certain("%")]) == pytest.approx(0.48)  # 4.3 tens and 5
    assert soft_percent([certain("-"), certain("5"), four]) == pytest.approx(-0.543)


def test_an_unlikely_digit_does_not_count() -> None:
    token = Token(text="4", top=(("4", math.log(0.95)), ("9", math.log(0.05))))
    assert soft_percent([token]) == pytest.approx(0.04)


def test_a_token_of_two_digits_is_weighed_against_tokens_of_two_digits() -> None:
    token = Token(text="40", top=(("40", math.log(0.5)), ("60", math.log(0.3)), ("9", math.log(0.2))))
    assert soft_percent([token, certain("%")]) == pytest.approx(0.475)  # (40 * 5 + 60 * 3) / 8


def test_soft_decoding_reads_behind_the_reasoning_only() -> None:
    tokens = [certain("12"), certain("</think>"), certain("3"), certain("0")]
    assert soft_percent(after_thought(tokens)) == pytest.approx(0.3)
    assert after_thought([certain("3")]) == ()


def test_yes_is_weighed_against_no_whatever_their_case() -> None:
    top = (("Yes", math.log(0.5)), (" yes", math.log(0.1)), ("no", math.log(0.2)), ("maybe", math.log(0.2)))
    assert one_against_other([Token(text="Yes", top=top)], "yes", "no") == pytest.approx(0.75)


def test_yes_or_no_must_be_the_first_word() -> None:
    no = Token(text=" no", top=((" no", 0.0),))
    assert math.isnan(one_against_other([certain("There"), certain(" is"), no], "yes", "no"))
    assert one_against_other([certain("**"), no], "yes", "no") == 0.0


def test_a_token_without_alternatives_says_nothing() -> None:
    assert math.isnan(one_against_other([Token(text="yes", top=())], "yes", "no"))
